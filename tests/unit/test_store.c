#include "store_fixture.h"

#define OP_MALLOC OP_CODE(SOURCE_CUDA, 1)
#define OP_LAUNCH OP_CODE(SOURCE_CUDA, 3)
#define OP_GRAPH_LAUNCH OP_CODE(SOURCE_GRAPH, 4)
#define OP_NOWHERE OP_CODE(SOURCE_CUDA, 250)

struct rows {
	struct reader_event ev[64];
	char comm[64][32], node[64][32], kernel[64][64];
	size_t n;
};

static int keep_row(void *ctx, const struct reader_event *ev)
{
	struct rows *r = ctx;

	if (r->n >= ARRAY_LEN(r->ev))
		return 1;
	r->ev[r->n] = *ev;
	snprintf(r->comm[r->n], sizeof(r->comm[0]), "%s", ev->comm);
	snprintf(r->node[r->n], sizeof(r->node[0]), "%s", ev->node);
	snprintf(r->kernel[r->n], sizeof(r->kernel[0]), "%s", ev->kernel_name);
	r->n++;
	return 0;
}

static void assert_event_equal(const struct call_event *a, const struct call_event *b)
{
#define SAME(field) assert_true(a->field == b->field)
	SAME(wall_ns);
	SAME(mono_ns);
	SAME(dur_ns);
	SAME(proc.pid);
	SAME(proc.start_ns);
	SAME(tid);
	SAME(op);
	SAME(depth);
	SAME(flags);
	SAME(ret);
	SAME(weight);
	SAME(reason);
	SAME(arg0);
	SAME(arg1);
	SAME(stream);
	SAME(handle);
	SAME(exec);
	SAME(kernel);
#undef SAME
	assert_memory_equal(a->grid, b->grid, sizeof(a->grid));
	assert_memory_equal(a->block, b->block, sizeof(a->block));
}

static struct rows *read_rows(const char *path, const struct reader_filter *f)
{
	struct rows *rows = test_calloc(1, sizeof(*rows));
	struct reader *r = fixture_reader(path);

	assert_int_equal(reader_events(r, f, keep_row, rows), 0);
	reader_close(r);
	return rows;
}

static const struct reader_filter everything = {.window = {INT64_MIN, INT64_MAX}, .limit = -1};

static void every_field_comes_back(void **state)
{
	struct fixture *f = *state;
	struct store *s = fixture_open(f->db);
	struct call_event e = {
		.wall_ns = T0 + 5,
		.mono_ns = 123456789,
		.dur_ns = 1ull << 40,
		.proc = {4000000, 0xfedcba9876543210ull},
		.tid = 4000001,
		.op = OP_LAUNCH,
		.depth = 3,
		.flags = CALL_NESTED | CALL_ANOMALY | CALL_CAPTURING,
		.ret = -7,
		.weight = 4000000000u,
		.reason = REASON_ERROR | REASON_SLOW,
		.arg0 = 0xffffffffffffff01ull,
		.arg1 = 0x8000000000000000ull,
		.stream = 0xf000000000000001ull,
		.handle = 0xf000000000000002ull,
		.exec = 0xf000000000000003ull,
		.kernel = 0xf000000000000004ull,
		.grid = {4294967295u, 2, 3},
		.block = {4, 5, 6},
	};
	struct process_info p = {.id = e.proc,
		.comm = "train",
		.uid = 5,
		.ppid = 6,
		.cgroup_id = 1ull << 63,
		.rank = 2,
		.local_rank = 1,
		.world_size = 4};
	struct rows *rows;

	store_add_event(s, &e); /* before its process: the order does not matter */
	store_add_process(s, &p);
	store_add_kernel_name(s, e.proc, e.kernel, "gemm");
	store_close(s, NULL);
	rows = read_rows(f->db, &everything);
	assert_int_equal(rows->n, 1);
	assert_event_equal(&rows->ev[0].e, &e);
	assert_string_equal(rows->ev[0].id, "node-a:1764547200000000005");
	assert_string_equal(rows->comm[0], "train");
	assert_string_equal(rows->node[0], "node-a");
	assert_string_equal(rows->kernel[0], "gemm");
	assert_int_equal(rows->ev[0].rank, 2);
	assert_true(rows->ev[0].cgroup_id == 1ull << 63);
	/* readers of the reference fail on negative values */
	assert_int_equal(
		fixture_number(
			f->db, "SELECT arg0 = 0x7fffffffffffff01 AND arg1 = 0 AND cgroup_id = 0 FROM events"),
		1);
	assert_int_equal(
		fixture_number(
			f->db, "SELECT tid = 4000001 AND nested AND anomaly AND NOT unfinished FROM events"),
		1);
	assert_int_equal(fixture_number(f->db, "SELECT mono_ns FROM events"), 123456789);
	test_free(rows);
}

static void repeated_arguments_come_back(void **state)
{
	struct fixture *f = *state;
	struct store *s = fixture_open(f->db);
	struct call_event e[] = {
		fixture_event(0), fixture_event(1), fixture_event(2), fixture_event(3), fixture_event(4)};
	struct rows *rows;

	e[1].kernel = 0; /* synchronise: the stream is the argument */
	e[1].stream = e[1].arg0 = 0x77;
	e[2].kernel = 0; /* free: the pointer is */
	e[2].handle = e[2].arg0 = 0x7f00;
	e[3].kernel = 0; /* allocation: pointer second */
	e[3].arg0 = 4096;
	e[3].arg1 = e[3].handle = 0x8f00;
	e[4].arg0 = 0; /* a kernel that is not the argument */
	for (size_t i = 0; i < ARRAY_LEN(e); i++)
		store_add_event(s, &e[i]);
	store_close(s, NULL);
	rows = read_rows(f->db, &everything);
	assert_int_equal(rows->n, ARRAY_LEN(e));
	for (size_t i = 0; i < ARRAY_LEN(e); i++)
		assert_event_equal(&rows->ev[i].e, &e[i]);
	assert_int_equal(
		fixture_number(f->db, "SELECT sum(arg0) FROM events"), 0x4000 + 0x77 + 0x7f00 + 4096);
	assert_int_equal(fixture_number(f->db, "SELECT sum(arg1) FROM events"), 0x8f00);
	test_free(rows);
}

static void documented_join_shows_every_row(void **state)
{
	struct fixture *f = *state;
	struct store *s = fixture_open(f->db);
	static const uint16_t ops[] = {
		OP_MALLOC, OP_GRAPH_LAUNCH, OP_NOWHERE, OP_CODE(SOURCE_HOST, 21), OP_CODE(99, 3)};
	char query[512] = "SELECT count(*) FROM (";
	sqlite3 *db = NULL;
	sqlite3_stmt *st = NULL;

	for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
		struct call_event e = fixture_event((int64_t)i);

		e.op = ops[i];
		store_add_event(s, &e);
	}
	store_close(s, NULL);
	assert_int_equal(sqlite3_open(f->db, &db), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, "SELECT value FROM schema_info WHERE key = 'example_query'",
				 -1, &st, NULL),
		SQLITE_OK);
	assert_int_equal(sqlite3_step(st), SQLITE_ROW);
	snprintf(query + strlen(query), sizeof(query) - strlen(query), "%s)",
		(const char *)sqlite3_column_text(st, 0));
	sqlite3_finalize(st);
	sqlite3_close(db);
	assert_int_equal(fixture_number(f->db, query), ARRAY_LEN(ops));
}

static void calls_of_one_nanosecond_all_stay(void **state)
{
	struct fixture *f = *state;
	struct store *s = fixture_open(f->db);
	struct store_stats st;

	for (int i = 0; i < 3000; i++) {
		struct call_event e = fixture_event(0);

		e.tid = 100 + (uint32_t)i;
		store_add_event(s, &e);
	}
	store_close(s, &st);
	assert_false(st.stopped);
	assert_int_equal(st.written, 3000);
	assert_int_equal(fixture_number(f->db, "SELECT count(DISTINCT tid) FROM events"), 3000);
	assert_int_equal(fixture_number(f->db, "SELECT count(DISTINCT mono_ns) FROM events"), 1);
}

static void reused_pid_is_another_process(void **state)
{
	struct fixture *f = *state;
	struct store *s = fixture_open(f->db);
	struct process_info a = {
		.id = {50, 1000}, .comm = "train_a", .rank = -1, .local_rank = -1, .world_size = -1};
	struct process_info b = {
		.id = {50, 2000}, .comm = "infer_b", .rank = -1, .local_rank = -1, .world_size = -1};
	struct reader_op_stats *stats;
	struct reader *r;
	size_t n, found = 0;

	store_add_process(s, &a);
	store_add_process(s, &b);
	for (int i = 0; i < 30; i++) {
		struct call_event e = fixture_event(i);
		struct op_counters c = {.count = 1, .sum_ns = 10, .max_ns = 10};

		hist_add(&c.hist, 10, 1);
		e.proc = i < 10 ? a.id : b.id;
		store_add_event(s, &e);
		store_add_counters(s, e.wall_ns, e.proc, e.op, &c);
	}
	store_close(s, NULL);
	assert_int_equal(fixture_number(f->db, "SELECT count(*) FROM events WHERE comm = 'train_a'"), 10);
	assert_int_equal(fixture_number(f->db, "SELECT count(*) FROM events WHERE comm = 'infer_b'"), 20);
	r = fixture_reader(f->db);
	assert_int_equal(reader_op_totals(r, &everything, true, &stats, &n), 0);
	assert_int_equal(n, 2);
	for (size_t i = 0; i < n; i++) {
		bool first = stats[i].proc.id.start_ns == 1000;

		assert_string_equal(stats[i].proc.comm, first ? "train_a" : "infer_b");
		assert_int_equal(stats[i].c.count, first ? 10 : 20);
		assert_int_equal(stats[i].stored, first ? 10 : 20);
		found |= first ? 1 : 2;
	}
	assert_int_equal(found, 3);
	free(stats);
	reader_close(r);
}

/* Everything that was added, whatever bucket it went to and however often one was written. */
static void counters_add_up(void **state)
{
	struct fixture *f = *state;
	struct store *s = fixture_open(f->db);
	struct reader_op_stats *stats;
	struct op_counters sum = {0};
	struct reader *r;
	size_t n;

	for (int i = 0; i < 200; i++) {
		struct op_counters c = {.count = 3,
			.sum_ns = 600,
			.min_ns = 100,
			.max_ns = 300,
			.errors = 1,
			.bytes = 50,
			.delivered = 2,
			.sampled_out = 1,
			.lost = 1,
			.untimed = 1,
			.unfinished = 1,
			.nested = 2,
			.nested_ns = 40};
		int64_t at = T0 + 50 * SEC + i * SEC;

		for (unsigned k = 0; k < 3; k++) {
			hist_add(&c.hist, 100 * (k + 1), 1);
			hist_add(&sum.hist, 100 * (k + 1), 1);
		}
		store_add_counters(s, at, (struct proc_id){9, 9}, OP_MALLOC, &c);
		if (i % 50 == 0)
			store_flush(s);
	}
	store_close(s, NULL);
	r = fixture_reader(f->db);
	assert_int_equal(reader_op_totals(r, &everything, false, &stats, &n), 0);
	assert_int_equal(n, 1);
	assert_true(stats[0].from_histograms);
	assert_int_equal(stats[0].c.count, 600);
	assert_int_equal(stats[0].c.sum_ns, 200 * 600);
	assert_int_equal(stats[0].c.min_ns, 100);
	assert_int_equal(stats[0].c.max_ns, 300);
	assert_int_equal(stats[0].c.errors, 200);
	assert_int_equal(stats[0].c.bytes, 200 * 50);
	assert_int_equal(stats[0].c.delivered, 400);
	assert_int_equal(stats[0].c.sampled_out, 200);
	assert_int_equal(stats[0].c.lost, 200);
	assert_int_equal(stats[0].c.untimed, 200);
	assert_int_equal(stats[0].c.unfinished, 200);
	assert_int_equal(stats[0].c.nested, 400);
	assert_int_equal(stats[0].c.nested_ns, 200 * 40);
	assert_memory_equal(&stats[0].c.hist, &sum.hist, sizeof(sum.hist));
	assert_int_equal(stats[0].p50_ns, hist_percentile(&sum.hist, 0.5));
	free(stats);
	reader_close(r);
	assert_int_equal(
		fixture_number(f->db, "SELECT sum(count) FROM event_aggregates WHERE source = 1 AND op = 1"),
		600);
	assert_int_equal(fixture_number(f->db, "SELECT sum(count) FROM counter_10s"), 600);
	assert_int_equal(
		fixture_number(f->db,
			"SELECT max(n) FROM (SELECT count(*) AS n FROM event_aggregates GROUP BY bucket)"),
		1);
}

static void cumulative_extremes_do_not_leak(void **state)
{
	struct fixture *f = *state;
	struct store *s = fixture_open(f->db);
	struct op_counters c = {
		.count = 1, .sum_ns = 1000, .max_ns = 5000000000ull}; /* the maximum of an hour ago */

	hist_add(&c.hist, 1000, 1);
	store_add_counters(s, T0, (struct proc_id){9, 9}, OP_MALLOC, &c);
	store_close(s, NULL);
	assert_in_range(fixture_number(f->db, "SELECT max_dur FROM event_aggregates"), 970, 1030);
	assert_in_range(fixture_number(f->db, "SELECT min_dur FROM event_aggregates"), 970, 1030);
}

static void second_writer_is_told_who_holds_it(void **state)
{
	struct fixture *f = *state;
	struct store *s = fixture_open(f->db), *second = NULL;
	struct store_options o = fixture_options(f->db);
	char err[512] = "", pid[32], other[128];

	snprintf(pid, sizeof(pid), "process %d (", getpid());
	assert_int_equal(store_open(&o, &second, err, sizeof(err)), -EBUSY);
	assert_null(second);
	assert_non_null(strstr(err, pid));
	assert_non_null(strstr(err, f->db));
	snprintf(other, sizeof(other), "%s/other.db", f->dir);
	store_close(fixture_open(other), NULL);
	/* the refused attempt must not have cost the first one its locks */
	for (int i = 0; i < 10; i++) {
		struct call_event e = fixture_event(i);

		store_add_event(s, &e);
	}
	store_close(s, NULL);
	assert_int_equal(fixture_number(f->db, "SELECT count(*) FROM events"), 10);
	store_close(fixture_open(f->db), NULL);
}

static void files_are_private_and_links_refused(void **state)
{
	struct fixture *f = *state;
	char deep[160], folder[128], link_path[128], err[512] = "";
	struct store_options o;
	struct store *s = NULL;
	struct stat st;

	snprintf(deep, sizeof(deep), "%s/a/b/t.db", f->dir);
	snprintf(folder, sizeof(folder), "%s/a", f->dir);
	store_close(fixture_open(deep), NULL);
	assert_int_equal(stat(deep, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(stat(folder, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	snprintf(link_path, sizeof(link_path), "%s/link.db", f->dir);
	assert_int_equal(symlink(deep, link_path), 0);
	o = fixture_options(link_path);
	assert_int_equal(store_open(&o, &s, err, sizeof(err)), -ELOOP);
	assert_non_null(strstr(err, "symbolic link"));
	o = fixture_options(folder);
	assert_int_not_equal(store_open(&o, &s, err, sizeof(err)), 0);
}

static void only_what_is_made_is_given_away(void **state)
{
	struct fixture *f = *state;
	struct store_options o;
	char deep[160], folder[128];
	struct stat st;

	if (geteuid())
		skip();
	snprintf(deep, sizeof(deep), "%s/new/t.db", f->dir);
	snprintf(folder, sizeof(folder), "%s/new", f->dir);
	o = fixture_options(deep);
	o.owner_uid = o.owner_gid = 65534;
	store_close(fixture_open_with(&o), NULL);
	assert_int_equal(stat(deep, &st), 0);
	assert_int_equal(st.st_uid, 65534);
	assert_int_equal(stat(folder, &st), 0);
	assert_int_equal(st.st_uid, 65534);
	assert_int_equal(stat(f->dir, &st), 0);
	assert_int_equal(st.st_uid, 0);
}

static void refuse(struct fixture *f, const char *sql, const char *words)
{
	struct store_options o = fixture_options(f->db);
	struct store *s = NULL;
	char err[512] = "";
	uint64_t before;

	unlink(f->db);
	fixture_make_db(f->db, sql);
	before = fixture_folder_sum(f->dir);
	assert_int_equal(store_open(&o, &s, err, sizeof(err)), -EMEDIUMTYPE);
	if (!strstr(err, words))
		fail_msg("'%s' lacks '%s'", err, words);
	assert_true(before == fixture_folder_sum(f->dir));
}

static void foreign_files_are_left_alone(void **state)
{
	struct fixture *f = *state;
	struct store_options o = fixture_options(f->db);
	struct store *s = NULL;
	char err[512] = "";
	FILE *out;

	refuse(f, "CREATE TABLE events(id TEXT PRIMARY KEY, timestamp INTEGER)", "new file with --db");
	refuse(f, "PRAGMA application_id = 1229866834; PRAGMA user_version = 99; CREATE TABLE t(x)",
		"newer version");
	out = fopen(f->db, "we");
	assert_non_null(out);
	fputs("just some text, long enough to be read as a header if anybody tried to do that, which nobody "
	      "should do....",
		out);
	fclose(out);
	assert_int_equal(store_open(&o, &s, err, sizeof(err)), -EMEDIUMTYPE);
	assert_non_null(strstr(err, "not a database"));
}

static void full_queue_counts_what_it_drops(void **state)
{
	struct fixture *f = *state;
	struct store_options o = fixture_options(f->db);
	struct store_stats st;
	struct store *s;

	o.queue_events = 16;
	s = fixture_open_with(&o);
	for (int i = 0; i < 20000; i++) {
		struct call_event e = fixture_event(i);

		store_add_event(s, &e);
	}
	store_close(s, &st);
	assert_true(st.dropped_queue > 0);
	assert_int_equal(st.queued + st.dropped_queue, 20000);
	assert_int_equal(st.written, st.queued);
	assert_int_equal(fixture_number(f->db, "SELECT count(*) FROM events"), st.written);
	assert_int_equal(fixture_number(f->db, "SELECT sum(count) FROM losses WHERE name = 'store_queue'"),
		st.dropped_queue);
}

static void sessions_continue_in_one_file(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 3; i++) {
		struct store *s = fixture_open(f->db);
		struct call_event e = fixture_event(i);

		store_add_event(s, &e);
		store_close(s, NULL);
	}
	assert_int_equal(
		fixture_number(f->db,
			"SELECT count(*) FROM sessions WHERE state = 'ended' AND stopped_at >= started_at"),
		3);
	assert_int_equal(fixture_number(f->db, "SELECT count(DISTINCT session_id) FROM events"), 3);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		T(every_field_comes_back),
		T(repeated_arguments_come_back),
		T(documented_join_shows_every_row),
		T(calls_of_one_nanosecond_all_stay),
		T(reused_pid_is_another_process),
		T(counters_add_up),
		T(cumulative_extremes_do_not_leak),
		T(second_writer_is_told_who_holds_it),
		T(files_are_private_and_links_refused),
		T(only_what_is_made_is_given_away),
		T(foreign_files_are_left_alone),
		T(full_queue_counts_what_it_drops),
		T(sessions_continue_in_one_file),
	};

	return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
