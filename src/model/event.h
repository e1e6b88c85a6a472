/* The records the rest of the program works with: one call, one process, the counters of one (process,
 * operation). */
#ifndef INGERO_MODEL_EVENT_H
#define INGERO_MODEL_EVENT_H

#include "model/hist.h"

/* A process is its pid (tgid, as the kernel counts) and its start time: pids are reused. */
struct proc_id {
	uint32_t pid;
	uint64_t start_ns; /* start_boottime of the thread-group leader; 0 = unknown (old databases) */
};

static inline bool proc_id_equal(struct proc_id a, struct proc_id b)
{
	return a.pid == b.pid && a.start_ns == b.start_ns;
}

#define COMM_LEN 16

struct process_info {
	struct proc_id id;
	char comm[COMM_LEN]; /* of the thread-group leader, raw bytes */
	uint32_t uid;
	uint32_t ppid;
	uint64_t cgroup_id;		      /* 0 = unknown */
	int32_t rank, local_rank, world_size; /* -1 = none */
};

/* Why a call became a row (or would have): bits, several may hold. */
enum store_reason {
	REASON_SAMPLE = 1 << 0, /* one of `weight` ordinary calls */
	REASON_ERROR = 1 << 1,
	REASON_MEMORY = 1 << 2, /* allocation or free */
	REASON_SYNC = 1 << 3,
	REASON_GRAPH = 1 << 4,
	REASON_FIRST = 1 << 5, /* first calls of a process and operation */
	REASON_SLOW = 1 << 6,
	REASON_ALL = 1 << 7,	   /* --record-all */
	REASON_LIFECYCLE = 1 << 8, /* process events */
};

enum call_flag {
	CALL_NESTED = 1 << 0,	  /* made inside another traced call of the same thread */
	CALL_UNFINISHED = 1 << 1, /* the thread ended or unwound inside; duration is until then */
	CALL_ANOMALY = 1 << 2,	  /* slow against its own baseline */
	CALL_CAPTURING = 1 << 3,  /* recorded into a graph, nothing ran */
	CALL_FIRST = 1 << 4,
};

/* One traced call. Values the operation does not have are 0. */
struct call_event {
	int64_t wall_ns;  /* start, Unix time */
	uint64_t mono_ns; /* start, CLOCK_MONOTONIC; 0 when read from a database without it */
	uint64_t dur_ns;
	struct proc_id proc;
	uint32_t tid;
	uint16_t op;	     /* OP_CODE */
	uint8_t depth;	     /* 0 = outermost */
	uint16_t flags;	     /* enum call_flag */
	int32_t ret;	     /* CUDA result, 0 = success */
	uint32_t weight;     /* this record stands for so many calls (>= 1) */
	uint32_t reason;     /* enum store_reason; 0 = not stored */
	uint64_t arg0, arg1; /* as the reference defines them per operation (spec storage §1.8) */
	uint64_t stream;     /* stream handle */
	uint64_t handle; /* graph for capture/instantiate, device pointer of allocations, event of event calls
			  */
	uint64_t exec;	 /* graph exec handle */
	uint64_t kernel; /* kernel or function handle of launches */
	uint32_t grid[3], block[3]; /* launches; 0 = none */
};

/* Exact counters of one (process, operation), cumulative since its first call. */
struct op_counters {
	uint64_t count; /* finished calls, whatever happened to their records */
	uint64_t sum_ns;
	uint64_t max_ns;
	uint64_t min_ns; /* 0 when unknown */
	uint64_t errors;
	uint64_t bytes;	      /* of successful calls with a byte count */
	uint64_t delivered;   /* records that reached us */
	uint64_t sampled_out; /* not recorded on purpose */
	uint64_t lost;	      /* made, record lost: ring full, thread table full, too deep */
	uint64_t untimed;     /* of lost: never timed (thread table full, too deep), so not in count */
	uint64_t unfinished;  /* begun, never returned (not in count) */
	uint64_t nested;      /* of count: made inside another traced call */
	uint64_t
		nested_ns; /* of sum_ns: theirs; sum_ns - nested_ns never counts a moment of a thread twice */
	struct hist hist;
};

/* One second of system state (/proc). */
struct system_sample {
	int64_t wall_ns;
	double cpu_pct, mem_pct;
	uint64_t mem_avail_mb, mem_total_mb, swap_mb;
	double load1;
};

#endif
