/* The contract between the BPF programs and user space: record layouts, map values, limits. Plain C, included
 * by both sides; layouts only ever grow at the end, sizes are asserted. */
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
#define ABI_MAX_FIELDS 8
#define ABI_SLOTS 14 /* 8-byte argument slots kept per open call: registers first, then stack */

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
	ABI_SRC_VAL3,	/* product of 3 u64 of a by-value struct in memory: x86-64 stack slot b; arm64 behind
			   slot a */
	ABI_SRC_CONST,	/* a */
	ABI_SRC_SUM,	/* sum of up to 16 u64: array slot a, count slot b */
};

enum abi_role {
	ABI_ROLE_NONE,
	ABI_ROLE_BYTES,
	ABI_ROLE_PTR,  /* device or host pointer, result of an allocation or argument of a free */
	ABI_ROLE_KIND, /* copy direction 0..4 (H2H H2D D2H D2D default) */
	ABI_ROLE_STREAM,
	ABI_ROLE_KERNEL,  /* function or kernel handle, host stub */
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

/* ---- control block, written by user space at any time (one element array, mapped) ---- */

enum abi_target_mode { ABI_TARGET_ALL, ABI_TARGET_UID, ABI_TARGET_PIDS };

struct abi_control {
	abi_u32 active;	     /* 0: the programs only return */
	abi_u32 policy_gen;  /* raised whenever the targets change: threads are judged again */
	abi_u32 target_mode; /* enum abi_target_mode */
	abi_u32 target_uid;
	abi_u32 sampling_rate; /* 1 = every call gives a record, N = 1 in N per process and operation */
	abi_u32 records;       /* 0: counters and histograms only */
	abi_u64 wake_bytes;    /* ring fill above which the reader is woken */
};

/* ---- exact counters per (process, operation) ---- */

struct abi_counter_key {
	abi_u64 proc_start_ns;
	abi_u32 tgid;
	abi_u32 op;
};

/* Finished calls = sum of hist[]; user space extends the 32-bit buckets by reading at least once per 2^32
 * calls. */
struct abi_counters {
	abi_u64 sum_ns, max_ns;
	abi_u64 errors, bytes;
	abi_u64 sampled_out; /* finished, no record on purpose */
	abi_u64 lost_ring;   /* finished, the ring was full */
	abi_u64 lost_state;  /* never timed: thread table full or nested too deep (not in hist) */
	abi_u64 unfinished;  /* begun, left by thread end, exec, longjmp or exception (not in hist) */
	abi_u64 nested,
		nested_ns; /* of the finished calls: those made inside another traced call, and their time */
	abi_u64 sample_seq;
	abi_u32 hist[ABI_HIST_BUCKETS];
};

#define ABI_MAX_COUNTERS 4096 /* (process, operation) pairs; dead ones are removed by user space */
#define ABI_COUNTERS_CACHE 32 /* per thread, direct-mapped by row; a power of two */
#define ABI_MAX_THREADS 4096  /* threads with open calls or a history of them */
#define ABI_MAX_DEPTH 8	      /* open calls per thread */
#define ABI_MAX_TARGETS 1024

/* ---- per-thread state ---- */

/* One open call. */
struct abi_open_call {
	abi_u64 start_ns;
	abi_u64 sp; /* stack pointer at entry, pairs entry and return */
	abi_u32 desc;
	abi_u32 pad;
	abi_u64 slot[ABI_SLOTS];
};

/* Where a thread's wall time goes, per state, in ns since its first traced call (time-shares state machine).
 */
enum abi_thread_time {
	ABI_TIME_RUN,
	ABI_TIME_PREEMPTED,
	ABI_TIME_RUNQUEUE,
	ABI_TIME_THROTTLED,
	ABI_TIME_IOWAIT,
	ABI_TIME_UNINTERRUPTIBLE,
	ABI_TIME_SLEEP,
	ABI_TIME_STOPPED,
	ABI_TIME_STATES,
};

struct abi_thread {
	abi_u64 proc_start_ns;
	abi_u32 tgid, tid;
	abi_u32 depth;
	abi_u32 introduced; /* its thread record reached the ring */
	abi_u64 time_last_ns;
	abi_u64 time_ns[ABI_TIME_STATES];
	abi_u32 time_state;
	abi_u32 slot_plus_1; /* where it lies itself */
	/* which counters its last operations had, so that the hash is rarely asked */
	struct {
		abi_u16 desc_plus_1;
		abi_u16 slot;
	} counters[ABI_COUNTERS_CACHE];
	struct abi_open_call call[ABI_MAX_DEPTH];
};

/* Value of the task storage: which slot a thread has, or that it is none of our business. */
struct abi_task {
	abi_u32 slot; /* index + 1; 0 = ignored or no slot free */
	abi_u32 policy_gen;
	abi_u32 flags; /* enum abi_task_flag */
	abi_u32 pad;
};

enum abi_task_flag { ABI_TASK_TRACED = 1 << 0, ABI_TASK_NO_SLOT = 1 << 1 };

/* ---- records ---- */

enum abi_record_type {
	ABI_REC_CALL = 1,
	ABI_REC_THREAD = 2, /* first traced call of a thread, or its name changed */
	ABI_REC_EXIT = 3,   /* a traced process ended */
	ABI_REC_EXEC = 4,
	ABI_REC_NAME = 5,   /* a kernel's name */
	ABI_REC_UNWIND = 6, /* an exception is about to pass through probed calls */
};

enum abi_call_flag {
	ABI_CALL_NESTED = 1 << 0,
	ABI_CALL_UNFINISHED = 1 << 1,
};

/* In the calls ring. `val` holds the fields of the symbol's row in order; the record ends after the last of
 * them. */
struct abi_rec_call {
	abi_u8 type;
	abi_u8 depth;
	abi_u16 desc;
	abi_u16 flags;
	abi_u16 n_val;
	abi_u32 tgid, tid;
	abi_u64 proc_start_ns;
	abi_u64 start_ns, dur_ns;
	abi_s32 ret;
	abi_u32 weight;
	abi_u64 val[ABI_MAX_FIELDS];
};

#define ABI_REC_CALL_BASE 48

/* In the process ring, like all below. */
struct abi_rec_thread {
	abi_u8 type;
	abi_u8 pad[3];
	abi_u32 tgid, tid, uid, ppid;
	abi_u32 exit_code; /* of ABI_REC_EXIT */
	abi_u64 proc_start_ns;
	abi_u64 time_ns;
	abi_u64 cgroup_id;
	char comm[16];	      /* of the thread */
	char leader_comm[16]; /* of the thread-group leader */
};

#define ABI_NAME_MAX 256

struct abi_rec_name {
	abi_u8 type;
	abi_u8 pad[3];
	abi_u32 tgid;
	abi_u64 proc_start_ns;
	abi_u64 handle;
	char name[ABI_NAME_MAX]; /* NUL-terminated, cut at 255 */
};

#define ABI_MAX_UNWIND 64 /* MAX_URETPROBE_DEPTH in include/linux/uprobes.h */

/* The stack words where return probes replaced the return address (0: no longer), and what belongs there. */
struct abi_rec_unwind {
	abi_u8 type;
	abi_u8 n;
	abi_u8 pad[2];
	abi_u32 tgid, tid, pad2;
	struct {
		abi_u64 address, value;
	} word[ABI_MAX_UNWIND];
};

/* ---- what went wrong in kernel, as totals (array map, index = enum) ---- */

enum abi_status {
	ABI_STATUS_PROC_RING_FULL, /* a record of the process ring was lost */
	ABI_STATUS_NO_SLOT,	   /* a thread found no free slot */
	ABI_STATUS_COUNTERS_FULL,  /* a (process, operation) pair went to the overflow table */
	ABI_STATUS_STALE_CALLS,	   /* open calls dropped because the stack had been left */
	ABI_STATUS_STORAGE_BUSY,   /* task storage was refused, the tid table answered */
	ABI_STATUS_UNWINDS_FAILED, /* a return address could not be put back */
	ABI_STATUS_COUNT,
};

#ifdef __bpf__
#define ABI_ASSERT(cond, msg) _Static_assert(cond, msg)
#else
#include <assert.h>
#define ABI_ASSERT(cond, msg) static_assert(cond, msg)
#endif

ABI_ASSERT(sizeof(struct abi_desc) == 8 + 4 * ABI_MAX_FIELDS, "abi_desc layout");
ABI_ASSERT(sizeof(struct abi_control) == 32, "abi_control layout");
ABI_ASSERT(sizeof(struct abi_counter_key) == 16, "abi_counter_key layout");
ABI_ASSERT(sizeof(struct abi_counters) == 88 + 4 * ABI_HIST_BUCKETS, "abi_counters layout");
ABI_ASSERT(sizeof(struct abi_open_call) == 24 + 8 * ABI_SLOTS, "abi_open_call layout");
ABI_ASSERT(sizeof(struct abi_rec_call) == ABI_REC_CALL_BASE + 8 * ABI_MAX_FIELDS, "abi_rec_call layout");
ABI_ASSERT(sizeof(struct abi_rec_thread) == 80, "abi_rec_thread layout");
ABI_ASSERT(sizeof(struct abi_rec_name) == 24 + ABI_NAME_MAX, "abi_rec_name layout");
ABI_ASSERT(sizeof(struct abi_rec_unwind) == 16 + 16 * ABI_MAX_UNWIND, "abi_rec_unwind layout");

#endif
