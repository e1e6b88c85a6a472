/* `ingero query "SELECT …"`: a stranger's read-only statement. */
#include "cli/query.h"
#include "base/jsonw.h"
#include "base/log.h"
#include "base/table.h"

#include <errno.h>
#include <sys/ioctl.h>

#define MAX_COLUMNS 16 /* of a boxed table; JSON takes all */
#define OUT_BYTES (128u << 20)
#define CELL_BYTES 4096

struct printer {
	bool json;
	struct strbuf out;
	struct jsonw w;
	struct table *table;
	char **names;
	size_t n_names, n_rows;
};

static void printer_free(struct printer *p)
{
	for (size_t i = 0; i < p->n_names; i++)
		free(p->names[i]);
	free(p->names);
	table_free(p->table);
	strbuf_free(&p->out);
}

static int take_columns(void *ctx, const char *const *names, size_t n)
{
	struct printer *p = ctx;
	struct table_column columns[MAX_COLUMNS] = {0};

	if (!p->json && n > MAX_COLUMNS) {
		log_error("the result has %zu columns, a table holds %d: name fewer, or use --json", n,
			MAX_COLUMNS);
		return EXIT_ERROR;
	}
	p->names = calloc(n ? n : 1, sizeof(*p->names));
	if (!p->names)
		return -ENOMEM;
	for (p->n_names = 0; p->n_names < n; p->n_names++) {
		p->names[p->n_names] = strdup(names[p->n_names]);
		if (!p->names[p->n_names])
			return -ENOMEM;
	}
	if (p->json)
		return 0;
	for (size_t i = 0; i < n; i++)
		columns[i] = (struct table_column){p->names[i], TABLE_LEFT, 4, 60};
	return table_new(columns, n, &p->table);
}

static void json_value(struct jsonw *w, const struct sql_value *v)
{
	switch (v->type) {
	case SQL_NULL:
		jsonw_null(w);
		break;
	case SQL_INTEGER:
		jsonw_i64(w, v->i);
		break;
	case SQL_REAL:
		jsonw_real(w, v->d);
		break;
	case SQL_TEXT:
	case SQL_BLOB:
		jsonw_strn(w, v->s, v->len);
		break;
	}
}

static void text_value(const struct sql_value *v, char *buf, size_t size)
{
	switch (v->type) {
	case SQL_NULL:
		snprintf(buf, size, "NULL");
		break;
	case SQL_INTEGER:
		snprintf(buf, size, "%lld", (long long)v->i);
		break;
	case SQL_REAL:
		snprintf(buf, size, "%.15g", v->d);
		break;
	case SQL_TEXT:
		snprintf(buf, size, "%.*s", (int)MIN(v->len, size - 1), v->s);
		break;
	case SQL_BLOB:
		snprintf(buf, size, "(%zu bytes)", v->len);
		break;
	}
}

static int take_row(void *ctx, const struct sql_value *values, size_t n)
{
	struct printer *p = ctx;
	char text[MAX_COLUMNS][CELL_BYTES];
	const char *cells[MAX_COLUMNS];

	p->n_rows++;
	if (p->json) {
		jsonw_object_begin(&p->w);
		for (size_t i = 0; i < n; i++) {
			jsonw_key(&p->w, p->names[i]);
			json_value(&p->w, &values[i]);
		}
		jsonw_object_end(&p->w);
		return p->out.error;
	}
	for (size_t i = 0; i < n; i++) {
		text_value(&values[i], text[i], CELL_BYTES);
		cells[i] = text[i];
	}
	return table_add_row(p->table, cells);
}

static int finish(struct printer *p)
{
	struct winsize ws = {0};

	if (p->json) {
		jsonw_array_end(&p->w);
		strbuf_addc(&p->out, '\n');
	} else {
		if (isatty(STDOUT_FILENO))
			ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws);
		table_render(p->table, &p->out, 2, ws.ws_col);
		strbuf_addf(&p->out, "  %zu row%s\n", p->n_rows, p->n_rows == 1 ? "" : "s");
	}
	return query_flush(&p->out);
}

int query_sql(const char *db_path, const char *sql, bool json)
{
	__attribute__((cleanup(printer_free))) struct printer p = {
		.json = json, .out = STRBUF_INIT(OUT_BYTES)};
	struct sql_sink sink = {take_columns, take_row, &p};
	struct guarded_limits limits = {0};
	char err[4096 + 512] = "";
	bool truncated = false;
	int e, rc;

	p.w = JSONW_INIT(&p.out, 2);
	if (json)
		jsonw_array_begin(&p.w);
	e = reader_sql(db_path, sql, &limits, &sink, &truncated, err, sizeof(err));
	if (e) {
		if (e < 0)
			log_error("%s", *err ? err : strerror(-e));
		return e == -EPERM || e == -EINVAL ? EXIT_USAGE : EXIT_ERROR;
	}
	rc = p.names ? finish(&p) : EXIT_OK;
	if (!rc && truncated)
		log_warn("only the first %zu rows are shown: narrow the statement or add LIMIT", p.n_rows);
	return rc;
}
