#include "base/table.h"
#include "base/utf8.h"

#include <errno.h>
#include <wchar.h>

#define MAX_COLUMNS 16
#define MAX_ROWS 100000
#define SHRINK_MIN 8

struct table {
	struct table_column columns[MAX_COLUMNS];
	size_t n_columns;
	char **cells; /* row by row */
	size_t n_rows, cap_cells;
};

int table_new(const struct table_column *columns, size_t n_columns, struct table **ret_table)
{
	struct table *t;

	if (!n_columns || n_columns > MAX_COLUMNS)
		return -EINVAL;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	memcpy(t->columns, columns, n_columns * sizeof(*columns));
	t->n_columns = n_columns;
	*ret_table = t;
	return 0;
}

void table_free(struct table *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n_rows * t->n_columns; i++)
		free(t->cells[i]);
	free(t->cells);
	free(t);
}

int table_add_row(struct table *t, const char *const *cells)
{
	size_t base = t->n_rows * t->n_columns;
	int err;

	if (t->n_rows >= MAX_ROWS)
		return -E2BIG;
	err = UTIL_GROW(t->cells, t->cap_cells, base + t->n_columns, (size_t)MAX_ROWS * MAX_COLUMNS);
	if (err)
		return err;
	for (size_t i = 0; i < t->n_columns; i++) {
		cleanup_strbuf struct strbuf safe = STRBUF_INIT(1 << 16);

		text_add_safe(&safe, cells[i] ? cells[i] : "", 0);
		t->cells[base + i] = strdup(strbuf_str(&safe));
		if (!t->cells[base + i]) {
			while (i-- > 0)
				free(t->cells[base + i]);
			return -ENOMEM;
		}
	}
	t->n_rows++;
	return 0;
}

/* East Asian wide and emoji ranges; everything else is one column, combining marks none. */
static int code_width(uint32_t c)
{
	static const struct {
		uint32_t lo, hi;
		int width;
	} ranges[] = {
		{0x300, 0x36f, 0},
		{0x200b, 0x200f, 0},
		{0xfe00, 0xfe0f, 0},
		{0x1100, 0x115f, 2},
		{0x2e80, 0x303e, 2},
		{0x3041, 0x33ff, 2},
		{0x3400, 0x4dbf, 2},
		{0x4e00, 0x9fff, 2},
		{0xa000, 0xa4cf, 2},
		{0xac00, 0xd7a3, 2},
		{0xf900, 0xfaff, 2},
		{0xfe30, 0xfe6f, 2},
		{0xff00, 0xff60, 2},
		{0xffe0, 0xffe6, 2},
		{0x1f300, 0x1f64f, 2},
		{0x1f680, 0x1f6ff, 2},
		{0x1f900, 0x1f9ff, 2},
		{0x20000, 0x3fffd, 2},
	};

	for (size_t i = 0; i < ARRAY_LEN(ranges); i++) {
		if (c >= ranges[i].lo && c <= ranges[i].hi)
			return ranges[i].width;
	}
	return 1;
}

int text_width(const char *s)
{
	size_t len = strlen(s);
	int width = 0;

	for (size_t i = 0; i < len;) {
		uint32_t code;
		int n = utf8_decode(s + i, len - i, &code);

		width += n ? code_width(code) : 1;
		i += n ? (size_t)n : 1;
	}
	return width;
}

void text_add_safe(struct strbuf *out, const char *s, int max_columns)
{
	size_t len = strlen(s);
	bool cut = max_columns > 0 && text_width(s) > max_columns;
	int width = 0, limit = cut ? max_columns - 1 : INT32_MAX;

	for (size_t i = 0; i < len;) {
		uint32_t code = 0;
		int n = utf8_decode(s + i, len - i, &code), w = n ? code_width(code) : 1;

		if (width + w > limit)
			break;
		width += w;
		if (!n)
			strbuf_adds(out, UTF8_REPLACEMENT);
		else if (utf8_is_control(code))
			strbuf_addc(out, '?');
		else
			strbuf_add(out, s + i, (size_t)n);
		i += n ? (size_t)n : 1;
	}
	if (cut)
		strbuf_adds(out, "\xe2\x80\xa6");
}

void text_add_bar(struct strbuf *out, double percent, int cells)
{
	int full = (int)(percent * cells / 100 + 0.5);

	for (int i = 0; i < cells; i++)
		strbuf_adds(out, i < full ? "\xe2\x96\x88" : "\xe2\x96\x91");
}

static int total_width(const int *widths, size_t n)
{
	int total = 1;

	for (size_t i = 0; i < n; i++)
		total += widths[i] + 3;
	return total;
}

/* Natural widths, then narrowed to fit. Returns how many columns are shown. */
static size_t fit(const struct table *t, int *widths, int available)
{
	size_t n = t->n_columns;

	for (size_t c = 0; c < n; c++) {
		widths[c] = MAX(text_width(t->columns[c].title), t->columns[c].min_width);
		for (size_t r = 0; r < t->n_rows; r++)
			widths[c] = MAX(widths[c], text_width(t->cells[r * n + c]));
		if (t->columns[c].max_width)
			widths[c] = MIN(widths[c], t->columns[c].max_width);
	}
	if (available <= 0)
		return n;
	for (size_t c = 0; c < n; c++) {
		int over = total_width(widths, n) - available;

		if (over > 0 && t->columns[c].max_width && widths[c] > SHRINK_MIN)
			widths[c] = MAX(SHRINK_MIN, widths[c] - over);
	}
	while (n > 1 && total_width(widths, n) > available)
		n--;
	return n;
}

static void add_rule(struct strbuf *out, int margin, const int *widths, size_t n, const char *left,
	const char *mid, const char *right)
{
	strbuf_addf(out, "%*s%s", margin, "", left);
	for (size_t c = 0; c < n; c++) {
		for (int i = 0; i < widths[c] + 2; i++)
			strbuf_adds(out, "\xe2\x94\x80");
		strbuf_adds(out, c + 1 < n ? mid : right);
	}
	strbuf_addc(out, '\n');
}

static void add_cell(struct strbuf *out, const char *text, int width, enum table_align align)
{
	cleanup_strbuf struct strbuf cut = STRBUF_INIT(1 << 17);
	int pad;

	text_add_safe(&cut, text, width);
	/* less than width when a wide character did not fit the last column */
	pad = width - MIN(text_width(strbuf_str(&cut)), width);
	strbuf_addf(out, " %*s", align == TABLE_RIGHT ? pad : 0, "");
	strbuf_adds(out, strbuf_str(&cut));
	strbuf_addf(out, "%*s ", align == TABLE_RIGHT ? 0 : pad, "");
}

#define BAR "\xe2\x94\x82"

void table_render(const struct table *t, struct strbuf *out, int margin, int width)
{
	int widths[MAX_COLUMNS] = {0};
	size_t n = fit(t, widths, width > 0 ? width - margin : 0);

	add_rule(out, margin, widths, n, "\xe2\x94\x8c", "\xe2\x94\xac", "\xe2\x94\x90");
	strbuf_addf(out, "%*s" BAR, margin, "");
	for (size_t c = 0; c < n; c++) {
		add_cell(out, t->columns[c].title, widths[c], TABLE_LEFT);
		strbuf_adds(out, BAR);
	}
	strbuf_addc(out, '\n');
	add_rule(out, margin, widths, n, "\xe2\x94\x9c", "\xe2\x94\xbc", "\xe2\x94\xa4");
	for (size_t r = 0; r < t->n_rows; r++) {
		strbuf_addf(out, "%*s" BAR, margin, "");
		for (size_t c = 0; c < n; c++) {
			add_cell(out, t->cells[r * t->n_columns + c], widths[c], t->columns[c].align);
			strbuf_adds(out, BAR);
		}
		strbuf_addc(out, '\n');
	}
	add_rule(out, margin, widths, n, "\xe2\x94\x94", "\xe2\x94\xb4", "\xe2\x94\x98");
}
