/* Reading recordings: ours and those of the reference (0.6 to 0.17), strictly read-only, also on read-only
 * media and while a tracer writes. Never creates or changes a file. One thread per reader. */
#ifndef INGERO_STORE_READER_H
#define INGERO_STORE_READER_H

#include "model/event.h"
#include "model/timefmt.h"

struct reader;

/* Returns 0 or negative errno with one sentence in err: -ENOENT names the path and the command that makes
 * one, -EMEDIUMTYPE: no SQLite file, not a recording, or a newer schema; -EACCES … */
int reader_open(const char *path, struct reader **ret_reader, char *err, size_t err_size);
void reader_close(struct reader *r);

struct reader_filter {
	struct time_window window;
	const uint32_t *pids; /* NULL = all */
	size_t n_pids;
	const uint16_t *ops; /* NULL = all */
	size_t n_ops;
	int64_t limit; /* newest N rows; < 0 = no limit */
};

/* A row with the texts that belong to it; strings live until the next row. */
struct reader_event {
	struct call_event e;
	char id[96];			       /* "node:seq", or the bare number of old files */
	const char *comm, *node, *kernel_name; /* never NULL */
	const char *stack_json; /* array of {ip, symbol, file, line, py_file, py_func, py_line}, "" if none */
	uint64_t cgroup_id;
	int gpu_id;
	int32_t rank; /* -1 = none */
};

typedef int (*reader_event_fn)(void *ctx, const struct reader_event *ev); /* non-zero stops and is returned */

/* Calls fn for the matching rows, oldest first. Returns 0, fn's value, or negative errno. */
int reader_events(struct reader *r, const struct reader_filter *f, reader_event_fn fn, void *ctx);

/* Totals of one operation (all processes, or one) over a window. From histograms where the file has them for
 * the whole window (exact, `from_histograms`), else from rows (reference files: nearest rank over all stored
 * rows). */
struct reader_op_stats {
	uint16_t op;
	struct process_info proc; /* id.pid 0 when over all processes */
	struct op_counters c;
	uint64_t stored;	  /* rows present */
	uint64_t aggregate_count; /* calls according to the minute aggregates, 0 if none */
	bool from_histograms;
	uint64_t p50_ns, p95_ns,
		p99_ns; /* 0 when only minute aggregates are left: see reader_has_percentiles */
};

/* Minute aggregates of the reference know counts and extremes only. */
static inline bool reader_has_percentiles(const struct reader_op_stats *s)
{
	return s->from_histograms || s->stored;
}

/* The array is allocated; sorted by total time, largest first. */
int reader_op_totals(struct reader *r, const struct reader_filter *f, bool per_process,
	struct reader_op_stats **ret_stats, size_t *ret_n);

/* Whether more rows match than f->limit lets through. 0 or negative errno. */
int reader_exceeds_limit(struct reader *r, const struct reader_filter *f, bool *ret_more);

struct reader_summary {
	int64_t first_ns, last_ns; /* span of everything stored; 0,0 when empty */
	uint64_t recorded_ns;	   /* time inside the window during which something was recorded */
	uint64_t events, sessions; /* rows in the window, recordings in the file */
	uint64_t lost, sampled_out, unfinished, dropped; /* over the window */
	bool writing;					 /* a tracer has it open now */
	bool cut;					 /* the last session ended without a clean stop */
	char schema[32];				 /* "ingero 1" or "reference 0.9" … */
	char node[64];
};

int reader_summarize(struct reader *r, const struct time_window *w, struct reader_summary *ret);

/* Last stored system sample in the window; -ENODATA if none. */
int reader_last_system(struct reader *r, const struct time_window *w, struct system_sample *ret);

/* One read-only SQL statement from a stranger: own connection, authorizer (SELECT, READ, FUNCTION, RECURSIVE
 * only; no file, extension or randomblob-like functions), time and memory budget, row and byte caps. */
struct guarded_limits {
	uint64_t max_rows;     /* 0 = 10,000 */
	uint64_t max_bytes;    /* of results; 0 = 64 MiB */
	uint64_t timeout_ns;   /* 0 = 30 s */
	uint64_t memory_bytes; /* of SQLite; 0 = 128 MiB */
};

enum sql_type { SQL_NULL, SQL_INTEGER, SQL_REAL, SQL_TEXT, SQL_BLOB };

struct sql_value {
	enum sql_type type;
	int64_t i;
	double d;
	const char *s; /* text or blob bytes */
	size_t len;
};

struct sql_sink {
	int (*columns)(void *ctx, const char *const *names, size_t n);
	int (*row)(void *ctx, const struct sql_value *values, size_t n);
	void *ctx;
};

/* Returns 0 (ret_truncated tells whether a cap cut it), -EPERM (refused), -ETIME, -ENOMEM, -EINVAL (SQL
 * error); one sentence in err. */
int reader_sql(const char *db_path, const char *sql, const struct guarded_limits *limits,
	const struct sql_sink *sink, bool *ret_truncated, char *err, size_t err_size);

#endif
