/* Times as text, both ways. */
#ifndef INGERO_MODEL_TIMEFMT_H
#define INGERO_MODEL_TIMEFMT_H

#include "base/util.h"

#define TIMEFMT_MAX 64

/* "0", "950ns", "5.2µs", "125µs", "2.1ms", "142ms", "3.4s", "1m30s", "2h5m": one decimal below 10, else none.
 */
char *fmt_duration(uint64_t ns, char *buf, size_t size);
/* RFC 3339 with nanoseconds in the local zone: 2026-02-25T12:06:24.753983243+01:00, "Z" for UTC. */
char *fmt_rfc3339(int64_t wall_ns, char *buf, size_t size);
/* "2026-02-25 12:06:24 CET" */
char *fmt_local(int64_t wall_ns, char *buf, size_t size);
char *fmt_count(uint64_t n, char *buf, size_t size); /* 11,028 */
char *fmt_bytes(uint64_t n, char *buf, size_t size); /* 512 B, 1.0 MB, 11.2 GB (powers of 1024) */

/* A window [from_ns, to_ns) in Unix time; an open end is INT64_MIN / INT64_MAX. */
struct time_window {
	int64_t from_ns, to_ns;
};

/* --since D: [now - D, now]; "0" = everything. --from/--to: "YYYY-MM-DD[ T]HH:MM[:SS[.frac]]" with optional Z
 * or +HH:MM, or "HH:MM[:SS]" = today in the local zone (when the window would end before it starts, `from` is
 * taken as yesterday), or "@EPOCH_SECONDS". Without a zone: local time; at a repeated local hour the window
 * covers both readings (from = earlier, to = later). from/to win over since. NULL = not given. Returns 0, or
 * -EINVAL / -ERANGE with one sentence in err (what is wrong and an example). */
int time_window_parse(const char *since, const char *from, const char *to, int64_t now_ns,
	struct time_window *ret_window, char *err, size_t err_size);

#endif
