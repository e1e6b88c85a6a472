/* The dynamic linker's cache of library paths (glibc's format 1.1, as ldconfig writes it). */
#include "discover/internal.h"

#include <errno.h>

#define OLD_MAGIC "ld.so-1.7.0"
#define OLD_HEADER_BYTES 16u
#define OLD_ENTRY_BYTES 12u
#define NEW_MAGIC "glibc-ld.so.cache1.1"
#define NEW_HEADER_BYTES 48u
#define NEW_ENTRY_BYTES 24u
#define COUNT_AT 20u /* in the new header: number of entries */
#define OLD_COUNT_AT 12u
#define VALUE_AT 8u /* in an entry: where the path is, from the new header on */

static uint32_t u32_at(const char *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* An old table may stand in front; the new one follows at the next multiple of 8. */
static size_t find_new_header(const char *data, size_t len)
{
	uint64_t at;

	if (len < OLD_HEADER_BYTES || memcmp(data, OLD_MAGIC, sizeof(OLD_MAGIC) - 1))
		return 0;
	at = OLD_HEADER_BYTES + (uint64_t)u32_at(data + OLD_COUNT_AT) * OLD_ENTRY_BYTES;
	return (size_t)MIN((at + 7) & ~7ull, len);
}

int ldcache_each(const char *data, size_t len, void (*fn)(void *ctx, const char *path), void *ctx)
{
	size_t base = find_new_header(data, len);
	uint32_t n;

	data += base;
	len -= base;
	if (len < NEW_HEADER_BYTES || memcmp(data, NEW_MAGIC, sizeof(NEW_MAGIC) - 1))
		return -EINVAL;
	n = u32_at(data + COUNT_AT);
	if (n > (len - NEW_HEADER_BYTES) / NEW_ENTRY_BYTES)
		return -EINVAL;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = u32_at(data + NEW_HEADER_BYTES + (size_t)i * NEW_ENTRY_BYTES + VALUE_AT);

		if (at < len && data[at] == '/' && memchr(data + at, '\0', len - at))
			fn(ctx, data + at);
	}
	return 0;
}
