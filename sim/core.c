#include "sim/core.h"
#include "sim/plan.h"

#include <errno.h>
#include <sys/mman.h>

extern struct sim_fn *__start_sim_fns[] __attribute__((visibility("hidden")));
extern struct sim_fn *__stop_sim_fns[] __attribute__((visibility("hidden")));

__thread struct sim_block *sim_own_block __attribute__((tls_model("initial-exec")));
__thread int sim_last_error __attribute__((tls_model("initial-exec")));

static struct sim_block shared_block = {.owned = true};
static _Atomic(struct sim_block *) blocks = &shared_block;
static pthread_key_t block_key;

static size_t fn_count(void)
{
	return (size_t)(__stop_sim_fns - __start_sim_fns);
}

/* ---- blocks ---- */

static struct sim_block *claim_free(void)
{
	for (struct sim_block *b = atomic_load(&blocks); b; b = b->next) {
		bool no = false;

		if (!atomic_load_explicit(&b->owned, memory_order_relaxed) &&
			atomic_compare_exchange_strong(&b->owned, &no, true))
			return b;
	}
	return NULL;
}

static struct sim_block *make_block(void)
{
	struct sim_block *b =
		mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (b == MAP_FAILED)
		return NULL;
	b->owned = true;
	b->next = atomic_load(&blocks);
	while (!atomic_compare_exchange_weak(&blocks, &b->next, b))
		;
	return b;
}

struct sim_block *sim_block_get(void)
{
	struct sim_block *b = claim_free();

	if (!b)
		b = make_block();
	if (!b)
		return &shared_block;
	sim_own_block = b;
	pthread_setspecific(block_key, b);
	return b;
}

static void leave_block(void *arg)
{
	struct sim_block *b = arg;

	sim_own_block = NULL;
	atomic_store(&b->owned, false);
}

static void reset_blocks(void)
{
	for (struct sim_block *b = atomic_load(&blocks); b; b = b->next) {
		for (unsigned i = 0; i < SIM_MAX_CALLS; i++) {
			atomic_store_explicit(&b->calls[i], 0, memory_order_relaxed);
			atomic_store_explicit(&b->errors[i], 0, memory_order_relaxed);
			atomic_store_explicit(&b->made[i], 0, memory_order_relaxed);
		}
		b->owned = b == sim_own_block || b == &shared_block;
	}
}

/* ---- fork ---- */

static __thread bool fork_prepared __attribute__((tls_model("initial-exec")));

SIM_EXPORT void ingero_sim_fork(int when)
{
	if (fork_prepared == (when == SIM_FORK_PREPARE))
		return;
	fork_prepared = when == SIM_FORK_PREPARE;
	if (when == SIM_FORK_CHILD)
		reset_blocks();
	sim_lib_fork((enum sim_fork)when);
}

static void before_fork(void)
{
	ingero_sim_fork(SIM_FORK_PREPARE);
}

static void after_fork_in_parent(void)
{
	ingero_sim_fork(SIM_FORK_PARENT);
}

static void after_fork_in_child(void)
{
	ingero_sim_fork(SIM_FORK_CHILD);
}

/* ---- descriptors ---- */

struct sim_fn *sim_fn_find(const char *name)
{
	for (size_t i = 0; i < fn_count(); i++) {
		if (!strcmp(__start_sim_fns[i]->name, name))
			return __start_sim_fns[i];
	}
	return NULL;
}

static uint64_t sum(size_t field, unsigned index)
{
	uint64_t n = 0;

	for (struct sim_block *b = atomic_load(&blocks); b; b = b->next) {
		_Atomic uint64_t *counters = (_Atomic uint64_t *)(void *)((char *)b + field);

		n += atomic_load_explicit(&counters[index], memory_order_relaxed);
	}
	return n;
}

SIM_EXPORT void ingero_sim_counts(ingero_sim_count_fn fn, void *ctx)
{
	for (size_t i = 0; i < fn_count(); i++) {
		unsigned index = __start_sim_fns[i]->index;
		uint64_t calls = sum(offsetof(struct sim_block, calls), index);

		if (calls)
			fn(NULL, __start_sim_fns[i]->name, calls,
				sum(offsetof(struct sim_block, errors), index), ctx);
	}
	for (unsigned i = 0; i < SIM_MAX_CALLS; i++) {
		const char *name = sim_made_name(i);
		uint64_t calls = name ? sum(offsetof(struct sim_block, made), i) : 0;

		if (calls)
			fn("driver", name, calls, 0, ctx);
	}
}

/* ---- settings ---- */

SIM_EXPORT int ingero_sim_set(const char *key, const char *value)
{
	int n = sim_plan_set(__start_sim_fns, fn_count(), key, value);

	return n == -ENOENT ? sim_lib_set(key, value) : n;
}

static void from_environment(void)
{
	static const char *const keys[] = {
		"error", "delay", "first", "device", "memory", "hostfunc_inline", "driver"};

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		char name[32] = "SIM_";
		const char *value;

		for (size_t k = 0; keys[i][k]; k++)
			name[4 + k] = (char)(keys[i][k] == '_' ? '_' : keys[i][k] - 'a' + 'A');
		value = getenv(name);
		if (value && ingero_sim_set(keys[i], value) == -EINVAL) {
			fprintf(stderr, "sim: %s=%s: not understood\n", name, value);
			exit(2);
		}
	}
}

__attribute__((constructor)) static void start(void)
{
	if (fn_count() > SIM_MAX_CALLS)
		abort();
	for (size_t i = 0; i < fn_count(); i++)
		__start_sim_fns[i]->index = (unsigned)i;
	if (pthread_key_create(&block_key, leave_block) ||
		pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child))
		abort();
	from_environment();
}
