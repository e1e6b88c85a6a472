/* sim-throw: leaves CUDA calls in the ways a program may: by exception, by longjmp, by cancellation; and
 * enters them again from inside. Prints how often each went right and the exact counts of calls. */
#include "sim/simcuda.h"

#include <cerrno>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

namespace
{

constexpr long default_rounds = 1000;
constexpr int n_cancelled_at_once = 8;
jmp_buf back;

void throw_int(void *user_data)
{
	throw *static_cast<int *>(user_data);
}

void jump_back(void *)
{
	longjmp(back, 1);
}

/* Calls CUDA from inside a CUDA call, until *depth is used up. */
void call_again(void *user_data)
{
	int *depth = static_cast<int *>(user_data);
	void *p = nullptr;

	if ((*depth)-- <= 0)
		return;
	cudaMalloc(&p, 4096);
	cudaFree(p);
	cudaLaunchHostFunc(nullptr, call_again, user_data);
}

long run_throw(long rounds)
{
	long ok = 0;

	for (long i = 0; i < rounds; i++) {
		int value = static_cast<int>(i);

		try {
			cudaLaunchHostFunc(nullptr, throw_int, &value);
		} catch (int caught) {
			ok += caught == value;
		}
		cudaStreamQuery(nullptr);
	}
	return ok;
}

long run_longjmp(long rounds)
{
	volatile long ok = 0;

	for (volatile long i = 0; i < rounds; i = i + 1) {
		if (setjmp(back) == 0)
			cudaLaunchHostFunc(nullptr, jump_back, nullptr);
		else
			ok = ok + 1;
		cudaStreamQuery(nullptr);
	}
	return ok;
}

long run_recursion(long rounds)
{
	long ok = 0;

	for (long i = 0; i < rounds; i++) {
		int depth = 5;

		ok += cudaLaunchHostFunc(nullptr, call_again, &depth) == 0 && depth == -1;
	}
	return ok;
}

/* ---- cancellation ---- */

void add_sync(const char *layer, const char *name, uint64_t calls, uint64_t, void *ctx)
{
	if (!layer && !strcmp(name, "cuStreamSynchronize"))
		*static_cast<uint64_t *>(ctx) += calls;
}

using counts_fn = void (*)(ingero_sim_count_fn, void *);
using set_fn = int (*)(const char *, const char *);

/* After the first call: it loads the driver. */
void *from_driver(const char *name)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

	return lib ? dlsym(lib, name) : nullptr;
}

void *synchronise(void *)
{
	cudaStreamSynchronize(nullptr);
	return nullptr;
}

/* Waits until that many calls are inside the driver. */
bool wait_inside(counts_fn counts, uint64_t wanted)
{
	for (int i = 0; i < 30000; i++) {
		uint64_t inside = 0;
		timespec ms = {0, 1000000};

		counts(add_sync, &inside);
		if (inside >= wanted)
			return true;
		nanosleep(&ms, nullptr);
	}
	return false;
}

long run_cancel(long rounds)
{
	cudaStreamQuery(nullptr);

	counts_fn counts = reinterpret_cast<counts_fn>(from_driver("ingero_sim_counts"));
	set_fn set = reinterpret_cast<set_fn>(from_driver("ingero_sim_set"));
	uint64_t made = 0;
	long ok = 0;

	if (!counts || !set || set("delay", "cuStreamSynchronize*=sleep:1h") < 1)
		return 0;
	for (long i = 0; i < rounds; i += n_cancelled_at_once) {
		pthread_t threads[n_cancelled_at_once];
		int n = 0;

		while (n < n_cancelled_at_once && i + n < rounds &&
			!pthread_create(&threads[n], nullptr, synchronise, nullptr))
			n++;
		made += static_cast<uint64_t>(n);
		if (!wait_inside(counts, made))
			break;
		for (int k = 0; k < n; k++)
			pthread_cancel(threads[k]);
		for (int k = 0; k < n; k++) {
			void *result = nullptr;

			pthread_join(threads[k], &result);
			ok += result == PTHREAD_CANCELED;
		}
	}
	set("delay", "cuStreamSynchronize*=0");
	cudaStreamSynchronize(nullptr);
	return ok;
}

/* ---- program ---- */

struct mode {
	const char *name;
	long (*run)(long rounds);
};

const mode modes[] = {
	{"throw", run_throw}, {"longjmp", run_longjmp}, {"cancel", run_cancel}, {"recursion", run_recursion}};

struct printer {
	char text[65536];
	size_t len;
	bool comma;
};

void print_count(const char *layer, const char *name, uint64_t calls, uint64_t, void *ctx)
{
	printer *p = static_cast<printer *>(ctx);

	if (layer)
		return;
	int n = snprintf(p->text + p->len, sizeof(p->text) - p->len, "%s\"%s\":%llu", p->comma ? "," : "",
		name, static_cast<unsigned long long>(calls));
	if (n > 0 && p->len + static_cast<size_t>(n) < sizeof(p->text))
		p->len += static_cast<size_t>(n);
	p->comma = true;
}

void add_text(printer *p, const char *text)
{
	size_t len = strlen(text);

	if (p->len + len < sizeof(p->text)) {
		memcpy(p->text + p->len, text, len + 1);
		p->len += len;
	}
	p->comma = false;
}

void add_counts(printer *p, void *lib)
{
	counts_fn counts = lib ? reinterpret_cast<counts_fn>(dlsym(lib, "ingero_sim_counts")) : nullptr;

	if (counts)
		counts(print_count, p);
}

int report(const mode *m, long rounds, long ok)
{
	static printer p;
	int n = snprintf(p.text, sizeof(p.text),
		R"({"pid":%d,"mode":"%s","rounds":%ld,"ok":%ld,"calls":{"runtime":{)",
		static_cast<int>(getpid()), m->name, rounds, ok);

	p.len = static_cast<size_t>(n);
	add_counts(&p, dlopen("libcudart.so.12", RTLD_NOW | RTLD_NOLOAD));
	add_text(&p, "},\"driver\":{");
	add_counts(&p, dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD));
	add_text(&p, "}}}\n");
	return write(STDOUT_FILENO, p.text, p.len) == static_cast<ssize_t>(p.len) && ok == rounds ? 0 : 1;
}

int usage()
{
	fputs("usage: sim-throw [--wait-key] (throw | longjmp | cancel | recursion) [ROUNDS]\n", stderr);
	return 2;
}

} // namespace

int main(int argc, char **argv)
{
	bool wait_key = argc > 1 && !strcmp(argv[1], "--wait-key");
	char **arg = argv + 1 + wait_key;
	long rounds = default_rounds;

	if (!arg[0] || (arg[1] && (rounds = strtol(arg[1], nullptr, 10)) <= 0))
		return usage();
	setenv("SIM_HOSTFUNC_INLINE", "1", 1); /* read when the driver is loaded, by the first call */
	if (wait_key) {
		char key;

		cudaStreamQuery(nullptr); /* loads the libraries, so that a tracer finds them */
		dprintf(STDOUT_FILENO, "ready %d\n", static_cast<int>(getpid()));
		if (read(STDIN_FILENO, &key, 1) < 0)
			return 1;
	}
	for (const mode &m : modes) {
		if (!strcmp(m.name, arg[0]))
			return report(&m, rounds, m.run(rounds));
	}
	return usage();
}
