/* The layout of a recording (docs/schema.md): tables, views, lookup rows, numbers. Internal to src/store. */
#ifndef INGERO_STORE_SCHEMA_H
#define INGERO_STORE_SCHEMA_H

#include "store/db.h"

#define SCHEMA_APPLICATION_ID 0x494e4752 /* "INGR" */
#define SCHEMA_VERSION 1		 /* PRAGMA user_version */

/* Beyond enum call_flag in event.flags: the handle is a graph. */
#define EVENT_FLAG_GRAPH 0x100

/* Counter columns of counter_minute and counter_10s in this order, after bucket, proc and op; hist follows.
 */
#define SCHEMA_COUNTERS(X)                                                                                   \
	X(count)                                                                                             \
	X(sum_ns)                                                                                            \
	X(min_ns)                                                                                            \
	X(max_ns)                                                                                            \
	X(errors)                                                                                            \
	X(bytes)                                                                                             \
	X(delivered)                                                                                         \
	X(sampled_out)                                                                                       \
	X(lost)                                                                                              \
	X(untimed)                                                                                           \
	X(unfinished)                                                                                        \
	X(nested)                                                                                            \
	X(nested_ns)

enum counter_column {
#define X(name) COUNTER_##name,
	SCHEMA_COUNTERS(X)
#undef X
		COUNTER_COLUMNS
};

struct counter_row {
	uint64_t v[COUNTER_COLUMNS];
};

/* Makes an empty file a recording, in one transaction; WAL afterwards. Returns an SQLite code. */
int schema_create(sqlite3 *db);
/* Fills sources and ops from the operation table; existing rows are brought up to date. Returns an SQLite
 * code. */
int schema_fill_lookups(sqlite3 *db);

#endif
