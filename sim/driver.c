/* libcuda.so.1, simulated: start, contexts, modules and names, settings. It lacks cuGetProcAddress and
 * cuGetExportTable on purpose: no vendor library can take it for a driver. */
#include "sim/driver.h"

#include "base/parse.h"

#include <errno.h>

#define API_VERSION 13000

static struct obj primary_context = {.kind = OBJ_CONTEXT};
static __thread void *current_context __attribute__((tls_model("initial-exec")));

static int give(void **ret_handle, void *handle)
{
	if (!ret_handle)
		return CU_INVALID_VALUE;
	*ret_handle = handle;
	return 0;
}

static int give_int(int *ret_value, int value)
{
	if (!ret_value)
		return CU_INVALID_VALUE;
	*ret_value = value;
	return 0;
}

static int set_context(void *ctx)
{
	current_context = ctx;
	return 0;
}

/* ---- start, devices, contexts ---- */

DR(cuInit, (unsigned flags), flags ? CU_INVALID_VALUE : 0)
/* 0: to a vendor library there is no driver here */
DR(cuDriverGetVersion, (int *ret_version), give_int(ret_version, 0))
DR(cuDeviceGetCount, (int *ret_count), give_int(ret_count, 1))
DR(cuDeviceGet, (int *ret_device, int ordinal), ordinal ? 101 : give_int(ret_device, 0))
DR(cuDeviceGetAttribute, (int *ret_value, int attribute, int device), give_int(ret_value, 1))
DR(cuDevicePrimaryCtxRetain, (void **ret_ctx, int device), device ? 101 : give(ret_ctx, &primary_context))
DR(cuDevicePrimaryCtxRelease_v2, (int device), 0)
DR(cuDevicePrimaryCtxReset_v2, (int device), 0)
DR(cuDevicePrimaryCtxReset, (int device), 0)
DR(cuCtxCreate_v2, (void **ret_ctx, unsigned flags, int device), obj_new(OBJ_CONTEXT, NULL, ret_ctx))
DR(cuCtxCreate_v3, (void **ret_ctx, void *affinity, int n, unsigned flags, int device),
	obj_new(OBJ_CONTEXT, NULL, ret_ctx))
DR(cuCtxCreate_v4, (void **ret_ctx, void *params, unsigned flags, int device),
	obj_new(OBJ_CONTEXT, NULL, ret_ctx))
DR(cuCtxDestroy_v2, (void *ctx), obj_delete(ctx, OBJ_CONTEXT))
DR(cuCtxSetCurrent, (void *ctx), set_context(ctx))
DR(cuCtxGetCurrent, (void **ret_ctx), give(ret_ctx, current_context))
DR(cuCtxPushCurrent_v2, (void *ctx), set_context(ctx))
DR(cuCtxPopCurrent_v2, (void **ret_ctx), give(ret_ctx, current_context))
DR(cuCtxGetDevice, (int *ret_device), give_int(ret_device, 0))
DR(cuCtxGetDevice_v2, (int *ret_device, void *ctx), give_int(ret_device, 0))
DR(cuCtxGetApiVersion, (void *ctx, unsigned *ret_version), give_int((int *)ret_version, API_VERSION))
DR(cuCtxSynchronize, (void), device_sync_all())
DR(cuCtxSynchronize_v2, (void *ctx), device_sync_all())
DR(cuProfilerStart, (void), 0)
DR(cuProfilerStop, (void), 0)

/* ---- modules, libraries, names ---- */

#define KERNEL_OF(module, name, ret)                                                                         \
	(obj_get(module, OBJ_MODULE) && (name) ? obj_new(OBJ_KERNEL, name, ret) : CU_INVALID_HANDLE)

DR(cuModuleLoad, (void **ret_module, const char *path), obj_new(OBJ_MODULE, NULL, ret_module))
DR(cuModuleLoadData, (void **ret_module, const void *image), obj_new(OBJ_MODULE, NULL, ret_module))
DR(cuModuleLoadDataEx, (void **ret_module, const void *image, unsigned n, void *options, void *values),
	obj_new(OBJ_MODULE, NULL, ret_module))
DR(cuModuleLoadFatBinary, (void **ret_module, const void *image), obj_new(OBJ_MODULE, NULL, ret_module))
DR(cuModuleUnload, (void *module), obj_delete(module, OBJ_MODULE))
DR(cuModuleGetFunction, (void **ret_function, void *module, const char *name),
	KERNEL_OF(module, name, ret_function))
DR(cuLibraryLoadData,
	(void **ret_library, const void *code, void *jit_keys, void **jit_values, unsigned n_jit, void *keys,
		void **values, unsigned n),
	obj_new(OBJ_MODULE, NULL, ret_library))
DR(cuLibraryUnload, (void *library), obj_delete(library, OBJ_MODULE))
DR(cuLibraryGetModule, (void **ret_module, void *library),
	obj_get(library, OBJ_MODULE) ? give(ret_module, library) : CU_INVALID_HANDLE)
DR(cuLibraryGetKernel, (void **ret_kernel, void *library, const char *name),
	KERNEL_OF(library, name, ret_kernel))
DR(cuLibraryGetGlobal, (CUdeviceptr * ret_ptr, size_t *ret_bytes, void *library, const char *name),
	ret_ptr ? ((void)(*ret_ptr = 0x0c0000000000ull), 0) : CU_INVALID_VALUE)
DR(cuKernelGetFunction, (void **ret_function, void *kernel),
	obj_get(kernel, OBJ_KERNEL) ? give(ret_function, kernel) : CU_INVALID_HANDLE)
DR(cuKernelGetAttribute, (int *ret_value, int attribute, void *kernel, int device), give_int(ret_value, 1))
DR(cuKernelSetAttribute, (int attribute, int value, void *kernel, int device), 0)
DR(cuFuncGetAttribute, (int *ret_value, int attribute, void *function), give_int(ret_value, 1))
DR(cuFuncSetAttribute, (void *function, int attribute, int value), 0)

/* The module that runtime 11 has without a driver call that anyone could see. */
SIM_EXPORT void *ingero_sim_module(void);
void *ingero_sim_module(void)
{
	static _Atomic(void *) module;
	void *m = atomic_load(&module);

	if (!m && !obj_new(OBJ_MODULE, NULL, &m))
		atomic_store(&module, m);
	return m;
}

/* ---- settings ---- */

const char *sim_made_name(unsigned index)
{
	return NULL;
}

int sim_lib_set(const char *key, const char *value)
{
	uint64_t bytes;

	if (!strcmp(key, "device"))
		return device_set(value);
	if (!strcmp(key, "hostfunc_inline")) {
		device_set_inline(strcmp(value, "0") != 0);
		return 1;
	}
	if (strcmp(key, "memory"))
		return -ENOENT;
	if (parse_size(value, &bytes))
		return -EINVAL;
	mem_set_total(bytes);
	return 1;
}

void sim_lib_fork(enum sim_fork when)
{
	mem_fork(when);
	device_fork(when);
}
