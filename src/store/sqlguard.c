/* SQL from strangers: one statement that can only read, within limits of time, memory and result size. */
#include "store/reader.h"
#include "store/roopen.h"

#include <ctype.h>
#include <errno.h>
#include <strings.h>
#include <time.h>

#define PROGRESS_STEPS 2000

struct guard {
	struct guarded_limits limits;
	uint64_t deadline_ns;
	int64_t memory_start;
	char refused[160]; /* why the authorizer said no */
	bool timed_out, too_much_memory;
};

/* Functions that only compute. Sorted; what is not here is refused: files, extensions, internals, and those
 * that make large values from nothing. */
static const char *const functions[] = {"->", "->>", "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2",
	"atanh", "avg", "ceil", "ceiling", "changes", "char", "coalesce", "cos", "cosh", "count", "cume_dist",
	"current_date", "current_time", "current_timestamp", "date", "datetime", "degrees", "dense_rank",
	"exp", "first_value", "floor", "glob", "group_concat", "hex", "ifnull", "iif", "instr", "json",
	"json_array", "json_array_length", "json_each", "json_error_position", "json_extract",
	"json_group_array", "json_group_object", "json_object", "json_patch", "json_quote", "json_remove",
	"json_set", "json_tree", "json_type", "json_valid", "julianday", "lag", "last_value", "lead",
	"length", "like", "likelihood", "likely", "ln", "log", "log10", "log2", "lower", "ltrim", "max",
	"min", "mod", "nth_value", "ntile", "nullif", "percent_rank", "pi", "pow", "power", "quote",
	"radians", "rank", "replace", "round", "row_number", "rtrim", "sign", "sin", "sinh", "sqlite_version",
	"sqrt", "strftime", "substr", "substring", "sum", "tan", "tanh", "time", "timediff", "total", "trim",
	"trunc", "typeof", "unhex", "unicode", "unixepoch", "unlikely", "upper"};

static bool function_allowed(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
		if (!strcasecmp(functions[i], name))
			return true;
	}
	return false;
}

static int authorize(void *ctx, int action, const char *a, const char *b, const char *database UNUSED,
	const char *view UNUSED)
{
	struct guard *g = ctx;

	switch (action) {
	case SQLITE_SELECT:
	case SQLITE_READ:
	case SQLITE_RECURSIVE:
		return SQLITE_OK;
	case SQLITE_FUNCTION:
		if (b && function_allowed(b))
			return SQLITE_OK;
		snprintf(g->refused, sizeof(g->refused), "the function %.64s is not allowed", b ? b : "?");
		return SQLITE_DENY;
	case SQLITE_PRAGMA:
		snprintf(g->refused, sizeof(g->refused), "PRAGMA %.64s is not allowed", a ? a : "");
		return SQLITE_DENY;
	case SQLITE_ATTACH:
	case SQLITE_DETACH:
		snprintf(g->refused, sizeof(g->refused), "ATTACH and DETACH are not allowed");
		return SQLITE_DENY;
	default:
		snprintf(g->refused, sizeof(g->refused),
			"only statements that read are allowed (SELECT, WITH, VALUES)");
		return SQLITE_DENY;
	}
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

static int progress(void *ctx)
{
	struct guard *g = ctx;

	g->timed_out |= now_ns() >= g->deadline_ns;
	g->too_much_memory |= sqlite3_memory_used() - g->memory_start > (int64_t)g->limits.memory_bytes;
	return g->timed_out || g->too_much_memory;
}

static void set_defaults(struct guarded_limits *l)
{
	l->max_rows = l->max_rows ? l->max_rows : 10000;
	l->max_bytes = l->max_bytes ? l->max_bytes : 64ull << 20;
	l->timeout_ns = l->timeout_ns ? l->timeout_ns : 30 * NSEC_PER_SEC;
	l->memory_bytes = l->memory_bytes ? l->memory_bytes : 128ull << 20;
}

static void protect(sqlite3 *db, struct guard *g)
{
	/* a single value must not get far beyond the budget between two looks at it */
	int longest = (int)MIN(g->limits.memory_bytes / 8 + 1024, (uint64_t)16 << 20);
	const int limits[][2] = {{SQLITE_LIMIT_LENGTH, longest}, {SQLITE_LIMIT_SQL_LENGTH, 100000},
		{SQLITE_LIMIT_EXPR_DEPTH, 200}, {SQLITE_LIMIT_VDBE_OP, 100000},
		{SQLITE_LIMIT_FUNCTION_ARG, 64}};

	for (size_t i = 0; i < ARRAY_LEN(limits); i++)
		sqlite3_limit(db, limits[i][0], limits[i][1]);
	g->memory_start = sqlite3_memory_used();
	g->deadline_ns = now_ns() + g->limits.timeout_ns;
	sqlite3_progress_handler(db, PROGRESS_STEPS, progress, g);
	sqlite3_set_authorizer(db, authorize, g);
}

static int explain(const struct guard *g, sqlite3 *db, int rc, char *err, size_t err_size)
{
	if (g->timed_out) {
		snprintf(err, err_size, "the query took longer than %.1f s and was stopped",
			(double)g->limits.timeout_ns / 1e9);
		return -ETIME;
	}
	if (g->too_much_memory || (rc & 0xff) == SQLITE_NOMEM) {
		snprintf(err, err_size, "the query needed more than %llu MB of memory and was stopped",
			(unsigned long long)(g->limits.memory_bytes >> 20));
		return -ENOMEM;
	}
	if (*g->refused) {
		snprintf(err, err_size, "refused: %s", g->refused);
		return -EPERM;
	}
	if ((rc & 0xff) == SQLITE_CORRUPT || (rc & 0xff) == SQLITE_NOTADB) {
		const char *path = sqlite3_db_filename(db, "main");

		snprintf(err, err_size, "%s is damaged; `sqlite3 FILE .recover` may save what is left in it",
			path && *path ? path : "the recording");
		return -EUCLEAN;
	}
	snprintf(err, err_size, "SQL error: %s", sqlite3_errmsg(db));
	return -EINVAL;
}

/* Whether only blanks, comments and semicolons are left. */
static bool only_blank(const char *s)
{
	while (*s) {
		if (isspace((unsigned char)*s) || *s == ';') {
			s++;
		} else if (s[0] == '-' && s[1] == '-') {
			s += strcspn(s, "\n");
		} else if (s[0] == '/' && s[1] == '*') {
			const char *end = strstr(s + 2, "*/");

			s = end ? end + 2 : s + strlen(s);
		} else {
			return false;
		}
	}
	return true;
}

static int prepare(
	struct guard *g, sqlite3 *db, const char *sql, sqlite3_stmt **ret, char *err, size_t err_size)
{
	const char *tail = sql;
	int rc = sqlite3_prepare_v2(db, sql, -1, ret, &tail);

	if (rc != SQLITE_OK)
		return explain(g, db, rc, err, err_size);
	if (!*ret) {
		snprintf(err, err_size, "there is no statement in it");
		return -EINVAL;
	}
	if (!only_blank(tail)) {
		snprintf(err, err_size, "refused: one statement at a time");
		return -EPERM;
	}
	if (!sqlite3_stmt_readonly(*ret) || sqlite3_stmt_isexplain(*ret)) {
		snprintf(err, err_size,
			"refused: only statements that read are allowed (SELECT, WITH, VALUES)");
		return -EPERM;
	}
	return 0;
}

static void read_value(sqlite3_stmt *st, int i, struct sql_value *v)
{
	memset(v, 0, sizeof(*v));
	switch (sqlite3_column_type(st, i)) {
	case SQLITE_INTEGER:
		v->type = SQL_INTEGER;
		v->i = sqlite3_column_int64(st, i);
		break;
	case SQLITE_FLOAT:
		v->type = SQL_REAL;
		v->d = sqlite3_column_double(st, i);
		break;
	case SQLITE_TEXT:
		v->type = SQL_TEXT;
		v->s = db_text(st, i);
		v->len = (size_t)sqlite3_column_bytes(st, i);
		break;
	case SQLITE_BLOB:
		v->type = SQL_BLOB;
		v->s = sqlite3_column_blob(st, i);
		v->len = v->s ? (size_t)sqlite3_column_bytes(st, i) : 0;
		break;
	default:
		v->type = SQL_NULL;
		break;
	}
}

static int send_columns(sqlite3_stmt *st, size_t n, const struct sql_sink *sink)
{
	cleanup_free const char **names = calloc(MAX(n, 1u), sizeof(*names));

	if (!names)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		names[i] = sqlite3_column_name(st, (int)i);
		if (!names[i])
			return -ENOMEM;
	}
	return sink->columns ? sink->columns(sink->ctx, names, n) : 0;
}

/* Returns an SQLite code, or the sink's non-zero value through ret_stop. */
static int send_rows(struct guard *g, sqlite3_stmt *st, size_t n, const struct sql_sink *sink,
	bool *ret_truncated, int *ret_stop)
{
	cleanup_free struct sql_value *values = calloc(MAX(n, 1u), sizeof(*values));
	uint64_t rows = 0, bytes = 0;
	int rc;

	if (!values)
		return SQLITE_NOMEM;
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		for (size_t i = 0; i < n; i++) {
			read_value(st, (int)i, &values[i]);
			bytes += 16 + values[i].len;
		}
		if (rows++ >= g->limits.max_rows || bytes > g->limits.max_bytes) {
			*ret_truncated = true;
			return SQLITE_DONE;
		}
		*ret_stop = sink->row ? sink->row(sink->ctx, values, n) : 0;
		if (*ret_stop)
			return SQLITE_DONE;
	}
	return rc;
}

static int run(struct guard *g, sqlite3 *db, const char *sql, const struct sql_sink *sink,
	bool *ret_truncated, char *err, size_t err_size)
{
	cleanup_stmt sqlite3_stmt *st = NULL;
	int rc, stop = 0, e = prepare(g, db, sql, &st, err, err_size);
	size_t n;

	if (e)
		return e;
	n = (size_t)sqlite3_column_count(st);
	e = send_columns(st, n, sink);
	if (e) {
		snprintf(err, err_size, "%s", strerror(e < 0 ? -e : EIO));
		return e;
	}
	rc = send_rows(g, st, n, sink, ret_truncated, &stop);
	return rc == SQLITE_DONE ? stop : explain(g, db, rc, err, err_size);
}

int reader_sql(const char *db_path, const char *sql, const struct guarded_limits *limits,
	const struct sql_sink *sink, bool *ret_truncated, char *err, size_t err_size)
{
	struct guard g = {.limits = limits ? *limits : (struct guarded_limits){0}};
	bool truncated = false;
	struct ro_db ro;
	int64_t found;
	int e;

	e = ro_open(db_path, &ro, err, err_size);
	if (e)
		return e;
	set_defaults(&g.limits);
	*err = '\0';
	if (db_i64(ro.db, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND rootpage = 0", &found) !=
		SQLITE_NOTFOUND) {
		snprintf(err, err_size, "%s holds virtual tables, which no recording has; it is not opened",
			ro.path);
		e = -EMEDIUMTYPE;
	}
	if (!e) {
		protect(ro.db, &g);
		e = run(&g, ro.db, sql, sink, &truncated, err, err_size);
	}
	if (!e && ro_changed(&ro)) {
		snprintf(err, err_size, "%s changed while it was read; try again", ro.path);
		e = -EAGAIN;
	}
	if (!e)
		*ret_truncated = truncated;
	ro_close(&ro);
	return e;
}
