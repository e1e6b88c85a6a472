#include "base/strbuf.h"

#include <errno.h>
#include <stdarg.h>

void strbuf_free(struct strbuf *sb)
{
	free(sb->data);
	sb->data = NULL;
	sb->len = sb->capacity = 0;
}

void strbuf_reset(struct strbuf *sb)
{
	sb->len = 0;
	sb->error = 0;
	if (sb->data)
		sb->data[0] = '\0';
}

/* Room for `extra` more bytes and the NUL. */
static bool reserve(struct strbuf *sb, size_t extra)
{
	int err;

	if (sb->error)
		return false;
	if (extra > sb->max || sb->len > sb->max - extra) {
		sb->error = -E2BIG;
		return false;
	}
	err = util_grow((void **)&sb->data, &sb->capacity, sb->len + extra + 1, 1, sb->max + 1);
	if (err)
		sb->error = err;
	return !err;
}

void strbuf_add(struct strbuf *sb, const void *data, size_t len)
{
	if (!reserve(sb, len))
		return;
	if (len)
		memcpy(sb->data + sb->len, data, len);
	sb->len += len;
	sb->data[sb->len] = '\0';
}

void strbuf_adds(struct strbuf *sb, const char *s)
{
	strbuf_add(sb, s, strlen(s));
}

void strbuf_addc(struct strbuf *sb, char c)
{
	strbuf_add(sb, &c, 1);
}

void strbuf_addf(struct strbuf *sb, const char *fmt, ...)
{
	char small[512];
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(small, sizeof(small), fmt, args);
	va_end(args);
	if (n < 0) {
		sb->error = -EINVAL;
		return;
	}
	if ((size_t)n < sizeof(small)) {
		strbuf_add(sb, small, (size_t)n);
		return;
	}
	if (!reserve(sb, (size_t)n))
		return;
	va_start(args, fmt);
	vsnprintf(sb->data + sb->len, (size_t)n + 1, fmt, args);
	va_end(args);
	sb->len += (size_t)n;
}
