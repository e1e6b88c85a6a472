/* Boxed tables for terminals and pipes. Column widths are display columns (UTF-8 aware, wide characters count
 * two); cells are escaped so that no control character of a stranger reaches the terminal. */
#ifndef INGERO_BASE_TABLE_H
#define INGERO_BASE_TABLE_H

#include "base/strbuf.h"

enum table_align { TABLE_LEFT, TABLE_RIGHT };

struct table_column {
	const char *title;
	enum table_align align;
	int min_width; /* display columns */
	int max_width; /* 0 = no limit; longer cells are cut with … */
};

struct table; /* at most 16 columns, 100,000 rows */

int table_new(const struct table_column *columns, size_t n_columns, struct table **ret_table);
void table_free(struct table *t);
/* Copies the cells (NULL = empty). Returns 0 or negative errno. */
int table_add_row(struct table *t, const char *const *cells);
/* Renders with box-drawing characters, every line prefixed by `margin` spaces; no trailing spaces. When the
 * whole is wider than `width` (0 = no limit), columns with a max_width shrink first, down to 8, then columns
 * from the right are left out. */
void table_render(const struct table *t, struct strbuf *out, int margin, int width);

/* Display width of a UTF-8 string (control and invalid bytes count as one). */
int text_width(const char *s);
/* Appends s with control characters and invalid UTF-8 replaced by '?' / U+FFFD, cut to max_columns (0 = all).
 */
void text_add_safe(struct strbuf *out, const char *s, int max_columns);
/* A bar of `cells` cells filled to percent (0..100), of █ and ░. */
void text_add_bar(struct strbuf *out, double percent, int cells);

#endif
