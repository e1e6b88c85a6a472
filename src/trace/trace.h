/* A live session: finds targets, attaches probes, follows the records until it is told to stop. */
#ifndef INGERO_TRACE_TRACE_H
#define INGERO_TRACE_TRACE_H

#include "probe/probe.h"

enum trace_output { TRACE_TABLE, TRACE_JSON, TRACE_VERBOSE };

struct trace_options {
	const uint32_t *pids; /* explicit targets and their descendants */
	size_t n_pids;
	bool by_uid;
	uint32_t uid;
	const char *user_name;
	uint64_t duration_ns; /* 0 = until interrupted */
	enum trace_output output;
	bool record, record_all;
	const char *db_path; /* when recording */
	uint64_t max_db_bytes;
	double deadband_pct;
	uint64_t heartbeat_ns;
	const char *node;
	const char *version;
	const char *const *cuda_libs;
	size_t n_cuda_libs;
	uint64_t ring_bytes;	/* 0 = default */
	uint32_t sampling_rate; /* 0 = adaptive */
	bool skip_slow_probes;
	bool debug;
	enum probe_way way;
};

/* Runs until done. Returns 0 or negative errno; errors have been reported in one line each. Blocks SIGINT,
 * SIGTERM, SIGHUP and SIGWINCH and handles them inside. */
int trace_run(const struct trace_options *options);

#endif
