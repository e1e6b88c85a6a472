/* The contract between the BPF programs and user space: record layouts, map values, limits. Plain C, included by both
 * sides; layouts only ever grow at the end, sizes are asserted. */
#ifndef INGERO_BPF_ABI_H
#define INGERO_BPF_ABI_H

#ifdef __bpf__
typedef __u8 abi_u8;
typedef __u16 abi_u16;
typedef __u32 abi_u32;
typedef __s32 abi_s32;
typedef __u64 abi_u64;
#else
#include <stdint.h>
typedef uint8_t abi_u8;
typedef uint16_t abi_u16;
typedef uint32_t abi_u32;
typedef int32_t abi_s32;
typedef uint64_t abi_u64;
#endif

/* ---- histogram ---- */

#define ABI_HIST_SUB_BITS 4 /* 16 buckets per octave */
#define ABI_HIST_OCTAVES 38 /* 2^4 .. 2^42 ns (73 minutes); longer goes to the last bucket */
#define ABI_HIST_BUCKETS (((ABI_HIST_OCTAVES + 1) << ABI_HIST_SUB_BITS))

/* ---- what a probed symbol's arguments mean (one row per symbol, index = attach cookie) ---- */

#define ABI_MAX_DESCS 640
#define ABI_MAX_FIELDS 6
#define ABI_SLOTS 12 /* 8-byte argument slots kept per open call: registers first, then stack */

enum abi_layer { ABI_LAYER_RUNTIME, ABI_LAYER_DRIVER };

enum abi_desc_flag {
	ABI_DESC_STACK_ARGS = 1 << 0, /* slots beyond the registers are read from the stack at entry */
	ABI_DESC_KEEP = 1 << 1,	      /* never sampled out */
	ABI_DESC_QUERY = 1 << 2,      /* 600 (not ready) is no error */
	ABI_DESC_PER_THREAD = 1 << 3, /* _ptsz/_ptds twin: stream 0 is the per-thread stream */
	ABI_DESC_NAME = 1 << 4,	      /* shows a kernel's name, not a call to time */
	ABI_DESC_CAPTURE_BEGIN = 1 << 5,
	ABI_DESC_CAPTURE_END = 1 << 6,
};

/* Where a field's value comes from. `a`, `b` as noted; slots are argument positions in 8-byte units. */
enum abi_src {
	ABI_SRC_NONE,
	ABI_SRC_ARG,	/* slot a, 64 bits */
	ABI_SRC_ARG32,	/* slot a, low 32 bits */
	ABI_SRC_OUT,	/* u64 behind slot a, read at return when the call succeeded */
	ABI_SRC_MUL,	/* slot a * slot b, saturating */
	ABI_SRC_SCALE,	/* slot a * constant b */
	ABI_SRC_SCALE2, /* slot a * slot (b & 15) * (b >> 4) */
	ABI_SRC_MEM,	/* u64 at slot a + b * 4 */
	ABI_SRC_MEM32,	/* u32 at slot a + b * 4 */
	ABI_SRC_MEM2,	/* product of 2 u64 at slot a + b * 4 */
	ABI_SRC_MEM3,	/* product of 3 u64 at slot a + b * 4 */
	ABI_SRC_VAL3,	/* product of 3 u64 of a by-value struct in memory: x86-64 stack slot b; arm64 behind slot a */
	ABI_SRC_CONST,	/* a */
	ABI_SRC_SUM,	/* sum of up to 16 u64: array slot a, count slot b */
};

enum abi_role {
	ABI_ROLE_NONE,
	ABI_ROLE_BYTES,
	ABI_ROLE_PTR,	 /* device or host pointer, result of an allocation or argument of a free */
	ABI_ROLE_KIND,	 /* copy direction 0..4 (H2H H2D D2H D2D default) */
	ABI_ROLE_STREAM,
	ABI_ROLE_KERNEL, /* function or kernel handle, host stub */
	ABI_ROLE_GRID_XY, /* x | y << 32 */
	ABI_ROLE_GRID_Z,
	ABI_ROLE_BLOCK_XY,
	ABI_ROLE_BLOCK_Z,
	ABI_ROLE_GRAPH,
	ABI_ROLE_EXEC,
	ABI_ROLE_MODE, /* capture mode */
	ABI_ROLE_EVENT,
	ABI_ROLE_DEVICE,
	ABI_ROLE_COUNT,
	ABI_ROLE_NAME_PTR, /* char* with the kernel's name */
	ABI_ROLE_GRID_X,
	ABI_ROLE_GRID_Y,
	ABI_ROLE_BLOCK_X,
	ABI_ROLE_BLOCK_Y,
};

struct abi_field {
	abi_u8 role, src, a, b;
};

struct abi_desc {
	abi_u16 op; /* OP_CODE; 0 = unused row */
	abi_u8 layer;
	abi_u8 n_fields;
	abi_u16 flags;
	abi_u8 bytes_field; /* index + 1 of the field summed up as bytes, 0 = none */
	abi_u8 category;
	struct abi_field field[ABI_MAX_FIELDS];
};
