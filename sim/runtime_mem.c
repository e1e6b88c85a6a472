/* libcudart, simulated: memory of every kind, prefetching. */
#include "sim/runtime.h"

static int malloc_device(void **ret_ptr, size_t bytes)
{
	CUdeviceptr p = 0;
	int rc;

	if (!ret_ptr)
		return RT_INVALID_VALUE;
	rc = bytes ? DRV(0, cuMemAlloc_v2, &p, bytes) : 0;
	if (!rc)
		*ret_ptr = (void *)(uintptr_t)(p || !bytes ? p : rt_address(bytes));
	return rc;
}

static int malloc_managed(void **ret_ptr, size_t bytes, unsigned flags)
{
	CUdeviceptr p = 0;
	int rc = ret_ptr ? DRV(0, cuMemAllocManaged, &p, bytes, flags) : RT_INVALID_VALUE;

	if (!rc)
		*ret_ptr = (void *)(uintptr_t)(p ? p : rt_address(bytes));
	return rc;
}

static int malloc_host(void **ret_ptr, size_t bytes, unsigned flags)
{
	return ret_ptr ? DRV(0, cuMemHostAlloc, ret_ptr, bytes, flags) : RT_INVALID_VALUE;
}

static inline int malloc_async(bool per_thread, void **ret_ptr, size_t bytes, void *stream)
{
	CUdeviceptr p = 0;
	int rc = ret_ptr ? DRV(per_thread, cuMemAllocAsync, &p, bytes, stream) : RT_INVALID_VALUE;

	if (!rc)
		*ret_ptr = (void *)(uintptr_t)(p ? p : rt_address(bytes));
	return rc;
}

static inline int malloc_pool(bool per_thread, void **ret_ptr, size_t bytes, void *pool, void *stream)
{
	CUdeviceptr p = 0;
	int rc = ret_ptr ? DRV(per_thread, cuMemAllocFromPoolAsync, &p, bytes, pool, stream)
			 : RT_INVALID_VALUE;

	if (!rc)
		*ret_ptr = (void *)(uintptr_t)(p ? p : rt_address(bytes));
	return rc;
}

static int malloc_pitch(void **ret_ptr, size_t *ret_pitch, size_t width, size_t height)
{
	CUdeviceptr p = 0;
	int rc = ret_ptr && ret_pitch ? DRV(0, cuMemAllocPitch_v2, &p, ret_pitch, width, height, 4)
				      : RT_INVALID_VALUE;

	if (!rc)
		*ret_ptr = (void *)(uintptr_t)(p ? p : rt_address(width * height));
	return rc;
}

static int malloc_3d(struct pitched_ptr *ret_ptr, struct extent extent)
{
	struct pitched_ptr p = {.x_size = extent.width, .y_size = extent.height};
	int rc = malloc_pitch(&p.ptr, &p.pitch, extent.width, extent.height * extent.depth);

	if (!rc && ret_ptr)
		*ret_ptr = p;
	return ret_ptr ? rc : RT_INVALID_VALUE;
}

static int malloc_array(void **ret_array, size_t width, size_t height)
{
	uint64_t desc[3] = {width, height, 1ull << 32 | 1};

	return DRV(0, cuArrayCreate_v2, ret_array, desc);
}

static int malloc_3d_array(void **ret_array, struct extent extent)
{
	uint64_t desc[4] = {extent.width, extent.height, extent.depth, 1ull << 32 | 1};

	return DRV(0, cuArray3DCreate_v2, ret_array, desc);
}

static int host_device_pointer(void **ret_ptr, void *ptr, unsigned flags)
{
	CUdeviceptr p = rt_dev(ptr);
	int rc = ret_ptr ? DRV(0, cuMemHostGetDevicePointer_v2, &p, ptr, flags) : RT_INVALID_VALUE;

	if (!rc)
		*ret_ptr = (void *)(uintptr_t)p;
	return rc;
}

static int symbol_global(void **ret_ptr, size_t *ret_bytes)
{
	CUdeviceptr p = 0;
	size_t bytes = 0;
	void *lib = NULL;
	int rc = rt_library(&lib);

	if (!rc)
		rc = DRV(0, cuLibraryGetGlobal, &p, &bytes, lib, "symbol");
	if (!rc && ret_ptr)
		*ret_ptr = (void *)(uintptr_t)p;
	if (!rc && ret_bytes)
		*ret_bytes = bytes;
	return rc;
}

/* ---- allocation ---- */

RT(cudaMalloc, (void **ret_ptr, size_t bytes), malloc_device(ret_ptr, bytes))
RT(cudaMallocManaged, (void **ret_ptr, size_t bytes, unsigned flags), malloc_managed(ret_ptr, bytes, flags))
RT(cudaMallocHost, (void **ret_ptr, size_t bytes), malloc_host(ret_ptr, bytes, 0))
RT(cudaHostAlloc, (void **ret_ptr, size_t bytes, unsigned flags), malloc_host(ret_ptr, bytes, flags))
RT(cudaHostGetDevicePointer, (void **ret_ptr, void *ptr, unsigned flags),
	host_device_pointer(ret_ptr, ptr, flags))
RT(cudaHostRegister, (void *ptr, size_t bytes, unsigned flags),
	DRV(0, cuMemHostRegister_v2, ptr, bytes, flags))
RTZ(cudaMallocAsync, (void **ret_ptr, size_t bytes, void *stream), malloc_async(pt, ret_ptr, bytes, stream))
RTZ(cudaMallocFromPoolAsync, (void **ret_ptr, size_t bytes, void *pool, void *stream),
	malloc_pool(pt, ret_ptr, bytes, pool, stream))
RT(cudaMallocPitch, (void **ret_ptr, size_t *ret_pitch, size_t width, size_t height),
	malloc_pitch(ret_ptr, ret_pitch, width, height))
RT(cudaMalloc3D, (struct pitched_ptr * ret_ptr, struct extent extent), malloc_3d(ret_ptr, extent))
RT(cudaMallocArray, (void **ret_array, const void *desc, size_t width, size_t height, unsigned flags),
	malloc_array(ret_array, width, height))
RT(cudaMalloc3DArray, (void **ret_array, const void *desc, struct extent extent, unsigned flags),
	malloc_3d_array(ret_array, extent))
RT(cudaDeviceGetDefaultMemPool, (void **ret_pool, int device),
	DRV(0, cuDeviceGetDefaultMemPool, ret_pool, device))
RT(cudaMemPoolCreate, (void **ret_pool, const void *properties),
	DRV(0, cuMemPoolCreate, ret_pool, properties))
RT(cudaMemPoolTrimTo, (void *pool, size_t keep), DRV(0, cuMemPoolTrimTo, pool, keep))
RT(cudaMemPoolDestroy, (void *pool), DRV(0, cuMemPoolDestroy, pool))

/* ---- freeing ---- */

RT(cudaFree, (void *ptr), DRV(0, cuMemFree_v2, rt_dev(ptr)))
RT(cudaFreeHost, (void *ptr), DRV(0, cuMemFreeHost, ptr))
RT(cudaFreeArray, (void *array), array ? DRV(0, cuArrayDestroy, array) : 0)
RT(cudaHostUnregister, (void *ptr), DRV(0, cuMemHostUnregister, ptr))
RTZ(cudaFreeAsync, (void *ptr, void *stream), DRV(pt, cuMemFreeAsync, rt_dev(ptr), stream))

/* ---- the rest ---- */

RT(cudaMemGetInfo, (size_t * ret_free, size_t *ret_total), DRV(0, cuMemGetInfo_v2, ret_free, ret_total))
RT(cudaPointerGetAttributes, (void *ret_attributes, const void *ptr),
	DRV(0, cuPointerGetAttributes, 0, NULL, NULL, rt_dev(ptr)))
RT(cudaGetSymbolAddress, (void **ret_ptr, const void *symbol), symbol_global(ret_ptr, NULL))
RT(cudaGetSymbolSize, (size_t * ret_bytes, const void *symbol), symbol_global(NULL, ret_bytes))

#define LOCATION(l) ((uint64_t)(uint32_t)(l).id << 32 | (uint32_t)(l).type)

#if SIM_CUDART >= 13
RT(cudaMemAdvise, (const void *ptr, size_t bytes, int advice, struct location where),
	DRV(0, cuMemAdvise_v2, rt_dev(ptr), bytes, advice, LOCATION(where)))
RTZ(cudaMemPrefetchAsync,
	(const void *ptr, size_t bytes, struct location where, unsigned flags, void *stream),
	DRV(pt, cuMemPrefetchAsync_v2, rt_dev(ptr), bytes, LOCATION(where), flags, stream))
RTZ(cudaMemPrefetchBatchAsync,
	(CUdeviceptr * ptrs, size_t *sizes, size_t n, void *locations, size_t *indices, size_t n_locations,
		uint64_t flags, void *stream),
	DRV(pt, cuMemPrefetchBatchAsync, ptrs, sizes, n, locations, indices, n_locations, flags, stream))
RTZ(cudaMemDiscardAndPrefetchBatchAsync,
	(CUdeviceptr * ptrs, size_t *sizes, size_t n, void *locations, size_t *indices, size_t n_locations,
		uint64_t flags, void *stream),
	DRV(pt, cuMemDiscardAndPrefetchBatchAsync, ptrs, sizes, n, locations, indices, n_locations, flags,
		stream))
RTZ(cudaMemDiscardBatchAsync, (CUdeviceptr * ptrs, size_t *sizes, size_t n, uint64_t flags, void *stream),
	DRV(pt, cuMemDiscardBatchAsync, ptrs, sizes, n, flags, stream))
#else
RT(cudaMemAdvise, (const void *ptr, size_t bytes, int advice, int device),
	DRV(0, cuMemAdvise, rt_dev(ptr), bytes, advice, device))
RTZ(cudaMemPrefetchAsync, (const void *ptr, size_t bytes, int device, void *stream),
	DRV(pt, cuMemPrefetchAsync, rt_dev(ptr), bytes, device, stream))
#endif
#if SIM_CUDART == 12
RT(cudaMemAdvise_v2, (const void *ptr, size_t bytes, int advice, struct location where),
	DRV(0, cuMemAdvise_v2, rt_dev(ptr), bytes, advice, LOCATION(where)))
RTZ(cudaMemPrefetchAsync_v2,
	(const void *ptr, size_t bytes, struct location where, unsigned flags, void *stream),
	DRV(pt, cuMemPrefetchAsync_v2, rt_dev(ptr), bytes, LOCATION(where), flags, stream))
#endif
