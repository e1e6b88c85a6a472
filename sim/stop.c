#include "sim/stop.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>

static atomic_bool wanted;
static int wake_fd = -1;
static unsigned limit_seconds;

static void on_signal(int sig)
{
	uint64_t one = 1;
	int saved = errno;

	(void)sig;
	atomic_store(&wanted, true);
	if (write(wake_fd, &one, sizeof(one)) < 0)
		atomic_store(&wanted, true); /* counter full: everybody is awake already */
	errno = saved;
}

int stop_install(unsigned limit_s)
{
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

	wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (wake_fd < 0)
		return -errno;
	sigemptyset(&sa.sa_mask);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGALRM, &sa, NULL);
	limit_seconds = limit_s;
	alarm(limit_s);
	prctl(PR_SET_TIMERSLACK, 1);
	return 0;
}

void stop_forked(void)
{
	close(wake_fd);
	wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	alarm(limit_seconds);
}

bool stop_wanted(void)
{
	return atomic_load_explicit(&wanted, memory_order_relaxed);
}

uint64_t stop_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

void stop_sleep_until(uint64_t ns)
{
	struct pollfd p = {.fd = wake_fd, .events = POLLIN};

	for (uint64_t now = stop_now_ns(); now < ns && !stop_wanted(); now = stop_now_ns()) {
		struct timespec t = {.tv_sec = (time_t)((ns - now) / NSEC_PER_SEC),
			.tv_nsec = (long)((ns - now) % NSEC_PER_SEC)};

		if (ppoll(&p, 1, &t, NULL) > 0)
			return;
	}
}
