#include "model/timefmt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <errno.h>
#include <time.h>

#define SEC ((int64_t)NSEC_PER_SEC)
#define MINUTE (60 * SEC)
#define HOUR (3600 * SEC)
#define NOON (1774008000 * SEC) /* 2026-03-20T12:00:00Z */

static void set_zone(const char *zone)
{
	setenv("TZ", zone, 1);
	tzset();
}

static int utc(void **state UNUSED)
{
	set_zone("UTC");
	return 0;
}

static int berlin(void **state UNUSED)
{
	set_zone("Europe/Berlin");
	return 0;
}

static void assert_duration(uint64_t ns, const char *want)
{
	char buf[TIMEFMT_MAX];

	assert_string_equal(fmt_duration(ns, buf, sizeof(buf)), want);
}

static void durations(void **state UNUSED)
{
	assert_duration(0, "0");
	assert_duration(1, "1ns");
	assert_duration(950, "950ns");
	assert_duration(999, "999ns");
	assert_duration(5200, "5.2\xc2\xb5s");
	assert_duration(125000, "125\xc2\xb5s");
	assert_duration(2100000, "2.1ms");
	assert_duration(142000000, "142ms");
	assert_duration(3400000000, "3.4s");
	assert_duration(42 * SEC, "42s");
	assert_duration(90 * SEC, "1m30s");
	assert_duration(125 * MINUTE, "2h5m");
	assert_duration(65 * SEC, "1m5s");
	assert_duration(24 * HOUR, "24h0m");
}

static void durations_that_round_change_the_unit(void **state UNUSED)
{
	assert_duration(9949, "9.9\xc2\xb5s");
	assert_duration(9960, "10\xc2\xb5s");
	assert_duration(999499, "999\xc2\xb5s");
	assert_duration(999500, "1.0ms");
	assert_duration(999499999, "999ms");
	assert_duration(999500000, "1.0s");
	assert_duration(59400000000, "59s");
	assert_duration(59700000000, "1m0s");
}

/* The number before the unit, times the unit. */
static double read_back(const char *text)
{
	char *end;
	double v = strtod(text, &end), seconds;

	if (!strcmp(end, "ns"))
		return v;
	if (!strcmp(end, "\xc2\xb5s"))
		return v * 1e3;
	if (!strcmp(end, "ms"))
		return v * 1e6;
	if (!strcmp(end, "s"))
		return v * 1e9;
	if (*end == 'h')
		return (v * 3600 + strtod(end + 1, &end) * 60) * 1e9;
	seconds = strtod(end + 1, &end);
	return (v * 60 + seconds) * 1e9;
}

static void no_duration_reads_far_from_what_it_is(void **state UNUSED)
{
	char buf[TIMEFMT_MAX];

	for (uint64_t ns = 1; ns < UINT64_MAX / 2; ns += 1 + ns / 73) {
		double d = (double)ns;
		double v = read_back(fmt_duration(ns, buf, sizeof(buf)));

		if (v < d * 0.94 || v > d * 1.06)
			fail_msg("%.0f ns is printed as %s", d, buf);
	}
	assert_duration(UINT64_MAX, "5124095h34m");
}

static void small_buffers_are_not_overrun(void **state UNUSED)
{
	char buf[TIMEFMT_MAX];

	for (size_t size = 1; size < 40; size++) {
		memset(buf, '#', sizeof(buf));
		fmt_count(UINT64_MAX, buf, size);
		assert_true(strnlen(buf, sizeof(buf)) < size);
		fmt_bytes(UINT64_MAX, buf, size);
		assert_true(strnlen(buf, sizeof(buf)) < size);
		fmt_duration(UINT64_MAX, buf, size);
		assert_true(strnlen(buf, sizeof(buf)) < size);
		fmt_rfc3339(NOON, buf, size);
		assert_true(strnlen(buf, sizeof(buf)) < size);
		fmt_local(NOON, buf, size);
		assert_true(strnlen(buf, sizeof(buf)) < size);
		for (size_t i = size; i < sizeof(buf); i++)
			assert_int_equal(buf[i], '#');
	}
}

static void assert_rfc3339(const char *zone, int64_t ns, const char *want)
{
	char buf[TIMEFMT_MAX];

	set_zone(zone);
	assert_string_equal(fmt_rfc3339(ns, buf, sizeof(buf)), want);
}

static void rfc3339_carries_the_zone(void **state UNUSED)
{
	int64_t t = 1772017584 * SEC + 753983243;

	assert_rfc3339("Europe/Berlin", t, "2026-02-25T12:06:24.753983243+01:00");
	assert_rfc3339("UTC", t, "2026-02-25T11:06:24.753983243Z");
	assert_rfc3339("Asia/Kolkata", t, "2026-02-25T16:36:24.753983243+05:30");
	assert_rfc3339("America/St_Johns", t, "2026-02-25T07:36:24.753983243-03:30");
	assert_rfc3339("UTC", -1, "1969-12-31T23:59:59.999999999Z");
	assert_rfc3339("UTC", 0, "1970-01-01T00:00:00.000000000Z");
	assert_rfc3339("UTC", INT64_MAX, "2262-04-11T23:47:16.854775807Z");
}

static void local_time_names_the_zone(void **state UNUSED)
{
	char buf[TIMEFMT_MAX];

	assert_string_equal(
		fmt_local(1772017584 * SEC + 999999999, buf, sizeof(buf)), "2026-02-25 12:06:24 CET");
}

static void assert_count(uint64_t n, const char *want)
{
	char buf[TIMEFMT_MAX];

	assert_string_equal(fmt_count(n, buf, sizeof(buf)), want);
}

static void assert_bytes(uint64_t n, const char *want)
{
	char buf[TIMEFMT_MAX];

	assert_string_equal(fmt_bytes(n, buf, sizeof(buf)), want);
}

static void counts_and_bytes(void **state UNUSED)
{
	assert_count(0, "0");
	assert_count(999, "999");
	assert_count(1000, "1,000");
	assert_count(11028, "11,028");
	assert_count(100000, "100,000");
	assert_count(UINT64_MAX, "18,446,744,073,709,551,615");
	assert_bytes(0, "0 B");
	assert_bytes(512, "512 B");
	assert_bytes(1023, "1023 B");
	assert_bytes(1024, "1.0 KB");
	assert_bytes(1 << 20, "1.0 MB");
	assert_bytes((1 << 20) - 1, "1.0 MB");
	assert_bytes(12025908429, "11.2 GB");
	assert_bytes(UINT64_MAX, "16.0 EB");
}

/* ---- windows ---- */

struct expected {
	const char *since, *from, *to;
	int64_t from_ns, to_ns;
};

static void assert_windows(const struct expected *e, size_t n, int64_t now)
{
	for (size_t i = 0; i < n; i++) {
		struct time_window w = {1, 2};
		char err[256] = "";

		if (time_window_parse(e[i].since, e[i].from, e[i].to, now, &w, err, sizeof(err)))
			fail_msg("window %zu: %s", i, err);
		if (w.from_ns != e[i].from_ns || w.to_ns != e[i].to_ns)
			fail_msg("window %zu: %lld to %lld", i, (long long)w.from_ns, (long long)w.to_ns);
	}
}

static void since_reaches_back(void **state UNUSED)
{
	static const struct expected e[] = {
		{NULL, NULL, NULL, INT64_MIN, INT64_MAX},
		{"0", NULL, NULL, INT64_MIN, INT64_MAX},
		{"1h", NULL, NULL, NOON - HOUR, INT64_MAX},
		{"1h30m", NULL, NULL, NOON - 90 * MINUTE, INT64_MAX},
		{"2d", NULL, NULL, NOON - 48 * HOUR, INT64_MAX},
		{"5000w", NULL, NULL, INT64_MIN, INT64_MAX},
		{"99999w", NULL, NULL, INT64_MIN, INT64_MAX},
		{"1h", "11:00", NULL, NOON - HOUR, INT64_MAX},
		{"nonsense", "11:00", "11:30", NOON - HOUR, NOON - 30 * MINUTE},
	};

	assert_windows(e, ARRAY_LEN(e), NOON);
}

static void moments_in_every_form(void **state UNUSED)
{
	static const struct expected e[] = {
		{NULL, "2026-03-20 12:00", NULL, NOON, INT64_MAX},
		{NULL, "2026-03-20T12:00:01", NULL, NOON + SEC, INT64_MAX},
		{NULL, "2026-03-20T12:00:00.000000001Z", NULL, NOON + 1, INT64_MAX},
		{NULL, "2026-03-20T12:00:00.5", NULL, NOON + SEC / 2, INT64_MAX},
		{NULL, "2026-03-20T14:00+02:00", NULL, NOON, INT64_MAX},
		{NULL, "2026-03-20 06:15:00-05:45", NULL, NOON, INT64_MAX},
		{NULL, NULL, "12:00:00", INT64_MIN, NOON},
		{NULL, "@1774008000", "@1774008000.5", NOON, NOON + SEC / 2},
		{NULL, "2024-02-29 00:00Z", NULL, 1709164800 * SEC, INT64_MAX},
		{NULL, "1970-01-01 00:00", NULL, 0, INT64_MAX},
		{NULL, "13:00", NULL, NOON + HOUR, INT64_MAX},
	};

	assert_windows(e, ARRAY_LEN(e), NOON);
}

static void window_over_midnight_begins_yesterday(void **state UNUSED)
{
	static const struct expected e[] = {
		{NULL, "23:00", "01:00", NOON - 13 * HOUR, NOON - 11 * HOUR},
		{NULL, "01:00", "01:00", NOON - 35 * HOUR, NOON - 11 * HOUR},
		{NULL, "01:00", "01:00:01", NOON - 11 * HOUR, NOON - 11 * HOUR + SEC},
	};

	assert_windows(e, ARRAY_LEN(e), NOON);
}

/* 2025-10-26 in Berlin: 02:30 is 00:30Z, and again 01:30Z; 2026-03-29 has no 02:30. */
static void changes_of_the_clock(void **state UNUSED)
{
	int64_t autumn = 1761438600 * SEC, noon = autumn + 690 * MINUTE;
	int64_t spring = 1774744200 * SEC;
	struct expected twice = {NULL, "2025-10-26 02:30", "2025-10-26 02:30", autumn, autumn + HOUR};
	struct expected today = {NULL, "02:30", "02:30:01", autumn, autumn + HOUR + SEC};
	struct expected summer = {NULL, "2026-07-01 12:00", NULL, 1782900000 * SEC, INT64_MAX};
	struct time_window w;
	char err[256];

	assert_windows(&twice, 1, noon);
	assert_windows(&today, 1, noon);
	assert_windows(&summer, 1, noon);
	assert_int_equal(time_window_parse(NULL, "2026-03-29 02:30", NULL, noon, &w, err, sizeof(err)), 0);
	assert_true(w.from_ns >= spring && w.from_ns <= spring + HOUR);
}

static void assert_refused(const char *since, const char *from, const char *to, const char *named)
{
	struct time_window w = {1, 2};
	char err[256] = "";

	if (time_window_parse(since, from, to, NOON, &w, err, sizeof(err)) != -EINVAL)
		fail_msg("'%s' was taken", named);
	if (!strstr(err, named) || strchr(err, '\n'))
		fail_msg("'%s' is not named in: %s", named, err);
	assert_true(w.from_ns == 1 && w.to_ns == 2);
}

static void what_is_no_time_is_refused(void **state UNUSED)
{
	static const char *const moments[] = {"", "yesterday", "12", "12:", "12:60", "24:00", "1:00",
		"12:00:60", "12:00Z", "12:00 ", "12:00x", "2026-03-20", "2026-03-20 ", "2026-13-01 00:00",
		"2026-00-01 00:00", "2026-02-30 00:00", "2025-02-29 00:00", "2100-02-29 00:00",
		"2026-03-20T12:00:00+25:00", "2026-03-20T12:00:00+1:00", "2026-03-20T12:00:00+",
		"2026-3-20 12:00", "1969-12-31 23:59", "9999-01-01 00:00", "@", "@-1", "@x", "@1e300",
		"@0x10", "@nan", "-1:00"};
	static const char *const durations[] = {"", "5", "-1h", "h", "1y", "1h 30m", "tomorrow"};

	for (size_t i = 0; i < ARRAY_LEN(moments); i++) {
		assert_refused(NULL, moments[i], NULL, moments[i]);
		assert_refused(NULL, NULL, moments[i], moments[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(durations); i++)
		assert_refused(durations[i], NULL, NULL, durations[i]);
	assert_refused(NULL, "2026-03-20 12:00", "2026-03-20 11:00", "2026-03-20 11:00");
	assert_refused(NULL, "2026-03-20 12:00", "2026-03-20 12:00", "2026-03-20 12:00");
	assert_refused(NULL, "@1774008000", "@1774007999", "@1774007999");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(durations),
		cmocka_unit_test(durations_that_round_change_the_unit),
		cmocka_unit_test(no_duration_reads_far_from_what_it_is),
		cmocka_unit_test_setup(small_buffers_are_not_overrun, utc),
		cmocka_unit_test(rfc3339_carries_the_zone),
		cmocka_unit_test_setup(local_time_names_the_zone, berlin),
		cmocka_unit_test(counts_and_bytes),
		cmocka_unit_test_setup(since_reaches_back, utc),
		cmocka_unit_test_setup(moments_in_every_form, utc),
		cmocka_unit_test_setup(window_over_midnight_begins_yesterday, utc),
		cmocka_unit_test_setup(changes_of_the_clock, berlin),
		cmocka_unit_test_setup(what_is_no_time_is_refused, utc),
	};

	return cmocka_run_group_tests_name("timefmt", tests, NULL, NULL);
}
