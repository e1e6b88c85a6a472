/* Deleting the oldest, in small steps. */
#include "store/internal.h"

#define SLICE_ROWS 4096
#define ROW_BYTES 48 /* about what an event takes */
#define KEEP_10S 3600
#define MINUTES_PER_SLICE 20 /* a slice of counters is this part of their whole span */
#define SWEEP_ROWS "1000"
#define SEC_NS ((int64_t)NSEC_PER_SEC)
#define MINUTE_NS (60 * SEC_NS)

static int64_t wall_limit(int64_t ts, int64_t margin)
{
	return ts > margin ? ts - margin : 0;
}

/* Runs `sql` with one number bound. */
static int sweep(struct store *s, const char *sql, int64_t v)
{
	cleanup_stmt sqlite3_stmt *st = NULL;
	int rc = db_prepare(s->db, sql, &st);

	return rc == SQLITE_OK ? db_run(st, "i", v) : rc;
}

/* What only older rows referred to. Nothing is left that is older than `oldest_ns`, no event older than
 * `oldest_event_ns`. */
static int sweep_all(struct store *s, int64_t oldest_ns, int64_t oldest_event_ns)
{
	const struct {
		const char *sql;
		int64_t before;
	} sweeps[] = {
		{"DELETE FROM system_snapshots WHERE timestamp < ?1", oldest_ns},
		{"DELETE FROM clock_samples WHERE wall_ns < ?1", oldest_ns},
		{"DELETE FROM causal_chains WHERE detected_at < ?1", oldest_ns},
		{"DELETE FROM cgroup_schedstat WHERE window_end < ?1", oldest_ns},
		{"DELETE FROM loss WHERE bucket < ?1", wall_limit(oldest_ns, MINUTE_NS) / SEC_NS},
		/* ids grow with time: only the head of the table is looked at */
		{"DELETE FROM launch WHERE id IN (SELECT id FROM launch ORDER BY id LIMIT " SWEEP_ROWS
		 ") AND created < ?1",
			wall_limit(oldest_event_ns, s->launch_reuse_ns)},
		{"DELETE FROM sessions WHERE state <> 'running' AND last_seen < ?1"
		 " AND id NOT IN (SELECT session FROM proc)",
			wall_limit(oldest_ns, MINUTE_NS)},
		{"DELETE FROM proc WHERE last_seen < ?1",
			wall_limit(oldest_ns, MINUTE_NS)}, /* last: see below */
	};
	int rc = SQLITE_OK;

	for (size_t i = 0; i < ARRAY_LEN(sweeps) && rc == SQLITE_OK; i++)
		rc = sweep(s, sweeps[i].sql, sweeps[i].before);
	if (rc == SQLITE_OK && sqlite3_changes(s->db)) {
		rows_forget(s); /* a process that comes back gets a new row */
		rc = db_exec(s->db, "DELETE FROM kernel_name WHERE proc NOT IN (SELECT id FROM proc);"
				    "DELETE FROM coverage WHERE proc NOT IN (SELECT id FROM proc)");
	}
	return rc;
}

static int delete_events(struct store *s, uint64_t *ret_n)
{
	int64_t end;
	int rc;

	sqlite3_bind_int64(s->stmt[W_SLICE_END], 1, SLICE_ROWS);
	end = writer_i64(s, W_SLICE_END, INT64_MAX);
	rc = db_run(s->stmt[W_DELETE_EVENTS], "i", end);
	*ret_n = rc == SQLITE_OK ? (uint64_t)sqlite3_changes(s->db) : 0;
	return rc;
}

static int delete_minutes(struct store *s, int64_t oldest)
{
	int64_t newest = s->newest_ns / SEC_NS;
	int64_t step = MAX((newest - oldest) / MINUTES_PER_SLICE / 60 * 60, 60);
	int64_t cut = MIN(oldest + step, newest - 120);
	int rc = db_run(s->stmt[W_DELETE_MINUTE], "i", cut);

	if (rc == SQLITE_OK)
		rc = db_run(s->stmt[W_DELETE_10S], "i", cut);
	return rc;
}

static bool commit_or_stop(struct store *s, int rc)
{
	if (rc == SQLITE_OK)
		rc = writer_step(s, W_COMMIT);
	if (rc == SQLITE_OK)
		return true;
	writer_step(s, W_ROLLBACK);
	rows_forget(s);
	if ((rc & 0xff) != SQLITE_BUSY)
		writer_stop(s, "making room in the recording failed", rc);
	return false;
}

bool prune_slice(struct store *s)
{
	int64_t oldest_minute = writer_i64(s, W_OLDEST_MINUTE, INT64_MAX), oldest_event;
	uint64_t events_bytes = (uint64_t)MAX(s->event_rows, 0) * ROW_BYTES, n = 0;
	bool minutes =
		events_bytes < s->main_limit_bytes / 10 * 4 && oldest_minute < s->newest_ns / SEC_NS - 180;
	int rc = writer_step(s, W_BEGIN);

	if (rc != SQLITE_OK)
		return false;
	rc = minutes ? delete_minutes(s, oldest_minute) : delete_events(s, &n);
	if (rc == SQLITE_OK) {
		oldest_event = writer_i64(s, W_OLDEST_EVENT, INT64_MAX);
		oldest_minute = writer_i64(s, W_OLDEST_MINUTE, INT64_MAX / SEC_NS);
		oldest_event = MIN(oldest_event, s->newest_ns);
		rc = sweep_all(s, MIN(oldest_event, oldest_minute * SEC_NS), oldest_event);
	}
	if (rc == SQLITE_OK && minutes)
		rc = db_run(s->stmt[W_META], "ti", "minutes_from", oldest_minute);
	if (!commit_or_stop(s, rc))
		return false;
	s->event_rows -= (int64_t)n;
	pthread_mutex_lock(&s->queue.lock);
	s->stats.pruned += n;
	pthread_mutex_unlock(&s->queue.lock);
	return minutes || n;
}

void prune_fold(struct store *s)
{
	int64_t oldest = writer_i64(s, W_OLDEST_10S, INT64_MAX), cut;
	int rc;

	/* a minute at a time, so that a long-abandoned file costs no long pause */
	if (oldest >= s->newest_ns / SEC_NS - KEEP_10S - 60)
		return;
	cut = oldest / 60 * 60 + 60;
	rc = writer_step(s, W_BEGIN);
	if (rc != SQLITE_OK)
		return;
	rc = db_run(s->stmt[W_DELETE_10S], "i", cut);
	if (rc == SQLITE_OK)
		rc = db_run(s->stmt[W_META], "ti", "fine_from", cut);
	commit_or_stop(s, rc);
}
