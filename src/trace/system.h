/* System context from /proc: CPU, memory, load, swap. No privileges needed. */
#ifndef INGERO_TRACE_SYSTEM_H
#define INGERO_TRACE_SYSTEM_H

#include "model/event.h"

struct system_reader {
	uint64_t cpu_total, cpu_idle; /* of the previous reading */
	bool primed;
};

/* One sample; cpu_pct is that of the time since the previous one (0 on the first). 0 or negative errno. */
int system_read(struct system_reader *r, int64_t wall_ns, struct system_sample *ret);

/* Deadband for recorded samples: passes the first, any after `heartbeat_ns` (0 = none), and those in which a
 * value moved by more than `percent` of max(|last passed|, 1). percent 0 passes everything. */
struct deadband {
	double percent;
	uint64_t heartbeat_ns;
	bool primed;
	struct system_sample last;
};

bool deadband_pass(struct deadband *d, const struct system_sample *sample);

#endif
