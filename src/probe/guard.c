/* Puts return addresses back before a C++ exception passes through probed calls (bpf/unwind.h). The thread
 * has been sent a stop in kernel; it is let go as soon as its stack is as the program made it. Nothing else
 * runs on this thread, so that the target never waits for a slow disk or terminal of ours. */
#include "probe/internal.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <time.h>

#define STOP_WAIT_MS 2000 /* the signal is pending; it takes effect when the thread returns to user mode */
#define BATCH 64u

struct guard_batch {
	struct abi_rec_unwind rec[BATCH];
	size_t n;
	uint32_t stopped[BATCH]; /* processes to let go */
	size_t n_stopped;
};

static void sleep_ms(long ms)
{
	struct timespec t = {.tv_nsec = ms * 1000000L};

	nanosleep(&t, NULL);
}

/* State letter of a thread from /proc, 0 when it is gone. */
static char thread_state(uint32_t tgid, const char *tid)
{
	char path[64], text[256], *after;
	cleanup_fd int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%u/task/%.16s/stat", tgid, tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	after = strrchr(text, ')');
	return after && after[1] == ' ' ? after[2] : 0;
}

/* Sleepers in the kernel that no signal wakes count as stopped: they are not about to unwind, and a slow disk
 * of theirs must not hold the others. */
static bool all_stopped(uint32_t tgid)
{
	char path[64];
	struct dirent *entry;
	bool all = true;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%u/task", tgid);
	dir = opendir(path);
	if (!dir)
		return true; /* gone */
	while (all && (entry = readdir(dir))) {
		char state = isdigit((unsigned char)*entry->d_name) ? thread_state(tgid, entry->d_name) : 0;

		all = !state || strchr("TtDZX", state);
	}
	closedir(dir);
	return all;
}

/* Every thread: the signal that lets a process go also takes back stops that have not come into effect, and a
 * thread whose stop was taken back would run into its trampoline. */
static void wait_all_stopped(uint32_t tgid)
{
	for (int i = 0; i < STOP_WAIT_MS && !all_stopped(tgid); i++)
		sleep_ms(1);
}

static bool wait_thread_stopped(const struct abi_rec_unwind *r)
{
	char tid[16], state;

	snprintf(tid, sizeof(tid), "%u", r->tid);
	for (int i = 0; i < STOP_WAIT_MS; i++) {
		state = thread_state(r->tgid, tid);
		if (!state || state == 'T' || state == 't')
			return state;
		sleep_ms(1);
	}
	return false;
}

static bool restore(const struct abi_rec_unwind *r)
{
	char path[64];
	cleanup_fd int fd = -1;
	bool ok = true;

	snprintf(path, sizeof(path), "/proc/%u/mem", r->tgid);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return false;
	for (unsigned i = 0; i < r->n && i < ABI_MAX_UNWIND; i++) {
		uint64_t value = r->word[i].value;

		if (!r->word[i].address)
			continue;
		ok &= pwrite(fd, &value, sizeof(value), (off_t)r->word[i].address) == (ssize_t)sizeof(value);
	}
	return ok;
}

static int on_unwind(void *ctx, void *data, size_t size)
{
	struct guard_batch *b = ctx;
	const struct abi_rec_unwind *r = data;

	if (size < sizeof(*r) || r->type != ABI_REC_UNWIND)
		return 0;
	b->rec[b->n++] = *r;
	return b->n < BATCH ? 0 : -ENOSPC; /* the rest stays in the ring */
}

static void remember(struct guard_batch *b, uint32_t tgid)
{
	for (size_t i = 0; i < b->n_stopped; i++) {
		if (b->stopped[i] == tgid)
			return;
	}
	if (b->n_stopped < BATCH)
		b->stopped[b->n_stopped++] = tgid;
	else
		kill((pid_t)tgid, SIGCONT); /* better a risk than a process that stands still */
}

/* Repairs all that is in the batch and all that comes while the processes stop; then lets them go. */
static void repair(struct probe *p, struct guard_batch *b)
{
	while (b->n) {
		for (size_t i = 0; i < b->n; i++) {
			bool ok = wait_thread_stopped(&b->rec[i]) && restore(&b->rec[i]);

			remember(b, b->rec[i].tgid);
			atomic_fetch_add(ok ? &p->unwinds_repaired : &p->unwinds_failed, 1);
		}
		b->n = 0;
		for (size_t i = 0; i < b->n_stopped; i++)
			wait_all_stopped(b->stopped[i]);
		ring_buffer__consume(p->unwinds);
	}
	for (size_t i = 0; i < b->n_stopped; i++)
		kill((pid_t)b->stopped[i], SIGCONT);
	b->n_stopped = 0;
}

static void *guard_main(void *arg)
{
	struct probe *p = arg;

	do {
		ring_buffer__poll(p->unwinds, 100);
		repair(p, p->guard_batch);
	} while (!atomic_load(&p->guard_stop));
	ring_buffer__consume(p->unwinds);
	repair(p, p->guard_batch);
	return NULL;
}

int guard_start(struct probe *p)
{
	struct bpf_map *map = bpf_object__find_map_by_name(p->object, "ing_unwinds");
	sigset_t all, old;
	int err;

	p->guard_batch = calloc(1, sizeof(*p->guard_batch));
	p->unwinds = map && p->guard_batch
			     ? ring_buffer__new(bpf_map__fd(map), on_unwind, p->guard_batch, NULL)
			     : NULL;
	if (!p->unwinds)
		return -ENOMEM;
	sigfillset(&all); /* signals belong to the main thread */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&p->guard, NULL, guard_main, p);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	p->guard_running = !err;
	return -err;
}

void guard_stop(struct probe *p)
{
	atomic_store(&p->guard_stop, true);
	if (p->guard_running)
		pthread_join(p->guard, NULL);
	p->guard_running = false;
	ring_buffer__free(p->unwinds);
	p->unwinds = NULL;
	free(p->guard_batch);
	p->guard_batch = NULL;
}
