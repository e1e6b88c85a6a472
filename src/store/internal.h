/* The parts of a recording being written; shared by the files of this folder only. Everything below `thread`
 * belongs to the writer thread while it runs. */
#ifndef INGERO_STORE_INTERNAL_H
#define INGERO_STORE_INTERNAL_H

#include "base/idmap.h"
#include "store/dbfile.h"
#include "store/queue.h"
#include "store/schema.h"
#include "store/store.h"

enum writer_stmt {
	W_BEGIN,
	W_COMMIT,
	W_ROLLBACK,
	W_EVENT,
	W_PROC_FIND,
	W_PROC_ADD,
	W_PROC_INFO,
	W_PROC_SEEN,
	W_LAUNCH,
	W_KERNEL_NAME,
	W_OP_UNKNOWN,
	W_COUNTER_10S,
	W_COUNTER_MINUTE,
	W_STORED,
	W_LOSS,
	W_SYSTEM,
	W_COVERAGE,
	W_CLOCK,
	W_SESSION_ALIVE,
	W_META,
	W_PAGES,
	W_FREE_PAGES,
	W_OLDEST_EVENT,
	W_SLICE_END,
	W_DELETE_EVENTS,
	W_OLDEST_MINUTE,
	W_OLDEST_10S,
	W_DELETE_MINUTE,
	W_DELETE_10S,
	W_COUNT
};

/* A process of this session: its row and what is known about it. */
struct proc_entry {
	struct process_info info;
	int64_t row; /* 0 = not in the database (any more) */
	int64_t last_seen_ns;
	bool seen_dirty;
};

/* Stream, handles and geometry of a call; the row is shared by calls that agree in all of them. */
struct launch_key {
	uint64_t stream, exec, kernel;
	uint32_t grid[3], block[3];
};

struct launch_entry {
	struct launch_key key;
	int64_t row; /* 0 = free */
	int64_t created_ns;
};

#define LAUNCH_SLOTS 16384
#define LAUNCH_WAYS 4 /* entries a launch may be in */
#define PROC_MAX 32768
#define STORED_SLOTS 4096

/* Rows kept per (minute, process, operation), not yet added to counter_minute. */
struct stored_slot {
	int64_t bucket, proc;
	uint32_t op, n;
};

struct store {
	struct store_options options; /* strings point into `text` */
	char *text;
	struct dbfile file;
	struct queue queue;
	pthread_t thread;
	bool thread_runs;
	struct store_stats stats; /* under queue.lock */

	sqlite3 *db;
	sqlite3_stmt *stmt[W_COUNT];
	int64_t session;
	int64_t clock_offset_ns; /* wall - monotonic when the session began */
	struct idmap procs;
	struct launch_entry *launches;
	size_t launch_victim;
	struct stored_slot *stored;
	size_t n_stored;
	int64_t launch_reuse_ns; /* a launch row is shared this long, so that pruning can tell which are in
				    use */
	uint64_t known_ops[(1 << 16) / 64];
	int64_t event_rows;   /* rows in event, about right after a crash */
	int64_t newest_ns;    /* newest wall time seen */
	uint64_t written_now; /* rows of the transaction under way */
	uint64_t alive_mono_ns, unblock_mono_ns;
	uint64_t told[3]; /* own losses already in the loss table */
	bool stopped;

	uint64_t page_bytes;
	uint64_t wal_bytes;			      /* used part of the write-ahead file */
	uint64_t wal_limit_bytes;		      /* above: checkpoint */
	uint64_t main_limit_bytes, total_limit_bytes; /* 0 = none */
	bool blocked; /* the limit is reached while a reader holds the write-ahead file: rows are dropped */
};

/* writer.c */
void *writer_main(void *arg);
int writer_prepare(struct store *s); /* SQLite code */
static inline int writer_step(struct store *s, enum writer_stmt id)
{
	int rc = sqlite3_step(s->stmt[id]);

	sqlite3_reset(s->stmt[id]);
	return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}
/* First column of the first row, or `otherwise`. */
int64_t writer_i64(struct store *s, enum writer_stmt id, int64_t otherwise);
void writer_stop(struct store *s, const char *what, int rc); /* recording ends for good */

/* rows.c: SQLite codes */
int rows_event(struct store *s, const struct call_event *e);
int rows_item(struct store *s, const struct item *it);
int rows_flush_stored(struct store *s); /* kept rows to counter_minute */
int rows_flush_seen(struct store *s);	/* when the processes were last heard of */
void rows_forget(struct store *s);	/* after a rollback or a sweep: what was interned may be gone */
void rows_free(struct store *s);

/* counters.c: SQLite codes */
int counters_register(sqlite3 *db); /* the SQL function the upserts use */
void counters_from_delta(const struct op_counters *delta, struct counter_row *row);
int counters_add(struct store *s, int64_t wall_ns, int64_t proc, uint16_t op, const struct item *it);

/* size.c */
void size_init(struct store *s);
void size_after_commit(struct store *s);
bool size_try_unblock(struct store *s); /* true: rows may be written (again) */

/* prune.c */
void prune_fold(struct store *s);  /* 10-second buckets older than an hour go */
bool prune_slice(struct store *s); /* the oldest slice goes; false: nothing left to delete */

/* host.c: what the session row says about the machine */
struct host_info {
	char cpu_model[128], kernel[128], os_release[128], boot_id[64];
	int64_t cpu_cores, mem_total_mb, pid_namespace;
};
void host_read(struct host_info *ret);
int64_t host_pid_namespace(void); /* 0 = unknown */

#endif
