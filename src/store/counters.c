/* Exact counters and histograms per ten seconds and per minute: added to what is there. */
#include "store/internal.h"

static void merge_hist(sqlite3_context *ctx, int n UNUSED, sqlite3_value **v)
{
	cleanup_free struct hist *h = calloc(1, sizeof(*h));
	cleanup_strbuf struct strbuf out = STRBUF_INIT(32768);

	if (!h) {
		sqlite3_result_error_nomem(ctx);
		return;
	}
	for (int i = 0; i < 2; i++) {
		const void *blob = sqlite3_value_blob(v[i]);

		if (hist_decode_add(h, blob ? blob : "", (size_t)sqlite3_value_bytes(v[i]))) {
			sqlite3_result_error(ctx, "malformed histogram", -1);
			return;
		}
	}
	hist_encode(h, &out);
	if (out.error)
		sqlite3_result_error_toobig(ctx);
	else
		sqlite3_result_blob(ctx, strbuf_str(&out), (int)out.len, SQLITE_TRANSIENT);
}

int counters_register(sqlite3 *db)
{
	return sqlite3_create_function(db, "hist_merge", 2,
		SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY, NULL, merge_hist, NULL, NULL);
}

/* Highest and lowest bucket in use; false when there is none. */
static bool hist_ends(const struct hist *h, unsigned *low, unsigned *high)
{
	*low = 0;
	while (*low < HIST_BUCKETS && !h->bucket[*low])
		(*low)++;
	*high = HIST_BUCKETS - 1;
	while (*high > *low && !h->bucket[*high])
		(*high)--;
	return *low < HIST_BUCKETS;
}

/* The extremes of a delta may belong to an earlier time (they are cumulative in kernel): what its own
 * histogram contradicts is replaced by the bucket's middle. */
void counters_from_delta(const struct op_counters *d, struct counter_row *row)
{
	unsigned low, high;

#define X(name) row->v[COUNTER_##name] = d->name;
	SCHEMA_COUNTERS(X)
#undef X
	if (!hist_ends(&d->hist, &low, &high))
		return;
	if (hist_index(d->max_ns) != high)
		row->v[COUNTER_max_ns] = hist_bucket_mid(high);
	if (!d->min_ns || hist_index(d->min_ns) != low)
		row->v[COUNTER_min_ns] = MIN(hist_bucket_mid(low), row->v[COUNTER_max_ns]);
}

static int upsert(struct store *s, enum writer_stmt id, int64_t bucket, int64_t proc, uint16_t op,
	const struct item *it)
{
	sqlite3_stmt *st = s->stmt[id];

	sqlite3_bind_int64(st, 1, bucket);
	sqlite3_bind_int64(st, 2, proc);
	sqlite3_bind_int(st, 3, op);
	for (int i = 0; i < COUNTER_COLUMNS; i++)
		sqlite3_bind_int64(st, 4 + i, (int64_t)it->counters.row.v[i]);
	sqlite3_bind_blob64(st, 4 + COUNTER_COLUMNS, it->blob, it->size, SQLITE_STATIC);
	return writer_step(s, id);
}

int counters_add(struct store *s, int64_t wall_ns, int64_t proc, uint16_t op, const struct item *it)
{
	int64_t sec = wall_ns / (int64_t)NSEC_PER_SEC;
	int rc = upsert(s, W_COUNTER_10S, sec / 10 * 10, proc, op, it);

	return rc == SQLITE_OK ? upsert(s, W_COUNTER_MINUTE, sec / 60 * 60, proc, op, it) : rc;
}
