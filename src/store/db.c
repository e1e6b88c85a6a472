#include "store/db.h"

#include <errno.h>
#include <stdarg.h>

int db_exec(sqlite3 *db, const char *sql)
{
	return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

int db_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **ret_stmt)
{
	return sqlite3_prepare_v2(db, sql, -1, ret_stmt, NULL);
}

int db_i64(sqlite3 *db, const char *sql, int64_t *ret_value)
{
	cleanup_stmt sqlite3_stmt *st = NULL;
	int rc = db_prepare(db, sql, &st);

	if (rc == SQLITE_OK)
		rc = sqlite3_step(st);
	if (rc == SQLITE_DONE)
		return SQLITE_NOTFOUND;
	if (rc != SQLITE_ROW)
		return rc;
	if (sqlite3_column_type(st, 0) == SQLITE_NULL)
		return SQLITE_NOTFOUND;
	*ret_value = sqlite3_column_int64(st, 0);
	return SQLITE_OK;
}

bool db_has_table(sqlite3 *db, const char *name)
{
	cleanup_stmt sqlite3_stmt *st = NULL;

	if (db_prepare(db, "SELECT 1 FROM sqlite_master WHERE name = ?1 AND type IN ('table', 'view')",
		    &st) != SQLITE_OK)
		return false;
	sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
	return sqlite3_step(st) == SQLITE_ROW;
}

int db_errno(int rc)
{
	static const struct {
		int rc, err;
	} map[] = {
		{SQLITE_OK, 0},
		{SQLITE_ROW, 0},
		{SQLITE_DONE, 0},
		{SQLITE_NOTFOUND, -ENODATA},
		{SQLITE_NOMEM, -ENOMEM},
		{SQLITE_BUSY, -EBUSY},
		{SQLITE_LOCKED, -EBUSY},
		{SQLITE_FULL, -ENOSPC},
		{SQLITE_PERM, -EACCES},
		{SQLITE_AUTH, -EPERM},
		{SQLITE_READONLY, -EROFS},
		{SQLITE_CANTOPEN, -EACCES},
		{SQLITE_NOTADB, -EMEDIUMTYPE},
		{SQLITE_CORRUPT, -EUCLEAN},
		{SQLITE_TOOBIG, -E2BIG},
		{SQLITE_INTERRUPT, -ETIME},
	};

	for (size_t i = 0; i < ARRAY_LEN(map); i++) {
		if (map[i].rc == (rc & 0xff))
			return map[i].err;
	}
	return -EIO;
}

int db_run(sqlite3_stmt *st, const char *types, ...)
{
	va_list ap;
	int rc = SQLITE_OK, i = 1;

	va_start(ap, types);
	for (const char *t = types; *t && rc == SQLITE_OK; t++, i++) {
		const void *p;

		switch (*t) {
		case 'i':
			rc = sqlite3_bind_int64(st, i, va_arg(ap, int64_t));
			break;
		case 'u':
			rc = sqlite3_bind_int64(st, i, (int64_t)va_arg(ap, uint64_t));
			break;
		case 'd':
			rc = sqlite3_bind_double(st, i, va_arg(ap, double));
			break;
		case 't':
			p = va_arg(ap, const char *);
			rc = sqlite3_bind_text(st, i, p ? p : "", -1, SQLITE_STATIC);
			break;
		case 'b':
			p = va_arg(ap, const void *);
			rc = sqlite3_bind_blob64(st, i, p ? p : "", va_arg(ap, size_t), SQLITE_STATIC);
			break;
		default:
			rc = sqlite3_bind_null(st, i);
			break;
		}
	}
	va_end(ap);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(st);
	sqlite3_reset(st);
	return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}
