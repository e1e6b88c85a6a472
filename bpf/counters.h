/* Exact counters and histograms, updated for every call whatever happens to its record. */
#ifndef INGERO_BPF_COUNTERS_H
#define INGERO_BPF_COUNTERS_H

#include "maps.h"

static __always_inline u32 log2_u64(u64 v)
{
	u32 r = 0;

	if (v >> 32) {
		v >>= 32;
		r += 32;
	}
	if (v >> 16) {
		v >>= 16;
		r += 16;
	}
	if (v >> 8) {
		v >>= 8;
		r += 8;
	}
	if (v >> 4) {
		v >>= 4;
		r += 4;
	}
	if (v >> 2) {
		v >>= 2;
		r += 2;
	}
	return r + (v >> 1);
}

static __always_inline u32 hist_bucket(u64 v)
{
	u32 e, i;

	if (v < (1 << ABI_HIST_SUB_BITS))
		return v;
	e = log2_u64(v);
	i = ((e - ABI_HIST_SUB_BITS + 1) << ABI_HIST_SUB_BITS) + ((v >> (e - ABI_HIST_SUB_BITS)) & 15);
	return i < ABI_HIST_BUCKETS ? i : ABI_HIST_BUCKETS - 1;
}

#define COUNTERS_NONE (~0u)

/* Index of the counters of (process, op), made at first sight; COUNTERS_NONE when the table is full. */
__noinline u32 counters_index(u64 proc_start_ns, u32 tgid, u32 op)
{
	struct abi_counter_key key = {.proc_start_ns = proc_start_ns, .tgid = tgid, .op = op};
	u32 *found = bpf_map_lookup_elem(&ing_counter_index, &key), index;

	if (found)
		return *found;
	if (bpf_map_pop_elem(&ing_counter_free, &index))
		return COUNTERS_NONE;
	if (!bpf_map_update_elem(&ing_counter_index, &key, &index, BPF_NOEXIST))
		return index;
	bpf_map_push_elem(&ing_counter_free, &index, 0); /* another thread was faster, or the hash is full */
	found = bpf_map_lookup_elem(&ing_counter_index, &key);
	return found ? *found : COUNTERS_NONE;
}

static __always_inline struct abi_counters *counters_at(u32 index, u32 desc)
{
	if (index != COUNTERS_NONE)
		return bpf_map_lookup_elem(&ing_counters, &index);
	status_count(ABI_STATUS_COUNTERS_FULL);
	return bpf_map_lookup_elem(&ing_overflow, &desc);
}

/* The counters of a thread's process and a row's operation; the overflow row when the table is full. */
static __always_inline struct abi_counters *counters_of(struct abi_thread *t, u32 desc)
{
	u64 at = desc;
	u32 index;

	asm volatile("%0 &= 31" : "+r"(at));
	if (t->counters[at].desc_plus_1 == desc + 1) {
		index = t->counters[at].slot;
		return bpf_map_lookup_elem(&ing_counters, &index);
	}
	index = counters_index(t->proc_start_ns, t->tgid, ing_descs[desc].op);
	if (index < ABI_MAX_COUNTERS) {
		t->counters[at].slot = index;
		t->counters[at].desc_plus_1 = desc + 1;
	}
	return counters_at(index, desc);
}

_Static_assert(ABI_COUNTERS_CACHE == 32, "mask in counters_of");

static __always_inline void counters_max(struct abi_counters *c, u64 dur_ns)
{
	u64 old = c->max_ns;

	for (int i = 0; i < 4 && dur_ns > old; i++) {
		u64 seen = __sync_val_compare_and_swap(&c->max_ns, old, dur_ns);

		if (seen == old)
			break;
		old = seen;
	}
}

static __always_inline void counters_add(
	struct abi_counters *c, u64 dur_ns, u64 bytes, bool failed, bool nested)
{
	u64 i = hist_bucket(dur_ns);

	if (i < ABI_HIST_BUCKETS)
		__sync_fetch_and_add(&c->hist[i], 1);
	__sync_fetch_and_add(&c->sum_ns, dur_ns);
	if (dur_ns > c->max_ns)
		counters_max(c, dur_ns);
	if (bytes)
		__sync_fetch_and_add(&c->bytes, bytes);
	if (failed)
		__sync_fetch_and_add(&c->errors, 1);
	if (nested) {
		__sync_fetch_and_add(&c->nested, 1);
		__sync_fetch_and_add(&c->nested_ns, dur_ns);
	}
}

#endif
