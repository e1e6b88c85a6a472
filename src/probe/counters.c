#include "probe/internal.h"
#include "model/ops.h"

#include <errno.h>

#define BATCH 256u

static int batch_buffers(struct probe *p)
{
	if (!p->batch_keys)
		p->batch_keys = calloc(BATCH, sizeof(*p->batch_keys));
	if (!p->batch_slots)
		p->batch_slots = calloc(BATCH, sizeof(*p->batch_slots));
	if (!p->counters_copy)
		p->counters_copy = calloc(1, sizeof(*p->counters_copy));
	return p->batch_keys && p->batch_slots && p->counters_copy ? 0 : -ENOMEM;
}

static void hand_out(
	struct probe *p, const struct abi_counter_key *key, uint32_t slot, probe_counter_fn fn, void *ctx)
{
	if (slot >= ABI_MAX_COUNTERS)
		return;
	memcpy(p->counters_copy, &p->counters[slot], sizeof(*p->counters_copy));
	fn(ctx, key, p->counters_copy);
}

/* Key by key: the fallback where the kernel cannot hand out batches. */
static int read_one_by_one(struct probe *p, probe_counter_fn fn, void *ctx)
{
	struct abi_counter_key key, next, *prev = NULL;
	uint32_t slot;

	for (unsigned i = 0; i < 2 * ABI_MAX_COUNTERS; i++) {
		if (bpf_map_get_next_key(p->map_index, prev, &next))
			return errno == ENOENT ? 0 : -errno;
		if (!bpf_map_lookup_elem(p->map_index, &next, &slot))
			hand_out(p, &next, slot, fn, ctx);
		key = next;
		prev = &key;
	}
	return 0;
}

static int read_batches(struct probe *p, probe_counter_fn fn, void *ctx)
{
	LIBBPF_OPTS(bpf_map_batch_opts, opts);
	uint32_t token = 0, n;
	void *in = NULL;

	for (;;) {
		int err;

		n = BATCH;
		err = bpf_map_lookup_batch(
			p->map_index, in, &token, p->batch_keys, p->batch_slots, &n, &opts);
		if (err && errno != ENOENT)
			return -errno;
		for (uint32_t i = 0; i < n; i++)
			hand_out(p, &p->batch_keys[i], p->batch_slots[i], fn, ctx);
		if (err)
			return 0;
		in = &token;
	}
}

static void read_overflow(struct probe *p, probe_counter_fn fn, void *ctx)
{
	struct probe_status st;

	probe_get_status(p, &st);
	if (!st.value[ABI_STATUS_COUNTERS_FULL])
		return;
	for (uint32_t i = 0; i < symbol_count() && i < ABI_MAX_DESCS; i++) {
		struct abi_counter_key key = {.tgid = 0, .op = symbol_at(i)->op_code, .proc_start_ns = i};

		if (!bpf_map_lookup_elem(p->map_overflow, &i, p->counters_copy))
			fn(ctx, &key, p->counters_copy);
	}
}

int probe_read_counters(struct probe *p, probe_counter_fn fn, void *ctx)
{
	int err = batch_buffers(p);

	if (err)
		return err;
	err = read_batches(p, fn, ctx);
	if (err == -ENOSPC || err == -EINVAL || err == -ENOTSUP || err == -524)
		err = read_one_by_one(p, fn, ctx);
	if (!err)
		read_overflow(p, fn, ctx);
	return err;
}

void probe_forget_counters(struct probe *p, const struct abi_counter_key *key)
{
	uint32_t slot;

	/* The process is dead: no thread remembers the slot any more. */
	if (bpf_map_lookup_elem(p->map_index, key, &slot) || slot >= ABI_MAX_COUNTERS ||
		bpf_map_delete_elem(p->map_index, key))
		return;
	memset(&p->counters[slot], 0, sizeof(p->counters[slot]));
	bpf_map_update_elem(p->map_counter_free, NULL, &slot, 0);
}

void probe_get_status(const struct probe *p, struct probe_status *ret)
{
	*ret = (struct probe_status){.ring_bytes = p->ring_bytes};
	for (uint32_t i = 0; i < ABI_STATUS_COUNT; i++)
		bpf_map_lookup_elem(p->map_status, &i, &ret->value[i]);
	ret->unwinds_repaired = atomic_load(&p->unwinds_repaired);
	ret->unwinds_failed = ret->value[ABI_STATUS_UNWINDS_FAILED] + atomic_load(&p->unwinds_failed);
}
