/* Makes a recording of calls at known instants, for the tests of `query`; no probes, no root.
 *   make-recording DB < CALLS     one call a line: START_NS PID TID OPERATION DURATION_NS RESULT BYTES NAME
 * Every call becomes a row and is counted, as `trace --record-all` does it. */
#include "model/ops.h"
#include "store/store.h"

#define LINE_BYTES 512

static int read_call(const char *line, struct call_event *e, char name[COMM_LEN])
{
	char op[64];
	uint16_t code;
	int at = 0;

	*e = (struct call_event){.weight = 1, .reason = REASON_ALL};
	if (sscanf(line, "%ld %u %u %63s %lu %d %lu %n", &e->wall_ns, &e->proc.pid, &e->tid, op, &e->dur_ns,
		    &e->ret, &e->arg0, &at) != 7 ||
		!at || op_find(op, &code, 1) != 1)
		return -1;
	e->op = code;
	e->proc.start_ns = e->proc.pid;
	e->mono_ns = (uint64_t)e->wall_ns;
	snprintf(name, COMM_LEN, "%.*s", (int)strcspn(line + at, "\n"), line + at);
	return 0;
}

static void add_call(struct store *s, const struct call_event *e, const char *name)
{
	struct process_info p = {.id = e->proc, .rank = -1, .local_rank = -1, .world_size = -1};
	struct op_counters c = {.count = 1,
		.sum_ns = e->dur_ns,
		.min_ns = e->dur_ns,
		.max_ns = e->dur_ns,
		.errors = e->ret != 0,
		.bytes = e->ret ? 0 : e->arg0,
		.delivered = 1};

	memcpy(p.comm, name, COMM_LEN);
	hist_add(&c.hist, e->dur_ns, 1);
	store_add_process(s, &p);
	store_add_event(s, e);
	store_add_counters(s, e->wall_ns, e->proc, e->op, &c);
}

int main(int argc, char **argv)
{
	struct store_options o = {.path = argv[1],
		.owner_uid = (uid_t)-1,
		.owner_gid = (gid_t)-1,
		.node = "test-node",
		.version = "test",
		.flags = "record-all",
		.pid_filter = ""};
	char line[LINE_BYTES], err[512] = "", name[COMM_LEN];
	struct store_stats stats;
	struct store *s = NULL;
	struct call_event e;
	unsigned n = 0;

	if (argc != 2 || store_open(&o, &s, err, sizeof(err))) {
		fprintf(stderr, "make-recording: %s\n", argc == 2 ? err : "name one file");
		return 1;
	}
	while (fgets(line, sizeof(line), stdin)) {
		if (read_call(line, &e, name)) {
			fprintf(stderr, "make-recording: not a call: %s", line);
			return 1;
		}
		add_call(s, &e, name);
		if (!(++n % 1000)) /* well below the bound of the queue */
			store_flush(s);
	}
	store_close(s, &stats);
	return stats.dropped_queue || stats.dropped_disk || stats.stopped;
}
