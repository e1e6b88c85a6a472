/* sim-workload: replays a script of CUDA calls and prints how many were made, exactly. */
#include "sim/calls.h"
#include "sim/report.h"
#include "sim/script.h"
#include "sim/stop.h"
#include "sim/waiting.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#define MAX_SCRIPT (1u << 20)
#define MAX_THREADS 4096
#define MAX_CHILDREN 1024
#define THREAD_STACK (256u << 10)
#define DEFAULT_LIMIT_S 600
#define POLL_NS NSEC_PER_MSEC
#define CHILD_GRACE_NS (10 * NSEC_PER_SEC)
/* a paced thread gets at most this far ahead before it sleeps: bursts instead of a sleep per call */
#define MAX_LEAD_NS (500 * NSEC_PER_USEC)
/* what was missed longer ago is not made up for */
#define MAX_LAG_NS (200 * NSEC_PER_MSEC)

struct lane;

struct thread {
	pthread_t id;
	struct lane *lane;
};

/* One thread of the workload. */
struct lane {
	struct hand *hand;
	struct statement *body;
	uint64_t period_ns, next_ns;
	struct thread *threads;
	size_t n_threads, threads_capacity;
	pid_t *children;
	size_t n_children, children_capacity;
	int rc;
};

static uint64_t folded[CALLS_MAX_TARGETS]; /* hands of threads that have ended */
static pthread_mutex_t folded_lock = PTHREAD_MUTEX_INITIALIZER;

static int run_block(struct lane *lane, struct statement *first);
static int run_lane(struct lane *lane, struct statement *body);

/* ---- lanes ---- */

static struct lane *lane_new(struct statement *body, const struct lane *parent)
{
	struct lane *lane = calloc(1, sizeof(*lane));

	if (!lane)
		return NULL;
	lane->hand = calloc(1, sizeof(*lane->hand));
	if (!lane->hand) {
		free(lane);
		return NULL;
	}
	lane->body = body;
	if (parent) {
		lane->period_ns = parent->period_ns;
		lane->hand->kernel_name = parent->hand->kernel_name;
	}
	return lane;
}

static void lane_free(struct lane *lane)
{
	pthread_mutex_lock(&folded_lock);
	for (unsigned i = 0; i < CALLS_MAX_TARGETS; i++)
		folded[i] += lane->hand->made[i];
	pthread_mutex_unlock(&folded_lock);
	calls_release(lane->hand);
	free(lane->threads);
	free(lane->children);
	free(lane);
}

/* ---- calls ---- */

static void pace(struct lane *lane)
{
	uint64_t lead_ns = lane->period_ns < MAX_LEAD_NS ? MAX_LEAD_NS : 0;
	uint64_t now;

	if (!lane->period_ns)
		return;
	now = stop_now_ns();
	if (now > lane->next_ns + MAX_LAG_NS)
		lane->next_ns = now;
	if (lane->next_ns > now + lead_ns)
		stop_sleep_until(lane->next_ns);
	lane->next_ns += lane->period_ns;
}

static int make_call(struct lane *lane, struct statement *s)
{
	struct target *target = __atomic_load_n(&s->target, __ATOMIC_ACQUIRE);

	if (!target) {
		int rc = calls_find(s->arg[0], &target);

		if (rc)
			return rc;
		__atomic_store_n(&s->target, target, __ATOMIC_RELEASE);
	}
	pace(lane);
	calls_make(lane->hand, target, &s->number[1], s->n_args - 1);
	return 0;
}

static int call_by_name(struct lane *lane, const char *name)
{
	struct target *target;
	int rc = calls_find(name, &target);

	if (rc)
		return rc;
	pace(lane);
	calls_make(lane->hand, target, NULL, 0);
	return 0;
}

static int make_graph(struct lane *lane, uint64_t n_launches, uint64_t n_replays)
{
	static const char *const before[] = {"cudaStreamCreate", "cudaStreamBeginCapture"};
	static const char *const between[] = {"cudaStreamEndCapture", "cudaGraphInstantiate"};
	static const char *const after[] = {
		"cudaStreamSynchronize", "cudaGraphExecDestroy", "cudaGraphDestroy", "cudaStreamDestroy"};
	int rc = 0;

	for (unsigned i = 0; !rc && i < ARRAY_LEN(before); i++)
		rc = call_by_name(lane, before[i]);
	for (uint64_t i = 0; !rc && i < n_launches; i++)
		rc = call_by_name(lane, "cudaLaunchKernel");
	for (unsigned i = 0; !rc && i < ARRAY_LEN(between); i++)
		rc = call_by_name(lane, between[i]);
	for (uint64_t i = 0; !rc && i < n_replays && !stop_wanted(); i++)
		rc = call_by_name(lane, "cudaGraphLaunch");
	for (unsigned i = 0; !rc && i < ARRAY_LEN(after); i++)
		rc = call_by_name(lane, after[i]);
	return rc;
}

static int free_all(struct lane *lane)
{
	int rc = 0;

	while (!rc && calls_holds(lane->hand, STACK_MEMORY))
		rc = call_by_name(lane, "cudaFree");
	while (!rc && calls_holds(lane->hand, STACK_HOST))
		rc = call_by_name(lane, "cudaFreeHost");
	return rc;
}

/* ---- threads and processes ---- */

static void *thread_main(void *arg)
{
	struct lane *lane = arg;

	prctl(PR_SET_TIMERSLACK, 1);
	lane->rc = run_lane(lane, lane->body);
	return NULL;
}

static int start_thread(struct lane *lane, struct statement *body)
{
	pthread_attr_t attr;
	struct thread t;
	int rc = UTIL_GROW(lane->threads, lane->threads_capacity, lane->n_threads + 1, MAX_THREADS);

	if (rc)
		return rc;
	t.lane = lane_new(body, lane);
	if (!t.lane)
		return -ENOMEM;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, THREAD_STACK);
	rc = -pthread_create(&t.id, &attr, thread_main, t.lane);
	pthread_attr_destroy(&attr);
	if (rc)
		lane_free(t.lane);
	else
		lane->threads[lane->n_threads++] = t;
	return rc;
}

static int join_threads(struct lane *lane, bool cancel)
{
	int rc = 0;

	for (size_t i = 0; cancel && i < lane->n_threads; i++)
		pthread_cancel(lane->threads[i].id);
	for (size_t i = 0; i < lane->n_threads; i++) {
		struct thread *t = &lane->threads[i];

		pthread_join(t->id, NULL);
		if (!cancel && t->lane->rc)
			rc = t->lane->rc;
		lane_free(t->lane);
	}
	lane->n_threads = 0;
	return rc;
}

static void signal_children(const struct lane *lane, int sig)
{
	for (size_t i = 0; i < lane->n_children; i++)
		kill(lane->children[i], sig);
}

/* Reaps the last child if it has ended. Returns 1 if so, 0 if not, negative if it ended badly. */
static int reap_child(struct lane *lane)
{
	pid_t pid = lane->children[lane->n_children - 1];
	int status = 0;

	if (!waitpid(pid, &status, WNOHANG))
		return 0;
	lane->n_children--;
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 1;
	fprintf(stderr, "child %d: %s %d\n", (int)pid, WIFSIGNALED(status) ? "signal" : "exit code",
		WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	return -ECHILD;
}

/* After a stop, children get the same signal, and those that do not end by it are killed. */
static int wait_children(struct lane *lane)
{
	uint64_t kill_ns = 0;
	int rc = 0;

	while (lane->n_children) {
		struct timespec poll = {.tv_nsec = (long)POLL_NS};
		int reaped = reap_child(lane);

		rc = reaped < 0 ? reaped : rc;
		if (reaped)
			continue;
		if (stop_wanted() && !kill_ns) {
			signal_children(lane, SIGTERM);
			kill_ns = stop_now_ns() + CHILD_GRACE_NS;
		} else if (kill_ns && stop_now_ns() > kill_ns) {
			signal_children(lane, SIGKILL);
		}
		nanosleep(&poll, NULL);
	}
	return rc;
}

static int report(void)
{
	struct strbuf line = STRBUF_INIT(REPORT_MAX);
	int rc;

	calls_report(&line, folded);
	rc = report_write(&line);
	strbuf_free(&line);
	return rc;
}

/* Ends the lane's threads and children and the lane; then prints the counts of the process. */
static int finish(struct lane *lane, int rc)
{
	int joined = join_threads(lane, false);
	int waited = wait_children(lane);

	rc = rc ? rc : joined ? joined : waited;
	lane_free(lane);
	return report() || rc ? 1 : 0;
}

static int start_child(struct lane *lane, struct statement *body)
{
	int rc = UTIL_GROW(lane->children, lane->children_capacity, lane->n_children + 1, MAX_CHILDREN);
	pid_t pid;

	if (rc)
		return rc;
	calls_fork(true);
	pthread_mutex_lock(&folded_lock);
	pid = fork();
	pthread_mutex_unlock(&folded_lock);
	calls_fork(false);
	if (pid < 0)
		return -errno;
	if (pid) {
		lane->children[lane->n_children++] = pid;
		return 0;
	}
	/* the other threads and their counts stayed behind */
	memset(folded, 0, sizeof(folded));
	memset(lane->hand->made, 0, sizeof(lane->hand->made));
	lane->n_threads = 0;
	lane->n_children = 0;
	stop_forked();
	_exit(finish(lane, run_lane(lane, body)));
}

static int repeat(
	struct lane *lane, const struct statement *s, int (*start)(struct lane *, struct statement *))
{
	uint64_t n = s->n_args ? s->number[0] : 1;
	int rc = 0;

	for (uint64_t i = 0; !rc && i < n; i++)
		rc = start(lane, s->body);
	return rc;
}

/* ---- statements ---- */

static int run_loop(struct lane *lane, const struct statement *s)
{
	int rc = 0;

	for (uint64_t i = 0; !rc && !stop_wanted() && (!s->number[0] || i < s->number[0]); i++)
		rc = run_block(lane, s->body);
	return rc;
}

static int run_setting(struct lane *lane, const struct statement *s)
{
	switch (s->verb) {
	case VERB_RUNTIME:
		return calls_open(LAYER_RUNTIME, s->arg[0]);
	case VERB_DRIVER:
		return calls_open(LAYER_DRIVER, s->arg[0]);
	case VERB_SET:
		return calls_set(s->arg[0], s->arg[1]);
	case VERB_KERNEL:
		return calls_kernel(lane->hand, s->arg[0]);
	case VERB_RATE:
		lane->period_ns = s->number[0] ? MAX(NSEC_PER_SEC / s->number[0], 1) : 0;
		lane->next_ns = 0;
		return 0;
	case VERB_NAME:
		return prctl(PR_SET_NAME, s->arg[0]) ? -errno : 0;
	default:
		return -ENOSYS;
	}
}

static int run_statement(struct lane *lane, struct statement *s)
{
	switch (s->verb) {
	case VERB_CALL:
		return make_call(lane, s);
	case VERB_LOOP:
		return run_loop(lane, s);
	case VERB_THREAD:
		return repeat(lane, s, start_thread);
	case VERB_JOIN:
		return join_threads(lane, false);
	case VERB_CANCEL:
		return join_threads(lane, true);
	case VERB_FORK:
		return repeat(lane, s, start_child);
	case VERB_WAIT:
		return wait_children(lane);
	case VERB_GRAPH:
		return make_graph(lane, s->number[0], s->number[1]);
	case VERB_FREE_ALL:
		return free_all(lane);
	case VERB_SLEEP:
	case VERB_SPIN:
	case VERB_TOUCH:
	case VERB_READY:
	case VERB_WAIT_FILE:
	case VERB_WAIT_CALLS:
		return waiting_run(s);
	default:
		return run_setting(lane, s);
	}
}

static int run_block(struct lane *lane, struct statement *first)
{
	int rc = 0;

	for (struct statement *s = first; s && !rc && !stop_wanted(); s = s->next)
		rc = run_statement(lane, s);
	return rc;
}

static int run_lane(struct lane *lane, struct statement *body)
{
	int rc = run_block(lane, body);

	if (rc)
		fprintf(stderr, "sim-workload: %s\n", strerror(-rc));
	return rc;
}

/* ---- program ---- */

static int read_script(const char *path, struct strbuf *text)
{
	cleanup_file FILE *f = strcmp(path, "-") ? fopen(path, "re") : fdopen(dup(STDIN_FILENO), "re");
	char buf[4096];
	size_t n;

	if (!f) {
		perror(path);
		return -errno;
	}
	while ((n = fread(buf, 1, sizeof(buf), f)) > 0)
		strbuf_add(text, buf, n);
	return text->error;
}

static int usage(void)
{
	fputs("usage: sim-workload [-l SECONDS] (-c SCRIPT | FILE | -)\n", stderr);
	return 2;
}

int main(int argc, char **argv)
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT(MAX_SCRIPT);
	unsigned limit_s = DEFAULT_LIMIT_S;
	struct statement *first = NULL;
	struct lane *lane;
	int opt, rc = 0;

	while ((opt = getopt(argc, argv, "c:l:")) != -1) {
		if (opt == 'c')
			strbuf_adds(&text, optarg);
		else if (opt == 'l')
			limit_s = (unsigned)strtoul(optarg, NULL, 10);
		else
			return usage();
	}
	if (optind + (text.len ? 0 : 1) != argc)
		return usage();
	if (!text.len)
		rc = read_script(argv[optind], &text);
	if (!rc)
		rc = script_parse(strbuf_str(&text), &first);
	if (rc)
		return 2;
	lane = lane_new(first, NULL);
	if (!lane || stop_install(limit_s))
		return 1;
	rc = finish(lane, run_lane(lane, first));
	script_free(first);
	return rc;
}
