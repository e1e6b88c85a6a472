/* `ingero query`: what was asked for, and who answers. */
#include "cli/query.h"
#include "base/log.h"
#include "model/ops.h"

#include <errno.h>
#include <time.h>

#define MAX_OPS 64
#define DEFAULT_LIMIT 10000

int query_flush(struct strbuf *out)
{
	int e = out->error;

	if (!e && out->len && fwrite(out->data, 1, out->len, stdout) != out->len)
		e = -errno;
	if (!e && fflush(stdout))
		e = -errno;
	strbuf_reset(out);
	if (!e)
		return EXIT_OK;
	log_error("the result cannot be written: %s", strerror(-e));
	return EXIT_ERROR;
}

int query_read_error(const struct query *q, int e)
{
	if (e == -EUCLEAN)
		log_error("%s is damaged; `sqlite3 FILE .recover` may save what is left in it", q->db_path);
	else if (e == -EAGAIN)
		log_error("%s keeps changing while it is read; try again", q->db_path);
	else
		log_error("%s cannot be read to its end: %s", q->db_path, strerror(-e));
	return EXIT_ERROR;
}

/* A statement says itself what it wants. */
static int refuse_filters(const struct cli_context *ctx)
{
	static const enum option_id filters[] = {OPT_SINCE, OPT_FROM, OPT_TO, OPT_PID, OPT_OP, OPT_LIMIT};

	for (size_t i = 0; i < ARRAY_LEN(filters); i++) {
		if (!opt_given(ctx, filters[i]))
			continue;
		log_error("--%s does not apply to SQL: write it into the statement (WHERE, LIMIT)",
			option_table[filters[i]].name);
		return -EINVAL;
	}
	return 0;
}

static int choose_op(const struct cli_context *ctx, uint16_t *ops, struct reader_filter *f)
{
	const char *name = opt_str(ctx, OPT_OP);

	if (!name)
		return 0;
	f->n_ops = MIN(op_find(name, ops, MAX_OPS), (size_t)MAX_OPS);
	f->ops = ops;
	if (f->n_ops)
		return 0;
	log_error("--op: '%.64s' is no operation. Examples: cudaMalloc, cuLaunchKernel, sched_switch", name);
	return -EINVAL;
}

static int choose_limit(const struct cli_context *ctx, struct reader_filter *f)
{
	int64_t limit = opt_i64(ctx, OPT_LIMIT);

	if (limit < -1) {
		log_error(
			"--limit: %lld is not -1 (all), 0 (10,000) or a number of events", (long long)limit);
		return -EINVAL;
	}
	f->limit = limit ? limit : DEFAULT_LIMIT;
	if (opt_given(ctx, OPT_LIMIT) && !opt_bool(ctx, OPT_JSON))
		log_warn("--limit shortens the list of --json; the totals here are those of all calls");
	return 0;
}

static int64_t now_wall_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * (int64_t)NSEC_PER_SEC + t.tv_nsec;
}

static int choose_window(const struct cli_context *ctx, struct query *q)
{
	const char *from = opt_str(ctx, OPT_FROM), *to = opt_str(ctx, OPT_TO);
	char err[512];
	int e = time_window_parse(
		opt_str(ctx, OPT_SINCE), from, to, now_wall_ns(), &q->filter.window, err, sizeof(err));

	q->since_ns = opt_u64(ctx, OPT_SINCE);
	q->has_from_to = from || to;
	if (e)
		log_error("%s", err);
	return e;
}

int cmd_query(struct cli_context *ctx)
{
	char path[4096], err[sizeof(path) + 512] = "";
	uint16_t ops[MAX_OPS];
	const char *const *args;
	struct query q = {.db_path = path};
	int e, rc;

	if (cli_db_path(ctx, path, sizeof(path)))
		return EXIT_ERROR;
	if (cli_positional(ctx, &args))
		return refuse_filters(ctx) ? EXIT_USAGE : query_sql(path, args[0], opt_bool(ctx, OPT_JSON));
	if (choose_op(ctx, ops, &q.filter) || choose_limit(ctx, &q.filter) || choose_window(ctx, &q))
		return EXIT_USAGE;
	q.limit_given = opt_given(ctx, OPT_LIMIT);
	q.filter.n_pids = opt_pids(ctx, OPT_PID, &q.filter.pids);
	e = reader_open(path, &q.reader, err, sizeof(err));
	if (e) {
		log_error("%s", err);
		return EXIT_ERROR;
	}
	rc = opt_bool(ctx, OPT_JSON) ? query_json(&q) : query_text(&q);
	reader_close(q.reader);
	return rc;
}
