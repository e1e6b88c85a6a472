/* Pieces of `ingero query`; internal to src/cli. */
#ifndef INGERO_CLI_QUERY_H
#define INGERO_CLI_QUERY_H

#include "cli/cli.h"
#include "store/reader.h"

struct query {
	struct reader *reader;
	struct reader_filter filter;
	const char *db_path;
	uint64_t since_ns; /* as asked for; 0 = everything */
	bool has_from_to;  /* --from or --to win over --since */
	bool limit_given;
};

/* Tables on stdout. Returns an exit code; EXIT_NODATA when nothing matched. */
int query_text(const struct query *q);
/* One indented JSON array on stdout. Returns an exit code, as above. */
int query_json(const struct query *q);
/* One read-only statement; a table, or a JSON array of objects. */
int query_sql(const char *db_path, const char *sql, bool json);

/* One line about a file that cannot be read to its end; returns EXIT_ERROR. */
int query_read_error(const struct query *q, int e);
/* Writes and empties the buffer. 0, or EXIT_ERROR after one line about stdout. */
int query_flush(struct strbuf *out);

#endif
