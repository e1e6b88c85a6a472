#include "base/parse.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>

#define MAX_PIDS 1024
#define MAX_PID (1u << 22)

static const char *skip_space(const char *s)
{
	while (isspace((unsigned char)*s))
		s++;
	return s;
}

static bool at_end(const char *s)
{
	return !*skip_space(s);
}

/* Digits only: strtoull would take signs. */
static int read_u64(const char **s, uint64_t *ret)
{
	char *end;
	unsigned long long v;

	if (!isdigit((unsigned char)**s))
		return -EINVAL;
	errno = 0;
	v = strtoull(*s, &end, 10);
	if (errno)
		return -ERANGE;
	*s = end;
	*ret = v;
	return 0;
}

int parse_u64(const char *s, uint64_t *ret_value)
{
	uint64_t v;
	int err;

	s = skip_space(s);
	err = read_u64(&s, &v);
	if (err)
		return err;
	if (!at_end(s))
		return -EINVAL;
	*ret_value = v;
	return 0;
}

int parse_double(const char *s, double *ret_value)
{
	char *end;
	double v;

	s = skip_space(s);
	if (!isdigit((unsigned char)*s) && *s != '.' && *s != '-')
		return -EINVAL;
	if (strpbrk(s, "xX")) /* strtod would take hexadecimal */
		return -EINVAL;
	v = strtod(s, &end);
	if (end == s || !at_end(end) || !isfinite(v))
		return -EINVAL;
	*ret_value = v;
	return 0;
}

int parse_size(const char *s, uint64_t *ret_bytes)
{
	static const char units[] = "kmgt";
	const char *unit;
	uint64_t v;
	int err, shift = 0;

	s = skip_space(s);
	err = read_u64(&s, &v);
	if (err)
		return err;
	if (*s && (unit = strchr(units, tolower((unsigned char)*s)))) {
		shift = 10 * (int)(unit - units + 1);
		s++;
	}
	if (tolower((unsigned char)*s) == 'b')
		s++;
	if (!at_end(s) || !v)
		return -EINVAL;
	if (v > UINT64_MAX >> shift)
		return -ERANGE;
	*ret_bytes = v << shift;
	return 0;
}

static const struct {
	const char *name;
	double ns;
} duration_units[] = {
	{"ns", 1},
	{"us", 1e3},
	{"\xc2\xb5s", 1e3},
	{"\xce\xbcs", 1e3},
	{"ms", 1e6},
	{"s", 1e9},
	{"m", 60e9},
	{"h", 3600e9},
	{"d", 86400e9},
	{"w", 604800e9},
};

static int read_unit(const char **s, double *ret_ns)
{
	for (size_t i = 0; i < ARRAY_LEN(duration_units); i++) {
		size_t len = strlen(duration_units[i].name);

		/* "m" must not take the beginning of "ms" */
		if (strncmp(*s, duration_units[i].name, len) || isalpha((unsigned char)(*s)[len]))
			continue;
		*s += len;
		*ret_ns = duration_units[i].ns;
		return 0;
	}
	return -EINVAL;
}

int parse_duration(const char *s, uint64_t *ret_ns)
{
	double total = 0;

	s = skip_space(s);
	if (*s == '0' && at_end(s + 1)) {
		*ret_ns = 0;
		return 0;
	}
	if (!*s)
		return -EINVAL;
	while (*s && !isspace((unsigned char)*s)) {
		char number[32], *end;
		size_t len = strspn(s, "0123456789.");
		double v, unit;

		if (!len || len >= sizeof(number))
			return -EINVAL;
		memcpy(number, s, len);
		number[len] = '\0';
		v = strtod(number, &end);
		s += len;
		if (*end || read_unit(&s, &unit))
			return -EINVAL;
		total += v * unit;
	}
	if (!at_end(s))
		return -EINVAL;
	if (total >= 9.2e18)
		return -ERANGE;
	*ret_ns = (uint64_t)(total + 0.5);
	return 0;
}

int parse_pid_list(const char *s, uint32_t **ret_pids, size_t *ret_n)
{
	uint32_t *pids = NULL;
	size_t n = 0, cap = 0;
	int err = 0;

	for (;;) {
		uint64_t v;

		s = skip_space(s);
		err = read_u64(&s, &v);
		if (!err && (!v || v > MAX_PID))
			err = -ERANGE;
		for (size_t i = 0; !err && i < n; i++)
			err = pids[i] == v ? -EINVAL : 0;
		if (!err)
			err = UTIL_GROW(pids, cap, n + 1, MAX_PIDS);
		if (err)
			break;
		pids[n++] = (uint32_t)v;
		s = skip_space(s);
		if (!*s)
			break;
		if (*s++ != ',') {
			err = -EINVAL;
			break;
		}
	}
	if (err) {
		free(pids);
		return err;
	}
	*ret_pids = pids;
	*ret_n = n;
	return 0;
}
