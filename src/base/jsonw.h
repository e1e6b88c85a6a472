/* Writes strict JSON into a strbuf: keeps track of commas and nesting, escapes, replaces invalid UTF-8 by
 * U+FFFD. Integers keep all their digits. Nesting at most 32 deep (sets the buffer's error to -E2BIG). */
#ifndef INGERO_BASE_JSONW_H
#define INGERO_BASE_JSONW_H

#include "base/strbuf.h"

struct jsonw {
	struct strbuf *out;
	unsigned depth;
	int indent;	    /* 0 = compact, else spaces per level */
	uint64_t has_items; /* bit per level */
	bool after_key;
};

#define JSONW_INIT(buf, spaces) ((struct jsonw){.out = (buf), .indent = (spaces)})

void jsonw_object_begin(struct jsonw *w);
void jsonw_object_end(struct jsonw *w);
void jsonw_array_begin(struct jsonw *w);
void jsonw_array_end(struct jsonw *w);
void jsonw_key(struct jsonw *w, const char *key);
void jsonw_str(struct jsonw *w, const char *s); /* NULL is written as null */
void jsonw_strn(struct jsonw *w, const char *s, size_t len);
void jsonw_u64(struct jsonw *w, uint64_t v);
void jsonw_i64(struct jsonw *w, int64_t v);
void jsonw_double(struct jsonw *w, double v, int decimals); /* NaN and infinities become null */
void jsonw_real(struct jsonw *w, double v);		    /* with all its digits */
void jsonw_raw(struct jsonw *w, const char *json); /* one value that is JSON already; trusted text only */
void jsonw_bool(struct jsonw *w, bool v);
void jsonw_null(struct jsonw *w);

/* key + value in one call */
void jsonw_kv_str(struct jsonw *w, const char *key, const char *s);
void jsonw_kv_u64(struct jsonw *w, const char *key, uint64_t v);
void jsonw_kv_i64(struct jsonw *w, const char *key, int64_t v);
void jsonw_kv_bool(struct jsonw *w, const char *key, bool v);

#endif
