/* sim-spin: the load generator. Threads make one cheap runtime call as fast as they can; prints calls per
 * second. */
#include "sim/report.h"
#include "sim/simcuda.h"
#include "sim/stop.h"

#include "base/parse.h"

#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#define MAX_THREADS 1024
#define BATCH 64

typedef void (*batch_fn)(unsigned n);

/* One loop per call, so that nothing stands between the calls. */
#define BATCH_OF(name, call)                                                                                 \
	static void name(unsigned n)                                                                         \
	{                                                                                                    \
		for (unsigned i = 0; i < n; i++)                                                             \
			call;                                                                                \
	}

BATCH_OF(batch_query, cudaStreamQuery(NULL))
BATCH_OF(batch_launch, cudaLaunchKernel((const void *)batch_query, SIM_DIM3(1), SIM_DIM3(1), NULL, 0, NULL))
BATCH_OF(batch_sync, cudaStreamSynchronize(NULL))
BATCH_OF(batch_error, cudaGetLastError())
BATCH_OF(batch_copy, cudaMemcpyAsync(NULL, NULL, 4096, SIM_H2D, NULL))

static void batch_malloc(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		void *p = NULL;

		cudaMalloc(&p, 4096);
		cudaFree(p);
	}
}

static const struct {
	const char *name;
	batch_fn batch;
	unsigned calls_each;
} ops[] = {
	{"cudaStreamQuery", batch_query, 1}, {"cudaLaunchKernel", batch_launch, 1},
	{"cudaStreamSynchronize", batch_sync, 1}, {"cudaGetLastError", batch_error, 1},
	{"cudaMemcpyAsync", batch_copy, 1}, {"cudaMalloc", batch_malloc, 2}, /* and cudaFree */
};

struct job {
	unsigned op;
	uint64_t calls; /* per thread; 0 = until the time is over */
	uint64_t end_ns;
	uint64_t rate; /* calls per second and thread; 0 = as fast as possible */
};

struct worker {
	pthread_t id;
	const struct job *job;
	uint64_t done;
};

/* Paced: makes what is due, then sleeps until more is. */
static uint64_t due(const struct job *job, uint64_t start_ns, uint64_t done)
{
	uint64_t target;

	for (;;) {
		target = (uint64_t)((double)(stop_now_ns() - start_ns) * (double)job->rate /
				    (double)NSEC_PER_SEC) +
			 1;
		if (target > done || stop_wanted() || stop_now_ns() >= job->end_ns)
			return target > done ? target - done : 0;
		stop_sleep_until(stop_now_ns() + MAX(NSEC_PER_SEC / job->rate, 500 * NSEC_PER_USEC));
	}
}

static void *work(void *arg)
{
	struct worker *w = arg;
	const struct job *job = w->job;
	uint64_t start_ns = stop_now_ns();

	while (!stop_wanted() && (!job->calls || w->done < job->calls) && stop_now_ns() < job->end_ns) {
		uint64_t n = job->rate ? MIN(due(job, start_ns, w->done), BATCH) : BATCH;

		if (job->calls)
			n = MIN(n, job->calls - w->done);
		ops[job->op].batch((unsigned)n);
		w->done += n;
	}
	return NULL;
}

static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / (double)NSEC_PER_SEC;
}

static int run(const struct job *job, unsigned n_threads)
{
	cleanup_free struct worker *workers = calloc(n_threads, sizeof(*workers));
	cleanup_strbuf struct strbuf line = STRBUF_INIT(REPORT_MAX);
	uint64_t start_ns = stop_now_ns();
	uint64_t calls = 0;
	unsigned n = 0;
	double seconds, cpu = cpu_seconds();

	if (!workers)
		return 1;
	for (; n < n_threads; n++) {
		workers[n].job = job;
		if (pthread_create(&workers[n].id, NULL, work, &workers[n]))
			break;
	}
	for (unsigned i = 0; i < n; i++) {
		pthread_join(workers[i].id, NULL);
		calls += workers[i].done * ops[job->op].calls_each;
	}
	seconds = (double)(stop_now_ns() - start_ns) / (double)NSEC_PER_SEC;
	strbuf_addf(&line,
		"{\"pid\":%d,\"op\":\"%s\",\"threads\":%u,\"calls\":%llu,\"seconds\":%.6f,\"cpu_s\":%.6f,"
		"\"calls_per_s\":%.0f}\n",
		(int)getpid(), ops[job->op].name, n, (unsigned long long)calls, seconds, cpu_seconds() - cpu,
		(double)calls / seconds);
	return report_write(&line) || n < n_threads;
}

static int usage(void)
{
	fputs("usage: sim-spin [--op NAME] [--threads N] [--seconds N | --calls N-PER-THREAD] [--rate "
	      "N-PER-THREAD]"
	      " [--wait-key]\nNAME:",
		stderr);
	for (unsigned i = 0; i < ARRAY_LEN(ops); i++)
		fprintf(stderr, " %s", ops[i].name);
	fputs("\n", stderr);
	return 2;
}

static int find_op(const char *name, unsigned *ret_op)
{
	for (unsigned i = 0; i < ARRAY_LEN(ops); i++) {
		if (!strcmp(ops[i].name, name)) {
			*ret_op = i;
			return 0;
		}
	}
	return -1;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"op", 1, NULL, 'o'}, {"threads", 1, NULL, 't'},
		{"seconds", 1, NULL, 's'}, {"calls", 1, NULL, 'c'}, {"rate", 1, NULL, 'r'},
		{"wait-key", 0, NULL, 'w'}, {NULL, 0, NULL, 0}};
	struct job job = {.op = 0};
	uint64_t n_threads = 1, seconds = 0;
	bool wait_key = false;
	int opt, bad = 0;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (opt) {
		case 'o':
			bad |= find_op(optarg, &job.op);
			break;
		case 't':
			bad |= parse_u64(optarg, &n_threads) || !n_threads || n_threads > MAX_THREADS;
			break;
		case 's':
			bad |= parse_u64(optarg, &seconds) || seconds > 86400;
			break;
		case 'c':
			bad |= parse_u64(optarg, &job.calls);
			break;
		case 'r':
			bad |= parse_u64(optarg, &job.rate) || job.rate > NSEC_PER_SEC;
			break;
		case 'w':
			wait_key = true;
			break;
		default:
			bad = 1;
		}
	}
	if (bad || optind != argc)
		return usage();
	if (stop_install(seconds ? (unsigned)seconds + 60 : 600))
		return 1;
	if (wait_key) {
		char key;

		printf("ready %d\n", (int)getpid());
		fflush(stdout);
		if (read(STDIN_FILENO, &key, 1) < 0)
			return 1;
	}
	seconds = seconds ? seconds : job.calls ? 86400 : 3;
	cudaStreamQuery(NULL); /* starts the runtime before the clock */
	job.end_ns = stop_now_ns() + seconds * NSEC_PER_SEC;
	return run(&job, (unsigned)n_threads);
}
