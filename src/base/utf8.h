/* UTF-8 as strangers send it. */
#ifndef INGERO_BASE_UTF8_H
#define INGERO_BASE_UTF8_H

#include "base/util.h"

/* Length of the valid sequence at s (1..4) with its code point, or 0 when the bytes there are not valid UTF-8
 * (overlong forms and surrogates are not). n > 0 bytes are readable. */
static inline int utf8_decode(const char *s, size_t n, uint32_t *ret_code)
{
	const unsigned char *u = (const unsigned char *)s;
	static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
	int len = u[0] < 0x80			? 1
		  : u[0] >= 0xf0 && u[0] < 0xf5 ? 4
		  : u[0] >= 0xe0 && u[0] < 0xf0 ? 3
		  : u[0] >= 0xc2 && u[0] < 0xe0 ? 2
						: 0;
	uint32_t code;

	if (!len || (size_t)len > n)
		return 0;
	code = len == 1 ? u[0] : u[0] & (0x7f >> len);
	for (int i = 1; i < len; i++) {
		if ((u[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (u[i] & 0x3f);
	}
	if (len > 1 && (code < smallest[len] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)))
		return 0;
	*ret_code = code;
	return len;
}

/* C0, DEL, C1 and the direction overrides that can make a line read differently from what it says. */
static inline bool utf8_is_control(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x202a && c <= 0x202e) ||
	       (c >= 0x2066 && c <= 0x2069) || c == 0x2028 || c == 0x2029;
}

#define UTF8_REPLACEMENT "\xef\xbf\xbd"

#endif
