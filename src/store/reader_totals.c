/* Totals per operation: from the histograms where there are any, else from the rows. */
#include "store/reader_internal.h"
#include "base/idmap.h"
#include "model/ops.h"

#include <errno.h>

#define MAX_TOTALS 65536
#define MAX_EXACT 8000000 /* durations kept for exact percentiles; beyond that they go to the histogram */

/* What one operation (of one process) has so far. */
struct acc {
	struct reader_op_stats s;
	int64_t proc; /* 0 = over all */
	uint64_t *dur_ns;
	size_t n_dur, cap_dur;
	bool weighted; /* rows stand for several calls, or there were too many: the histogram has them */
};

struct totals {
	struct acc *v;
	size_t n, cap;
	size_t n_exact;	    /* durations kept in all */
	struct idmap index; /* (process row, operation) -> position + 1 */
};

static void totals_free(struct totals *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->v[i].dur_ns);
	free(t->v);
	idmap_free(&t->index);
}

#define cleanup_totals __attribute__((cleanup(totals_free)))

/* Finds or adds; NULL when there are too many or no memory. */
static struct acc *acc_of(struct totals *t, int64_t proc, uint16_t op)
{
	struct idmap_key key = {(uint64_t)proc, op};
	uintptr_t at = (uintptr_t)idmap_get(&t->index, key);
	struct acc *a;

	if (at)
		return &t->v[at - 1];
	if (UTIL_GROW(t->v, t->cap, t->n + 1, MAX_TOTALS) ||
		idmap_put(&t->index, key, (void *)(uintptr_t)(t->n + 1)))
		return NULL;
	a = &t->v[t->n++];
	memset(a, 0, sizeof(*a));
	a->proc = proc;
	a->s.op = op;
	return a;
}

/* ---- from histograms ---- */

static void merge_counters(struct op_counters *into, const struct op_counters *c)
{
	if (c->count)
		into->min_ns = into->count ? MIN(into->min_ns, c->min_ns) : c->min_ns;
	into->max_ns = MAX(into->max_ns, c->max_ns);
	into->count += c->count;
	into->sum_ns += c->sum_ns;
	into->errors += c->errors;
	into->bytes += c->bytes;
	into->delivered += c->delivered;
	into->sampled_out += c->sampled_out;
	into->lost += c->lost;
	into->untimed += c->untimed;
	into->unfinished += c->unfinished;
	into->nested += c->nested;
	into->nested_ns += c->nested_ns;
}

/* Columns: key, op, the counters, hist. */
static int read_counters(sqlite3_stmt *st, struct totals *t)
{
	struct acc *a = acc_of(t, sqlite3_column_int64(st, 0), (uint16_t)sqlite3_column_int(st, 1));
	struct op_counters c;
	const void *blob;

	if (!a)
		return -ENOMEM;
	memset(&c, 0, offsetof(struct op_counters, hist));
#define X(name) c.name = db_u64(st, 2 + COUNTER_##name);
	SCHEMA_COUNTERS(X)
#undef X
	merge_counters(&a->s.c, &c);
	a->s.from_histograms = true;
	blob = sqlite3_column_blob(st, 2 + COUNTER_COLUMNS);
	return hist_decode_add(
		&a->s.c.hist, blob ? blob : "", (size_t)sqlite3_column_bytes(st, 2 + COUNTER_COLUMNS));
}

/* Seconds [from, to) of one table. */
static void add_part(struct strbuf *sql, const struct reader_filter *f, bool per_process, const char *table,
	int64_t from, int64_t to)
{
	if (from >= to)
		return;
	strbuf_addf(sql, "%sSELECT %s AS key, c.op AS op", sql->len ? " UNION ALL " : "",
		per_process ? "c.proc" : "0");
#define X(name) strbuf_adds(sql, ", c." #name);
	SCHEMA_COUNTERS(X)
#undef X
	strbuf_addf(sql,
		", c.hist FROM %s c LEFT JOIN proc p ON p.id = c.proc WHERE c.bucket >= %lld AND c.bucket < "
		"%lld",
		table, (long long)from, (long long)to);
	reader_add_u32_list(sql, "p.pid", f->pids, f->n_pids);
	reader_add_op_list(sql, "c.op", f->ops, f->n_ops);
}

/* Whole minutes from the minute table; the ends from the ten-second one as far as it goes back. 0 or negative
 * errno. */
static int histogram_sql(
	struct reader *r, const struct reader_filter *f, bool per_process, struct strbuf *sql)
{
	int64_t fine_from = INT64_MIN, from, to, minutes_from, minutes_to;
	const struct time_window *w = &f->window;

	int rc = db_i64(r->ro.db, "SELECT value FROM meta WHERE key = 'fine_from'", &fine_from);

	if (rc != SQLITE_OK && rc != SQLITE_NOTFOUND)
		return db_errno(rc);
	from = w->from_ns == INT64_MIN ? 0 : reader_floor_s(w->from_ns, 10);
	to = reader_ceil_s(w->to_ns, 10);
	if (from < fine_from)
		from = from / 60 * 60;
	if (to < fine_from)
		to = (to + 59) / 60 * 60;
	minutes_from = (from + 59) / 60 * 60;
	minutes_to = MAX(to / 60 * 60, minutes_from);
	if (to < minutes_from) { /* within one minute */
		add_part(sql, f, per_process, "counter_10s", from, to);
	} else {
		add_part(sql, f, per_process, "counter_10s", from, minutes_from);
		add_part(sql, f, per_process, "counter_minute", minutes_from, minutes_to);
		add_part(sql, f, per_process, "counter_10s", minutes_to, to);
	}
	return sql->error;
}

static int from_histograms(
	struct reader *r, const struct reader_filter *f, bool per_process, struct totals *t)
{
	cleanup_strbuf struct strbuf sql = STRBUF_INIT(1 << 20);
	cleanup_stmt sqlite3_stmt *st = NULL;
	int rc, e = histogram_sql(r, f, per_process, &sql);

	if (e || !sql.len)
		return e;
	rc = db_prepare(r->ro.db, strbuf_str(&sql), &st);
	while (rc == SQLITE_OK || rc == SQLITE_ROW) {
		rc = sqlite3_step(st);
		if (rc == SQLITE_ROW)
			e = read_counters(st, t);
		if (e)
			return e;
	}
	return db_errno(rc);
}

/* ---- from rows ---- */

static int keep_duration(struct totals *t, struct acc *a, uint64_t dur_ns, uint64_t weight)
{
	int e;

	if (!a->weighted && (weight != 1 || t->n_exact >= MAX_EXACT)) {
		a->weighted = true;
		for (size_t i = 0; i < a->n_dur; i++)
			hist_add(&a->s.c.hist, a->dur_ns[i], 1);
		t->n_exact -= a->n_dur;
		a->n_dur = 0;
	}
	if (a->weighted) {
		hist_add(&a->s.c.hist, dur_ns, weight);
		return 0;
	}
	e = UTIL_GROW(a->dur_ns, a->cap_dur, a->n_dur + 1, MAX_EXACT + 1);
	if (e)
		return e;
	a->dur_ns[a->n_dur++] = dur_ns;
	t->n_exact++;
	return 0;
}

static bool counts_bytes(uint16_t op)
{
	const struct op_info *info = op_by_code(op);

	return info &&
	       (info->category == OPCAT_ALLOC || info->category == OPCAT_COPY || info->category == OPCAT_SET);
}

/* Columns: key, op, dur, weight, ret, arg0. The first n_exact_stats totals have histograms: their rows only
 * count. */
static int read_row(sqlite3_stmt *st, struct totals *t, size_t n_exact_stats)
{
	uint16_t op = (uint16_t)sqlite3_column_int(st, 1);
	uint64_t dur_ns = (uint64_t)MAX(sqlite3_column_int64(st, 2), 0), weight = db_u64(st, 3);
	struct acc *a = acc_of(t, sqlite3_column_int64(st, 0), op);
	struct op_counters *c;

	if (!a)
		return -ENOMEM;
	a->s.stored++;
	if ((size_t)(a - t->v) < n_exact_stats)
		return 0;
	c = &a->s.c;
	weight = MAX(weight, 1u);
	c->min_ns = c->count ? MIN(c->min_ns, dur_ns) : dur_ns;
	c->max_ns = MAX(c->max_ns, dur_ns);
	c->count += weight;
	c->sum_ns += dur_ns * weight;
	if (sqlite3_column_int(st, 4))
		c->errors += weight;
	else if (counts_bytes(op))
		c->bytes += db_u64(st, 5) * weight;
	return keep_duration(t, a, dur_ns, weight);
}

static int from_rows(struct reader *r, const struct reader_filter *f, bool per_process, struct totals *t)
{
	cleanup_strbuf struct strbuf sql = STRBUF_INIT(1 << 20);
	cleanup_stmt sqlite3_stmt *st = NULL;
	size_t n_exact_stats = t->n;
	int rc, e = 0;

	if (r->ours)
		strbuf_addf(&sql,
			"SELECT %s, e.op, e.dur, e.weight, e.ret, e.arg0 FROM event e LEFT JOIN proc p ON "
			"p.id = e.proc WHERE 1",
			per_process ? "e.proc" : "0");
	else
		strbuf_addf(&sql,
			"SELECT %s, e.source << 8 | e.op, e.duration, 1, %s, %s FROM events e WHERE 1",
			per_process ? "e.pid" : "0", r->has[REF_RET] ? "e.ret_code" : "0",
			r->has[REF_ARG0] ? "e.arg0" : "0");
	reader_add_filter(r, f, &sql);
	if (sql.error)
		return sql.error;
	rc = db_prepare(r->ro.db, strbuf_str(&sql), &st);
	while (rc == SQLITE_OK || rc == SQLITE_ROW) {
		rc = sqlite3_step(st);
		if (rc == SQLITE_ROW)
			e = read_row(st, t, n_exact_stats);
		if (e)
			return e;
	}
	return db_errno(rc);
}

/* ---- finish ---- */

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Nearest rank: value number ceil(p * n). */
static uint64_t nearest_rank(const uint64_t *v, size_t n, unsigned percent)
{
	size_t rank = (n * percent + 99) / 100;

	return v[MAX(rank, 1u) - 1];
}

static void percentiles(struct acc *a)
{
	struct reader_op_stats *s = &a->s;

	if (a->n_dur) {
		qsort(a->dur_ns, a->n_dur, sizeof(*a->dur_ns), compare_u64);
		s->p50_ns = nearest_rank(a->dur_ns, a->n_dur, 50);
		s->p95_ns = nearest_rank(a->dur_ns, a->n_dur, 95);
		s->p99_ns = nearest_rank(a->dur_ns, a->n_dur, 99);
		for (size_t i = 0; i < a->n_dur; i++)
			hist_add(&s->c.hist, a->dur_ns[i], 1);
		return;
	}
	if (!hist_count(&s->c.hist))
		return;
	/* the middle of a bucket may lie beyond the extremes, which are exact */
	s->p50_ns = MAX(MIN(hist_percentile(&s->c.hist, 0.50), s->c.max_ns), s->c.min_ns);
	s->p95_ns = MAX(MIN(hist_percentile(&s->c.hist, 0.95), s->c.max_ns), s->c.min_ns);
	s->p99_ns = MAX(MIN(hist_percentile(&s->c.hist, 0.99), s->c.max_ns), s->c.min_ns);
}

static void process_of(struct reader *r, sqlite3_stmt *st, int64_t proc, struct process_info *p)
{
	p->rank = p->local_rank = p->world_size = -1;
	if (!proc)
		return;
	sqlite3_bind_int64(st, 1, proc);
	if (!r->ours)
		p->id.pid = (uint32_t)proc;
	if (sqlite3_step(st) == SQLITE_ROW) {
		p->id = (struct proc_id){(uint32_t)db_u64(st, 0), db_u64(st, 1)};
		snprintf(p->comm, sizeof(p->comm), "%s", db_text(st, 2));
		p->uid = (uint32_t)db_u64(st, 3);
		p->ppid = (uint32_t)db_u64(st, 4);
		p->cgroup_id = db_u64(st, 5);
		p->rank = sqlite3_column_int(st, 6);
		p->local_rank = sqlite3_column_int(st, 7);
		p->world_size = sqlite3_column_int(st, 8);
	}
	sqlite3_reset(st);
}

static void fill_processes(struct reader *r, struct totals *t)
{
	cleanup_stmt sqlite3_stmt *st = NULL;
	const char *sql =
		r->ours	       ? "SELECT pid, start_ns, comm, uid, ppid, cgroup_id, coalesce(rank, -1),"
				 " coalesce(local_rank, -1), coalesce(world_size, -1) FROM proc WHERE id = ?1"
		: r->has_names ? "SELECT pid, 0, name, 0, 0, 0, -1, -1, -1 FROM process_names WHERE pid = ?1"
			       : "SELECT ?1, 0, '', 0, 0, 0, -1, -1, -1";

	if (db_prepare(r->ro.db, sql, &st) != SQLITE_OK)
		return;
	for (size_t i = 0; i < t->n; i++)
		process_of(r, st, t->v[i].proc, &t->v[i].s.proc);
}

/* Columns: key, op, count, sum, min, max. Operations without a row (the reference never stores page
 * allocations) are known by these alone. */
static int read_aggregate(sqlite3_stmt *st, struct totals *t)
{
	struct acc *a = acc_of(t, sqlite3_column_int64(st, 0), (uint16_t)sqlite3_column_int(st, 1));

	if (!a)
		return -ENOMEM;
	a->s.aggregate_count = db_u64(st, 2);
	if (a->s.stored)
		return 0;
	a->s.c.count = db_u64(st, 2);
	a->s.c.sum_ns = db_u64(st, 3);
	a->s.c.min_ns = db_u64(st, 4);
	a->s.c.max_ns = db_u64(st, 5);
	return 0;
}

/* What the minute aggregates of the reference say was called. */
static int add_aggregates(struct reader *r, const struct reader_filter *f, bool per_process, struct totals *t)
{
	cleanup_strbuf struct strbuf sql = STRBUF_INIT(1 << 20);
	cleanup_stmt sqlite3_stmt *st = NULL;
	int64_t minute = 60 * (int64_t)NSEC_PER_SEC;
	int rc = SQLITE_ROW, e = 0;

	if (r->ours || !r->has_aggregates)
		return 0;
	strbuf_addf(&sql,
		"SELECT %s, source << 8 | op, sum(count), sum(sum_dur), min(min_dur), max(max_dur) FROM "
		"event_aggregates WHERE 1",
		per_process ? "pid" : "0");
	if (f->window.from_ns > INT64_MIN + minute)
		strbuf_addf(&sql, " AND bucket > %lld", (long long)(f->window.from_ns - minute));
	if (f->window.to_ns != INT64_MAX)
		strbuf_addf(&sql, " AND bucket < %lld", (long long)f->window.to_ns);
	reader_add_u32_list(&sql, "pid", f->pids, f->n_pids);
	reader_add_op_list(&sql, "(source << 8 | op)", f->ops, f->n_ops);
	strbuf_adds(&sql, " GROUP BY 1, 2");
	if (sql.error)
		return sql.error;
	if (db_prepare(r->ro.db, strbuf_str(&sql), &st) != SQLITE_OK)
		return 0; /* an older layout */
	while (!e && (rc = sqlite3_step(st)) == SQLITE_ROW)
		e = read_aggregate(st, t);
	return e ? e : db_errno(rc);
}

static int by_time(const void *a, const void *b)
{
	const struct reader_op_stats *x = a, *y = b;

	if (x->c.sum_ns != y->c.sum_ns)
		return x->c.sum_ns < y->c.sum_ns ? 1 : -1;
	if (x->op != y->op)
		return x->op < y->op ? -1 : 1;
	return (x->proc.id.pid > y->proc.id.pid) - (x->proc.id.pid < y->proc.id.pid);
}

static int hand_over(struct totals *t, struct reader_op_stats **ret_stats, size_t *ret_n)
{
	struct reader_op_stats *out = calloc(MAX(t->n, 1u), sizeof(*out));

	if (!out)
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++) {
		percentiles(&t->v[i]);
		out[i] = t->v[i].s;
	}
	qsort(out, t->n, sizeof(*out), by_time);
	*ret_stats = out;
	*ret_n = t->n;
	return 0;
}

int reader_op_totals(struct reader *r, const struct reader_filter *f, bool per_process,
	struct reader_op_stats **ret_stats, size_t *ret_n)
{
	for (int tries = 0; tries < 3; tries++) {
		cleanup_totals struct totals t = {.index = IDMAP_INIT(MAX_TOTALS)};
		int e = reader_refresh(r);

		if (!e && r->ours)
			e = from_histograms(r, f, per_process, &t);
		if (!e)
			e = from_rows(r, f, per_process, &t);
		if (!e)
			e = add_aggregates(r, f, per_process, &t);
		if (e)
			return e;
		if (ro_changed(&r->ro))
			continue;
		if (per_process)
			fill_processes(r, &t);
		return hand_over(&t, ret_stats, ret_n);
	}
	return -EAGAIN;
}
