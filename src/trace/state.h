/* What a live session knows: processes, exact totals per (process, operation), which calls become rows.
 * Single thread. */
#ifndef INGERO_TRACE_STATE_H
#define INGERO_TRACE_STATE_H

#include "base/idmap.h"
#include "model/event.h"
#include "model/ops.h"

#define STATE_MAX_PROCESSES 8192
#define STATE_MAX_PAIRS 16384 /* live (process, operation) pairs, 5 KiB each, allocated as needed */
#define STATE_KEEP_PAIRS 4096 /* above this, pairs of ended processes are dropped: 20 MiB */
#define STATE_MAX_NAMES 16384 /* kernel names */
#define STATE_MAX_CAPTURES 256

struct traced_process {
	struct process_info info;
	bool ended;
	unsigned ended_rounds; /* counter rounds since the end was seen */
	bool counters_taken;   /* ended, and the kernel's counters of it are removed */
	bool stored;	       /* the store knows it under its current name */
};

struct op_state {
	struct traced_process *proc;
	uint16_t op;
	struct op_counters total;    /* cumulative */
	uint64_t delivered_reported; /* delivered at the last report to the store */
	uint64_t p50_ns;	     /* as of the last counter round; 0 = too few calls */
	uint64_t seen;		     /* records looked at by the row selection */
	uint64_t slow_seen;	     /* slow rows of this second */
	uint64_t ordinary;	     /* ordinary records since the last stored one */
};

/* Totals of one operation over all processes, also dead ones. */
struct op_total {
	uint16_t op;
	struct op_counters total;
};

struct kernel_name {
	struct proc_id proc;
	uint64_t handle;
	char name[ABI_NAME_MAX];
};

struct capture {
	struct proc_id proc;
	uint64_t stream;
	uint64_t begin_mono_ns;
};

struct trace_state {
	struct idmap processes;	 /* (pid, start) -> struct traced_process */
	struct idmap pairs;	 /* (pid | op << 32, start) -> struct op_state */
	struct idmap names;	 /* (pid ^ handle, start) -> struct kernel_name */
	struct op_total *totals; /* per row of the operation table */
	size_t n_totals;
	struct capture captures[STATE_MAX_CAPTURES];
	size_t n_captures;
	uint64_t events, anomalies;
	uint64_t unknown_process;     /* records of processes beyond the table */
	uint64_t forgotten_processes; /* ended ones dropped for room: in the totals, no longer listed */
};

int state_init(struct trace_state *s);
void state_free(struct trace_state *s);

/* Finds or adds; NULL when the table is full. */
struct traced_process *state_process(struct trace_state *s, struct proc_id id, bool add);
struct op_state *state_pair(struct trace_state *s, struct traced_process *proc, uint16_t op);
struct op_total *state_total(struct trace_state *s, uint16_t op);
typedef void (*state_pair_fn)(void *ctx, const struct op_state *o);
/* The process has ended and its counters are final: on_pair sees each of its pairs. They stay for the summary
 * until state_trim() needs the room. */
void state_end_process(struct trace_state *s, struct traced_process *proc, state_pair_fn on_pair, void *ctx);
void state_trim(struct trace_state *s);

void state_add_name(struct trace_state *s, struct proc_id proc, uint64_t handle, const char *name);
const char *state_kernel_name(
	const struct trace_state *s, struct proc_id proc, uint64_t handle); /* NULL = unknown */

/* Brings `o` and the totals up to the kernel's counters; *ret_delta is what is new since the last time
 * (including records delivered meanwhile). raw NULL: nothing new in kernel. Returns whether anything is; else
 * *ret_delta is not to be read. */
bool state_update(struct trace_state *s, struct op_state *o, const struct abi_counters *raw,
	struct op_counters *ret_delta);

/* Graph capture: marks calls made on a capturing stream, returns the length of the capture an end-capture
 * call ends (0 = begin not seen). */
uint64_t state_capture(struct trace_state *s, struct call_event *e, unsigned desc_flags);

/* Decides about a row: sets e->reason (0 = no row), e->weight and the anomaly and first flags. */
void state_select(struct trace_state *s, struct op_state *o, struct call_event *e, bool record_all);
/* Starts a new second for the limits of state_select. */
void state_tick(struct trace_state *s);

/* Sums over all operations. */
struct call_totals {
	uint64_t made, delivered, sampled_out, lost, unfinished;
};

struct call_totals state_call_totals(const struct trace_state *s);
/* Calls made: finished + never timed. Equals delivered + sampled_out + lost once the rings are drained. */
uint64_t counters_made(const struct op_counters *c);

#endif
