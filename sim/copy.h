/* The copy descriptors that runtime and driver pass each other (layouts of the public ABI). */
#ifndef SIM_COPY_H
#define SIM_COPY_H

#include <stddef.h>
#include <stdint.h>

enum { COPY_HOST = 1, COPY_DEVICE, COPY_ARRAY, COPY_UNIFIED };

/* CUDA_MEMCPY2D */
struct copy_2d {
	uint64_t src_x, src_y;
	uint32_t src_type;
	const void *src_host;
	uint64_t src_device;
	void *src_array;
	uint64_t src_pitch;
	uint64_t dst_x, dst_y;
	uint32_t dst_type;
	void *dst_host;
	uint64_t dst_device;
	void *dst_array;
	uint64_t dst_pitch;
	uint64_t width, height;
};

/* CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER: the latter has contexts where the former has reserved words */
struct copy_3d {
	uint64_t src_x, src_y, src_z, src_lod;
	uint32_t src_type;
	const void *src_host;
	uint64_t src_device;
	void *src_array;
	void *src_context;
	uint64_t src_pitch, src_height;
	uint64_t dst_x, dst_y, dst_z, dst_lod;
	uint32_t dst_type;
	void *dst_host;
	uint64_t dst_device;
	void *dst_array;
	void *dst_context;
	uint64_t dst_pitch, dst_height;
	uint64_t width, height, depth;
};

_Static_assert(
	offsetof(struct copy_2d, dst_type) == 72 && offsetof(struct copy_2d, width) == 112, "CUDA_MEMCPY2D");
_Static_assert(
	offsetof(struct copy_3d, dst_type) == 120 && offsetof(struct copy_3d, width) == 176, "CUDA_MEMCPY3D");

#endif
