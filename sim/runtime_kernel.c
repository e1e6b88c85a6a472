/* libcudart, simulated: device code and kernel names. A host stub gets its driver handle at its first launch,
 * by the calls that the real runtime of that version makes. */
#include "sim/runtime.h"

#define N_KERNELS 16384 /* a power of two; more registrations are launched under their own address */

struct kernel {
	_Atomic(const void *) func;
	char *name;
	_Atomic(void *) handle;
};

static struct kernel kernels[N_KERNELS];
static unsigned n_kernels;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(void *) library;
static void *fat_binary[1];

void rt_kernel_fork(enum sim_fork when)
{
	sim_fork_lock(&lock, when);
}

static struct kernel *slot_of(const void *func)
{
	unsigned i = (unsigned)((uintptr_t)func * 0x9e3779b97f4a7c15ull >> 50);

	while (kernels[i].func && kernels[i].func != func)
		i = (i + 1) & (N_KERNELS - 1);
	return &kernels[i];
}

static void remember(const void *func, const char *name, void *handle)
{
	struct kernel *k;

	pthread_mutex_lock(&lock);
	k = slot_of(func);
	if (func && !k->func && n_kernels < N_KERNELS / 2) {
		k->name = name ? strdup(name) : NULL;
		atomic_store(&k->handle, handle);
		atomic_store_explicit(&k->func, func, memory_order_release);
		n_kernels++;
	}
	pthread_mutex_unlock(&lock);
}

/* ---- handles ---- */

int rt_library(void **ret_library)
{
	void *l = atomic_load(&library);
	int rc = l ? 0 : DRV(0, cuLibraryLoadData, &l, fat_binary, NULL, NULL, 0, NULL, NULL, 0);

	if (rc)
		return rc;
	atomic_store(&library, l);
	*ret_library = l;
	return 0;
}

#if SIM_CUDART >= 13
static int load_kernel(const char *name, void **ret_handle)
{
	void *l;
	int rc = rt_library(&l);

	return rc ? rc : DRV(0, cuLibraryGetKernel, ret_handle, l, name);
}
#elif SIM_CUDART >= 12
static int load_kernel(const char *name, void **ret_handle)
{
	void *l, *module = NULL;
	int rc = rt_library(&l);

	if (!rc)
		rc = DRV(0, cuLibraryGetModule, &module, l);
	return rc ? rc : DRV(0, cuModuleGetFunction, ret_handle, module, name);
}
#else
/* The real 11.8 gets its module from the driver's export table: no exported call is entered. */
static int load_kernel(const char *name, void **ret_handle)
{
	return DRV(0, cuModuleGetFunction, ret_handle, rt_driver.hidden_module(), name);
}
#endif

void *rt_kernel(const void *func)
{
	struct kernel *k = slot_of(func);
	void *handle;

	if (!atomic_load_explicit(&k->func, memory_order_acquire) || !k->func)
		return (void *)(uintptr_t)func;
	handle = atomic_load(&k->handle);
	if (handle || !k->name)
		return handle ? handle : (void *)(uintptr_t)func;
	if (load_kernel(k->name, &handle) || !handle)
		return (void *)(uintptr_t)func;
	atomic_store(&k->handle, handle);
	return handle;
}

/* ---- registration ---- */

SIM_DECLARE(void **, __cudaRegisterFatBinary, (void *image))
{
	sim_enter(&sim_fn___cudaRegisterFatBinary);
	return fat_binary;
}

SIM_DECLARE(void, __cudaRegisterFatBinaryEnd, (void **image))
{
	sim_enter(&sim_fn___cudaRegisterFatBinaryEnd);
}

SIM_DECLARE(void, __cudaUnregisterFatBinary, (void **image))
{
	sim_enter(&sim_fn___cudaUnregisterFatBinary);
}

SIM_DECLARE(void, __cudaRegisterFunction,
	(void **image, const char *host_fn, char *device_fn, const char *device_name, int thread_limit,
		void *tid, void *bid, void *block_dim, void *grid_dim, int *warp_size))
{
	sim_enter(&sim_fn___cudaRegisterFunction);
	remember(host_fn, device_name, NULL);
}

#if SIM_CUDART >= 12
static int get_kernel(void **ret_kernel, const void *func)
{
	void *handle = rt_kernel(func);

	if (!ret_kernel)
		return RT_INVALID_VALUE;
	remember(handle, NULL, handle);
	*ret_kernel = handle;
	return 0;
}

RT(__cudaGetKernel, (void **ret_kernel, const void *func), get_kernel(ret_kernel, func))
RT(cudaGetKernel, (void **ret_kernel, const void *func), get_kernel(ret_kernel, func))
#endif

RT(cudaGetFuncBySymbol, (void **ret_function, const void *func),
	DRV(0, cuKernelGetFunction, ret_function, rt_kernel(func)))

#if SIM_CUDART >= 13
RT(cudaLibraryLoadData,
	(void **ret_library, const void *code, void *jit_keys, void **jit_values, unsigned n_jit, void *keys,
		void **values, unsigned n),
	DRV(0, cuLibraryLoadData, ret_library, code, jit_keys, jit_values, n_jit, keys, values, n))

static int library_kernel(void **ret_kernel, void *lib, const char *name)
{
	int rc = DRV(0, cuLibraryGetKernel, ret_kernel, lib, name);

	if (!rc && ret_kernel)
		remember(*ret_kernel, NULL, *ret_kernel);
	return rc;
}

RT(cudaLibraryGetKernel, (void **ret_kernel, void *lib, const char *name),
	library_kernel(ret_kernel, lib, name))
#endif
