/* The parts of a reader; shared by the files of this folder only. */
#ifndef INGERO_STORE_READER_INTERNAL_H
#define INGERO_STORE_READER_INTERNAL_H

#include "base/strbuf.h"
#include "store/reader.h"
#include "store/roopen.h"
#include "store/schema.h"

/* Columns of the reference's events table that came or went with its versions. */
enum ref_column {
	REF_NODE,
	REF_RANK,
	REF_COMM,
	REF_CGROUP,
	REF_STACK_HASH,
	REF_STACK_IPS,
	REF_ARG0,
	REF_ARG1,
	REF_GPU,
	REF_RET,
	REF_COLUMNS
};

struct reader {
	struct ro_db ro;
	bool ours;
	char schema[32];
	bool has[REF_COLUMNS];
	bool has_stacks, has_frames, has_names, has_aggregates, has_snapshots, has_sessions;
};

/* Opens the file again when it changed under a connection without locks. */
int reader_refresh(struct reader *r);

/* Start of a row of the reference's events (it stores the end of some kinds). */
#define REF_START                                                                                            \
	"(e.timestamp - CASE WHEN e.source IN (5, 7) OR (e.source = 3 AND e.op = 1) THEN e.duration ELSE 0 " \
	"END)"

/* Appends " AND …" for the window (on the start), pids and operations. */
void reader_add_filter(const struct reader *r, const struct reader_filter *f, struct strbuf *sql);
void reader_add_u32_list(struct strbuf *sql, const char *column, const uint32_t *v, size_t n);
void reader_add_op_list(struct strbuf *sql, const char *column, const uint16_t *v, size_t n);

/* The window in whole seconds, widened to multiples of `step`; open ends become the limits of what fits. */
int64_t reader_floor_s(int64_t ns, int64_t step);
int64_t reader_ceil_s(int64_t ns, int64_t step);

#endif
