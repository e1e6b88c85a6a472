#include "store/reader_internal.h"
#include "store/dbfile.h"
#include "store/internal.h"

#include <errno.h>
#include <time.h>

#define RUNNING_NS (30 * (int64_t)NSEC_PER_SEC) /* a recording that was heard of since then may still run */

/* ---- what kind of file ---- */

static bool has_column(sqlite3 *db, const char *table, const char *column)
{
	cleanup_stmt sqlite3_stmt *st = NULL;

	if (db_prepare(db, "SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2", &st) != SQLITE_OK)
		return false;
	sqlite3_bind_text(st, 1, table, -1, SQLITE_STATIC);
	sqlite3_bind_text(st, 2, column, -1, SQLITE_STATIC);
	return sqlite3_step(st) == SQLITE_ROW;
}

/* A real table, not a view or virtual table somebody put in its place. */
static bool is_table(sqlite3 *db, const char *name)
{
	cleanup_stmt sqlite3_stmt *st = NULL;

	if (db_prepare(db, "SELECT 1 FROM sqlite_master WHERE name = ?1 AND type = 'table' AND rootpage > 0",
		    &st) != SQLITE_OK)
		return false;
	sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
	return sqlite3_step(st) == SQLITE_ROW;
}

static int detect_ours(struct reader *r, char *err, size_t err_size)
{
	static const char *const tables[] = {"event", "proc", "sessions", "launch", "kernel_name", "stack",
		"counter_10s", "counter_minute", "loss", "meta", "system_snapshots"};
	int64_t version = 0;

	db_i64(r->ro.db, "PRAGMA user_version", &version);
	if (version > SCHEMA_VERSION) {
		snprintf(err, err_size,
			"%s was made by a newer version (schema %lld, this one reads up to %d); update this "
			"program",
			r->ro.path, (long long)version, SCHEMA_VERSION);
		return -EMEDIUMTYPE;
	}
	for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
		if (!is_table(r->ro.db, tables[i])) {
			snprintf(err, err_size, "%s is damaged: it has no table %s", r->ro.path, tables[i]);
			return -EMEDIUMTYPE;
		}
	}
	r->ours = true;
	snprintf(r->schema, sizeof(r->schema), "ingero %d", (int)version);
	return 0;
}

static int detect_reference(struct reader *r, char *err, size_t err_size)
{
	static const char *const needed[] = {"timestamp", "pid", "tid", "source", "op", "duration"};
	static const char *const columns[REF_COLUMNS] = {[REF_NODE] = "node",
		[REF_RANK] = "rank",
		[REF_COMM] = "comm",
		[REF_CGROUP] = "cgroup_id",
		[REF_STACK_HASH] = "stack_hash",
		[REF_STACK_IPS] = "stack_ips",
		[REF_ARG0] = "arg0",
		[REF_ARG1] = "arg1",
		[REF_GPU] = "gpu_id",
		[REF_RET] = "ret_code"};
	cleanup_stmt sqlite3_stmt *st = NULL;
	sqlite3 *db = r->ro.db;
	bool ok = is_table(db, "events");

	for (size_t i = 0; i < ARRAY_LEN(needed) && ok; i++)
		ok = has_column(db, "events", needed[i]);
	if (!ok) {
		snprintf(err, err_size, "%s is a database, but not a recording", r->ro.path);
		return -EMEDIUMTYPE;
	}
	for (size_t i = 0; i < REF_COLUMNS; i++)
		r->has[i] = has_column(db, "events", columns[i]);
	r->has_stacks = r->has[REF_STACK_HASH] && is_table(db, "stack_traces");
	r->has_frames = r->has_stacks && has_column(db, "stack_traces", "frames");
	r->has_names = is_table(db, "process_names");
	r->has_aggregates = is_table(db, "event_aggregates");
	r->has_snapshots = is_table(db, "system_snapshots");
	r->has_sessions = is_table(db, "sessions");
	snprintf(r->schema, sizeof(r->schema), "reference");
	if (db_prepare(db, "SELECT value FROM schema_info WHERE key = 'version'", &st) == SQLITE_OK &&
		sqlite3_step(st) == SQLITE_ROW)
		snprintf(r->schema, sizeof(r->schema), "reference %.12s", db_text(st, 0));
	return 0;
}

static int detect(struct reader *r, char *err, size_t err_size)
{
	int64_t app = 0, n = 0;

	db_i64(r->ro.db, "PRAGMA application_id", &app);
	if (db_i64(r->ro.db, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND rootpage = 0", &n) !=
		SQLITE_NOTFOUND) {
		snprintf(err, err_size, "%s holds virtual tables, which no recording has; it is not opened",
			r->ro.path);
		return -EMEDIUMTYPE;
	}
	return app == SCHEMA_APPLICATION_ID ? detect_ours(r, err, err_size)
					    : detect_reference(r, err, err_size);
}

int reader_open(const char *path, struct reader **ret_reader, char *err, size_t err_size)
{
	struct reader *r = calloc(1, sizeof(*r));
	int e;

	if (!r) {
		snprintf(err, err_size, "out of memory");
		return -ENOMEM;
	}
	e = ro_open(path, &r->ro, err, err_size);
	if (!e)
		e = detect(r, err, err_size);
	if (e) {
		reader_close(r);
		return e;
	}
	*ret_reader = r;
	return 0;
}

void reader_close(struct reader *r)
{
	if (!r)
		return;
	ro_close(&r->ro);
	free(r);
}

int reader_refresh(struct reader *r)
{
	struct reader again = {0};
	char err[512];
	int e;

	if (!ro_changed(&r->ro))
		return 0;
	e = ro_open(r->ro.path, &again.ro, err, sizeof(err));
	if (!e)
		e = detect(&again, err, sizeof(err));
	if (e) {
		ro_close(&again.ro);
		return e;
	}
	ro_close(&r->ro);
	*r = again;
	return 0;
}

/* ---- filters ---- */

void reader_add_u32_list(struct strbuf *sql, const char *column, const uint32_t *v, size_t n)
{
	if (!v || !n)
		return;
	strbuf_addf(sql, " AND %s IN (", column);
	for (size_t i = 0; i < n; i++)
		strbuf_addf(sql, "%s%u", i ? "," : "", v[i]);
	strbuf_addc(sql, ')');
}

void reader_add_op_list(struct strbuf *sql, const char *column, const uint16_t *v, size_t n)
{
	if (!v || !n)
		return;
	strbuf_addf(sql, " AND %s IN (", column);
	for (size_t i = 0; i < n; i++)
		strbuf_addf(sql, "%s%u", i ? "," : "", v[i]);
	strbuf_addc(sql, ')');
}

void reader_add_filter(const struct reader *r, const struct reader_filter *f, struct strbuf *sql)
{
	const struct time_window *w = &f->window;

	if (r->ours) {
		if (w->from_ns != INT64_MIN)
			strbuf_addf(sql, " AND e.ts >= %lld", (long long)w->from_ns);
		if (w->to_ns != INT64_MAX)
			strbuf_addf(sql, " AND e.ts < %lld", (long long)w->to_ns);
		reader_add_u32_list(sql, "p.pid", f->pids, f->n_pids);
		reader_add_op_list(sql, "e.op", f->ops, f->n_ops);
		return;
	}
	if (w->from_ns != INT64_MIN) /* the first condition can use the index */
		strbuf_addf(sql, " AND e.timestamp >= %lld AND " REF_START " >= %lld", (long long)w->from_ns,
			(long long)w->from_ns);
	if (w->to_ns != INT64_MAX)
		strbuf_addf(sql, " AND " REF_START " < %lld", (long long)w->to_ns);
	reader_add_u32_list(sql, "e.pid", f->pids, f->n_pids);
	reader_add_op_list(sql, "(e.source << 8 | e.op)", f->ops, f->n_ops);
}

int64_t reader_floor_s(int64_t ns, int64_t step)
{
	int64_t sec = ns / (int64_t)NSEC_PER_SEC - (ns % (int64_t)NSEC_PER_SEC < 0);

	return (sec - (sec % step + step) % step);
}

int64_t reader_ceil_s(int64_t ns, int64_t step)
{
	int64_t down = reader_floor_s(ns, step);

	if (ns == INT64_MAX)
		return INT64_MAX / (int64_t)NSEC_PER_SEC;
	return down * (int64_t)NSEC_PER_SEC < ns ? down + step : down;
}

/* ---- summary ---- */

/* 0 when there is none. Damage must not look like an absence: the first error stays in *rc. */
static uint64_t number(sqlite3 *db, const char *sql, int *rc)
{
	int64_t v = 0;
	int got = db_i64(db, sql, &v);

	if (got == SQLITE_OK)
		return (uint64_t)v;
	if (got != SQLITE_NOTFOUND && *rc == SQLITE_OK)
		*rc = got;
	return 0;
}

static bool next_row(sqlite3_stmt *st, int *rc)
{
	int got = sqlite3_step(st);

	if (got != SQLITE_ROW && got != SQLITE_DONE && *rc == SQLITE_OK)
		*rc = got;
	return got == SQLITE_ROW;
}

static bool writer_alive(struct reader *r, int64_t writer_pid, int64_t pid_namespace, int64_t last_seen_ns)
{
	long holder = dbfile_lock_holder(r->ro.seen.st_dev, r->ro.seen.st_ino, (long)writer_pid);
	struct timespec now;

	if (holder > 0)
		return true;
	if (!holder && pid_namespace == host_pid_namespace())
		return false;
	/* a writer outside our container is in no list we can see */
	clock_gettime(CLOCK_REALTIME, &now);
	return last_seen_ns > (int64_t)now.tv_sec * (int64_t)NSEC_PER_SEC - RUNNING_NS;
}

static void last_session(struct reader *r, struct reader_summary *s, int *rc)
{
	cleanup_stmt sqlite3_stmt *st = NULL;
	bool running;

	if (db_prepare(r->ro.db,
		    "SELECT state, node, writer_pid, pid_namespace, last_seen FROM sessions ORDER BY id DESC "
		    "LIMIT 1",
		    &st) != SQLITE_OK ||
		!next_row(st, rc))
		return;
	running = !strcmp(db_text(st, 0), "running");
	snprintf(s->node, sizeof(s->node), "%s", db_text(st, 1));
	s->writing = running && writer_alive(r, sqlite3_column_int64(st, 2), sqlite3_column_int64(st, 3),
					sqlite3_column_int64(st, 4));
	s->cut = !strcmp(db_text(st, 0), "cut") || (running && !s->writing);
}

/* Sessions may overlap in merged files; the union is what was recorded. */
static uint64_t recorded_in(struct reader *r, const struct time_window *w, int *rc)
{
	cleanup_stmt sqlite3_stmt *st = NULL;
	int64_t covered_to = w->from_ns;
	uint64_t sum = 0;

	if (db_prepare(r->ro.db,
		    "SELECT started_at, CASE WHEN stopped_at > 0 THEN stopped_at ELSE last_seen END FROM "
		    "sessions ORDER BY 1",
		    &st) != SQLITE_OK)
		return 0;
	while (next_row(st, rc)) {
		int64_t from = MAX(sqlite3_column_int64(st, 0), covered_to);
		int64_t to = MIN(sqlite3_column_int64(st, 1), w->to_ns);

		if (to <= from)
			continue;
		sum += (uint64_t)to - (uint64_t)from;
		covered_to = to;
	}
	return sum;
}

static void losses(struct reader *r, const struct time_window *w, struct reader_summary *s, int *rc)
{
	cleanup_stmt sqlite3_stmt *st = NULL;
	int64_t from = w->from_ns == INT64_MIN ? INT64_MIN : reader_floor_s(w->from_ns, 60),
		to = reader_ceil_s(w->to_ns, 60);

	if (db_prepare(r->ro.db,
		    "SELECT sum(lost), sum(sampled_out), sum(unfinished) FROM counter_minute WHERE bucket >= "
		    "?1 AND bucket < ?2",
		    &st) == SQLITE_OK) {
		sqlite3_bind_int64(st, 1, from);
		sqlite3_bind_int64(st, 2, to);
		if (next_row(st, rc)) {
			s->lost = db_u64(st, 0);
			s->sampled_out = db_u64(st, 1);
			s->unfinished = db_u64(st, 2);
		}
	}
	sqlite3_finalize(st);
	st = NULL;
	if (db_prepare(r->ro.db,
		    "SELECT sum(count) FROM loss WHERE bucket >= ?1 AND bucket < ?2 AND name LIKE "
		    "'store\\_%' ESCAPE '\\'",
		    &st) == SQLITE_OK) {
		sqlite3_bind_int64(st, 1, from);
		sqlite3_bind_int64(st, 2, to);
		if (next_row(st, rc))
			s->dropped = db_u64(st, 0);
	}
}

static void span(struct reader *r, struct reader_summary *s, int *rc)
{
	sqlite3 *db = r->ro.db;

	if (!r->ours) {
		s->first_ns = (int64_t)number(db, "SELECT min(timestamp) FROM events", rc);
		s->last_ns = (int64_t)number(db, "SELECT max(timestamp) FROM events", rc);
		return;
	}
	s->first_ns = (int64_t)number(db, "SELECT min(ts) FROM event", rc);
	s->last_ns = (int64_t)number(db, "SELECT max(ts) FROM event", rc);
	if (number(db, "SELECT 1 FROM counter_minute LIMIT 1", rc)) {
		int64_t from = (int64_t)number(db, "SELECT min(bucket) * 1000000000 FROM counter_minute", rc);
		int64_t to =
			(int64_t)number(db, "SELECT (max(bucket) + 60) * 1000000000 FROM counter_minute", rc);
		int64_t seen = (int64_t)number(db, "SELECT max(last_seen) FROM sessions", rc);
		int64_t begun = (int64_t)number(db, "SELECT min(started_at) FROM sessions", rc);

		/* minutes only say so much: the sessions tell the rest */
		from = MIN(MAX(from, begun), from + 60 * (int64_t)NSEC_PER_SEC);
		to = MAX(MIN(to, seen), to - 60 * (int64_t)NSEC_PER_SEC);
		s->first_ns = s->first_ns ? MIN(s->first_ns, from) : from;
		s->last_ns = MAX(s->last_ns, to);
	}
}

static uint64_t count_events(struct reader *r, const struct time_window *w, int *rc)
{
	cleanup_strbuf struct strbuf sql = STRBUF_INIT(4096);
	struct reader_filter f = {.window = *w};

	strbuf_adds(&sql,
		r->ours ? "SELECT count(*) FROM event e WHERE 1" : "SELECT count(*) FROM events e WHERE 1");
	reader_add_filter(r, &f, &sql);
	return number(r->ro.db, strbuf_str(&sql), rc);
}

int reader_summarize(struct reader *r, const struct time_window *w, struct reader_summary *ret)
{
	struct reader_summary s = {0};
	int e = reader_refresh(r), rc = SQLITE_OK;

	if (e)
		return e;
	snprintf(s.schema, sizeof(s.schema), "%s", r->schema);
	s.events = count_events(r, w, &rc);
	span(r, &s, &rc);
	if (r->ours) {
		s.sessions = number(r->ro.db, "SELECT count(*) FROM sessions", &rc);
		last_session(r, &s, &rc);
		losses(r, w, &s, &rc);
		s.recorded_ns = recorded_in(r, w, &rc);
	} else if (s.events) {
		int64_t from = MAX(s.first_ns, w->from_ns), to = MIN(s.last_ns, w->to_ns);

		s.recorded_ns = to > from ? (uint64_t)to - (uint64_t)from : 0;
		s.sessions = r->has_sessions ? number(r->ro.db, "SELECT count(*) FROM sessions", &rc) : 0;
	}
	if (rc != SQLITE_OK)
		return db_errno(rc);
	*ret = s;
	return 0;
}

int reader_last_system(struct reader *r, const struct time_window *w, struct system_sample *ret)
{
	cleanup_stmt sqlite3_stmt *st = NULL;
	int e = reader_refresh(r), rc = SQLITE_OK;

	if (e)
		return e;
	if (!r->ours && !r->has_snapshots)
		return -ENODATA;
	if (db_prepare(r->ro.db,
		    r->ours ? "SELECT timestamp, cpu_pct, mem_pct, mem_avail, swap_mb, load_avg, mem_total "
			      "FROM system_snapshots"
			      " WHERE timestamp >= ?1 AND timestamp < ?2 ORDER BY timestamp DESC LIMIT 1"
			    : "SELECT timestamp, cpu_pct, mem_pct, mem_avail, swap_mb, load_avg, 0 FROM "
			      "system_snapshots"
			      " WHERE timestamp >= ?1 AND timestamp < ?2 ORDER BY timestamp DESC LIMIT 1",
		    &st) != SQLITE_OK)
		return -ENODATA;
	sqlite3_bind_int64(st, 1, w->from_ns);
	sqlite3_bind_int64(st, 2, w->to_ns);
	if (!next_row(st, &rc))
		return rc == SQLITE_OK ? -ENODATA : db_errno(rc);
	*ret = (struct system_sample){
		.wall_ns = sqlite3_column_int64(st, 0),
		.cpu_pct = sqlite3_column_double(st, 1),
		.mem_pct = sqlite3_column_double(st, 2),
		.mem_avail_mb = db_u64(st, 3),
		.swap_mb = db_u64(st, 4),
		.load1 = sqlite3_column_double(st, 5),
		.mem_total_mb = db_u64(st, 6),
	};
	return 0;
}
