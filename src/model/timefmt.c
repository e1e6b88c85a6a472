#include "model/timefmt.h"
#include "base/parse.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <time.h>

#define NS ((int64_t)NSEC_PER_SEC)

static void one_unit(double v, const char *unit, char *buf, size_t size)
{
	/* one decimal below 10; 9.96 would round up to 10.0 */
	if (v < 9.95 && v != (double)(int)v)
		snprintf(buf, size, "%.1f%s", v, unit);
	else
		snprintf(buf, size, "%.0f%s", v, unit);
}

char *fmt_duration(uint64_t ns, char *buf, size_t size)
{
	uint64_t s = MAX(ns / NSEC_PER_SEC, 60u);

	if (ns < NSEC_PER_USEC)
		snprintf(buf, size, ns ? "%" PRIu64 "ns" : "%" PRIu64, ns);
	else if (ns < 999500)
		one_unit((double)ns / 1e3, "\xc2\xb5s", buf, size);
	else if (ns < 999500000)
		one_unit((double)ns / 1e6, "ms", buf, size);
	else if (ns < 59500000000ull)
		one_unit((double)ns / 1e9, "s", buf, size);
	else if (s < 3600)
		snprintf(buf, size, "%" PRIu64 "m%" PRIu64 "s", s / 60, s % 60);
	else
		snprintf(buf, size, "%" PRIu64 "h%" PRIu64 "m", s / 3600, s / 60 % 60);
	return buf;
}

static void split(int64_t wall_ns, time_t *ret_s, int64_t *ret_ns)
{
	int64_t s = wall_ns / NS, ns = wall_ns % NS;

	if (ns < 0) {
		ns += NS;
		s--;
	}
	*ret_s = (time_t)s;
	*ret_ns = ns;
}

char *fmt_rfc3339(int64_t wall_ns, char *buf, size_t size)
{
	char date[32] = "", zone[8] = "Z";
	struct tm tm = {0};
	int64_t ns;
	time_t s;
	long off;

	split(wall_ns, &s, &ns);
	localtime_r(&s, &tm);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
	off = tm.tm_gmtoff / 60;
	if (off)
		snprintf(zone, sizeof(zone), "%c%02ld:%02ld", off < 0 ? '-' : '+', labs(off) / 60 % 24,
			labs(off) % 60);
	snprintf(buf, size, "%s.%09" PRId64 "%s", date, ns, zone);
	return buf;
}

char *fmt_local(int64_t wall_ns, char *buf, size_t size)
{
	struct tm tm = {0};
	int64_t ns;
	time_t s;

	split(wall_ns, &s, &ns);
	localtime_r(&s, &tm);
	if (!strftime(buf, size, "%Y-%m-%d %H:%M:%S %Z", &tm))
		snprintf(buf, size, "?");
	return buf;
}

char *fmt_count(uint64_t n, char *buf, size_t size)
{
	char digits[24];
	size_t len = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, n), k = 0;

	for (size_t i = 0; i < len && k + 2 < size; i++) {
		if (i && (len - i) % 3 == 0)
			buf[k++] = ',';
		buf[k++] = digits[i];
	}
	buf[k] = '\0';
	return buf;
}

char *fmt_bytes(uint64_t n, char *buf, size_t size)
{
	static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
	double v = (double)n;
	size_t u = 0;

	/* with one decimal, 1023.95 would round up to 1024.0 */
	while (v >= (u ? 1023.95 : 1024) && u + 1 < ARRAY_LEN(units)) {
		v /= 1024;
		u++;
	}
	snprintf(buf, size, u ? "%.1f %s" : "%.0f %s", v, units[u]);
	return buf;
}

/* ---- ranges ---- */

/* A moment as typed: date and time of day, with what was left open. */
struct moment {
	struct tm tm;
	int64_t frac_ns;
	bool has_date, has_zone, is_epoch;
	long zone_s;
	int64_t epoch_ns;
};

static bool digits(const char **s, int n, int lo, int hi, int *ret)
{
	int v = 0;

	for (int i = 0; i < n; i++) {
		if (!isdigit((unsigned char)(*s)[i]))
			return false;
		v = v * 10 + ((*s)[i] - '0');
	}
	*s += n;
	*ret = v;
	return v >= lo && v <= hi;
}

static bool read_date(const char **s, struct tm *tm)
{
	static const int days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	int y, m, d;

	if (!digits(s, 4, 1970, 2261, &y) || *(*s)++ != '-' || !digits(s, 2, 1, 12, &m) || *(*s)++ != '-' ||
		!digits(s, 2, 1, days[m - 1], &d))
		return false;
	if (m == 2 && d == 29 && (y % 4 || (y % 100 == 0 && y % 400)))
		return false;
	tm->tm_year = y - 1900;
	tm->tm_mon = m - 1;
	tm->tm_mday = d;
	return true;
}

static bool read_clock(const char **s, struct moment *mo)
{
	int64_t scale = NS / 10;

	if (!digits(s, 2, 0, 23, &mo->tm.tm_hour) || *(*s)++ != ':' || !digits(s, 2, 0, 59, &mo->tm.tm_min))
		return false;
	if (**s != ':')
		return true;
	(*s)++;
	if (!digits(s, 2, 0, 59, &mo->tm.tm_sec))
		return false;
	if (**s != '.')
		return true;
	for ((*s)++; isdigit((unsigned char)**s); (*s)++, scale /= 10)
		mo->frac_ns += scale * (**s - '0');
	return true;
}

static bool read_zone(const char **s, struct moment *mo)
{
	int h, m, sign;

	if (!**s)
		return true;
	mo->has_zone = true;
	if (**s == 'Z' || **s == 'z') {
		(*s)++;
		return true;
	}
	if (**s != '+' && **s != '-')
		return false;
	sign = *(*s)++ == '-' ? -1 : 1;
	if (!digits(s, 2, 0, 14, &h) || *(*s)++ != ':' || !digits(s, 2, 0, 59, &m))
		return false;
	mo->zone_s = sign * (h * 3600L + m * 60L);
	return true;
}

static bool read_moment(const char *s, struct moment *ret)
{
	struct moment mo = {0};

	if (*s == '@') {
		double v;

		if (parse_double(s + 1, &v) || v < 0 || v > 9e9)
			return false;
		mo.is_epoch = true;
		mo.epoch_ns = (int64_t)(v * 1e9);
		*ret = mo;
		return true;
	}
	if (strlen(s) > 4 && s[4] == '-') {
		mo.has_date = true;
		if (!read_date(&s, &mo.tm) || (*s != ' ' && *s != 'T'))
			return false;
		s++;
	}
	if (!read_clock(&s, &mo) || !read_zone(&s, &mo) || *s || (mo.has_zone && !mo.has_date))
		return false;
	*ret = mo;
	return true;
}

/* Unix time of a moment; at a local time that occurs twice, the earlier or the later. `day_shift` moves the
 * date. */
static int64_t resolve(const struct moment *mo, const struct tm *today, int day_shift, bool later)
{
	struct tm tm = mo->tm;
	int64_t best = 0;

	if (mo->is_epoch)
		return mo->epoch_ns;
	if (!mo->has_date) {
		tm.tm_year = today->tm_year;
		tm.tm_mon = today->tm_mon;
		tm.tm_mday = today->tm_mday + day_shift;
	}
	if (mo->has_zone)
		return ((int64_t)timegm(&tm) - mo->zone_s) * NS + mo->frac_ns;
	for (int dst = 0; dst <= 1; dst++) {
		struct tm try = tm;
		time_t t;

		try.tm_isdst = dst;
		t = mktime(&try);
		/* a reading that mktime had to move does not exist in this flavour of time */
		if (try.tm_hour != tm.tm_hour || try.tm_min != tm.tm_min)
			continue;
		if (!best || (later ? t * NS > best : t * NS < best))
			best = t * NS;
	}
	if (!best) { /* inside the gap of a change: take it as mktime does */
		tm.tm_isdst = -1;
		best = mktime(&tm) * NS;
	}
	return best + mo->frac_ns;
}

static int bad(char *err, size_t size, const char *option, const char *text, const char *example)
{
	snprintf(err, size, "%s '%s' is not understood (for example %s)", option, text, example);
	return -EINVAL;
}

static int window_since(const char *since, int64_t now_ns, struct time_window *w, char *err, size_t err_size)
{
	uint64_t ns;
	int r = parse_duration(since, &ns);

	w->to_ns = INT64_MAX;
	w->from_ns = INT64_MIN;
	if (r == -ERANGE)
		return 0; /* longer than time itself: everything */
	if (r)
		return bad(err, err_size, "--since", since, "1h, 30m, 2d or 1h30m");
	if (ns && (int64_t)ns < now_ns)
		w->from_ns = now_ns - (int64_t)ns;
	return 0;
}

int time_window_parse(const char *since, const char *from, const char *to, int64_t now_ns,
	struct time_window *ret_window, char *err, size_t err_size)
{
	static const char example[] = "\"15:40\", \"2026-03-20 15:40\" or 2026-03-20T15:40:00Z";
	struct time_window w = {INT64_MIN, INT64_MAX};
	struct moment a = {0}, b = {0};
	time_t now_s = (time_t)(now_ns / NS);
	struct tm today = {0};
	int r;

	if (!from && !to) {
		r = since ? window_since(since, now_ns, &w, err, err_size) : 0;
		if (!r)
			*ret_window = w;
		return r;
	}
	if (from && !read_moment(from, &a))
		return bad(err, err_size, "--from", from, example);
	if (to && !read_moment(to, &b))
		return bad(err, err_size, "--to", to, example);
	localtime_r(&now_s, &today);
	if (from)
		w.from_ns = resolve(&a, &today, 0, false);
	if (to)
		w.to_ns = resolve(&b, &today, 0, true);
	if (from && to && w.to_ns <= w.from_ns && !a.has_date && !a.is_epoch)
		w.from_ns = resolve(&a, &today, -1, false); /* over midnight */
	if (from && to && w.to_ns <= w.from_ns) {
		snprintf(err, err_size, "the window ends (--to %s) before it begins (--from %s)", to, from);
		return -EINVAL;
	}
	*ret_window = w;
	return 0;
}
