#include "base/jsonw.h"
#include "base/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>

#define MAX_DEPTH 32

static void newline(struct jsonw *w)
{
	if (w->indent)
		strbuf_addf(w->out, "\n%*s", (int)w->depth * w->indent, "");
}

/* What stands before a value or key: a comma, a line break. */
static void separate(struct jsonw *w)
{
	uint64_t bit = 1ull << w->depth;

	if (w->after_key) {
		w->after_key = false;
		return;
	}
	if (w->has_items & bit)
		strbuf_addc(w->out, ',');
	w->has_items |= bit;
	if (w->depth)
		newline(w);
}

static void begin(struct jsonw *w, char c)
{
	separate(w);
	strbuf_addc(w->out, c);
	if (w->depth >= MAX_DEPTH) {
		w->out->error = -E2BIG;
		return;
	}
	w->depth++;
	w->has_items &= ~(1ull << w->depth);
}

static void end(struct jsonw *w, char c)
{
	bool items = w->has_items & 1ull << w->depth;

	if (w->depth)
		w->depth--;
	if (items)
		newline(w);
	strbuf_addc(w->out, c);
}

void jsonw_object_begin(struct jsonw *w)
{
	begin(w, '{');
}

void jsonw_object_end(struct jsonw *w)
{
	end(w, '}');
}

void jsonw_array_begin(struct jsonw *w)
{
	begin(w, '[');
}

void jsonw_array_end(struct jsonw *w)
{
	end(w, ']');
}

static void add_escaped(struct strbuf *out, const char *s, size_t len)
{
	size_t plain = 0;

	for (size_t i = 0; i < len;) {
		unsigned char c = (unsigned char)s[i];
		uint32_t code;
		int n;

		if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\') {
			i++;
			continue;
		}
		strbuf_add(out, s + plain, i - plain);
		n = utf8_decode(s + i, len - i, &code);
		if (!n) {
			strbuf_adds(out, UTF8_REPLACEMENT);
			n = 1;
		} else if (c == '"' || c == '\\') {
			strbuf_addf(out, "\\%c", c);
		} else if (utf8_is_control(code)) {
			strbuf_addf(out, "\\u%04x", code);
		} else {
			strbuf_add(out, s + i, (size_t)n);
		}
		i += (size_t)n;
		plain = i;
	}
	strbuf_add(out, s + plain, len - plain);
}

void jsonw_strn(struct jsonw *w, const char *s, size_t len)
{
	separate(w);
	strbuf_addc(w->out, '"');
	add_escaped(w->out, s, len);
	strbuf_addc(w->out, '"');
}

void jsonw_key(struct jsonw *w, const char *key)
{
	jsonw_strn(w, key, strlen(key));
	strbuf_add(w->out, ": ", w->indent ? 2 : 1);
	w->after_key = true;
}

void jsonw_str(struct jsonw *w, const char *s)
{
	if (s)
		jsonw_strn(w, s, strlen(s));
	else
		jsonw_null(w);
}

void jsonw_u64(struct jsonw *w, uint64_t v)
{
	separate(w);
	strbuf_addf(w->out, "%" PRIu64, v);
}

void jsonw_i64(struct jsonw *w, int64_t v)
{
	separate(w);
	strbuf_addf(w->out, "%" PRId64, v);
}

void jsonw_double(struct jsonw *w, double v, int decimals)
{
	if (!isfinite(v)) {
		jsonw_null(w);
		return;
	}
	separate(w);
	strbuf_addf(w->out, "%.*f", decimals, v);
}

void jsonw_real(struct jsonw *w, double v)
{
	if (!isfinite(v)) {
		jsonw_null(w);
		return;
	}
	separate(w);
	strbuf_addf(w->out, "%.17g", v);
}

void jsonw_raw(struct jsonw *w, const char *json)
{
	separate(w);
	strbuf_adds(w->out, json);
}

void jsonw_bool(struct jsonw *w, bool v)
{
	separate(w);
	strbuf_adds(w->out, v ? "true" : "false");
}

void jsonw_null(struct jsonw *w)
{
	separate(w);
	strbuf_adds(w->out, "null");
}

void jsonw_kv_str(struct jsonw *w, const char *key, const char *s)
{
	jsonw_key(w, key);
	jsonw_str(w, s);
}

void jsonw_kv_u64(struct jsonw *w, const char *key, uint64_t v)
{
	jsonw_key(w, key);
	jsonw_u64(w, v);
}

void jsonw_kv_i64(struct jsonw *w, const char *key, int64_t v)
{
	jsonw_key(w, key);
	jsonw_i64(w, v);
}

void jsonw_kv_bool(struct jsonw *w, const char *key, bool v)
{
	jsonw_key(w, key);
	jsonw_bool(w, v);
}
