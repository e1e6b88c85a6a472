/* The parts of a running session; shared by the files of this folder only. */
#ifndef INGERO_TRACE_SESSION_H
#define INGERO_TRACE_SESSION_H

#include "base/strbuf.h"
#include "discover/discover.h"
#include "store/store.h"
#include "trace/state.h"
#include "trace/system.h"
#include "trace/trace.h"

#define SESSION_MAX_FILES 512

/* A file with probes in it. */
struct attached_file {
	uint64_t dev, ino, handle_hash; /* as in struct cuda_lib */
	bool overlay;
	enum lib_kind kind;
	char path[256]; /* for people, cut */
	size_t points;
};

/* Sizes the terminal, redraws in place; plain blocks elsewhere. */
struct screen {
	bool tty, colour;
	int rows, columns;
	int drawn_lines;
};

/* Adaptive sampling (--sampling-rate 0): follows the losses of 5-second windows. */
struct adaptive {
	bool on;
	uint32_t rate;
	unsigned pressure, quiet;
	uint64_t lost_before;
	uint64_t next_mono_ns;
};

struct session {
	const struct trace_options *o;
	struct probe *probe;
	struct store *store; /* NULL: not recording */
	struct trace_state state;
	struct screen screen;
	struct system_reader system;
	struct system_sample last_sample;
	struct deadband deadband;
	struct adaptive adaptive;
	struct attached_file *files;
	size_t n_files, cap_files;
	size_t runtime_points, driver_points, graph_points;
	size_t slow_points;    /* single-stepped entries that are probed */
	size_t skipped_points; /* left out by --skip-slow-probes */
	char slow_names[256];
	size_t left_out_points; /* no room in the single way */
	double emulated_ns, stepped_ns;
	struct strbuf out;	/* JSON or verbose lines not yet written */
	bool out_broken;	/* the reader of stdout is gone */
	int64_t wall_offset_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC */
	uint64_t start_mono_ns, next_tick_mono_ns, next_clock_mono_ns;
	int64_t start_wall_ns;
	uint64_t loss_reported; /* lost calls as of the last JSON loss line */
	uint64_t status_reported[ABI_STATUS_COUNT];
	bool store_stop_told;
	char target_text[160];
};

uint64_t session_now_ns(void);
static inline int64_t session_wall_ns(const struct session *s, uint64_t mono_ns)
{
	return (int64_t)mono_ns + s->wall_offset_ns;
}

/* attach.c: probes every CUDA library the targets have now; called again for newcomers. Returns how many
 * files were added, or negative errno. */
int attach_scan(struct session *s, bool first);
bool attach_targets_alive(const struct session *s);

/* records.c */
void records_counters(struct session *s); /* reads the kernel's counters, feeds totals and store */
long records_drain(struct session *s, size_t budget);

/* out_json.c */
void json_event(
	struct session *s, const struct call_event *e, const struct traced_process *p, uint64_t capture_ns);
void json_system(struct session *s, const struct system_sample *sample);
void json_loss(struct session *s, bool final);
/* out_text.c */
void verbose_event(struct session *s, const struct call_event *e, const struct traced_process *p);
void text_header(struct session *s);
void text_final(struct session *s);
/* out_table.c */
void table_draw(struct session *s, bool final);

/* screen.c */
void screen_init(struct screen *sc);
void screen_resize(struct screen *sc);
/* Shows a whole block; on a terminal over the previous one. 0 or negative errno (-EPIPE: the reader is gone).
 */
int screen_show(struct screen *sc, const struct strbuf *text);
/* Writes all; 0 or negative errno. */
int write_all(int fd, const void *data, size_t len);
void session_flush_out(struct session *s);

#endif
