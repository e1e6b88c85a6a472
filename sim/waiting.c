#include "sim/waiting.h"
#include "sim/calls.h"
#include "sim/report.h"
#include "sim/stop.h"

#include <errno.h>
#include <fcntl.h>

#define DEFAULT_WAIT_NS (30 * NSEC_PER_SEC)
#define POLL_NS NSEC_PER_MSEC

static int touch(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	if (fd < 0) {
		perror(path);
		return -errno;
	}
	close(fd);
	return 0;
}

static bool is_there(const struct statement *s)
{
	return s->verb == VERB_WAIT_FILE ? !access(s->arg[0], F_OK) : calls_count(s->arg[0]) >= s->number[1];
}

static int wait_for(const struct statement *s)
{
	unsigned at = s->verb == VERB_WAIT_FILE ? 1 : 2;
	uint64_t end = stop_now_ns() + (s->n_args > at ? s->number[at] : DEFAULT_WAIT_NS);

	while (!is_there(s) && !stop_wanted()) {
		if (stop_now_ns() >= end) {
			fprintf(stderr, "line %u: waited too long for %s\n", s->line, s->arg[0]);
			return -ETIMEDOUT;
		}
		stop_sleep_until(stop_now_ns() + POLL_NS);
	}
	return 0;
}

static int say_ready(const struct statement *s)
{
	struct strbuf line = STRBUF_INIT(REPORT_MAX);
	int rc;

	strbuf_addf(&line, "ready %d%s%s\n", (int)getpid(), s->n_args ? " " : "", s->n_args ? s->arg[0] : "");
	rc = report_write(&line);
	strbuf_free(&line);
	return rc;
}

static void spin(uint64_t ns)
{
	uint64_t end = stop_now_ns() + ns;

	while (stop_now_ns() < end && !stop_wanted())
		;
}

int waiting_run(const struct statement *s)
{
	switch (s->verb) {
	case VERB_SLEEP:
		stop_sleep_until(stop_now_ns() + s->number[0]);
		return 0;
	case VERB_SPIN:
		spin(s->number[0]);
		return 0;
	case VERB_TOUCH:
		return touch(s->arg[0]);
	case VERB_READY:
		return say_ready(s);
	default:
		return wait_for(s);
	}
}
