/* libcuda.so.1, simulated: copies and fills. No data moves; the device's timeline does. */
#include "sim/driver.h"
#include "sim/copy.h"

static inline uint64_t size_2d(const struct copy_2d *c)
{
	return c ? c->width * c->height : 0;
}

static inline uint64_t size_3d(const struct copy_3d *c)
{
	return c ? c->width * c->height * c->depth : 0;
}

static inline uint64_t size_all(const size_t *sizes, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; sizes && i < n; i++)
		sum += sizes[i];
	return sum;
}

/* ---- one-dimensional ---- */

#define COPY(symbol, params) DRD(symbol, params, device_copy_wait(pt, bytes))
#define COPY_ASYNC(symbol, params) DRZ(symbol, params, device_copy(stream, pt, bytes))

COPY(cuMemcpyHtoD_v2, (CUdeviceptr dst, const void *src, size_t bytes))
COPY(cuMemcpyDtoH_v2, (void *dst, CUdeviceptr src, size_t bytes))
COPY(cuMemcpyDtoD_v2, (CUdeviceptr dst, CUdeviceptr src, size_t bytes))
COPY(cuMemcpy, (CUdeviceptr dst, CUdeviceptr src, size_t bytes))
COPY(cuMemcpyPeer, (CUdeviceptr dst, void *dst_ctx, CUdeviceptr src, void *src_ctx, size_t bytes))
COPY(cuMemcpyHtoA_v2, (void *dst, size_t offset, const void *src, size_t bytes))
COPY(cuMemcpyAtoH_v2, (void *dst, void *src, size_t offset, size_t bytes))
COPY(cuMemcpyDtoA_v2, (void *dst, size_t offset, CUdeviceptr src, size_t bytes))
COPY(cuMemcpyAtoD_v2, (CUdeviceptr dst, void *src, size_t offset, size_t bytes))
COPY(cuMemcpyAtoA_v2, (void *dst, size_t dst_offset, void *src, size_t src_offset, size_t bytes))
COPY_ASYNC(cuMemcpyHtoDAsync_v2, (CUdeviceptr dst, const void *src, size_t bytes, void *stream))
COPY_ASYNC(cuMemcpyDtoHAsync_v2, (void *dst, CUdeviceptr src, size_t bytes, void *stream))
COPY_ASYNC(cuMemcpyDtoDAsync_v2, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, void *stream))
COPY_ASYNC(cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, void *stream))
COPY_ASYNC(cuMemcpyPeerAsync,
	(CUdeviceptr dst, void *dst_ctx, CUdeviceptr src, void *src_ctx, size_t bytes, void *stream))
COPY_ASYNC(cuMemcpyHtoAAsync_v2, (void *dst, size_t offset, const void *src, size_t bytes, void *stream))
COPY_ASYNC(cuMemcpyAtoHAsync_v2, (void *dst, void *src, size_t offset, size_t bytes, void *stream))

/* ---- two- and three-dimensional ---- */

DRD(cuMemcpy2D_v2, (const struct copy_2d *c), device_copy_wait(pt, size_2d(c)))
DRD(cuMemcpy2DUnaligned_v2, (const struct copy_2d *c), device_copy_wait(pt, size_2d(c)))
DRZ(cuMemcpy2DAsync_v2, (const struct copy_2d *c, void *stream), device_copy(stream, pt, size_2d(c)))
DRD(cuMemcpy3D_v2, (const struct copy_3d *c), device_copy_wait(pt, size_3d(c)))
DRZ(cuMemcpy3DAsync_v2, (const struct copy_3d *c, void *stream), device_copy(stream, pt, size_3d(c)))
DRD(cuMemcpy3DPeer, (const struct copy_3d *c), device_copy_wait(pt, size_3d(c)))
DRZ(cuMemcpy3DPeerAsync, (const struct copy_3d *c, void *stream), device_copy(stream, pt, size_3d(c)))

/* ---- batches ---- */

DRZ(cuMemcpyBatchAsync,
	(CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t n, void *attributes, size_t *indices,
		size_t n_attr, size_t *ret_failed, void *stream),
	device_copy(stream, pt, size_all(sizes, n)))
DRZ(cuMemcpyBatchAsync_v2,
	(CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t n, void *attributes, size_t *indices,
		size_t n_attr, void *stream),
	device_copy(stream, pt, size_all(sizes, n)))
DRZ(cuMemcpy3DBatchAsync, (size_t n, void *ops, size_t *ret_failed, uint64_t flags, void *stream),
	device_copy(stream, pt, 0))
DRZ(cuMemcpy3DBatchAsync_v2, (size_t n, void *ops, uint64_t flags, void *stream), device_copy(stream, pt, 0))

/* ---- fills ---- */

#define FILL(bits, type)                                                                                     \
	DRD(cuMemsetD##bits##_v2, (CUdeviceptr ptr, type value, size_t n),                                   \
		device_copy_wait(pt, n * sizeof(type)))                                                      \
	DRZ(cuMemsetD##bits##Async, (CUdeviceptr ptr, type value, size_t n, void *stream),                   \
		device_copy(stream, pt, n * sizeof(type)))                                                   \
	DRD(cuMemsetD2D##bits##_v2,                                                                          \
		(CUdeviceptr ptr, size_t pitch, type value, size_t width, size_t height),                    \
		device_copy_wait(pt, width *height * sizeof(type)))                                          \
	DRZ(cuMemsetD2D##bits##Async,                                                                        \
		(CUdeviceptr ptr, size_t pitch, type value, size_t width, size_t height, void *stream),      \
		device_copy(stream, pt, width *height * sizeof(type)))

FILL(8, uint8_t)
FILL(16, uint16_t)
FILL(32, uint32_t)
