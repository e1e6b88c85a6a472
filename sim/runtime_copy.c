/* libcudart, simulated: copies and fills. Which driver call a copy becomes depends on its direction. */
#include "sim/runtime.h"

/* cudaMemcpy3DParms */
struct params_3d {
	void *src_array;
	size_t src_pos[3];
	struct pitched_ptr src;
	void *dst_array;
	size_t dst_pos[3];
	struct pitched_ptr dst;
	struct extent extent;
	int kind;
};

/* cudaMemcpy3DPeerParms */
struct params_3d_peer {
	void *src_array;
	size_t src_pos[3];
	struct pitched_ptr src;
	int src_device;
	void *dst_array;
	size_t dst_pos[3];
	struct pitched_ptr dst;
	int dst_device;
	struct extent extent;
};

_Static_assert(offsetof(struct params_3d, extent) == 128 && offsetof(struct params_3d, kind) == 152,
	"cudaMemcpy3DParms");
_Static_assert(offsetof(struct params_3d_peer, extent) == 144, "cudaMemcpy3DPeerParms");

struct plane {
	void *dst;
	size_t dst_pitch;
	const void *src;
	size_t src_pitch;
	size_t width, height;
	int kind;
};

static inline uint32_t source_type(int kind)
{
	return kind == SIM_COPY_DEFAULT		    ? COPY_UNIFIED
	       : kind == SIM_D2H || kind == SIM_D2D ? COPY_DEVICE
						    : COPY_HOST;
}

static inline uint32_t target_type(int kind)
{
	return kind == SIM_COPY_DEFAULT		    ? COPY_UNIFIED
	       : kind == SIM_H2D || kind == SIM_D2D ? COPY_DEVICE
						    : COPY_HOST;
}

static struct copy_2d to_driver(const struct plane *p)
{
	return (struct copy_2d){.src_type = source_type(p->kind),
		.src_host = p->src,
		.src_device = rt_dev(p->src),
		.src_pitch = p->src_pitch,
		.dst_type = target_type(p->kind),
		.dst_host = p->dst,
		.dst_device = rt_dev(p->dst),
		.dst_pitch = p->dst_pitch,
		.width = p->width,
		.height = p->height};
}

static inline int plane_wait(bool per_thread, struct plane p)
{
	struct copy_2d c = to_driver(&p);

	return DRV(per_thread, cuMemcpy2DUnaligned_v2, &c);
}

static inline int plane_async(bool per_thread, struct plane p, void *stream)
{
	struct copy_2d c = to_driver(&p);

	return DRV(per_thread, cuMemcpy2DAsync_v2, &c, stream);
}

static inline int copy_wait(bool per_thread, void *dst, const void *src, size_t bytes, int kind)
{
	switch (kind) {
	case SIM_H2D:
		return DRV(per_thread, cuMemcpyHtoD_v2, rt_dev(dst), src, bytes);
	case SIM_D2H:
		return DRV(per_thread, cuMemcpyDtoH_v2, dst, rt_dev(src), bytes);
	case SIM_D2D:
		return DRV(per_thread, cuMemcpyDtoD_v2, rt_dev(dst), rt_dev(src), bytes);
	case SIM_COPY_DEFAULT:
		return DRV(per_thread, cuMemcpy, rt_dev(dst), rt_dev(src), bytes);
	case SIM_H2H:
		return plane_wait(per_thread, (struct plane){dst, bytes, src, bytes, bytes, 1, kind});
	default:
		return 21; /* cudaErrorInvalidMemcpyDirection */
	}
}

static inline int copy_async(
	bool per_thread, void *dst, const void *src, size_t bytes, int kind, void *stream)
{
	switch (kind) {
	case SIM_H2D:
		return DRV(per_thread, cuMemcpyHtoDAsync_v2, rt_dev(dst), src, bytes, stream);
	case SIM_D2H:
		return DRV(per_thread, cuMemcpyDtoHAsync_v2, dst, rt_dev(src), bytes, stream);
	case SIM_D2D:
		return DRV(per_thread, cuMemcpyDtoDAsync_v2, rt_dev(dst), rt_dev(src), bytes, stream);
	case SIM_COPY_DEFAULT:
		return DRV(per_thread, cuMemcpyAsync, rt_dev(dst), rt_dev(src), bytes, stream);
	case SIM_H2H:
		return plane_async(
			per_thread, (struct plane){dst, bytes, src, bytes, bytes, 1, kind}, stream);
	default:
		return 21;
	}
}

/* Address of a device variable, looked up `times` times as the real runtime does. */
static int symbol_address(unsigned times, CUdeviceptr *ret_ptr)
{
	size_t bytes;
	void *lib = NULL;
	int rc = rt_library(&lib);

	for (unsigned i = 0; !rc && i < times; i++)
		rc = DRV(0, cuLibraryGetGlobal, ret_ptr, &bytes, lib, "symbol");
	return rc;
}

static inline int symbol_wait(bool per_thread, bool to, void *host, size_t bytes, size_t offset, int kind)
{
	CUdeviceptr p = 0;
	int rc = symbol_address(2, &p);
	void *d = (void *)(uintptr_t)(p + offset);

	return rc ? rc : copy_wait(per_thread, to ? d : host, to ? host : d, bytes, kind);
}

static inline int symbol_async(
	bool per_thread, bool to, void *host, size_t bytes, size_t offset, int kind, void *stream)
{
	CUdeviceptr p = 0;
	int rc = symbol_address(1, &p);
	void *d = (void *)(uintptr_t)(p + offset);

	return rc ? rc : copy_async(per_thread, to ? d : host, to ? host : d, bytes, kind, stream);
}

static struct copy_3d to_driver_3d(const struct params_3d *p)
{
	return (struct copy_3d){.src_type = source_type(p->kind),
		.src_host = p->src.ptr,
		.src_device = rt_dev(p->src.ptr),
		.src_pitch = p->src.pitch,
		.dst_type = target_type(p->kind),
		.dst_host = p->dst.ptr,
		.dst_device = rt_dev(p->dst.ptr),
		.dst_pitch = p->dst.pitch,
		.width = p->extent.width,
		.height = p->extent.height,
		.depth = p->extent.depth};
}

static inline int cube_wait(bool per_thread, const struct params_3d *p)
{
	struct copy_3d c;

	if (!p)
		return RT_INVALID_VALUE;
	c = to_driver_3d(p);
	return DRV(per_thread, cuMemcpy3D_v2, &c);
}

static inline int cube_async(bool per_thread, const struct params_3d *p, void *stream)
{
	struct copy_3d c;

	if (!p)
		return RT_INVALID_VALUE;
	c = to_driver_3d(p);
	return DRV(per_thread, cuMemcpy3DAsync_v2, &c, stream);
}

static struct copy_3d to_driver_peer(const struct params_3d_peer *p)
{
	struct params_3d q = {.src = p->src, .dst = p->dst, .extent = p->extent, .kind = SIM_D2D};

	return to_driver_3d(&q);
}

static inline int cube_peer_wait(bool per_thread, const struct params_3d_peer *p)
{
	struct copy_3d c;

	if (!p)
		return RT_INVALID_VALUE;
	c = to_driver_peer(p);
	return DRV(per_thread, cuMemcpy3DPeer, &c);
}

static inline int cube_peer_async(bool per_thread, const struct params_3d_peer *p, void *stream)
{
	struct copy_3d c;

	if (!p)
		return RT_INVALID_VALUE;
	c = to_driver_peer(p);
	return DRV(per_thread, cuMemcpy3DPeerAsync, &c, stream);
}

static int peer_versions(void)
{
	unsigned version;
	int rc = DRV(0, cuCtxGetApiVersion, NULL, &version);

	return rc ? rc : DRV(0, cuCtxGetApiVersion, NULL, &version);
}

static int peer_wait(void *dst, const void *src, size_t bytes)
{
	int rc = peer_versions();

	return rc ? rc : DRV(0, cuMemcpyPeer, rt_dev(dst), NULL, rt_dev(src), NULL, bytes);
}

static int peer_async(void *dst, const void *src, size_t bytes, void *stream)
{
	int rc = peer_versions();

	return rc ? rc : DRV(0, cuMemcpyPeerAsync, rt_dev(dst), NULL, rt_dev(src), NULL, bytes, stream);
}

/* ---- linear ---- */

RTD(cudaMemcpy, (void *dst, const void *src, size_t bytes, int kind), copy_wait(pt, dst, src, bytes, kind))
RTZ(cudaMemcpyAsync, (void *dst, const void *src, size_t bytes, int kind, void *stream),
	copy_async(pt, dst, src, bytes, kind, stream))
RT(cudaMemcpyPeer, (void *dst, int dst_device, const void *src, int src_device, size_t bytes),
	peer_wait(dst, src, bytes))
RT(cudaMemcpyPeerAsync,
	(void *dst, int dst_device, const void *src, int src_device, size_t bytes, void *stream),
	peer_async(dst, src, bytes, stream))
RTD(cudaMemcpyToSymbol, (const void *symbol, const void *src, size_t bytes, size_t offset, int kind),
	symbol_wait(pt, true, (void *)(uintptr_t)src, bytes, offset, kind))
RTZ(cudaMemcpyToSymbolAsync,
	(const void *symbol, const void *src, size_t bytes, size_t offset, int kind, void *stream),
	symbol_async(pt, true, (void *)(uintptr_t)src, bytes, offset, kind, stream))
RTD(cudaMemcpyFromSymbol, (void *dst, const void *symbol, size_t bytes, size_t offset, int kind),
	symbol_wait(pt, false, dst, bytes, offset, kind))
RTZ(cudaMemcpyFromSymbolAsync,
	(void *dst, const void *symbol, size_t bytes, size_t offset, int kind, void *stream),
	symbol_async(pt, false, dst, bytes, offset, kind, stream))

/* ---- planes and cubes ---- */

RTD(cudaMemcpy2D,
	(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width, size_t height,
		int kind),
	plane_wait(pt, (struct plane){dst, dst_pitch, src, src_pitch, width, height, kind}))
RTZ(cudaMemcpy2DAsync,
	(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width, size_t height,
		int kind, void *stream),
	plane_async(pt, (struct plane){dst, dst_pitch, src, src_pitch, width, height, kind}, stream))
RTD(cudaMemcpy3D, (const struct params_3d *params), cube_wait(pt, params))
RTZ(cudaMemcpy3DAsync, (const struct params_3d *params, void *stream), cube_async(pt, params, stream))
RTD(cudaMemcpy3DPeer, (const struct params_3d_peer *params), cube_peer_wait(pt, params))
RTZ(cudaMemcpy3DPeerAsync, (const struct params_3d_peer *params, void *stream),
	cube_peer_async(pt, params, stream))

/* ---- arrays ---- */

RTD(cudaMemcpyToArray, (void *dst, size_t x, size_t y, const void *src, size_t bytes, int kind),
	DRV(pt, cuMemcpyHtoA_v2, dst, x, src, bytes))
RTZ(cudaMemcpyToArrayAsync,
	(void *dst, size_t x, size_t y, const void *src, size_t bytes, int kind, void *stream),
	DRV(pt, cuMemcpyHtoAAsync_v2, dst, x, src, bytes, stream))
RTD(cudaMemcpyFromArray, (void *dst, void *src, size_t x, size_t y, size_t bytes, int kind),
	DRV(pt, cuMemcpyAtoH_v2, dst, src, x, bytes))
RTZ(cudaMemcpyFromArrayAsync,
	(void *dst, void *src, size_t x, size_t y, size_t bytes, int kind, void *stream),
	DRV(pt, cuMemcpyAtoHAsync_v2, dst, src, x, bytes, stream))
RTD(cudaMemcpyArrayToArray,
	(void *dst, size_t dst_x, size_t dst_y, void *src, size_t src_x, size_t src_y, size_t bytes,
		int kind),
	DRV(pt, cuMemcpyAtoA_v2, dst, dst_x, src, src_x, bytes))
RTD(cudaMemcpy2DToArray,
	(void *dst, size_t x, size_t y, const void *src, size_t src_pitch, size_t width, size_t height,
		int kind),
	plane_wait(pt, (struct plane){dst, 0, src, src_pitch, width, height, kind}))
RTZ(cudaMemcpy2DToArrayAsync,
	(void *dst, size_t x, size_t y, const void *src, size_t src_pitch, size_t width, size_t height,
		int kind, void *stream),
	plane_async(pt, (struct plane){dst, 0, src, src_pitch, width, height, kind}, stream))
RTD(cudaMemcpy2DFromArray,
	(void *dst, size_t dst_pitch, void *src, size_t x, size_t y, size_t width, size_t height, int kind),
	plane_wait(pt, (struct plane){dst, dst_pitch, src, 0, width, height, kind}))
RTZ(cudaMemcpy2DFromArrayAsync,
	(void *dst, size_t dst_pitch, void *src, size_t x, size_t y, size_t width, size_t height, int kind,
		void *stream),
	plane_async(pt, (struct plane){dst, dst_pitch, src, 0, width, height, kind}, stream))
RTD(cudaMemcpy2DArrayToArray,
	(void *dst, size_t dst_x, size_t dst_y, void *src, size_t src_x, size_t src_y, size_t width,
		size_t height, int kind),
	plane_wait(pt, (struct plane){dst, 0, src, 0, width, height, kind}))

/* ---- batches: 12.8 still reported which copy failed ---- */

#if SIM_CUDART >= 13
RTZ(cudaMemcpyBatchAsync,
	(CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t n, void *attributes, size_t *indices,
		size_t n_attr, void *stream),
	DRV(pt, cuMemcpyBatchAsync_v2, dsts, srcs, sizes, n, attributes, indices, n_attr, stream))
RTZ(cudaMemcpy3DBatchAsync, (size_t n, void *ops, uint64_t flags, void *stream),
	DRV(pt, cuMemcpy3DBatchAsync_v2, n, ops, flags, stream))
#elif SIM_CUDART >= 12
RTZ(cudaMemcpyBatchAsync,
	(CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t n, void *attributes, size_t *indices,
		size_t n_attr, size_t *ret_failed, void *stream),
	DRV(pt, cuMemcpyBatchAsync, dsts, srcs, sizes, n, attributes, indices, n_attr, ret_failed, stream))
RTZ(cudaMemcpy3DBatchAsync, (size_t n, void *ops, size_t *ret_failed, uint64_t flags, void *stream),
	DRV(pt, cuMemcpy3DBatchAsync, n, ops, ret_failed, flags, stream))
#endif

/* ---- fills ---- */

RTD(cudaMemset, (void *ptr, int value, size_t bytes),
	DRV(pt, cuMemsetD8_v2, rt_dev(ptr), (uint8_t)value, bytes))
RTZ(cudaMemsetAsync, (void *ptr, int value, size_t bytes, void *stream),
	DRV(pt, cuMemsetD8Async, rt_dev(ptr), (uint8_t)value, bytes, stream))
RTD(cudaMemset2D, (void *ptr, size_t pitch, int value, size_t width, size_t height),
	DRV(pt, cuMemsetD2D8_v2, rt_dev(ptr), pitch, (uint8_t)value, width, height))
RTZ(cudaMemset2DAsync, (void *ptr, size_t pitch, int value, size_t width, size_t height, void *stream),
	DRV(pt, cuMemsetD2D8Async, rt_dev(ptr), pitch, (uint8_t)value, width, height, stream))
RTD(cudaMemset3D, (struct pitched_ptr p, int value, struct extent e),
	DRV(pt, cuMemsetD2D8_v2, rt_dev(p.ptr), p.pitch, (uint8_t)value, e.width, e.height *e.depth))
RTZ(cudaMemset3DAsync, (struct pitched_ptr p, int value, struct extent e, void *stream),
	DRV(pt, cuMemsetD2D8Async, rt_dev(p.ptr), p.pitch, (uint8_t)value, e.width, e.height *e.depth,
		stream))
