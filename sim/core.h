/* What both simulated libraries share: a descriptor per exported call, exact counts, injected errors and
 * delays. */
#ifndef SIM_CORE_H
#define SIM_CORE_H

#include "sim/simcuda.h"

#include "base/util.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define SIM_MAX_CALLS 512
#define SIM_EXPORT __attribute__((visibility("default")))
#define SIM_LIKELY(x) __builtin_expect(!!(x), 1)
#define SIM_UNLIKELY(x) __builtin_expect(!!(x), 0)

enum sim_wait { SIM_WAIT_SLEEP, SIM_WAIT_SPIN, SIM_WAIT_QUEUE };

/* What is configured for one call; `active` is set last. */
struct sim_plan {
	_Atomic bool active;
	_Atomic int error;
	_Atomic uint64_t every; /* 0 = never */
	_Atomic uint64_t n_calls;
	_Atomic int wait;
	_Atomic uint64_t delay_ns;
	_Atomic uint64_t first_ns; /* taken by the first call, then 0 */
};

enum sim_fork { SIM_FORK_PREPARE, SIM_FORK_PARENT, SIM_FORK_CHILD };

struct sim_fn {
	const char *name;
	void *addr;
	unsigned index;
	struct sim_plan plan;
};

/* Counters of one thread. A thread that ends leaves its block, counts and all, to a later one. */
struct sim_block {
	struct sim_block *next;
	_Atomic bool owned;
	_Atomic uint64_t calls[SIM_MAX_CALLS];
	_Atomic uint64_t errors[SIM_MAX_CALLS];
	_Atomic uint64_t made[SIM_MAX_CALLS]; /* calls into the other library */
};

extern __thread struct sim_block *sim_own_block __attribute__((tls_model("initial-exec")));
extern __thread int sim_last_error __attribute__((tls_model("initial-exec")));

/* Gives the calling thread a block. Never fails: without memory, threads share one. */
struct sim_block *sim_block_get(void);
/* Delay and error configured for the call. Returns the error or 0. */
int sim_plan_run(struct sim_plan *plan);

static inline struct sim_block *sim_block(void)
{
	return SIM_LIKELY(sim_own_block) ? sim_own_block : sim_block_get();
}

static inline void sim_add(_Atomic uint64_t *counter)
{
	/* atomic although the block is ours: a signal handler or the shared block may add at the same time */
	atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* First thing in every exported call. Returns an injected error or 0. */
static inline int sim_enter(struct sim_fn *fn)
{
	sim_add(&sim_block()->calls[fn->index]);
	return SIM_UNLIKELY(atomic_load_explicit(&fn->plan.active, memory_order_acquire))
		       ? sim_plan_run(&fn->plan)
		       : 0;
}

static inline int sim_leave(struct sim_fn *fn, int rc)
{
	if (SIM_UNLIKELY(rc)) {
		sim_add(&sim_block()->errors[fn->index]);
		sim_last_error = rc;
	}
	return rc;
}

static inline uint64_t sim_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

/* Sleeps (a cancellation point) or spins until then. */
void sim_wait_until(uint64_t ns, enum sim_wait wait);

static inline void sim_fork_lock(pthread_mutex_t *lock, enum sim_fork when)
{
	if (when == SIM_FORK_PREPARE)
		pthread_mutex_lock(lock);
	else
		pthread_mutex_unlock(lock);
}

/* Registers a descriptor; the section collects pointers because the compiler may over-align larger objects.
 */
#define SIM_FN(symbol)                                                                                       \
	static struct sim_fn sim_fn_##symbol = {.name = #symbol, .addr = (void *)symbol};                    \
	static struct sim_fn *sim_fnp_##symbol __attribute__((section("sim_fns"), used)) = &sim_fn_##symbol

/* Prototype and descriptor of an exported call; its body follows. */
#define SIM_DECLARE(type, symbol, params)                                                                    \
	SIM_EXPORT type symbol params;                                                                       \
	SIM_FN(symbol);                                                                                      \
	type symbol params

/* One exported call. `...` is an expression for its result; in it `pt` is 1 in the per-thread-stream twin. */
#define SIM_CALL(symbol, per_thread, before, params, ...)                                                    \
	SIM_DECLARE(int, symbol, params)                                                                     \
	{                                                                                                    \
		enum { pt = per_thread };                                                                    \
		int rc = sim_enter(&sim_fn_##symbol);                                                        \
                                                                                                             \
		if (!rc)                                                                                     \
			rc = before;                                                                         \
		if (!rc)                                                                                     \
			rc = (__VA_ARGS__);                                                                  \
		return sim_leave(&sim_fn_##symbol, rc);                                                      \
	}

/* What a library does around fork; more than once does no harm. The runtime calls the driver's: a driver that
 * is loaded while another thread forks registers its own handlers too late for that fork. */
void ingero_sim_fork(int when);

/* Finds an exported call of this library, also where nothing is exported (linked statically). */
struct sim_fn *sim_fn_find(const char *name);

/* ---- given by each library ---- */

/* Names of the calls counted in sim_block.made; NULL where there are none. */
const char *sim_made_name(unsigned index);
/* A setting of this library only. Returns as ingero_sim_set(), -ENOENT for an unknown key. */
int sim_lib_set(const char *key, const char *value);
/* Around fork: takes and gives back the library's locks, so that the child finds everything whole; what a
 * child does not have is reset. */
void sim_lib_fork(enum sim_fork when);

#endif
