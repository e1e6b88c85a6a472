/* Puts return addresses back before a C++ exception passes through probed calls (bpf/unwind.h). The thread
 * has been stopped in kernel; it is let go as soon as its stack is as the program made it. Nothing else runs
 * on this thread, so that the target never waits for a slow disk or terminal of ours. */
#include "probe/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <time.h>

#define STOP_WAIT_MS 2000 /* the signal is pending; it takes effect when the thread returns to user mode */

static void sleep_ms(long ms)
{
	struct timespec t = {.tv_nsec = ms * 1000000L};

	nanosleep(&t, NULL);
}

/* State letter of a thread from /proc, 0 when it is gone. */
static char thread_state(uint32_t tgid, uint32_t tid)
{
	char path[64], text[256], *after;
	cleanup_fd int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%u/task/%u/stat", tgid, tid);
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

static bool wait_stopped(uint32_t tgid, uint32_t tid)
{
	for (int i = 0; i < STOP_WAIT_MS; i++) {
		char state = thread_state(tgid, tid);

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
	for (unsigned i = 0; i < r->n && i < ABI_MAX_DEPTH; i++) {
		if (r->address[i] && r->value[i])
			ok &= pwrite(fd, &r->value[i], sizeof(r->value[i]), (off_t)r->address[i]) ==
			      (ssize_t)sizeof(r->value[i]);
	}
	return ok;
}

static int on_unwind(void *ctx, void *data, size_t size)
{
	struct probe *p = ctx;
	const struct abi_rec_unwind *r = data;
	bool ok;

	if (size < sizeof(*r) || r->type != ABI_REC_UNWIND)
		return 0;
	ok = wait_stopped(r->tgid, r->tid) && restore(r);
	kill((pid_t)r->tgid, SIGCONT);
	atomic_fetch_add(ok ? &p->unwinds_repaired : &p->unwinds_failed, 1);
	return 0;
}

static void *guard_main(void *arg)
{
	struct probe *p = arg;

	while (!atomic_load(&p->guard_stop))
		ring_buffer__poll(p->unwinds, 100);
	ring_buffer__consume(p->unwinds);
	return NULL;
}

int guard_start(struct probe *p)
{
	struct bpf_map *map = bpf_object__find_map_by_name(p->object, "ing_unwinds");
	sigset_t all, old;
	int err;

	p->unwinds = map ? ring_buffer__new(bpf_map__fd(map), on_unwind, p, NULL) : NULL;
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
}
