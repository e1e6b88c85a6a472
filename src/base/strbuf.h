/* A growable byte string with a stated maximum. After a failed append the buffer is unchanged except that
 * `error` is set (sticky, negative errno), so that many appends need only one check at the end. */
#ifndef INGERO_BASE_STRBUF_H
#define INGERO_BASE_STRBUF_H

#include "base/util.h"

struct strbuf {
	char *data; /* NUL-terminated once anything was appended, else NULL */
	size_t len;
	size_t capacity;
	size_t max;
	int error;
};

#define STRBUF_INIT(max_bytes) ((struct strbuf){.max = (max_bytes)})

void strbuf_free(struct strbuf *sb);
void strbuf_reset(struct strbuf *sb); /* keeps the memory, clears content and error */
void strbuf_add(struct strbuf *sb, const void *data, size_t len);
void strbuf_adds(struct strbuf *sb, const char *s);
void strbuf_addc(struct strbuf *sb, char c);
void strbuf_addf(struct strbuf *sb, const char *fmt, ...) PRINTF_LIKE(2, 3);

static inline const char *strbuf_str(const struct strbuf *sb)
{
	return sb->data ? sb->data : "";
}

#define cleanup_strbuf __attribute__((cleanup(strbuf_free)))

#endif
