/* Strict parsing of numbers and lists as people type them. Everything returns 0 or -EINVAL / -ERANGE and
 * writes the result only on success; white space around is allowed, anything else left over is an error. */
#ifndef INGERO_BASE_PARSE_H
#define INGERO_BASE_PARSE_H

#include "base/util.h"

int parse_u64(const char *s, uint64_t *ret_value);
int parse_double(const char *s, double *ret_value);
/* "500m", "10GB", "1t", "1048576": optional b/B behind, units k m g t = powers of 1024, positive integers
 * only. */
int parse_size(const char *s, uint64_t *ret_bytes);
/* "1h30m", "2d", "1w2d", "1.5h", "300ms", "0": units ns us µs ms s m h d w; no sign. -ERANGE above 292 years.
 */
int parse_duration(const char *s, uint64_t *ret_ns);
/* "1,2,3" (also with spaces); zeros, duplicates and anything above 2^22 are errors.
 * The array is allocated; at most 1024 entries (-E2BIG). */
int parse_pid_list(const char *s, uint32_t **ret_pids, size_t *ret_n);

#endif
