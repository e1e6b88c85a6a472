/* Small helpers used everywhere: scope cleanup, checked allocation, bounds. No I/O, no state. */
#ifndef INGERO_BASE_UTIL_H
#define INGERO_BASE_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define UNUSED __attribute__((unused))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))

#define NSEC_PER_USEC 1000ull
#define NSEC_PER_MSEC 1000000ull
#define NSEC_PER_SEC 1000000000ull

/* Scope cleanup: `cleanup_free char *p = NULL;`, `cleanup_fd int fd = -1;`, `cleanup_file FILE *f = NULL;`.
 */
static inline void util_free_ptr(void *pp)
{
	free(*(void **)pp);
}

static inline void util_close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void util_close_file(FILE **f)
{
	if (*f)
		fclose(*f);
}

#define cleanup_free __attribute__((cleanup(util_free_ptr)))
#define cleanup_fd __attribute__((cleanup(util_close_fd)))
#define cleanup_file __attribute__((cleanup(util_close_file)))

/* Hands the pointer (or descriptor) over and disarms the cleanup. */
#define STEAL_PTR(p)                                                                                         \
	({                                                                                                   \
		__typeof__(p) stolen_ = (p);                                                                 \
		(p) = NULL;                                                                                  \
		stolen_;                                                                                     \
	})

static inline int util_steal_fd(int *fd)
{
	int stolen = *fd;

	*fd = -1;
	return stolen;
}

/* Grows *array so that it holds at least `need` elements of `size` bytes, doubling; at most `max` elements.
 * Returns 0, -ENOMEM, or -E2BIG when need > max. On error nothing changes. */
int util_grow(void **array, size_t *capacity, size_t need, size_t size, size_t max);

#define UTIL_GROW(arr, cap, need, max) util_grow((void **)&(arr), &(cap), (need), sizeof(*(arr)), (max))

#endif
