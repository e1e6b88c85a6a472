/* Maps and constants shared by all programs. Names begin with ing_ so that they are found in bpftool lists.
 */
#ifndef INGERO_BPF_MAPS_H
#define INGERO_BPF_MAPS_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "abi.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* The operation table, written before load; the attach cookie is the index. */
const volatile struct abi_desc ing_descs[ABI_MAX_DESCS] SEC(".rodata.descs") = {};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct abi_control);
} ing_control SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} ing_calls SEC(".maps");

/* Process events never wait behind calls: they have a ring of their own. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} ing_proc SEC(".maps");

/* Exceptions about to pass through probed calls; read by a thread that does nothing else. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 << 10);
} ing_unwinds SEC(".maps");

/* Counters lie in an array, so that a thread that knows its index finds them without hashing. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ABI_MAX_COUNTERS);
	__type(key, u32);
	__type(value, struct abi_counters);
} ing_counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ABI_MAX_COUNTERS);
	__type(key, struct abi_counter_key);
	__type(value, u32);
} ing_counter_index SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, ABI_MAX_COUNTERS);
	__uint(value_size, sizeof(u32));
} ing_counter_free SEC(".maps");

/* Where calls are counted once ing_counters is full: per row of the operation table, all processes together.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ABI_MAX_DESCS);
	__type(key, u32);
	__type(value, struct abi_counters);
} ing_overflow SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ABI_STATUS_COUNT);
	__type(key, u32);
	__type(value, u64);
} ing_status SEC(".maps");

/* Thread records are reached by slot, so that scheduler programs can get at threads other than the current
 * one. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ABI_MAX_THREADS);
	__type(key, u32);
	__type(value, struct abi_thread);
} ing_threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, ABI_MAX_THREADS);
	__uint(value_size, sizeof(u32));
} ing_free SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct abi_task);
} ing_task SEC(".maps");

/* Same as ing_task by thread id: up to 6.1 task storage refuses access when it interrupted itself. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ABI_MAX_THREADS);
	__type(key, u32);
	__type(value, u32);
} ing_tids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ABI_MAX_TARGETS);
	__type(key, u32);
	__type(value, u32);
} ing_targets SEC(".maps");

/* Processes with traced threads, so that their end is reported whichever thread goes last. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ABI_MAX_THREADS);
	__type(key, u32);
	__type(value, u64);
} ing_procs SEC(".maps");

/* Bounds an index that is already in range where the verifier lost sight of it (the compiler drops plain
 * masks). */
static __always_inline u64 mask_8(u64 i)
{
	asm volatile("%0 &= 7" : "+r"(i));
	return i;
}

_Static_assert(ABI_MAX_FIELDS == 8 && ABI_MAX_DEPTH == 8, "mask_8");

static __always_inline struct abi_control *control(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&ing_control, &zero);
}

static __always_inline void status_count(u32 what)
{
	u64 *n = bpf_map_lookup_elem(&ing_status, &what);

	if (n)
		__sync_fetch_and_add(n, 1);
}

#endif
