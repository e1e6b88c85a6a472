/* libcuda.so.1, simulated: memory of every kind, prefetching. */
#include "sim/driver.h"

#define PITCH_ALIGN 512ull

/* CUDA_ARRAY_DESCRIPTOR: what we need of it */
struct array_desc {
	uint64_t width, height;
};

/* CUipcMemHandle, passed by value */
struct ipc_handle {
	char reserved[64];
};

static int alloc_host(void **ret_ptr, size_t bytes)
{
	CUdeviceptr p = 0;
	int rc = ret_ptr ? mem_alloc(MEM_HOST, bytes, &p) : CU_INVALID_VALUE;

	if (!rc)
		*ret_ptr = (void *)(uintptr_t)p;
	return rc;
}

static int alloc_pitch(CUdeviceptr *ret_ptr, size_t *ret_pitch, size_t width, size_t height)
{
	size_t pitch = (width + PITCH_ALIGN - 1) & ~(PITCH_ALIGN - 1);
	size_t bytes;
	int rc;

	if (!ret_pitch || pitch < width || __builtin_mul_overflow(pitch, height, &bytes))
		return CU_INVALID_VALUE;
	rc = mem_alloc(MEM_DEVICE, bytes, ret_ptr);
	if (!rc)
		*ret_pitch = pitch;
	return rc;
}

static int get_info(size_t *ret_free, size_t *ret_total)
{
	mem_info(ret_free, ret_total);
	return 0;
}

static int get_range(CUdeviceptr *ret_base, size_t *ret_bytes, CUdeviceptr ptr)
{
	size_t bytes;
	int rc = mem_size(ptr, &bytes);

	if (!rc && ret_base)
		*ret_base = ptr;
	if (!rc && ret_bytes)
		*ret_bytes = bytes;
	return rc;
}

/* ---- allocation ---- */

DR(cuMemAlloc_v2, (CUdeviceptr * ret_ptr, size_t bytes), mem_alloc(MEM_DEVICE, bytes, ret_ptr))
DR(cuMemAllocManaged, (CUdeviceptr * ret_ptr, size_t bytes, unsigned flags),
	mem_alloc(MEM_HOST, bytes, ret_ptr))
DR(cuMemAllocHost_v2, (void **ret_ptr, size_t bytes), alloc_host(ret_ptr, bytes))
DR(cuMemHostAlloc, (void **ret_ptr, size_t bytes, unsigned flags), alloc_host(ret_ptr, bytes))
DR(cuMemHostGetDevicePointer_v2, (CUdeviceptr * ret_ptr, void *ptr, unsigned flags),
	ret_ptr ? ((void)(*ret_ptr = (uintptr_t)ptr), 0) : CU_INVALID_VALUE)
DR(cuMemAllocPitch_v2,
	(CUdeviceptr * ret_ptr, size_t *ret_pitch, size_t width, size_t height, unsigned element),
	alloc_pitch(ret_ptr, ret_pitch, width, height))
DRZ(cuMemAllocAsync, (CUdeviceptr * ret_ptr, size_t bytes, void *stream),
	mem_alloc(MEM_DEVICE, bytes, ret_ptr))
DRZ(cuMemAllocFromPoolAsync, (CUdeviceptr * ret_ptr, size_t bytes, void *pool, void *stream),
	mem_alloc(MEM_DEVICE, bytes, ret_ptr))
DR(cuArrayCreate_v2, (void **ret_array, const struct array_desc *desc), obj_new(OBJ_ARRAY, NULL, ret_array))
DR(cuArray3DCreate_v2, (void **ret_array, const void *desc), obj_new(OBJ_ARRAY, NULL, ret_array))
DR(cuMipmappedArrayCreate, (void **ret_array, const void *desc, unsigned n_levels),
	obj_new(OBJ_ARRAY, NULL, ret_array))
DR(cuMemCreate, (CUdeviceptr * ret_handle, size_t bytes, const void *properties, uint64_t flags),
	mem_alloc(MEM_DEVICE, bytes, ret_handle))
DR(cuMemAddressReserve, (CUdeviceptr * ret_ptr, size_t bytes, size_t align, CUdeviceptr at, uint64_t flags),
	mem_alloc(MEM_RANGE, bytes, ret_ptr))
DR(cuMemMap, (CUdeviceptr ptr, size_t bytes, size_t offset, CUdeviceptr handle, uint64_t flags), 0)
DR(cuMemSetAccess, (CUdeviceptr ptr, size_t bytes, const void *desc, size_t n), 0)
DR(cuMemHostRegister, (void *ptr, size_t bytes, unsigned flags), mem_register(ptr, bytes))
DR(cuMemHostRegister_v2, (void *ptr, size_t bytes, unsigned flags), mem_register(ptr, bytes))
DR(cuIpcOpenMemHandle_v2, (CUdeviceptr * ret_ptr, struct ipc_handle handle, unsigned flags),
	mem_alloc(MEM_RANGE, 1, ret_ptr))
DR(cuMemImportFromShareableHandle, (CUdeviceptr * ret_handle, void *os_handle, int type),
	mem_alloc(MEM_RANGE, 1, ret_handle))
DR(cuMemPoolImportPointer, (CUdeviceptr * ret_ptr, void *pool, void *share), mem_alloc(MEM_RANGE, 1, ret_ptr))
DR(cuDeviceGetDefaultMemPool, (void **ret_pool, int device), obj_new(OBJ_POOL, NULL, ret_pool))
DR(cuMemPoolCreate, (void **ret_pool, const void *properties), obj_new(OBJ_POOL, NULL, ret_pool))
DR(cuMemPoolTrimTo, (void *pool, size_t keep), obj_get(pool, OBJ_POOL) ? 0 : CU_INVALID_HANDLE)
DR(cuMemPoolDestroy, (void *pool), obj_delete(pool, OBJ_POOL))

/* ---- freeing ---- */

DR(cuMemFree_v2, (CUdeviceptr ptr), mem_free(MEM_DEVICE, ptr))
DR(cuMemFreeHost, (void *ptr), mem_free(MEM_HOST, (uintptr_t)ptr))
DR(cuMemHostUnregister, (void *ptr), mem_free(MEM_REGISTERED, (uintptr_t)ptr))
DR(cuArrayDestroy, (void *array), obj_delete(array, OBJ_ARRAY))
DR(cuMipmappedArrayDestroy, (void *array), obj_delete(array, OBJ_ARRAY))
DR(cuMemRelease, (CUdeviceptr handle), mem_free(MEM_DEVICE, handle))
DR(cuMemUnmap, (CUdeviceptr ptr, size_t bytes), 0)
DR(cuMemAddressFree, (CUdeviceptr ptr, size_t bytes), mem_free(MEM_RANGE, ptr))
DRZ(cuMemFreeAsync, (CUdeviceptr ptr, void *stream), mem_free(MEM_DEVICE, ptr))
DR(cuIpcCloseMemHandle, (CUdeviceptr ptr), mem_free(MEM_RANGE, ptr))

/* ---- the rest ---- */

DR(cuMemGetInfo_v2, (size_t * ret_free, size_t *ret_total), get_info(ret_free, ret_total))
DR(cuMemGetAddressRange_v2, (CUdeviceptr * ret_base, size_t *ret_bytes, CUdeviceptr ptr),
	get_range(ret_base, ret_bytes, ptr))
DR(cuPointerGetAttributes, (unsigned n, void *attributes, void **data, CUdeviceptr ptr), 0)
DR(cuMemAdvise, (CUdeviceptr ptr, size_t bytes, int advice, int device), 0)
DR(cuMemAdvise_v2, (CUdeviceptr ptr, size_t bytes, int advice, uint64_t location), 0)
DRZ(cuMemPrefetchAsync, (CUdeviceptr ptr, size_t bytes, int device, void *stream),
	device_copy(stream, pt, bytes))
DRZ(cuMemPrefetchAsync_v2, (CUdeviceptr ptr, size_t bytes, uint64_t location, unsigned flags, void *stream),
	device_copy(stream, pt, bytes))
DRZ(cuMemPrefetchBatchAsync,
	(CUdeviceptr * ptrs, size_t *sizes, size_t n, void *locations, size_t *indices, size_t n_locations,
		uint64_t flags, void *stream),
	device_copy(stream, pt, 0))
DRZ(cuMemDiscardAndPrefetchBatchAsync,
	(CUdeviceptr * ptrs, size_t *sizes, size_t n, void *locations, size_t *indices, size_t n_locations,
		uint64_t flags, void *stream),
	device_copy(stream, pt, 0))
DRZ(cuMemDiscardBatchAsync, (CUdeviceptr * ptrs, size_t *sizes, size_t n, uint64_t flags, void *stream),
	device_copy(stream, pt, 0))
