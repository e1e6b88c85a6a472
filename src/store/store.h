/* The recording: one SQLite file (docs/schema.md). Writing (this header) belongs to `trace`; reading is
 * store/reader.h. One writer thread owns the one write connection; the functions here only queue (except open
 * and close) and may be called from one thread at a time. */
#ifndef INGERO_STORE_STORE_H
#define INGERO_STORE_STORE_H

#include "model/event.h"

struct store; /* a recording being written */

struct store_options {
	const char *path;
	uint64_t max_bytes; /* --max-db; 0 = unlimited */
	uid_t owner_uid;    /* files we create get this owner; (uid_t)-1 = leave */
	gid_t owner_gid;
	const char *node;
	const char *version;	/* program version */
	const char *flags;	/* session flags text */
	const char *pid_filter; /* comma-joined pids or "" */
	size_t queue_events;	/* bound of the queue in events; 0 = default (65,536) */
};

/* What happened so far; also persisted in the session row. */
struct store_stats {
	uint64_t queued, written; /* event rows */
	uint64_t dropped_queue;	  /* the queue was full */
	uint64_t dropped_disk;	  /* not written because recording stopped (disk full, I/O error) */
	uint64_t pruned;	  /* rows removed by --max-db */
	bool stopped;		  /* recording stopped for good; `reason` says why */
	char reason[160];
};

/* Creates or continues the file (0600, O_NOFOLLOW, missing parent directories 0700; only what we create is
 * chowned), takes the exclusive writer lock, closes sessions left open by a crash as "cut", starts the writer
 * thread and a session row. Returns 0 or negative errno with one sentence in err: -EBUSY names the process
 * that holds it, -ELOOP a symbolic link, -EMEDIUMTYPE a file that is no database or one made by another
 * program or newer version. */
int store_open(const struct store_options *options, struct store **ret_store, char *err, size_t err_size);

/* Flushes everything, marks the session as ended, releases the lock; frees the store. NULL is fine. */
void store_close(struct store *s, struct store_stats *ret_stats);

/* All of these copy their arguments; a full queue counts the row as dropped (never blocks). */
void store_add_event(struct store *s, const struct call_event *e);
void store_add_process(struct store *s, const struct process_info *p); /* again when its name changes */
void store_add_kernel_name(struct store *s, struct proc_id proc, uint64_t handle, const char *name);
void store_add_system(struct store *s, const struct system_sample *sample);
/* Adds what happened since the previous call to the 10-second and minute buckets that hold `wall_ns`. */
void store_add_counters(
	struct store *s, int64_t wall_ns, struct proc_id proc, uint16_t op, const struct op_counters *delta);
/* Losses that belong to no (process, operation): name is a short key such as "ring_process". */
void store_add_loss(struct store *s, int64_t wall_ns, const char *name, uint64_t delta);
/* Probed library or program of a process and from when its calls are covered. */
void store_add_coverage(
	struct store *s, int64_t wall_ns, struct proc_id proc, const char *library, const char *note);
/* One pair of clock readings taken together. */
void store_add_clock(struct store *s, uint64_t mono_ns, int64_t wall_ns);

/* Asks the writer to commit now and waits until it did (tests, shutdown). */
void store_flush(struct store *s);
void store_get_stats(struct store *s, struct store_stats *ret_stats);

/* Default database path: INGERO_DB, else the invoking user's (SUDO_USER when root) ~/.ingero/ingero.db. */
int store_default_path(char *buf, size_t size);

#endif
