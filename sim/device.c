/* The device that is not there: each stream has a time at which its work will be done. Costs nothing until
 * "device" gives kernels or copies a duration. */
#include "sim/driver.h"

#include "base/parse.h"

#include <errno.h>

struct host_func {
	void (*fn)(void *);
	void *user_data;
	uint64_t start_ns;
};

static _Atomic uint64_t kernel_ns, copy_bytes_per_us;
static _Atomic int wait_mode = SIM_WAIT_SLEEP;
static _Atomic bool run_inline;
static _Atomic uint64_t all_ready_ns; /* latest of all timelines */
static struct obj default_stream = {.kind = OBJ_STREAM};
static __thread struct obj thread_stream __attribute__((tls_model("initial-exec"))) = {.kind = OBJ_STREAM};

static pthread_mutex_t pending_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t pending_none = PTHREAD_COND_INITIALIZER;
static unsigned n_pending;
static __thread bool in_host_func __attribute__((tls_model("initial-exec")));

static inline struct obj *stream_get(void *stream, bool per_thread)
{
	uintptr_t id = (uintptr_t)stream;

	if (id == 2 || (!id && per_thread))
		return &thread_stream;
	return id <= 1 ? &default_stream : obj_get(stream, OBJ_STREAM);
}

/* ---- work ---- */

static void raise_to(_Atomic uint64_t *value, uint64_t ns)
{
	uint64_t old = atomic_load(value);

	while (old < ns && !atomic_compare_exchange_weak(value, &old, ns))
		;
}

static int add_work(void *stream, bool per_thread, uint64_t ns, unsigned n_nodes)
{
	struct obj *s = stream_get(stream, per_thread);
	uint64_t ready, end, now;

	if (!s)
		return CU_INVALID_HANDLE;
	if (s->link) {
		s->link->n_nodes += n_nodes;
		s->link->ready_ns += ns;
		return 0;
	}
	if (!ns)
		return 0;
	now = sim_now_ns();
	ready = atomic_load(&s->ready_ns);
	do
		end = MAX(ready, now) + ns;
	while (!atomic_compare_exchange_weak(&s->ready_ns, &ready, end));
	raise_to(&all_ready_ns, end);
	return 0;
}

static uint64_t copy_ns(uint64_t bytes)
{
	uint64_t speed = atomic_load_explicit(&copy_bytes_per_us, memory_order_relaxed);

	return speed ? NSEC_PER_USEC + bytes / speed * NSEC_PER_USEC + bytes % speed * NSEC_PER_USEC / speed
		     : 0;
}

int device_kernel(void *stream, bool per_thread)
{
	return add_work(stream, per_thread, atomic_load_explicit(&kernel_ns, memory_order_relaxed), 1);
}

int device_copy(void *stream, bool per_thread, uint64_t bytes)
{
	return add_work(stream, per_thread, copy_ns(bytes), 1);
}

int device_copy_wait(bool per_thread, uint64_t bytes)
{
	int rc = device_copy(NULL, per_thread, bytes);

	return rc ? rc : device_sync_stream(NULL, per_thread);
}

/* ---- waiting ---- */

static void unlock_pending(void *unused)
{
	pthread_mutex_unlock(&pending_lock);
}

static void wait_pending(void)
{
	/* a host function that synchronises would wait for itself */
	if (in_host_func || !__atomic_load_n(&n_pending, __ATOMIC_ACQUIRE))
		return;
	pthread_mutex_lock(&pending_lock);
	pthread_cleanup_push(unlock_pending, NULL);
	while (n_pending)
		pthread_cond_wait(&pending_none, &pending_lock);
	pthread_cleanup_pop(1);
}

static int wait_ready(uint64_t ready)
{
	if (ready && ready > sim_now_ns())
		sim_wait_until(ready, (enum sim_wait)atomic_load(&wait_mode));
	wait_pending();
	return 0;
}

int device_sync_stream(void *stream, bool per_thread)
{
	struct obj *s = stream_get(stream, per_thread);

	if (!s)
		return CU_INVALID_HANDLE;
	return s->link ? CU_CAPTURE_UNSUPPORTED : wait_ready(atomic_load(&s->ready_ns));
}

static int query(uint64_t ready)
{
	return ready && ready > sim_now_ns() ? CU_NOT_READY : 0;
}

int device_query_stream(void *stream, bool per_thread)
{
	struct obj *s = stream_get(stream, per_thread);

	return s ? query(atomic_load(&s->ready_ns)) : CU_INVALID_HANDLE;
}

int device_sync_all(void)
{
	return wait_ready(atomic_load(&all_ready_ns));
}

/* ---- events ---- */

int device_record(void *event, void *stream, bool per_thread)
{
	struct obj *e = obj_get(event, OBJ_EVENT);
	struct obj *s = stream_get(stream, per_thread);

	if (!e || !s)
		return CU_INVALID_HANDLE;
	atomic_store(&e->ready_ns, MAX(atomic_load(&s->ready_ns), sim_now_ns()));
	return 0;
}

int device_wait_event(void *stream, bool per_thread, void *event)
{
	struct obj *e = obj_get(event, OBJ_EVENT);
	struct obj *s = stream_get(stream, per_thread);

	if (!e || !s)
		return CU_INVALID_HANDLE;
	raise_to(&s->ready_ns, atomic_load(&e->ready_ns));
	return 0;
}

int device_sync_event(void *event)
{
	struct obj *e = obj_get(event, OBJ_EVENT);

	return e ? wait_ready(atomic_load(&e->ready_ns)) : CU_INVALID_HANDLE;
}

int device_query_event(void *event)
{
	struct obj *e = obj_get(event, OBJ_EVENT);

	return e ? query(atomic_load(&e->ready_ns)) : CU_INVALID_HANDLE;
}

int device_elapsed_ms(float *ret_ms, void *start, void *end)
{
	struct obj *a = obj_get(start, OBJ_EVENT);
	struct obj *b = obj_get(end, OBJ_EVENT);

	if (!a || !b || !ret_ms)
		return CU_INVALID_HANDLE;
	*ret_ms = (float)((double)(int64_t)(b->ready_ns - a->ready_ns) / (double)NSEC_PER_MSEC);
	return 0;
}

/* ---- graphs ---- */

int device_begin_capture(void *stream, bool per_thread, void *graph)
{
	struct obj *s = stream_get(stream, per_thread);
	void *made = graph;
	int rc;

	if (!s || (graph && !obj_get(graph, OBJ_GRAPH)))
		return CU_INVALID_HANDLE;
	if (s == &default_stream || s->link)
		return CU_CAPTURE_UNSUPPORTED;
	rc = graph ? 0 : obj_new(OBJ_GRAPH, NULL, &made);
	if (!rc)
		s->link = made;
	return rc;
}

int device_end_capture(void *stream, bool per_thread, void **ret_graph)
{
	struct obj *s = stream_get(stream, per_thread);

	if (!s || !s->link || !ret_graph)
		return ret_graph ? CU_CAPTURE_UNSUPPORTED : CU_INVALID_VALUE;
	*ret_graph = s->link;
	s->link = NULL;
	return 0;
}

int device_is_capturing(void *stream, bool per_thread, int *ret_status)
{
	struct obj *s = stream_get(stream, per_thread);

	if (!s || !ret_status)
		return s ? CU_INVALID_VALUE : CU_INVALID_HANDLE;
	*ret_status = s->link != NULL;
	return 0;
}

int device_instantiate(void **ret_exec, void *graph)
{
	struct obj *g = obj_get(graph, OBJ_GRAPH);
	struct obj *x;
	int rc = g ? obj_new(OBJ_EXEC, NULL, ret_exec) : CU_INVALID_HANDLE;

	if (rc)
		return rc;
	x = *ret_exec;
	x->n_nodes = g->n_nodes;
	x->ready_ns = g->ready_ns;
	return 0;
}

int device_launch_graph(void *exec, void *stream, bool per_thread)
{
	struct obj *x = obj_get(exec, OBJ_EXEC);

	return x ? add_work(stream, per_thread, x->ready_ns, x->n_nodes) : CU_INVALID_HANDLE;
}

/* ---- host functions ---- */

static void *run_host_func(void *arg)
{
	struct host_func h = *(struct host_func *)arg;

	free(arg);
	sim_wait_until(h.start_ns, SIM_WAIT_SLEEP);
	in_host_func = true;
	h.fn(h.user_data);
	pthread_mutex_lock(&pending_lock);
	if (!--n_pending)
		pthread_cond_broadcast(&pending_none);
	pthread_mutex_unlock(&pending_lock);
	return NULL;
}

static int start_host_func(void (*fn)(void *), void *user_data, uint64_t start_ns)
{
	struct host_func *h = malloc(sizeof(*h));
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	if (!h)
		return CU_OUT_OF_MEMORY;
	*h = (struct host_func){fn, user_data, start_ns};
	pthread_mutex_lock(&pending_lock);
	n_pending++;
	pthread_mutex_unlock(&pending_lock);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	rc = pthread_create(&thread, &attr, run_host_func, h);
	pthread_attr_destroy(&attr);
	if (rc) {
		free(h);
		pthread_mutex_lock(&pending_lock);
		n_pending--;
		pthread_mutex_unlock(&pending_lock);
	}
	return rc ? CU_OUT_OF_MEMORY : 0;
}

int device_host_func(void *stream, bool per_thread, void (*fn)(void *), void *user_data)
{
	struct obj *s = stream_get(stream, per_thread);

	if (!s || !fn)
		return s ? CU_INVALID_VALUE : CU_INVALID_HANDLE;
	if (s->link)
		return add_work(stream, per_thread, 0, 1);
	if (!atomic_load(&run_inline))
		return start_host_func(fn, user_data, atomic_load(&s->ready_ns));
	fn(user_data);
	return 0;
}

/* ---- settings ---- */

void device_set_inline(bool on)
{
	atomic_store(&run_inline, on);
}

static int set_item(const char *key, const char *value)
{
	uint64_t n;

	if (!strcmp(key, "kernel")) {
		if (parse_duration(value, &n))
			return -EINVAL;
		atomic_store(&kernel_ns, n);
	} else if (!strcmp(key, "copy")) {
		if (parse_u64(value, &n) || n > 1000000)
			return -EINVAL;
		atomic_store(&copy_bytes_per_us, n * 1000);
	} else if (!strcmp(key, "wait")) {
		if (strcmp(value, "spin") && strcmp(value, "sleep"))
			return -EINVAL;
		atomic_store(&wait_mode, strcmp(value, "spin") ? SIM_WAIT_SLEEP : SIM_WAIT_SPIN);
	} else {
		return -EINVAL;
	}
	return 0;
}

int device_set(const char *value)
{
	cleanup_free char *copy = strdup(value);
	char *rest = NULL;

	if (!copy)
		return -ENOMEM;
	for (char *item = strtok_r(copy, ",", &rest); item; item = strtok_r(NULL, ",", &rest)) {
		char *eq = strchr(item, '=');

		if (!eq)
			return -EINVAL;
		*eq++ = 0;
		if (set_item(item, eq))
			return -EINVAL;
	}
	return 1;
}

void device_fork(enum sim_fork when)
{
	if (when == SIM_FORK_CHILD) {
		/* the threads that run host functions, and those that waited for them, stayed behind */
		pthread_cond_init(&pending_none, NULL);
		n_pending = 0;
	}
	sim_fork_lock(&pending_lock, when);
}
