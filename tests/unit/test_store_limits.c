/* Crashes, full disks, size limits, readers that hold on. */
#include "store_fixture.h"

#include <sys/resource.h>

#define LIMIT (4ull << 20)

static void add_calls(struct store *s, int64_t from, int64_t n)
{
	for (int64_t i = from; i < from + n; i++) {
		struct call_event e = fixture_event(i);

		e.handle = (uint64_t)i * 0x9e3779b97f4a7c15ull; /* nothing to share */
		store_add_event(s, &e);
	}
}

static void add_second(struct store *s, int64_t at_ns)
{
	struct op_counters c = {.count = 1000, .sum_ns = 1000000, .max_ns = 1000, .delivered = 1000};

	hist_add(&c.hist, 1000, 1000);
	store_add_counters(s, at_ns, (struct proc_id){100, 7}, OP_CODE(SOURCE_CUDA, 3), &c);
}

static void sleep_ms(long ms)
{
	nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* ---- kill -9 ---- */

/* Records until it is killed; tells through the pipe, after each flush, how many rows are safe. */
static void child_records(const char *path, int out)
{
	struct store *s = fixture_open(path);

	for (int64_t i = 0;; i += 100) {
		int64_t safe = i + 100;

		add_calls(s, i, 100);
		add_second(s, T0 + i * 1000000);
		if (i % 1000 == 900) {
			store_flush(s);
			if (write(out, &safe, sizeof(safe)) != (ssize_t)sizeof(safe))
				_exit(1);
		}
	}
}

static void killed_recording_is_whole_and_cut(void **state)
{
	struct fixture *f = *state;
	struct reader_summary sum;
	struct reader *r;
	int64_t safe = 0, rows;

	for (int round = 0; round < 5; round++) {
		int fd[2], status;
		pid_t pid;

		assert_int_equal(pipe(fd), 0);
		pid = fork();
		assert_true(pid >= 0);
		if (!pid) {
			close(fd[0]);
			unlink(f->db);
			child_records(f->db, fd[1]);
		}
		close(fd[1]);
		for (int i = 0; i <= round; i++)
			assert_int_equal(read(fd[0], &safe, sizeof(safe)), sizeof(safe));
		sleep_ms(round);
		assert_int_equal(kill(pid, SIGKILL), 0);
		waitpid(pid, &status, 0);
		close(fd[0]);
		r = fixture_reader(f->db);
		assert_int_equal(reader_summarize(r, &EVERYTHING, &sum), 0);
		reader_close(r);
		assert_true(sum.cut);
		assert_false(sum.writing);
		assert_true((int64_t)sum.events >= safe);
		store_close(fixture_open(f->db), NULL);
		rows = fixture_number(f->db, "SELECT count(*) FROM events");
		assert_int_equal(rows, sum.events);
		assert_int_equal(
			fixture_number(f->db, "SELECT sum(count) * 1 FROM event_aggregates") % 1000, 0);
		assert_int_equal(
			fixture_number(f->db,
				"SELECT count(*) FROM sessions WHERE state = 'cut' AND stopped_at > 0"),
			1);
		assert_int_equal(
			fixture_number(f->db,
				"SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'"),
			1);
	}
}

static void live_recording_is_said_to_be_live(void **state)
{
	struct fixture *f = *state;
	struct store *s = fixture_open(f->db);
	struct reader_summary sum;
	struct reader *r;

	add_calls(s, 0, 10);
	store_flush(s);
	r = fixture_reader(f->db);
	assert_int_equal(reader_summarize(r, &EVERYTHING, &sum), 0);
	assert_true(sum.writing);
	assert_false(sum.cut);
	assert_int_equal(sum.events, 10);
	add_calls(s, 10, 10);
	store_flush(s);
	assert_int_equal(reader_summarize(r, &EVERYTHING, &sum), 0);
	assert_int_equal(sum.events, 20);
	store_close(s, NULL);
	assert_int_equal(reader_summarize(r, &EVERYTHING, &sum), 0);
	assert_false(sum.writing);
	assert_false(sum.cut);
	assert_int_equal(sum.events, 20);
	assert_string_equal(sum.node, "node-a");
	reader_close(r);
}

static void rows_are_there_within_200_ms(void **state)
{
	struct fixture *f = *state;
	struct store *s = fixture_open(f->db);
	int64_t n = 0;
	int waited = 0;

	add_calls(s, 0, 1);
	/* without a flush; generous for a loaded machine, but only the writer's own timer can end it */
	for (; waited < 100 && n != 1; waited++) {
		sleep_ms(20);
		n = fixture_number(f->db, "SELECT count(*) FROM events");
	}
	assert_int_equal(n, 1);
	store_close(s, NULL);
}

/* ---- full disk ---- */

/* The child may write 1 MiB per file: what a full disk does, without one. */
static void child_fills_disk(const char *path)
{
	struct rlimit limit = {1 << 20, 1 << 20};
	struct store *s = fixture_open(path);
	struct store_stats st;

	if (setrlimit(RLIMIT_FSIZE, &limit))
		_exit(2);
	for (int64_t i = 0; i < 60; i++) {
		add_calls(s, i * 2000, 2000);
		store_flush(s);
	}
	store_get_stats(s, &st);
	if (!st.stopped || !*st.reason)
		_exit(3);
	store_close(s, &st);
	if (st.written + st.dropped_disk != 120000 || !st.written || !st.dropped_disk)
		_exit(4);
	_exit(0);
}

static void full_disk_stops_recording_only(void **state)
{
	struct fixture *f = *state;
	struct reader_summary sum;
	struct reader *r;
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid)
		child_fills_disk(f->db);
	waitpid(pid, &status, 0);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	r = fixture_reader(f->db);
	assert_int_equal(reader_summarize(r, &EVERYTHING, &sum), 0);
	reader_close(r);
	assert_true(sum.events > 1000);
	assert_false(sum.writing);
	store_close(fixture_open(f->db), NULL);
	assert_int_equal(fixture_number(f->db,
				 "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'"),
		1);
}

/* ---- size ---- */

static void limit_holds_and_newest_stays(void **state)
{
	struct fixture *f = *state;
	struct store_options o = fixture_options(f->db);
	struct store_stats st;
	struct store *s;
	int64_t total = 300000, rows;
	uint64_t biggest = 0;

	o.max_bytes = LIMIT;
	s = fixture_open_with(&o);
	for (int64_t i = 0; i < total; i += 2000) {
		add_calls(s, i, 2000);
		add_second(s, T0 + i * 1000000);
		store_flush(s);
		biggest = MAX(biggest, fixture_total_size(f->db));
	}
	store_close(s, &st);
	assert_int_equal(st.written, total);
	assert_true(st.pruned > 0);
	if (biggest > LIMIT)
		fail_msg("%llu bytes", (unsigned long long)biggest);
	rows = fixture_number(f->db, "SELECT count(*) FROM events");
	assert_int_equal(rows, total - (int64_t)st.pruned);
	assert_true(rows > 30000); /* the limit is used, not just kept */
	/* what is left is the newest, without a gap */
	assert_int_equal(
		fixture_number(f->db, "SELECT (max(timestamp) - min(timestamp)) / 1000000 FROM events"),
		rows - 1);
	assert_int_equal(
		fixture_number(f->db, "SELECT max(timestamp) FROM events"), T0 + (total - 1) * 1000000);
}

static void many_small_counters_stay_within_the_limit(void **state)
{
	struct fixture *f = *state;
	struct store_options o = fixture_options(f->db);
	uint64_t biggest = 0;
	struct store *s;

	o.max_bytes = LIMIT;
	s = fixture_open_with(&o);
	/* short-lived processes, nothing but counters and names */
	for (uint64_t i = 0; i < 60000; i++) {
		struct op_counters c = {.count = 1, .sum_ns = i, .max_ns = i};
		struct process_info p = {.id = {(uint32_t)(i + 1), i + 1}, .comm = "job"};
		int64_t at = T0 + (int64_t)i * SEC / 10;

		hist_add(&c.hist, i, 1);
		p.rank = p.local_rank = p.world_size = -1;
		store_add_counters(s, at, p.id, OP_CODE(SOURCE_CUDA, 1), &c);
		if (i % 500 == 0) {
			store_flush(s);
			biggest = MAX(biggest, fixture_total_size(f->db));
		}
	}
	store_close(s, NULL);
	if (biggest > LIMIT)
		fail_msg("%llu bytes", (unsigned long long)biggest);
	assert_true(
		fixture_number(f->db, "SELECT max(bucket) FROM counter_minute") >= (T0 + 5900 * SEC) / SEC);
	assert_true(fixture_number(f->db, "SELECT count(*) FROM counter_minute") > 1000);
	assert_int_equal(
		fixture_number(
			f->db, "SELECT count(*) FROM counter_minute WHERE proc NOT IN (SELECT id FROM proc)"),
		0);
}

/* A reader that keeps its snapshot: the files may not pass 1.5 times the limit, what is dropped is counted,
 * nothing of the counters is lost, and everything is normal soon after it left. */
static void pinned_reader_costs_rows_not_space(void **state)
{
	struct fixture *f = *state;
	struct store_options o = fixture_options(f->db);
	struct store_stats st;
	struct store *s;
	uint64_t biggest = 0;
	int64_t total = 0, seconds = 0;
	sqlite3 *pin = NULL;

	o.max_bytes = LIMIT;
	s = fixture_open_with(&o);
	add_calls(s, 0, 2000);
	store_flush(s);
	total = 2000;
	assert_int_equal(sqlite3_open_v2(f->db, &pin, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	assert_int_equal(
		sqlite3_exec(pin, "BEGIN; SELECT count(*) FROM sqlite_master", NULL, NULL, NULL), SQLITE_OK);
	for (; total < 300000; total += 2000) {
		add_calls(s, total, 2000);
		add_second(s, T0 + seconds++ * SEC);
		store_flush(s);
		biggest = MAX(biggest, fixture_total_size(f->db));
	}
	if (biggest > LIMIT / 2 * 3)
		fail_msg("%llu bytes while pinned", (unsigned long long)biggest);
	store_get_stats(s, &st);
	assert_false(st.stopped);
	assert_true(st.dropped_disk > 0);
	sqlite3_close(pin);
	for (int i = 0; i < 200 && (fixture_total_size(f->db) > LIMIT || i < 5); i++) {
		add_calls(s, total, 100);
		total += 100;
		sleep_ms(20);
	}
	store_flush(s);
	assert_true(fixture_total_size(f->db) <= LIMIT);
	store_close(s, &st);
	assert_int_equal(st.queued, total);
	assert_int_equal(st.written + st.dropped_disk, total);
	assert_int_equal(fixture_number(f->db, "SELECT count(*) FROM events"), st.written - st.pruned);
	assert_int_equal(
		fixture_number(f->db, "SELECT max(timestamp) FROM events"), T0 + (total - 1) * 1000000);
	assert_int_equal(fixture_number(f->db, "SELECT sum(count) FROM event_aggregates"), seconds * 1000);
	assert_int_equal(fixture_number(f->db, "SELECT sum(count) FROM losses WHERE name = 'store_disk'"),
		st.dropped_disk);
}

static void readers_in_turn_do_not_let_the_log_grow(void **state)
{
	struct fixture *f = *state;
	struct store *s = fixture_open(f->db);
	char wal[128];
	uint64_t biggest = 0;

	snprintf(wal, sizeof(wal), "%s-wal", f->db);
	for (int64_t i = 0; i < 500000; i += 5000) {
		add_calls(s, i, 5000);
		store_flush(s);
		fixture_number(f->db, "SELECT count(*) FROM sessions");
		biggest = MAX(biggest, fixture_size(wal));
	}
	store_close(s, NULL);
	assert_true(biggest < 24ull << 20);
	assert_int_equal(fixture_size(wal), 0);
}

static void tiny_limit_is_refused(void **state)
{
	struct fixture *f = *state;
	struct store_options o = fixture_options(f->db);
	struct store *s = NULL;
	char err[512] = "";

	o.max_bytes = 1000;
	assert_int_equal(store_open(&o, &s, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "2m"));
	assert_int_not_equal(access(f->db, F_OK), 0);
}

static void old_ten_second_buckets_fold(void **state)
{
	struct fixture *f = *state;
	struct store *s = fixture_open(f->db);
	struct reader_filter all = {.window = EVERYTHING, .limit = -1};
	struct reader_op_stats *stats;
	struct reader *r;
	size_t n;

	for (int64_t i = 0; i < 7200; i += 10) {
		add_second(s, T0 + i * SEC);
		if (i % 600 == 0)
			store_flush(s);
	}
	for (int i = 0; i < 100; i++) { /* a minute goes per turn */
		add_second(s, T0 + 7200 * SEC);
		store_flush(s);
	}
	store_close(s, NULL);
	assert_true(fixture_number(f->db, "SELECT min(bucket) FROM counter_10s") >= T0 / SEC + 3600 - 60);
	r = fixture_reader(f->db);
	assert_int_equal(reader_op_totals(r, &all, false, &stats, &n), 0);
	assert_int_equal(stats[0].c.count, 820000);
	free(stats);
	/* half past the first hour: only minutes are left there, so the window is widened to whole ones */
	all.window = (struct time_window){T0 + 1000 * SEC, T0 + 1030 * SEC};
	assert_int_equal(reader_op_totals(r, &all, false, &stats, &n), 0);
	assert_int_equal(stats[0].c.count, 12000);
	free(stats);
	all.window = (struct time_window){T0 + 7000 * SEC, T0 + 7030 * SEC};
	assert_int_equal(reader_op_totals(r, &all, false, &stats, &n), 0);
	assert_int_equal(stats[0].c.count, 3000);
	free(stats);
	all.window = (struct time_window){T0 + 6990 * SEC, T0 + 7150 * SEC};
	assert_int_equal(reader_op_totals(r, &all, false, &stats, &n), 0);
	assert_int_equal(stats[0].c.count, 16000);
	free(stats);
	reader_close(r);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		T(killed_recording_is_whole_and_cut),
		T(live_recording_is_said_to_be_live),
		T(rows_are_there_within_200_ms),
		T(full_disk_stops_recording_only),
		T(limit_holds_and_newest_stays),
		T(many_small_counters_stay_within_the_limit),
		T(pinned_reader_costs_rows_not_space),
		T(readers_in_turn_do_not_let_the_log_grow),
		T(tiny_limit_is_refused),
		T(old_ten_second_buckets_fold),
	};

	return cmocka_run_group_tests_name("store limits", tests, NULL, NULL);
}
