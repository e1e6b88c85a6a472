/* libcudart, simulated: finding and starting the driver; devices, errors, what belongs nowhere else. */
#include "sim/runtime.h"
#include "sim/beside.h"

#include <errno.h>

#define STR_(x) #x
#define STR(x) STR_(x)

struct rt_driver rt_driver;

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static char driver_path[4096] = "libcuda.so.1";
static void *context;

static const char *const made_names[] = {
#define D_NAME(name, params) [DRV_##name * 2] = #name,
#define DZ_NAME(name, params) [DRV_##name * 2] = #name, [DRV_##name * 2 + 1] = #name "_ptsz",
#define DD_NAME(name, params) [DRV_##name * 2] = #name, [DRV_##name * 2 + 1] = #name "_ptds",
	SIM_DRIVER_CALLS(D_NAME, DZ_NAME, DD_NAME)};

_Static_assert(ARRAY_LEN(made_names) <= SIM_MAX_CALLS, "more driver calls than counters");

const char *sim_made_name(unsigned index)
{
	return index < ARRAY_LEN(made_names) ? made_names[index] : NULL;
}

int sim_lib_set(const char *key, const char *value)
{
	if (strcmp(key, "driver"))
		return -ENOENT;
	if (snprintf(driver_path, sizeof(driver_path), "%s", value) >= (int)sizeof(driver_path))
		return -EINVAL;
	return 1;
}

void sim_lib_fork(enum sim_fork when)
{
	if (when == SIM_FORK_CHILD)
		atomic_store(&rt_driver.state, 0);
	sim_fork_lock(&start_lock, when);
	rt_kernel_fork(when);
	if (rt_driver.fork)
		rt_driver.fork(when);
}

CUdeviceptr rt_address(size_t bytes)
{
	static _Atomic CUdeviceptr next = 0x0e0000000000ull;

	return atomic_fetch_add(&next, (bytes + 511) & ~(size_t)511);
}

/* ---- starting ---- */

static void *resolve(void *lib, const char *name)
{
	void *f = dlsym(lib, name);

	if (!f)
		fprintf(stderr, "sim: the driver lacks %s\n", name);
	return f;
}

/* Only ever our own driver: a vendor's must not be started by something that is not its runtime. */
static int find_driver(void)
{
	void *lib;

	if (!strcmp(driver_path, "none"))
		return 0;
	lib = beside_open(driver_path);
	*(void **)&rt_driver.hidden_module = lib ? dlsym(lib, "ingero_sim_module") : NULL;
	if (!rt_driver.hidden_module)
		return RT_NO_DRIVER;
	*(void **)&rt_driver.fork = dlsym(lib, "ingero_sim_fork");
#define D_FIND(name, params)                                                                                 \
	*(void **)&rt_driver.name[0] = resolve(lib, #name);                                                  \
	rt_driver.name[1] = rt_driver.name[0];
#define DZ_FIND(name, params)                                                                                \
	D_FIND(name, params) * (void **)&rt_driver.name[1] = resolve(lib, #name "_ptsz");
#define DD_FIND(name, params)                                                                                \
	D_FIND(name, params) * (void **)&rt_driver.name[1] = resolve(lib, #name "_ptds");
	SIM_DRIVER_CALLS(D_FIND, DZ_FIND, DD_FIND)
	return 0;
}

static int start_driver(void)
{
	int n = 0, device = 0, value = 0;
	int rc = find_driver();

	if (!rc)
		rc = DRV(0, cuInit, 0);
	if (!rc)
		rc = DRV(0, cuDeviceGetCount, &n);
	if (!rc)
		rc = DRV(0, cuDeviceGet, &device, 0);
	if (!rc)
		rc = DRV(0, cuDeviceGetAttribute, &value, 75, device);
	if (!rc)
		rc = DRV(0, cuDevicePrimaryCtxRetain, &context, device);
	return rc ? rc : DRV(0, cuCtxSetCurrent, context);
}

int rt_start(void)
{
	int state, cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&start_lock);
	state = atomic_load(&rt_driver.state);
	if (!state) {
		int rc = start_driver();

		state = rc ? -rc : 1;
		atomic_store_explicit(&rt_driver.state, state, memory_order_release);
	}
	pthread_mutex_unlock(&start_lock);
	pthread_setcancelstate(cancel, NULL);
	return state == 1 ? 0 : -state;
}

/* ---- devices ---- */

static int give_int(int *ret_value, int value)
{
	if (!ret_value)
		return RT_INVALID_VALUE;
	*ret_value = value;
	return 0;
}

static int set_device(int device)
{
	int rc = device ? 101 : DRV(0, cuCtxSetCurrent, context);

	if (!rc)
		rc = DRV(0, cuDevicePrimaryCtxRetain, &context, device);
	if (rc)
		return rc;
#if SIM_CUDART >= 13
	return DRV(0, cuCtxGetDevice_v2, &device, context);
#else
	return DRV(0, cuCtxGetDevice, &device);
#endif
}

static int reset_device(void)
{
	unsigned version;
	int rc = DRV(0, cuCtxGetApiVersion, context, &version);

	return rc ? rc : DRV(0, cuDevicePrimaryCtxReset, 0);
}

static int take_error(bool clear)
{
	int e = sim_last_error;

	if (clear)
		sim_last_error = 0;
	return e;
}

RT(cudaGetDeviceCount, (int *ret_count), give_int(ret_count, 1))
RT(cudaGetDevice, (int *ret_device), give_int(ret_device, 0))
RT(cudaSetDevice, (int device), set_device(device))
RT(cudaDeviceReset, (void), reset_device())
RT(cudaDeviceGetAttribute, (int *ret_value, int attribute, int device),
	ret_value ? DRV(0, cuDeviceGetAttribute, ret_value, attribute, device) : RT_INVALID_VALUE)
#if SIM_CUDART >= 13
RT(cudaDeviceSynchronize, (void), DRV(0, cuCtxSynchronize_v2, context))
#else
RT(cudaDeviceSynchronize, (void), DRV(0, cuCtxSynchronize))
RT(cudaThreadSynchronize, (void), DRV(0, cuCtxSynchronize))
#endif
RT(cudaProfilerStart, (void), DRV(0, cuProfilerStart))
RT_PLAIN(cudaRuntimeGetVersion, (int *ret_version), give_int(ret_version, SIM_CUDART * 1000))
RT_PLAIN(cudaDriverGetVersion, (int *ret_version), give_int(ret_version, 13000))

/* These return the thread's error, so their result is no failure of their own. */
SIM_DECLARE(int, cudaGetLastError, (void))
{
	int rc = sim_enter(&sim_fn_cudaGetLastError);

	return rc ? rc : take_error(true);
}

SIM_DECLARE(int, cudaPeekAtLastError, (void))
{
	int rc = sim_enter(&sim_fn_cudaPeekAtLastError);

	return rc ? rc : take_error(false);
}

SIM_DECLARE(const char *, cudaGetErrorString, (int error))
{
	sim_enter(&sim_fn_cudaGetErrorString);
	return error ? "simulated error" : "no error";
}
