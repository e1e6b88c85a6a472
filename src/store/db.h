/* What every file of this folder needs of SQLite. Internal to src/store. */
#ifndef INGERO_STORE_DB_H
#define INGERO_STORE_DB_H

#include "base/util.h"

#include <sqlite3.h>

static inline void db_finalize_ptr(sqlite3_stmt **st)
{
	sqlite3_finalize(*st);
}

#define cleanup_stmt __attribute__((cleanup(db_finalize_ptr)))

/* These return SQLite result codes. */
int db_exec(sqlite3 *db, const char *sql);
int db_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **ret_stmt);
/* First column of the first row. SQLITE_NOTFOUND when there is no row or it is NULL. */
int db_i64(sqlite3 *db, const char *sql, int64_t *ret_value);
bool db_has_table(sqlite3 *db, const char *name); /* or view */

/* Negative errno for a result code (0 for SQLITE_OK, SQLITE_ROW, SQLITE_DONE). */
int db_errno(int rc);

/* Binds `types` in order and steps to the end: i int64_t, u uint64_t (bit pattern), d double, t text (NULL =
 * ''), b blob (const void *, size_t), n NULL (no argument). Resets the statement. Returns SQLITE_OK or an
 * error code. */
int db_run(sqlite3_stmt *st, const char *types, ...);

/* Text of a column, never NULL; valid until the next step. */
static inline const char *db_text(sqlite3_stmt *st, int column)
{
	const unsigned char *s = sqlite3_column_text(st, column);

	return s ? (const char *)s : "";
}

static inline uint64_t db_u64(sqlite3_stmt *st, int column)
{
	return (uint64_t)sqlite3_column_int64(st, column);
}

#endif
