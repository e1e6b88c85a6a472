#include "sim/plan.h"

#include "base/parse.h"

#include <errno.h>
#include <fnmatch.h>

static _Atomic uint64_t queue_ready_ns;

/* ---- at a call ---- */

void sim_wait_until(uint64_t ns, enum sim_wait wait)
{
	struct timespec t = {.tv_sec = (time_t)(ns / NSEC_PER_SEC), .tv_nsec = (long)(ns % NSEC_PER_SEC)};

	if (wait == SIM_WAIT_SPIN) {
		while (sim_now_ns() < ns)
			;
		return;
	}
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

/* One after another, as on a device that does one thing at a time. */
static uint64_t take_turn(uint64_t ns)
{
	uint64_t ready = atomic_load(&queue_ready_ns);
	uint64_t now = sim_now_ns();
	uint64_t end;

	do
		end = MAX(ready, now) + ns;
	while (!atomic_compare_exchange_weak(&queue_ready_ns, &ready, end));
	return end;
}

int sim_plan_run(struct sim_plan *plan)
{
	uint64_t ns = atomic_load(&plan->first_ns) ? atomic_exchange(&plan->first_ns, 0) : 0;
	uint64_t every = atomic_load(&plan->every);
	enum sim_wait wait = (enum sim_wait)atomic_load(&plan->wait);

	if (!ns)
		ns = atomic_load(&plan->delay_ns);
	if (ns)
		sim_wait_until(wait == SIM_WAIT_QUEUE ? take_turn(ns) : sim_now_ns() + ns, wait);
	if (every && atomic_fetch_add(&plan->n_calls, 1) % every == every - 1)
		return atomic_load(&plan->error);
	return 0;
}

/* ---- settings ---- */

struct setting {
	enum sim_wait wait;
	uint64_t ns;
	uint64_t error;
	uint64_t every;
};

/* "CODE" or "CODE/EVERY" */
static int parse_error(char *text, struct setting *s)
{
	char *slash = strchr(text, '/');

	s->every = 1;
	if (slash) {
		*slash++ = 0;
		if (parse_u64(slash, &s->every) || !s->every)
			return -EINVAL;
	}
	return parse_u64(text, &s->error) || s->error > INT32_MAX ? -EINVAL : 0;
}

/* "DURATION" or "sleep:DURATION", "spin:…", "queue:…" */
static int parse_delay(char *text, struct setting *s)
{
	static const char *const words[] = {
		[SIM_WAIT_SLEEP] = "sleep:", [SIM_WAIT_SPIN] = "spin:", [SIM_WAIT_QUEUE] = "queue:"};

	for (unsigned i = 0; i < ARRAY_LEN(words); i++) {
		if (!strncmp(text, words[i], strlen(words[i]))) {
			s->wait = (enum sim_wait)i;
			text += strlen(words[i]);
			break;
		}
	}
	return parse_duration(text, &s->ns) ? -EINVAL : 0;
}

static void apply(struct sim_plan *plan, char key, const struct setting *s)
{
	if (key == 'e') {
		atomic_store(&plan->error, (int)s->error);
		atomic_store(&plan->n_calls, 0);
		atomic_store(&plan->every, s->error ? s->every : 0);
	} else {
		atomic_store(&plan->wait, s->wait);
		atomic_store(key == 'd' ? &plan->delay_ns : &plan->first_ns, s->ns);
	}
	atomic_store_explicit(&plan->active, true, memory_order_release);
}

static int apply_item(struct sim_fn **fns, size_t n_fns, char key, char *item)
{
	struct setting s = {.wait = SIM_WAIT_SLEEP};
	char *value = strchr(item, '=');
	int n = 0;

	if (!value || value == item)
		return -EINVAL;
	*value++ = 0;
	if (key == 'e' ? parse_error(value, &s) : parse_delay(value, &s))
		return -EINVAL;
	for (size_t i = 0; i < n_fns; i++) {
		if (!fnmatch(item, fns[i]->name, 0)) {
			apply(&fns[i]->plan, key, &s);
			n++;
		}
	}
	return n;
}

int sim_plan_set(struct sim_fn **fns, size_t n_fns, const char *key, const char *value)
{
	cleanup_free char *copy = NULL;
	char *rest = NULL;
	int total = 0;

	if (strcmp(key, "error") && strcmp(key, "delay") && strcmp(key, "first"))
		return -ENOENT;
	copy = strdup(value);
	if (!copy)
		return -ENOMEM;
	for (char *item = strtok_r(copy, ",", &rest); item; item = strtok_r(NULL, ",", &rest)) {
		int n = apply_item(fns, n_fns, key[0], item);

		if (n < 0)
			return n;
		total += n;
	}
	return total;
}
