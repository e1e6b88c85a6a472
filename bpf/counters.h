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

/* The counters of (process, op); the overflow row when the table is full. */
static __always_inline struct abi_counters *counters_get(u64 proc_start_ns, u32 tgid, u32 op, u32 desc)
{
	struct abi_counter_key key = {.proc_start_ns = proc_start_ns, .tgid = tgid, .op = op};
	struct abi_counters *c = bpf_map_lookup_elem(&ing_counters, &key);

	if (c)
		return c;
	bpf_map_update_elem(&ing_counters, &key, &zero_counters, BPF_NOEXIST);
	c = bpf_map_lookup_elem(&ing_counters, &key);
	if (c)
		return c;
	status_count(ABI_STATUS_COUNTERS_FULL);
	return bpf_map_lookup_elem(&ing_overflow, &desc);
}

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
