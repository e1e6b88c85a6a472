/* Making any call by its name: finding the library and function, giving sensible arguments, counting. */
#ifndef SIM_CALLS_H
#define SIM_CALLS_H

#include "base/strbuf.h"

#define CALLS_MAX_TARGETS 512

enum layer { LAYER_RUNTIME, LAYER_DRIVER, N_LAYERS };

enum stack_id {
	STACK_MEMORY,
	STACK_HOST,
	STACK_STREAM,
	STACK_EVENT,
	STACK_GRAPH,
	STACK_EXEC,
	STACK_ARRAY,
	STACK_MODULE,
	STACK_KERNEL,
	STACK_POOL,
	N_STACKS,
};

struct handles {
	uint64_t *item;
	size_t n, capacity;
};

/* What one thread of the workload holds. */
struct hand {
	struct handles stack[N_STACKS];
	uint64_t made[CALLS_MAX_TARGETS]; /* by target, for libraries that do not count themselves */
	const char *kernel_name;
};

struct target;

/* Opens a library: "11", "12", "13" or a path. Calls by name go to the one opened last. Returns 0, or prints
 * why not. */
int calls_open(enum layer layer, const char *what);
/* The target of this name (once per name). Returns 0, or prints why not. */
int calls_find(const char *name, struct target **ret_target);
/* Makes the call with numbers from the script where its arguments are sizes, counts or kinds. Returns its
 * result. */
int calls_make(struct hand *hand, struct target *target, const uint64_t *number, unsigned n_numbers);
/* A host stub of its own for this kernel name, registered with the runtime; launches use it from now on. */
int calls_kernel(struct hand *hand, const char *name);
/* Passes a setting to every simulated library that is open. Returns -EINVAL where none takes it. */
int calls_set(const char *key, const char *value);
/* Calls of this name so far, by the libraries' own count. */
uint64_t calls_count(const char *name);
bool calls_holds(const struct hand *hand, enum stack_id id);
void calls_release(struct hand *hand);

/* Before fork() and, in parent and child, after it. */
void calls_fork(bool before);

/* Appends {"pid":…,"calls":…} and a line end. `made` are the folded counts of all hands. */
void calls_report(struct strbuf *out, const uint64_t made[CALLS_MAX_TARGETS]);

#endif
