#include "cli/cli.h"
#include "base/log.h"
#include "discover/discover.h"
#include "trace/trace.h"

#include <errno.h>

#define RING_MIN 4096u	    /* a page */
#define RING_MAX (1u << 31) /* the kernel's ring positions have 32 bits */

/* Whose processes: --pid, else --user, else the invoking user's. */
static int choose_targets(struct cli_context *ctx, struct trace_options *o, char *name, size_t name_size)
{
	const char *user = opt_str(ctx, OPT_USER);
	uint32_t gid;
	int err;

	o->n_pids = opt_pids(ctx, OPT_PID, &o->pids);
	if (o->n_pids && !user)
		return 0;
	if (user) {
		err = discover_user_by_name(user, &o->uid);
		snprintf(name, name_size, "%s", user);
		if (err)
			log_error("--user %s: no such user", user);
	} else {
		err = discover_invoking_user(&o->uid, &gid, name, name_size);
		if (err)
			log_error("the invoking user cannot be determined: name one with --user");
	}
	o->by_uid = true;
	o->user_name = name;
	return err;
}

static enum probe_way way_of(const char *text)
{
	for (enum probe_way w = PROBE_WAY_SESSION; w <= PROBE_WAY_SINGLE; w++) {
		if (text && !strcmp(text, probe_way_name(w)))
			return w;
	}
	return PROBE_WAY_AUTO;
}

/* What the option table cannot say about numbers. */
static int check_numbers(const struct cli_context *ctx)
{
	uint64_t ring = opt_u64(ctx, OPT_RINGBUF_SIZE), rate = opt_u64(ctx, OPT_SAMPLING_RATE);

	if (opt_given(ctx, OPT_RINGBUF_SIZE) && (ring < RING_MIN || ring > RING_MAX || (ring & (ring - 1)))) {
		log_error("--ringbuf-size: '%.64s' is not a power of two from 4096 to 2g, such as 64k or 32m",
			opt_str(ctx, OPT_RINGBUF_SIZE));
		return -EINVAL;
	}
	if (rate > UINT32_MAX) {
		log_error("--sampling-rate: '%.64s' is too large; it goes up to %u",
			opt_str(ctx, OPT_SAMPLING_RATE), UINT32_MAX);
		return -EINVAL;
	}
	return 0;
}

int cmd_trace(struct cli_context *ctx)
{
	char db[4096] = "", node[256] = "", user[256] = "";
	struct trace_options o = {
		.duration_ns = opt_u64(ctx, OPT_DURATION),
		.output = opt_bool(ctx, OPT_JSON)      ? TRACE_JSON
			  : opt_bool(ctx, OPT_VERBOSE) ? TRACE_VERBOSE
						       : TRACE_TABLE,
		.record = opt_bool(ctx, OPT_RECORD) || opt_bool(ctx, OPT_RECORD_ALL),
		.record_all = opt_bool(ctx, OPT_RECORD_ALL),
		.db_path = db,
		.max_db_bytes = opt_u64(ctx, OPT_MAX_DB),
		.deadband_pct = opt_double(ctx, OPT_DEADBAND),
		.heartbeat_ns = opt_u64(ctx, OPT_HEARTBEAT),
		.node = node,
		.version = cli_version(),
		.ring_bytes = opt_u64(ctx, OPT_RINGBUF_SIZE),
		.sampling_rate = (uint32_t)opt_u64(ctx, OPT_SAMPLING_RATE),
		.skip_slow_probes = opt_bool(ctx, OPT_SKIP_SLOW_PROBES),
		.debug = opt_bool(ctx, OPT_DEBUG),
		.way = way_of(opt_str(ctx, OPT_PROBE_MODE)),
	};

	if (check_numbers(ctx) || cli_node(ctx, node, sizeof(node)))
		return EXIT_USAGE;
	if (o.record && cli_db_path(ctx, db, sizeof(db)))
		return EXIT_ERROR;
	o.n_cuda_libs = opt_strings(ctx, OPT_CUDA_LIB, &o.cuda_libs);
	if (choose_targets(ctx, &o, user, sizeof(user)))
		return EXIT_ERROR;
	return trace_run(&o) ? EXIT_ERROR : EXIT_OK;
}
