/* The writer thread: one turn takes what is queued, writes it in one transaction, then looks after the size.
 */
#include "store/internal.h"

#include <errno.h>
#include <time.h>

#define ALIVE_NS NSEC_PER_SEC	    /* how often the session row and kept-row counts are brought up to date */
#define IDLE_NS (10 * NSEC_PER_SEC) /* the same when nothing happens */
#define IDLE_BLOCKED_NS (200 * NSEC_PER_MSEC)
#define BUSY_AT_STOP 5 /* turns */

#define X(name) "," #name
#define COUNTER_NAMES SCHEMA_COUNTERS(X)
#define COUNTER_UPSERT(table)                                                                                \
	"INSERT INTO " table "(bucket, proc, op" COUNTER_NAMES ", hist)"                                     \
	" VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)"                \
	" ON CONFLICT DO UPDATE SET"                                                                         \
	" min_ns = CASE WHEN count = 0 THEN excluded.min_ns WHEN excluded.count = 0 THEN min_ns"             \
	" ELSE min(min_ns, excluded.min_ns) END,"                                                            \
	" max_ns = max(max_ns, excluded.max_ns), count = count + excluded.count, sum_ns = sum_ns + "         \
	"excluded.sum_ns,"                                                                                   \
	" errors = errors + excluded.errors, bytes = bytes + excluded.bytes, delivered = delivered + "       \
	"excluded.delivered,"                                                                                \
	" sampled_out = sampled_out + excluded.sampled_out, lost = lost + excluded.lost,"                    \
	" untimed = untimed + excluded.untimed, unfinished = unfinished + excluded.unfinished,"              \
	" nested = nested + excluded.nested, nested_ns = nested_ns + excluded.nested_ns,"                    \
	" hist = hist_merge(hist, excluded.hist)"

static const char *const statements[W_COUNT] = {
	[W_BEGIN] = "BEGIN IMMEDIATE",
	[W_COMMIT] = "COMMIT",
	[W_ROLLBACK] = "ROLLBACK",
	[W_EVENT] = "INSERT INTO event VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, "
		    "?15, ?16)",
	[W_PROC_FIND] = "SELECT id FROM proc WHERE session = ?1 AND pid = ?2 AND start_ns = ?3",
	[W_PROC_ADD] = "INSERT INTO proc(session, pid, start_ns, last_seen) VALUES(?1, ?2, ?3, ?4)",
	[W_PROC_INFO] =
		"UPDATE proc SET comm = ?2, uid = ?3, ppid = ?4, cgroup_id = ?5, rank = ?6, local_rank = ?7,"
		" world_size = ?8 WHERE id = ?1",
	[W_PROC_SEEN] = "UPDATE proc SET last_seen = max(last_seen, ?2) WHERE id = ?1",
	[W_LAUNCH] =
		"INSERT INTO launch(created, stream, exec, kernel, grid_x, grid_y, grid_z, block_x, block_y,"
		" block_z) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
	[W_KERNEL_NAME] = "INSERT OR REPLACE INTO kernel_name VALUES(?1, ?2, ?3)",
	[W_OP_UNKNOWN] = "INSERT OR IGNORE INTO ops VALUES(?1, ?2, ?3, ?4)",
	[W_COUNTER_10S] = COUNTER_UPSERT("counter_10s"),
	[W_COUNTER_MINUTE] = COUNTER_UPSERT("counter_minute"),
	[W_STORED] = "INSERT INTO counter_minute(bucket, proc, op, stored) VALUES(?1, ?2, ?3, ?4)"
		     " ON CONFLICT DO UPDATE SET stored = stored + excluded.stored",
	[W_LOSS] = "INSERT INTO loss VALUES(?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET count = count + "
		   "excluded.count",
	[W_SYSTEM] = "INSERT OR IGNORE INTO system_snapshots(timestamp, cpu_pct, mem_pct, mem_avail, "
		     "swap_mb, load_avg,"
		     " mem_total, session_id) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
	[W_COVERAGE] = "INSERT INTO coverage(proc, since, library, note) VALUES(?1, ?2, ?3, ?4)",
	[W_CLOCK] = "INSERT OR REPLACE INTO clock_samples VALUES(?1, ?2, ?3)",
	[W_SESSION_ALIVE] =
		"UPDATE sessions SET last_seen = ?2, written = ?3, dropped_queue = ?4, dropped_disk = ?5,"
		" pruned = ?6 WHERE id = ?1",
	[W_META] = "INSERT OR REPLACE INTO meta VALUES(?1, ?2)",
	[W_PAGES] = "PRAGMA page_count",
	[W_FREE_PAGES] = "PRAGMA freelist_count",
	[W_OLDEST_EVENT] = "SELECT min(ts) FROM event",
	[W_SLICE_END] = "SELECT ts FROM event ORDER BY ts LIMIT 1 OFFSET ?1",
	[W_DELETE_EVENTS] = "DELETE FROM event WHERE ts < ?1",
	[W_OLDEST_MINUTE] = "SELECT min(bucket) FROM counter_minute",
	[W_OLDEST_10S] = "SELECT min(bucket) FROM counter_10s",
	[W_DELETE_MINUTE] = "DELETE FROM counter_minute WHERE bucket < ?1",
	[W_DELETE_10S] = "DELETE FROM counter_10s WHERE bucket < ?1",
};
#undef X

int writer_prepare(struct store *s)
{
	int rc = SQLITE_OK;

	for (size_t i = 0; i < W_COUNT && rc == SQLITE_OK; i++)
		rc = sqlite3_prepare_v3(
			s->db, statements[i], -1, SQLITE_PREPARE_PERSISTENT, &s->stmt[i], NULL);
	return rc;
}

int64_t writer_i64(struct store *s, enum writer_stmt id, int64_t otherwise)
{
	sqlite3_stmt *st = s->stmt[id];

	if (sqlite3_step(st) == SQLITE_ROW && sqlite3_column_type(st, 0) != SQLITE_NULL)
		otherwise = sqlite3_column_int64(st, 0);
	sqlite3_reset(st);
	return otherwise;
}

void writer_stop(struct store *s, const char *what, int rc)
{
	int sys = sqlite3_system_errno(s->db);
	const char *why = rc == SQLITE_FULL || sys == ENOSPC   ? "no space left on the disk"
			  : sys && (rc & 0xff) == SQLITE_IOERR ? strerror(sys)
							       : sqlite3_errstr(rc);

	pthread_mutex_lock(&s->queue.lock);
	s->stats.stopped = true;
	snprintf(s->stats.reason, sizeof(s->stats.reason), "%s: %s", what, why);
	pthread_mutex_unlock(&s->queue.lock);
	s->stopped = true;
}

static int64_t wall_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * (int64_t)NSEC_PER_SEC + ts.tv_nsec;
}

/* Losses of our own queue, by minute, so that a window of time can tell. */
static int write_own_losses(struct store *s, uint64_t queue_rows, uint64_t disk_rows, uint64_t items)
{
	const struct {
		const char *name;
		uint64_t total, *told;
	} losses[] = {
		{"store_queue", queue_rows, &s->told[0]},
		{"store_disk", disk_rows, &s->told[1]},
		{"store_items", items, &s->told[2]},
	};
	int rc = SQLITE_OK;

	for (size_t i = 0; i < ARRAY_LEN(losses) && rc == SQLITE_OK; i++) {
		if (losses[i].total == *losses[i].told)
			continue;
		rc = db_run(s->stmt[W_LOSS], "iitu", wall_now_ns() / (int64_t)NSEC_PER_SEC / 60 * 60,
			s->session, losses[i].name, losses[i].total - *losses[i].told);
		*losses[i].told = losses[i].total;
	}
	return rc;
}

static int write_alive(struct store *s)
{
	struct store_stats st;
	uint64_t items;
	int rc;

	store_get_stats(s, &st);
	pthread_mutex_lock(&s->queue.lock);
	items = s->queue.dropped_items;
	pthread_mutex_unlock(&s->queue.lock);
	rc = rows_flush_stored(s);
	if (rc == SQLITE_OK)
		rc = rows_flush_seen(s);
	if (rc == SQLITE_OK)
		rc = write_own_losses(s, st.dropped_queue, st.dropped_disk, items);
	if (rc == SQLITE_OK)
		rc = db_run(s->stmt[W_SESSION_ALIVE], "iiuuuu", s->session, wall_now_ns(),
			st.written + s->written_now, st.dropped_queue, st.dropped_disk, st.pruned);
	if (rc == SQLITE_OK)
		rc = db_run(s->stmt[W_META], "ti", "event_rows", s->event_rows + (int64_t)s->written_now);
	s->alive_mono_ns = queue_now_ns();
	return rc;
}

static int write_rows(struct store *s, const struct batch *b)
{
	int rc = SQLITE_OK;

	for (const struct item *it = b->items; it && rc == SQLITE_OK; it = it->next)
		rc = rows_item(s, it);
	for (size_t i = 0; i < b->n && rc == SQLITE_OK; i++)
		rc = rows_event(s, batch_event(&s->queue, b, i));
	if (rc == SQLITE_OK && (b->stop || queue_now_ns() - s->alive_mono_ns >= ALIVE_NS))
		rc = write_alive(s);
	return rc;
}

/* Returns SQLITE_BUSY when somebody else holds the write lock: nothing was done, try again later. */
static int write_batch(struct store *s, const struct batch *b)
{
	int rc = writer_step(s, W_BEGIN);

	if (rc != SQLITE_OK)
		return rc;
	s->written_now = 0;
	rc = write_rows(s, b);
	if (rc == SQLITE_OK)
		rc = writer_step(s, W_COMMIT);
	if (rc != SQLITE_OK) {
		writer_stop(s, "writing the recording failed", rc);
		writer_step(s, W_ROLLBACK);
		return rc;
	}
	s->event_rows += (int64_t)s->written_now;
	pthread_mutex_lock(&s->queue.lock);
	s->stats.written += s->written_now;
	pthread_mutex_unlock(&s->queue.lock);
	s->written_now = 0;
	return SQLITE_OK;
}

static void count_dropped(struct store *s, uint64_t n)
{
	pthread_mutex_lock(&s->queue.lock);
	s->stats.dropped_disk += n;
	pthread_mutex_unlock(&s->queue.lock);
}

/* Returns whether the thread goes on. */
static bool turn(struct store *s, unsigned *busy)
{
	struct batch b;
	int rc;

	queue_wait(&s->queue, s->blocked ? IDLE_BLOCKED_NS : IDLE_NS, &b);
	if (!s->stopped && s->blocked && !size_try_unblock(s) && !b.stop) {
		count_dropped(s, b.n); /* counters and the like wait in memory */
		queue_done(&s->queue, &b, b.n, b.items);
		return true;
	}
	if (s->blocked && b.stop) { /* at the end the few counters are written even so */
		count_dropped(s, b.n);
		queue_done(&s->queue, &b, b.n, NULL);
		b.n = 0;
	}
	rc = s->stopped ? SQLITE_FULL : write_batch(s, &b);
	if ((rc & 0xff) == SQLITE_BUSY && ++*busy < (b.stop ? BUSY_AT_STOP : ~0u)) {
		queue_done(&s->queue, &b, 0, b.items);
		return true;
	}
	if (rc != SQLITE_OK) {
		if (!s->stopped)
			writer_stop(s, "the recording could not be written", rc);
		count_dropped(s, b.n);
	}
	*busy = 0;
	items_free(b.items);
	queue_done(&s->queue, &b, b.n, NULL);
	if (!s->stopped && !b.stop)
		size_after_commit(s);
	pthread_mutex_lock(&s->queue.lock);
	bool more = s->queue.n || s->queue.first;
	pthread_mutex_unlock(&s->queue.lock);
	return !b.stop || more;
}

void *writer_main(void *arg)
{
	struct store *s = arg;
	unsigned busy = 0;

	while (turn(s, &busy))
		;
	return NULL;
}
