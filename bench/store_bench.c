/* What a stored event costs: bytes on disk (all tables and indexes) and microseconds of the writer, in
 * batches as in reality. usage: store_bench FILE [ROWS ...]   (default 1000000 10000000; FILE must not exist
 * and is removed) */
#include "store/store.h"
#include "model/ops.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#define CALLS_PER_SEC 50000 /* simulated time, so that buckets turn over */
#define THREADS 8
#define KERNELS 200
#define START_NS 1764547200000000000ll
#define MONO_START_NS 5000000000000ull

static uint64_t random_state = 88172645463325252ull;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static double seconds(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* A training loop as the selection lets it through with --record-all: launches in both layers, copies,
 * allocations. */
static struct call_event make_event(uint64_t i)
{
	uint64_t r = next_random(), at_ns = i * (NSEC_PER_SEC / CALLS_PER_SEC) + r % 15000;
	unsigned kind = (unsigned)(r >> 20) % 100, kernel = (unsigned)(r >> 32) % KERNELS;
	struct call_event e = {
		.wall_ns = START_NS + (int64_t)at_ns,
		.mono_ns = MONO_START_NS + at_ns,
		.dur_ns = 2000 + (r >> 40) % 60000,
		.proc = {4821, 77000000000},
		.tid = 4821 + (uint32_t)((r >> 16) % THREADS),
		.weight = 1,
		.reason = REASON_ALL,
		.stream = 0x55d0c0de0000 + (r >> 50) % 4 * 0x100,
	};

	if (kind < 80) {
		bool driver = kind >= 40;

		e.op = OP_CODE(driver ? SOURCE_DRIVER : SOURCE_CUDA, driver ? 1 : 3);
		e.kernel = 0x7f0000001000 + kernel * 0x40;
		e.arg0 = e.kernel;
		e.depth = driver;
		e.flags = driver ? CALL_NESTED : 0;
		e.grid[0] = 1 + kernel % 32;
		e.grid[1] = e.grid[2] = e.block[1] = e.block[2] = 1;
		e.block[0] = 256;
	} else if (kind < 92) {
		e.op = OP_CODE(SOURCE_CUDA, 7);
		e.arg0 = 1 + (r >> 8) % (1 << 24);
		e.arg1 = 1 + (r >> 5) % 2;
	} else if (kind < 96) {
		e.op = OP_CODE(SOURCE_CUDA, 5);
		e.arg0 = e.stream;
		e.reason |= REASON_SYNC;
	} else {
		e.op = OP_CODE(SOURCE_CUDA, kind & 1 ? 1 : 2);
		e.handle = 0x7f2000000000 + ((r >> 9) & 0xffffff) * 512;
		e.arg0 = kind & 1 ? 512 * (1 + (r >> 8) % 4096) : e.handle;
		e.arg1 = kind & 1 ? e.handle : 0;
		e.stream = 0;
		e.reason |= REASON_MEMORY;
	}
	if (r % 200 == 0) {
		e.dur_ns *= 50;
		e.reason |= REASON_SLOW;
		e.flags |= CALL_ANOMALY;
	}
	return e;
}

static void add_counters(struct store *s, uint64_t i)
{
	static const uint16_t ops[] = {OP_CODE(SOURCE_CUDA, 1), OP_CODE(SOURCE_CUDA, 2),
		OP_CODE(SOURCE_CUDA, 3), OP_CODE(SOURCE_CUDA, 5), OP_CODE(SOURCE_CUDA, 7),
		OP_CODE(SOURCE_DRIVER, 1)};
	struct op_counters c = {.count = CALLS_PER_SEC / 6, .delivered = CALLS_PER_SEC / 6};

	for (unsigned k = 0; k < 600; k++)
		hist_add(&c.hist, 2000 + next_random() % 60000, c.count / 600);
	c.sum_ns = c.count * 30000;
	for (size_t k = 0; k < ARRAY_LEN(ops); k++)
		store_add_counters(s, START_NS + (int64_t)(i * (NSEC_PER_SEC / CALLS_PER_SEC)),
			(struct proc_id){4821, 77000000000}, ops[k], &c);
}

static int measure(const char *path, uint64_t rows)
{
	struct store_options o = {.path = path,
		.owner_uid = (uid_t)-1,
		.owner_gid = (gid_t)-1,
		.node = "bench",
		.version = "bench",
		.flags = "record-all",
		.pid_filter = ""};
	struct store_stats st;
	struct rusage usage;
	struct store *s;
	struct stat file;
	char err[512];
	double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);

	if (store_open(&o, &s, err, sizeof(err))) {
		fprintf(stderr, "%s\n", err);
		return 1;
	}
	for (uint64_t i = 0; i < rows; i++) {
		struct call_event e = make_event(i);

		if (i % CALLS_PER_SEC == 0)
			add_counters(s, i);
		if (i % 32768 == 32767)
			store_flush(s); /* keeps the queue from overflowing */
		store_add_event(s, &e);
	}
	store_close(s, &st);
	wall = seconds(CLOCK_MONOTONIC) - wall;
	cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	getrusage(RUSAGE_SELF, &usage);
	if (stat(path, &file))
		return 1;
	printf("%9" PRIu64
	       " rows: %.1f bytes/row, %.2f us/row elapsed, %.2f us/row CPU (making them included), "
	       "written %" PRIu64 ", dropped %" PRIu64 ", peak memory %ld MB\n",
		rows, (double)file.st_size / (double)rows, wall * 1e6 / (double)rows,
		cpu * 1e6 / (double)rows, st.written, st.dropped_queue + st.dropped_disk,
		usage.ru_maxrss >> 10);
	fflush(stdout);
	return unlink(path) || st.written != rows;
}

int main(int argc, char **argv)
{
	static const uint64_t defaults[] = {1000000, 10000000};
	int failed = 0;

	if (argc < 2 || !access(argv[1], F_OK)) {
		fprintf(stderr, "usage: store_bench FILE [ROWS ...]   (FILE must not exist)\n");
		return 2;
	}
	for (int i = 2; i < argc; i++)
		failed |= measure(argv[1], strtoull(argv[i], NULL, 10));
	for (size_t i = 0; argc == 2 && i < ARRAY_LEN(defaults); i++)
		failed |= measure(argv[1], defaults[i]);
	return failed;
}
