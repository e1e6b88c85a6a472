#include "sim/calls.h"
#include "sim/beside.h"
#include "sim/call_table.h"
#include "sim/simcuda.h"
#ifdef SIM_STATIC
#include "sim/core.h"
#endif

#include <errno.h>
#include <pthread.h>

#define MAX_LIBRARIES 8
#define MAX_HELD (1u << 24)
#define N_STUBS 1024

struct library {
	enum layer layer;
	void *handle; /* NULL: linked in */
	void (*counts)(ingero_sim_count_fn, void *);
	int (*set)(const char *, const char *);
};

struct target {
	const char *name;
	unsigned index;
	enum layer layer;
	void *fn;
	const char *shape;
};

/* One workload per process: what is open and known. */
static struct library libraries[MAX_LIBRARIES];
static unsigned n_libraries;
static struct library *current[N_LAYERS];
static struct target targets[CALLS_MAX_TARGETS];
static unsigned n_targets;
static char stubs[N_STUBS];
static unsigned n_stubs;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
#ifdef SIM_LINKED
/* without a reference the linker may leave the library out */
__attribute__((used)) static int (*const linked)(void) = cudaGetLastError;
#endif

/* Opening a library and complaining are cancellation points: not while the lock is held. */
static int lock_all(void)
{
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&lock);
	return cancel;
}

static void unlock_all(int cancel)
{
	pthread_mutex_unlock(&lock);
	pthread_setcancelstate(cancel, NULL);
}

void calls_fork(bool before)
{
	if (before)
		pthread_mutex_lock(&lock);
	else
		pthread_mutex_unlock(&lock);
}

/* ---- libraries ---- */

static void *lookup(const struct library *lib, const char *name)
{
#ifdef SIM_STATIC
	if (!lib->handle) {
		struct sim_fn *fn = sim_fn_find(name);

		return fn ? fn->addr : NULL;
	}
#endif
	return dlsym(lib->handle, name);
}

static const char *file_of(enum layer layer, const char *what)
{
	static const char *const numbers[][2] = {
		{"11", "libcudart.so.11.0"}, {"12", "libcudart.so.12"}, {"13", "libcudart.so.13"}};

	if (layer == LAYER_DRIVER)
		return what ? what : "libcuda.so.1";
	for (unsigned i = 0; what && i < ARRAY_LEN(numbers); i++) {
		if (!strcmp(what, numbers[i][0]))
			return numbers[i][1];
	}
	return what ? what : "libcudart.so.12";
}

static int fill_library(struct library *lib, const char *what)
{
#ifdef SIM_STATIC
	if (lib->layer == LAYER_RUNTIME && !what) {
		lib->counts = ingero_sim_counts;
		lib->set = ingero_sim_set;
		return 0;
	}
#endif
	lib->handle = beside_open(file_of(lib->layer, what));
	if (!lib->handle) {
		fprintf(stderr, "%s\n", dlerror());
		return -ENOENT;
	}
	*(void **)&lib->counts = dlsym(lib->handle, "ingero_sim_counts");
	*(void **)&lib->set = dlsym(lib->handle, "ingero_sim_set");
	return 0;
}

static int open_locked(enum layer layer, const char *what)
{
	struct library lib = {.layer = layer};
	int rc = fill_library(&lib, what);
	unsigned i;

	if (rc)
		return rc;
	for (i = 0; i < n_libraries && libraries[i].handle != lib.handle; i++)
		;
	if (i == MAX_LIBRARIES)
		return -E2BIG;
	libraries[i] = lib;
	n_libraries = MAX(n_libraries, i + 1);
	current[layer] = &libraries[i];
	for (unsigned t = 0; t < n_targets; t++) {
		if (targets[t].layer == layer)
			targets[t].fn = lookup(current[layer], targets[t].name);
	}
	return 0;
}

int calls_open(enum layer layer, const char *what)
{
	int cancel = lock_all();
	int rc = open_locked(layer, what);

	unlock_all(cancel);
	return rc;
}

/* ---- targets ---- */

static enum layer layer_of(const char *name)
{
	return !strncmp(name, "cu", 2) && strncmp(name, "cuda", 4) ? LAYER_DRIVER : LAYER_RUNTIME;
}

static int add_target(const char *name, struct target **ret_target)
{
	struct target *t = &targets[n_targets];
	enum layer layer = layer_of(name);
	int rc = current[layer] ? 0 : open_locked(layer, NULL);

	if (rc)
		return rc;
	if (n_targets == CALLS_MAX_TARGETS)
		return -E2BIG;
	*t = (struct target){.name = strdup(name),
		.index = n_targets,
		.layer = layer,
		.fn = lookup(current[layer], name),
		.shape = call_shape(name)};
	if (!t->fn || !t->name) {
		fprintf(stderr, "no function %s in that library\n", name);
		return -ENOENT;
	}
	n_targets++;
	*ret_target = t;
	return 0;
}

int calls_find(const char *name, struct target **ret_target)
{
	int cancel = lock_all();
	int rc = 0;
	unsigned i;

	for (i = 0; i < n_targets && strcmp(targets[i].name, name); i++)
		;
	if (i < n_targets)
		*ret_target = &targets[i];
	else
		rc = add_target(name, ret_target);
	unlock_all(cancel);
	return rc;
}

/* ---- handles ---- */

static void push(struct handles *h, uint64_t value)
{
	if (!UTIL_GROW(h->item, h->capacity, h->n + 1, MAX_HELD))
		h->item[h->n++] = value;
}

static uint64_t take(struct handles *h, bool keep)
{
	uint64_t value = h->n ? h->item[h->n - 1] : 0;

	if (h->n && !keep)
		h->n--;
	return value;
}

bool calls_holds(const struct hand *hand, enum stack_id id)
{
	return hand->stack[id].n > 0;
}

void calls_release(struct hand *hand)
{
	for (unsigned i = 0; i < N_STACKS; i++)
		free(hand->stack[i].item);
	free(hand);
}

/* ---- calling ---- */

/* Sizes come first in a shape, so numbers are used up from the left. */
struct numbers {
	const uint64_t *item;
	unsigned n;
};

static uint64_t number_or(struct numbers *numbers, uint64_t otherwise)
{
	if (!numbers->n)
		return otherwise;
	numbers->n--;
	return *numbers->item++;
}

static uint64_t handle_or_buffer(struct hand *hand, unsigned id, bool keep)
{
	static char buffer[4096];
	uint64_t value = take(&hand->stack[id], keep);

	return value || id != STACK_HOST || !keep ? value : (uintptr_t)buffer;
}

int calls_make(struct hand *hand, struct target *target, const uint64_t *number, unsigned n_numbers)
{
	static const char letters[] = "mhsegxalfp";
	struct numbers numbers = {number, n_numbers};
	struct call_words words = {.n_reg = 0};
	uint64_t out[2][8] = {{0}};
	unsigned kept_in[2];
	unsigned n_out = 0;
	const char *letter;
	int rc;

	for (const char *s = target->shape; s && *s; s++) {
		bool pop = *s == '-';

		s += pop;
		letter = strchr(letters, *s | 0x20);
		if (!letter) {
			uint64_t n = call_takes_number(*s) ? number_or(&numbers, call_default(*s)) : 0;

			call_argument(&words, *s, n, hand->kernel_name);
			continue;
		}
		if (*s & 0x20) {
			call_word(&words, handle_or_buffer(hand, (unsigned)(letter - letters), !pop));
			continue;
		}
		kept_in[n_out] = (unsigned)(letter - letters);
		call_word(&words, (uintptr_t)out[n_out++]);
	}
	while (numbers.n)
		call_word(&words, number_or(&numbers, 0));
	hand->made[target->index]++;
	rc = call_words(target->fn, &words);
	for (unsigned i = 0; !rc && i < n_out; i++)
		push(&hand->stack[kept_in[i]], out[i][0]);
	return rc;
}

int calls_kernel(struct hand *hand, const char *name)
{
	void **(*fat_binary)(void *);
	void (*function)(
		void **, const char *, char *, const char *, int, void *, void *, void *, void *, int *);
	struct target *t1, *t2;
	char *stub;
	int rc = calls_find("__cudaRegisterFatBinary", &t1);

	if (!rc)
		rc = calls_find("__cudaRegisterFunction", &t2);
	if (rc)
		return rc;
	pthread_mutex_lock(&lock);
	stub = n_stubs < N_STUBS ? &stubs[n_stubs++] : NULL;
	pthread_mutex_unlock(&lock);
	if (!stub)
		return -E2BIG;
	*(void **)&fat_binary = t1->fn;
	*(void **)&function = t2->fn;
	hand->made[t1->index]++;
	hand->made[t2->index]++;
	function(fat_binary(NULL), stub, stub, name, -1, NULL, NULL, NULL, NULL, NULL);
	push(&hand->stack[STACK_KERNEL], (uintptr_t)stub);
	hand->kernel_name = name;
	return 0;
}

/* The runtime opened the driver, so that its counts are there although the script never named it. */
static void find_driver(void)
{
	struct library lib = {.layer = LAYER_DRIVER};

	if (current[LAYER_DRIVER])
		return;
	lib.handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	if (!lib.handle || n_libraries == MAX_LIBRARIES)
		return;
	*(void **)&lib.counts = dlsym(lib.handle, "ingero_sim_counts");
	*(void **)&lib.set = dlsym(lib.handle, "ingero_sim_set");
	libraries[n_libraries] = lib;
	current[LAYER_DRIVER] = &libraries[n_libraries++];
}

int calls_set(const char *key, const char *value)
{
	int rc = 0;

	for (unsigned l = 0; !rc && l < N_LAYERS; l++)
		rc = current[l] ? 0 : calls_open((enum layer)l, NULL);
	if (rc)
		return rc;
	rc = -EINVAL;
	for (unsigned i = 0; i < n_libraries; i++) {
		int n = libraries[i].set ? libraries[i].set(key, value) : 0;

		rc = n > 0 ? 0 : rc;
	}
	return rc;
}

/* ---- counts ---- */

struct wanted {
	const char *name;
	uint64_t n;
};

static void count_one(const char *layer, const char *name, uint64_t calls, uint64_t errors, void *ctx)
{
	struct wanted *w = ctx;

	if (!layer && !strcmp(name, w->name))
		w->n += calls;
	(void)errors;
}

uint64_t calls_count(const char *name)
{
	struct wanted w = {.name = name};

	find_driver();
	for (unsigned i = 0; i < n_libraries; i++) {
		if (libraries[i].counts)
			libraries[i].counts(count_one, &w);
	}
	return w.n;
}

enum section { CALLS, ERRORS, BY_RUNTIME };

struct writer {
	struct strbuf *out;
	enum section section;
	bool comma;
};

static void write_count(const char *layer, const char *name, uint64_t calls, uint64_t errors, void *ctx)
{
	struct writer *w = ctx;
	uint64_t n = w->section == ERRORS ? errors : calls;

	if ((layer != NULL) != (w->section == BY_RUNTIME) || !n)
		return;
	strbuf_addf(w->out, "%s\"%s\":%llu", w->comma ? "," : "", name, (unsigned long long)n);
	w->comma = true;
}

static void write_layer(struct strbuf *out, enum layer layer, enum section section, const uint64_t *made)
{
	struct writer w = {.out = out, .section = section};
	struct library *lib = current[layer];

	if (lib && lib->counts) {
		lib->counts(write_count, &w);
	} else if (section == CALLS) {
		for (unsigned i = 0; i < n_targets; i++) {
			if (targets[i].layer == layer)
				write_count(NULL, targets[i].name, made[targets[i].index], 0, &w);
		}
	}
}

void calls_report(struct strbuf *out, const uint64_t made[CALLS_MAX_TARGETS])
{
	static const char *const sections[] = {[CALLS] = "calls", [ERRORS] = "errors"};

	find_driver();
	strbuf_addf(out, "{\"pid\":%d", (int)getpid());
	for (unsigned s = CALLS; s <= ERRORS; s++) {
		strbuf_addf(out, ",\"%s\":{\"runtime\":{", sections[s]);
		write_layer(out, LAYER_RUNTIME, (enum section)s, made);
		strbuf_adds(out, "},\"driver\":{");
		write_layer(out, LAYER_DRIVER, (enum section)s, made);
		strbuf_adds(out, "}}");
	}
	strbuf_adds(out, ",\"driver_calls_by_runtime\":{");
	write_layer(out, LAYER_RUNTIME, BY_RUNTIME, made);
	strbuf_adds(out, "}}\n");
}
