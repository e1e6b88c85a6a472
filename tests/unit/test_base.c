#include "base/idmap.h"
#include "base/jsonw.h"
#include "base/parse.h"
#include "base/table.h"
#include "base/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>

/* ---- strbuf ---- */

static void strbuf_takes_exactly_its_maximum(void **state UNUSED)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(10);

	assert_string_equal(strbuf_str(&sb), "");
	strbuf_adds(&sb, "01234");
	strbuf_addf(&sb, "%d%s", 567, "89");
	assert_int_equal(sb.error, 0);
	assert_int_equal(sb.len, 10);
	assert_string_equal(sb.data, "0123456789");
	strbuf_addc(&sb, 'x');
	assert_int_equal(sb.error, -E2BIG);
	assert_string_equal(sb.data, "0123456789");
	strbuf_reset(&sb);
	assert_int_equal(sb.error, 0);
	assert_string_equal(strbuf_str(&sb), "");
	strbuf_adds(&sb, "ok");
	assert_string_equal(sb.data, "ok");
}

static void strbuf_error_sticks(void **state UNUSED)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(4);

	strbuf_adds(&sb, "ab");
	strbuf_adds(&sb, "cde");
	strbuf_addc(&sb, 'c');
	strbuf_addf(&sb, "%d", 1);
	assert_int_equal(sb.error, -E2BIG);
	assert_int_equal(sb.len, 2);
	assert_string_equal(sb.data, "ab");
	strbuf_reset(&sb);
	strbuf_add(&sb, "a", SIZE_MAX);
	assert_int_equal(sb.error, -E2BIG);
}

static void strbuf_holds_any_length_and_byte(void **state UNUSED)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(1 << 20);
	char wide[1200];

	memset(wide, 'w', sizeof(wide) - 1);
	wide[sizeof(wide) - 1] = '\0';
	for (int n = 500; n < 530; n++) { /* around the size that is formatted on the stack */
		strbuf_reset(&sb);
		strbuf_addf(&sb, "<%.*s>", n, wide);
		assert_int_equal(sb.len, n + 2);
		assert_int_equal(strlen(sb.data), n + 2);
		assert_true(sb.data[0] == '<' && sb.data[n + 1] == '>');
	}
	strbuf_reset(&sb);
	strbuf_add(&sb, "a\0b", 3);
	assert_int_equal(sb.len, 3);
	assert_memory_equal(sb.data, "a\0b", 4);
	strbuf_reset(&sb);
	for (int i = 0; i < 1 << 20; i++)
		strbuf_addc(&sb, 'x');
	assert_int_equal(sb.error, 0);
	strbuf_addc(&sb, 'x');
	assert_int_equal(sb.error, -E2BIG);
	assert_int_equal(sb.len, 1 << 20);
}

/* ---- jsonw ---- */

static void assert_json_str(const char *bytes, size_t len, const char *want)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(4096);
	struct jsonw w = JSONW_INIT(&sb, 0);

	jsonw_strn(&w, bytes, len);
	assert_int_equal(sb.error, 0);
	assert_string_equal(strbuf_str(&sb), want);
}

#define JSON_STR(bytes, want) assert_json_str(bytes, sizeof(bytes) - 1, want)
#define BAD UTF8_REPLACEMENT

/* U+202E, as bytes: written as a literal it would be what it is there to find. */
static const char override_text[] = {'\xe2', '\x80', '\xae', 'g', 'n', 'p', '\0'};

static void json_strings_are_strict(void **state UNUSED)
{
	JSON_STR("", "\"\"");
	JSON_STR("a\"b\\c/", "\"a\\\"b\\\\c/\"");
	JSON_STR("\0\x01\n\t\x1f\x7f", "\"\\u0000\\u0001\\u000a\\u0009\\u001f\\u007f\"");
	JSON_STR("\xc2\x85\xe2\x80\xa8", "\"\\u0085\\u2028\"");
	assert_json_str(override_text, sizeof(override_text) - 1, "\"\\u202egnp\"");
	JSON_STR("\xc2\xb5s \xe6\xbc\xa2 \xf0\x9f\x98\x80", "\"\xc2\xb5s \xe6\xbc\xa2 \xf0\x9f\x98\x80\"");
	JSON_STR("a\xff"
		 "b",
		"\"a" BAD "b\"");
	JSON_STR("\xc0\xaf", "\"" BAD BAD "\"");
	JSON_STR("\xed\xa0\x80", "\"" BAD BAD BAD "\"");
	JSON_STR("\xf4\x90\x80\x80", "\"" BAD BAD BAD BAD "\"");
	JSON_STR("\xe2\x82", "\"" BAD BAD "\"");
	JSON_STR("\xe2\"", "\"" BAD "\\\"\"");
}

static void json_numbers_keep_their_digits(void **state UNUSED)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(4096);
	struct jsonw w = JSONW_INIT(&sb, 0);

	jsonw_array_begin(&w);
	jsonw_u64(&w, UINT64_MAX);
	jsonw_i64(&w, INT64_MIN);
	jsonw_double(&w, 2.0 / 3, 2);
	jsonw_double(&w, 1e15, 0);
	jsonw_double(&w, NAN, 1);
	jsonw_double(&w, -INFINITY, 1);
	jsonw_real(&w, INFINITY);
	jsonw_real(&w, NAN);
	jsonw_bool(&w, true);
	jsonw_null(&w);
	jsonw_str(&w, NULL);
	jsonw_raw(&w, "{\"a\":1}");
	jsonw_array_end(&w);
	assert_string_equal(strbuf_str(&sb), "[18446744073709551615,-9223372036854775808,0.67,"
					     "1000000000000000,null,null,null,null,true,null,null,"
					     "{\"a\":1}]");
	for (int e = -1000; e <= 1000; e++) {
		double v = ldexp(e % 2 ? -7919.77 : 1.0 / 3, e);

		strbuf_reset(&sb);
		w = JSONW_INIT(&sb, 0);
		jsonw_real(&w, v);
		assert_true(strtod(strbuf_str(&sb), NULL) == v);
	}
}

static void json_nests_with_commas(void **state UNUSED)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(4096);
	struct jsonw w = JSONW_INIT(&sb, 0);

	jsonw_object_begin(&w);
	jsonw_kv_u64(&w, "a", 1);
	jsonw_key(&w, "b\n");
	jsonw_array_begin(&w);
	jsonw_object_begin(&w);
	jsonw_object_end(&w);
	jsonw_array_begin(&w);
	jsonw_array_end(&w);
	jsonw_i64(&w, -1);
	jsonw_array_end(&w);
	jsonw_kv_bool(&w, "c", false);
	jsonw_kv_str(&w, "d", NULL);
	jsonw_object_end(&w);
	assert_string_equal(strbuf_str(&sb), "{\"a\":1,\"b\\u000a\":[{},[],-1],\"c\":false,\"d\":null}");
}

static void json_indents(void **state UNUSED)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(4096);
	struct jsonw w = JSONW_INIT(&sb, 2);

	jsonw_object_begin(&w);
	jsonw_key(&w, "a");
	jsonw_array_begin(&w);
	jsonw_u64(&w, 1);
	jsonw_u64(&w, 2);
	jsonw_array_end(&w);
	jsonw_key(&w, "b");
	jsonw_object_begin(&w);
	jsonw_object_end(&w);
	jsonw_object_end(&w);
	assert_string_equal(strbuf_str(&sb), "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {}\n}");
}

static void json_depth_is_bounded(void **state UNUSED)
{
	for (unsigned deep = 1; deep <= 40; deep++) {
		cleanup_strbuf struct strbuf sb = STRBUF_INIT(4096);
		struct jsonw w = JSONW_INIT(&sb, 0);

		for (unsigned i = 0; i < deep; i++)
			jsonw_array_begin(&w);
		jsonw_u64(&w, 1);
		jsonw_u64(&w, 2);
		for (unsigned i = 0; i < deep; i++)
			jsonw_array_end(&w);
		assert_int_equal(sb.error, deep <= 32 ? 0 : -E2BIG);
		if (deep > 32)
			continue;
		assert_int_equal(sb.len, 2 * deep + 3);
		assert_memory_equal(sb.data + deep, "1,2]", 4);
	}
}

static void json_too_long_is_an_error(void **state UNUSED)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(8);
	struct jsonw w = JSONW_INIT(&sb, 0);

	jsonw_str(&w, "0123456789");
	assert_int_equal(sb.error, -E2BIG);
	assert_true(sb.len <= 8);
}

/* ---- parse ---- */

static void assert_u64(int (*parse)(const char *, uint64_t *), const char *text, int err, uint64_t want)
{
	uint64_t v = 12345;
	int r = parse(text, &v);

	if (r != err || v != (err ? 12345 : want))
		fail_msg("'%s': %d, %llu", text, r, (unsigned long long)v);
}

static void assert_all_invalid(int (*parse)(const char *, uint64_t *), const char *const *texts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		assert_u64(parse, texts[i], -EINVAL, 0);
}

static void parse_numbers(void **state UNUSED)
{
	static const char *const bad[] = {
		"", " ", "-1", "+1", "0x10", "1 2", "1.0", "1e3", "x", "1,000", "\xc2\xb2"};

	assert_u64(parse_u64, "0", 0, 0);
	assert_u64(parse_u64, " \t42\n", 0, 42);
	assert_u64(parse_u64, "007", 0, 7);
	assert_u64(parse_u64, "18446744073709551615", 0, UINT64_MAX);
	assert_u64(parse_u64, "18446744073709551616", -ERANGE, 0);
	assert_u64(parse_u64, "99999999999999999999999", -ERANGE, 0);
	assert_all_invalid(parse_u64, bad, ARRAY_LEN(bad));
}

static void parse_doubles(void **state UNUSED)
{
	static const char *const bad[] = {"", " ", ".", "-", "nan", "-nan", "inf", "-inf", "1e999", "0x10",
		"-0x1p3", "1.5x", "1 2", "1,5", "+1"};
	double v = -7;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		if (!parse_double(bad[i], &v))
			fail_msg("'%s' was taken", bad[i]);
		assert_true(v == -7);
	}
	assert_int_equal(parse_double(" 1.5 ", &v), 0);
	assert_true(v == 1.5);
	assert_int_equal(parse_double("-.25", &v), 0);
	assert_true(v == -0.25);
	assert_int_equal(parse_double("1e3", &v), 0);
	assert_true(v == 1000);
}

static void parse_sizes(void **state UNUSED)
{
	static const char *const bad[] = {"", "0", "0k", "b", "k", "-1", "+1k", "1.5g", "1kib", "1 k", "1kk",
		"1bb", "1p", "1k 1", "0x10k"};

	assert_u64(parse_size, "1048576", 0, 1048576);
	assert_u64(parse_size, "500m", 0, 500ull << 20);
	assert_u64(parse_size, "10GB", 0, 10ull << 30);
	assert_u64(parse_size, " 1t ", 0, 1ull << 40);
	assert_u64(parse_size, "7b", 0, 7);
	assert_u64(parse_size, "3Kb", 0, 3072);
	assert_u64(parse_size, "18446744073709551615", 0, UINT64_MAX);
	assert_u64(parse_size, "16777215t", 0, 16777215ull << 40);
	assert_u64(parse_size, "16777216t", -ERANGE, 0);
	assert_u64(parse_size, "18014398509481984k", -ERANGE, 0);
	assert_u64(parse_size, "18446744073709551616", -ERANGE, 0);
	assert_all_invalid(parse_size, bad, ARRAY_LEN(bad));
}

static void parse_durations(void **state UNUSED)
{
	static const char *const bad[] = {"", " ", "5", "s", "-1h", "+1h", "1y", "1h-", "1h 30m", "1 h",
		"1.2.3s", ".s", "1m5", "1mm", "1H", "0x1s", "1e3s", "1h30", "\xc2\xb5s", "1\xc2\xb5",
		"0000000000000000000000000000000000001s"};

	assert_u64(parse_duration, "0", 0, 0);
	assert_u64(parse_duration, "0s", 0, 0);
	assert_u64(parse_duration, "1ns", 0, 1);
	assert_u64(parse_duration, "5us", 0, 5000);
	assert_u64(parse_duration, "5\xc2\xb5s", 0, 5000);
	assert_u64(parse_duration, "5\xce\xbcs", 0, 5000);
	assert_u64(parse_duration, "300ms", 0, 300 * NSEC_PER_MSEC);
	assert_u64(parse_duration, " 1h30m\n", 0, 5400 * NSEC_PER_SEC);
	assert_u64(parse_duration, "1.5h", 0, 5400 * NSEC_PER_SEC);
	assert_u64(parse_duration, "2d", 0, 172800 * NSEC_PER_SEC);
	assert_u64(parse_duration, "1w2d", 0, 9 * 86400 * NSEC_PER_SEC);
	assert_u64(parse_duration, "1m1ms", 0, 60 * NSEC_PER_SEC + NSEC_PER_MSEC);
	assert_u64(parse_duration, "15000w", 0, 15000ull * 604800 * NSEC_PER_SEC);
	assert_u64(parse_duration, "15300w", -ERANGE, 0);
	assert_u64(parse_duration, "8000w8000w", -ERANGE, 0);
	assert_u64(parse_duration, "9999999999999999999999999w", -ERANGE, 0);
	assert_all_invalid(parse_duration, bad, ARRAY_LEN(bad));
}

static void assert_pids_refused(const char *text, int err)
{
	uint32_t *pids = NULL;
	size_t n = 99;
	int r = parse_pid_list(text, &pids, &n);

	if (r != err)
		fail_msg("'%.40s': %d", text, r);
	assert_null(pids);
	assert_int_equal(n, 99);
}

static void parse_pid_lists(void **state UNUSED)
{
	static const char *const bad[] = {
		"", ",", "1,", ",1", "1,,2", "1 2", "1;2", "-1", "x", "1,1", "1,2,1", "1.5"};
	cleanup_strbuf struct strbuf many = STRBUF_INIT(1 << 16);
	cleanup_free uint32_t *pids = NULL;
	size_t n = 0;

	assert_int_equal(parse_pid_list(" 3 ,1, 4194304 ", &pids, &n), 0);
	assert_int_equal(n, 3);
	assert_true(pids[0] == 3 && pids[1] == 1 && pids[2] == 4194304);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_pids_refused(bad[i], -EINVAL);
	assert_pids_refused("0", -ERANGE);
	assert_pids_refused("4194305", -ERANGE);
	assert_pids_refused("4294967297", -ERANGE);
	assert_pids_refused("1,99999999999999999999", -ERANGE);
	for (unsigned i = 1; i <= 1024; i++)
		strbuf_addf(&many, "%s%u", i > 1 ? "," : "", i);
	free(pids);
	pids = NULL;
	assert_int_equal(parse_pid_list(many.data, &pids, &n), 0);
	assert_int_equal(n, 1024);
	assert_int_equal(pids[1023], 1024);
	strbuf_adds(&many, ",1025");
	assert_pids_refused(many.data, -E2BIG);
}

/* ---- utf8 ---- */

static size_t encode(uint32_t c, char *out)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | c >> 18);
	out[1] = (char)(0x80 | (c >> 12 & 0x3f));
	out[2] = (char)(0x80 | (c >> 6 & 0x3f));
	out[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

static void utf8_knows_every_code_point(void **state UNUSED)
{
	for (uint32_t c = 0; c < 0x1fffff; c++) {
		char bytes[4];
		uint32_t code = 0xdead;
		size_t len = encode(c, bytes);
		bool valid = c <= 0x10ffff && (c < 0xd800 || c > 0xdfff);
		int n = utf8_decode(bytes, len, &code);

		if (n != (valid ? (int)len : 0) || (valid && code != c))
			fail_msg("U+%04X: %d, U+%04X", c, n, code);
		for (size_t cut = 1; cut < len; cut++)
			assert_int_equal(utf8_decode(bytes, cut, &code), 0);
	}
}

static void utf8_refuses_other_forms(void **state UNUSED)
{
	static const char *const bad[] = {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80",
		"\xe0\x9f\xbf", "\xf0\x80\x80\x80", "\xf0\x8f\xbf\xbf", "\xf5\x80\x80\x80",
		"\xf8\x88\x80\x80\x80", "\xfe", "\xff", "\xc3(", "\xe2\x82(", "\xf0\x9f\x98(", "\xc3\xc3"};
	uint32_t code;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		if (utf8_decode(bad[i], strlen(bad[i]), &code))
			fail_msg("form %zu was taken", i);
	}
}

static void utf8_controls(void **state UNUSED)
{
	static const uint32_t controls[] = {
		0, 7, 0x1b, 0x1f, 0x7f, 0x80, 0x9b, 0x9f, 0x2028, 0x2029, 0x202a, 0x202e, 0x2066, 0x2069};
	static const uint32_t others[] = {
		' ', 'a', '~', 0xa0, 0xb5, 0x300, 0x2027, 0x202f, 0x2065, 0x206a, 0x1f600};

	for (size_t i = 0; i < ARRAY_LEN(controls); i++)
		assert_true(utf8_is_control(controls[i]));
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		assert_false(utf8_is_control(others[i]));
}

/* ---- text and tables ---- */

#define HAN "\xe6\xbc\xa2"

static void widths_are_display_columns(void **state UNUSED)
{
	assert_int_equal(text_width(""), 0);
	assert_int_equal(text_width("abc"), 3);
	assert_int_equal(text_width("5\xc2\xb5s"), 3);
	assert_int_equal(text_width(HAN HAN), 4);
	assert_int_equal(text_width("\xf0\x9f\x98\x80"), 2);
	assert_int_equal(text_width("e\xcc\x81"), 1);
	assert_int_equal(text_width("\x1b[31m"), 5);
	assert_int_equal(text_width("a\xff\xfe"), 3);
}

static void assert_safe(const char *text, int max_columns, const char *want)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(4096);

	text_add_safe(&sb, text, max_columns);
	assert_string_equal(strbuf_str(&sb), want);
	if (max_columns)
		assert_true(text_width(strbuf_str(&sb)) <= max_columns);
}

#define DOTS "\xe2\x80\xa6"

static void text_is_made_safe_and_cut(void **state UNUSED)
{
	assert_safe("\x1b[31mred\r\n", 0, "?[31mred??");
	assert_safe("a\xff"
		    "b\xc2\x9b",
		0, "a" BAD "b?");
	assert_safe(override_text, 0, "?gnp");
	assert_safe("abcdef", 6, "abcdef");
	assert_safe("abcdefg", 6, "abcde" DOTS);
	assert_safe("abc", 1, DOTS);
	assert_safe(HAN HAN HAN, 6, HAN HAN HAN);
	assert_safe(HAN HAN HAN, 5, HAN HAN DOTS);
	assert_safe(HAN HAN HAN, 4, HAN DOTS);
}

static void bars_are_filled_in_proportion(void **state UNUSED)
{
	static const struct {
		double percent;
		const char *want;
	} bars[] = {
		{0, "\xe2\x96\x91\xe2\x96\x91\xe2\x96\x91\xe2\x96\x91"},
		{50, "\xe2\x96\x88\xe2\x96\x88\xe2\x96\x91\xe2\x96\x91"},
		{100, "\xe2\x96\x88\xe2\x96\x88\xe2\x96\x88\xe2\x96\x88"},
		{250, "\xe2\x96\x88\xe2\x96\x88\xe2\x96\x88\xe2\x96\x88"},
		{-5, "\xe2\x96\x91\xe2\x96\x91\xe2\x96\x91\xe2\x96\x91"},
	};

	for (size_t i = 0; i < ARRAY_LEN(bars); i++) {
		cleanup_strbuf struct strbuf sb = STRBUF_INIT(64);

		text_add_bar(&sb, bars[i].percent, 4);
		assert_string_equal(strbuf_str(&sb), bars[i].want);
	}
}

/* Every line is equally wide and ends in a visible character; returns that width. */
static int check_lines(const char *text, int margin)
{
	cleanup_free char *copy = strdup(text);
	int width = 0;

	assert_non_null(copy);
	for (char *save = NULL, *line = strtok_r(copy, "\n", &save); line;
		line = strtok_r(NULL, "\n", &save)) {
		if (!width)
			width = text_width(line);
		if (text_width(line) != width)
			fail_msg("%d columns, not %d: %s", text_width(line), width, line);
		assert_int_equal(strspn(line, " "), margin);
		assert_int_not_equal(line[strlen(line) - 1], ' ');
	}
	return width;
}

static void table_is_a_box(void **state UNUSED)
{
	static const struct table_column columns[] = {{"Name", TABLE_LEFT, 0, 0}, {"N", TABLE_RIGHT, 3, 0}};
	static const char *const rows[][2] = {{"a", "1"}, {HAN HAN HAN, "12345"}, {NULL, "\x1b"}};
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(4096);
	struct table *t;

	assert_int_equal(table_new(columns, 2, &t), 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(table_add_row(t, rows[i]), 0);
	table_render(t, &sb, 2, 0);
	assert_int_equal(check_lines(sb.data, 2), 2 + 1 + 6 + 3 + 5 + 3);
	assert_non_null(strstr(sb.data, "\xe2\x94\x82 a      \xe2\x94\x82     1 \xe2\x94\x82\n"));
	assert_non_null(strstr(sb.data, "\xe2\x94\x82        \xe2\x94\x82     ? \xe2\x94\x82\n"));
	assert_null(strchr(sb.data, '\x1b'));
	table_free(t);
}

static void tables_fit_the_width(void **state UNUSED)
{
	static const struct table_column columns[] = {{"Process", TABLE_LEFT, 0, 0},
		{"Command", TABLE_LEFT, 0, 60}, {"Kernel", TABLE_RIGHT, 0, 40}, {"Calls", TABLE_RIGHT, 8, 0}};
	static const char *const rows[][4] = {
		{"4000000", "python train.py --with --many --arguments", "void gemm<float, 128, 64>(float *)",
			"17"},
		{"1", HAN HAN HAN HAN HAN HAN HAN HAN HAN HAN HAN, "k" HAN HAN HAN HAN HAN HAN, "1,000,000"},
		{"2", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
			"e\xcc\x81"
			"e\xcc\x81",
			""},
	};
	struct table *t;

	assert_int_equal(table_new(columns, 4, &t), 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(table_add_row(t, rows[i]), 0);
	for (int width = 20; width <= 140; width++) {
		cleanup_strbuf struct strbuf sb = STRBUF_INIT(1 << 16);

		table_render(t, &sb, 3, width);
		assert_true(check_lines(strbuf_str(&sb), 3) <= width);
		assert_non_null(strstr(sb.data, "4000000"));
		/* all four fit once those with a maximum are 8 wide: 3 + 1 + (7 + 8 + 8 + 9) + 4 * 3 */
		assert_int_equal(!!strstr(sb.data, "Calls"), width >= 48);
	}
	table_free(t);
}

static void table_size_is_bounded(void **state UNUSED)
{
	struct table_column columns[17] = {{"x", TABLE_LEFT, 0, 0}};
	const char *cells[16] = {"y"};
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(100);
	struct table *t = NULL;

	for (size_t i = 1; i < ARRAY_LEN(columns); i++)
		columns[i] = columns[0];
	assert_true(table_new(columns, 17, &t) < 0);
	assert_true(table_new(columns, 0, &t) < 0);
	assert_null(t);
	table_free(NULL);
	assert_int_equal(table_new(columns, 16, &t), 0);
	table_free(t);
	assert_int_equal(table_new(columns, 1, &t), 0);
	for (int i = 0; i < 100000; i++)
		assert_int_equal(table_add_row(t, cells), 0);
	assert_int_equal(table_add_row(t, cells), -E2BIG);
	table_render(t, &sb, 0, 0);
	assert_int_equal(sb.error, -E2BIG);
	table_free(t);
}

/* ---- idmap ---- */

#define N_KEYS 512

static struct idmap_key key_of(unsigned i)
{
	return (struct idmap_key){i / 2, (uint64_t)(i & 1) << 63};
}

static void idmap_is_bounded(void **state UNUSED)
{
	struct idmap m = IDMAP_INIT(3);
	int values[5];

	assert_null(idmap_get(&m, key_of(0)));
	assert_null(idmap_remove(&m, key_of(0)));
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(idmap_put(&m, key_of(i), &values[i]), 0);
	assert_int_equal(idmap_put(&m, key_of(3), &values[3]), -E2BIG);
	assert_null(idmap_get(&m, key_of(3)));
	assert_int_equal(idmap_put(&m, key_of(1), &values[4]), 0);
	assert_ptr_equal(idmap_get(&m, key_of(1)), &values[4]);
	assert_int_equal(m.n, 3);
	assert_ptr_equal(idmap_remove(&m, key_of(0)), &values[0]);
	assert_int_equal(idmap_put(&m, key_of(3), &values[3]), 0);
	idmap_free(&m);
	assert_null(idmap_get(&m, key_of(1)));
}

static void check_against(const struct idmap *m, int *const *model)
{
	size_t n = 0, walked = 0, pos = 0;
	int sum = 0;

	for (unsigned i = 0; i < N_KEYS; i++) {
		assert_ptr_equal(idmap_get(m, key_of(i)), model[i]);
		n += !!model[i];
		sum += model[i] ? *model[i] : 0;
	}
	assert_int_equal(m->n, n);
	for (int *v; (v = idmap_next(m, &pos)); walked++)
		sum -= *v;
	assert_int_equal(walked, n);
	assert_int_equal(sum, 0);
}

/* Long mixes of additions and removals, compared with a plain array. */
static void idmap_keeps_what_is_in_it(void **state UNUSED)
{
	static int values[N_KEYS];
	static int *model[N_KEYS];
	struct idmap m = IDMAP_INIT(N_KEYS);
	uint64_t x = 88172645463325252ull;

	memset(model, 0, sizeof(model));
	for (unsigned i = 0; i < N_KEYS; i++)
		values[i] = (int)(i * i);
	for (unsigned step = 0; step < 40000; step++) {
		unsigned i, v;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		i = (unsigned)(x >> 20) % N_KEYS;
		v = (unsigned)(x >> 40) % N_KEYS;
		if ((x & 3) < (step / 4000 % 2 ? 1u : 3u)) {
			assert_int_equal(idmap_put(&m, key_of(i), &values[v]), 0);
			model[i] = &values[v];
		} else {
			assert_ptr_equal(idmap_remove(&m, key_of(i)), model[i]);
			model[i] = NULL;
		}
		if (step % 500 == 0)
			check_against(&m, model);
	}
	check_against(&m, model);
	idmap_free(&m);
}

/* ---- util ---- */

static void growing_keeps_content_and_limit(void **state UNUSED)
{
	uint32_t *a = NULL;
	size_t cap = 0;

	for (uint32_t i = 0; i < 100; i++) {
		assert_int_equal(UTIL_GROW(a, cap, i + 1, 100), 0);
		assert_true(cap > i && cap <= 100);
		a[i] = i;
	}
	assert_int_equal(UTIL_GROW(a, cap, 101, 100), -E2BIG);
	assert_int_equal(cap, 100);
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(a[i], i);
	assert_int_equal(util_grow((void **)&a, &cap, SIZE_MAX / 2, 8, SIZE_MAX), -E2BIG);
	free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strbuf_takes_exactly_its_maximum),
		cmocka_unit_test(strbuf_error_sticks),
		cmocka_unit_test(strbuf_holds_any_length_and_byte),
		cmocka_unit_test(json_strings_are_strict),
		cmocka_unit_test(json_numbers_keep_their_digits),
		cmocka_unit_test(json_nests_with_commas),
		cmocka_unit_test(json_indents),
		cmocka_unit_test(json_depth_is_bounded),
		cmocka_unit_test(json_too_long_is_an_error),
		cmocka_unit_test(parse_numbers),
		cmocka_unit_test(parse_doubles),
		cmocka_unit_test(parse_sizes),
		cmocka_unit_test(parse_durations),
		cmocka_unit_test(parse_pid_lists),
		cmocka_unit_test(utf8_knows_every_code_point),
		cmocka_unit_test(utf8_refuses_other_forms),
		cmocka_unit_test(utf8_controls),
		cmocka_unit_test(widths_are_display_columns),
		cmocka_unit_test(text_is_made_safe_and_cut),
		cmocka_unit_test(bars_are_filled_in_proportion),
		cmocka_unit_test(table_is_a_box),
		cmocka_unit_test(tables_fit_the_width),
		cmocka_unit_test(table_size_is_bounded),
		cmocka_unit_test(idmap_is_bounded),
		cmocka_unit_test(idmap_keeps_what_is_in_it),
		cmocka_unit_test(growing_keeps_content_and_limit),
	};

	return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
