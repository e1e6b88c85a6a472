#include "probe/internal.h"
#include "model/ops.h"

#include <errno.h>

#define BATCH 256u

static int batch_buffers(struct probe *p)
{
	if (!p->batch_keys)
		p->batch_keys = calloc(BATCH, sizeof(*p->batch_keys));
	if (!p->batch_values)
		p->batch_values = calloc(BATCH, sizeof(*p->batch_values));
	return p->batch_keys && p->batch_values ? 0 : -ENOMEM;
}

/* Key by key: the fallback where the kernel cannot hand out batches. */
static int read_one_by_one(struct probe *p, probe_counter_fn fn, void *ctx)
{
	struct abi_counter_key key, next, *prev = NULL;

	for (unsigned i = 0; i < 2 * ABI_MAX_COUNTERS; i++) {
		if (bpf_map_get_next_key(p->map_counters, prev, &next))
			return errno == ENOENT ? 0 : -errno;
		if (!bpf_map_lookup_elem(p->map_counters, &next, p->batch_values))
			fn(ctx, &next, p->batch_values);
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
			p->map_counters, in, &token, p->batch_keys, p->batch_values, &n, &opts);
		if (err && errno != ENOENT)
			return -errno;
		for (uint32_t i = 0; i < n; i++)
			fn(ctx, &p->batch_keys[i], &p->batch_values[i]);
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

		if (!bpf_map_lookup_elem(p->map_overflow, &i, p->batch_values))
			fn(ctx, &key, p->batch_values);
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
	bpf_map_delete_elem(p->map_counters, key);
}

void probe_get_status(const struct probe *p, struct probe_status *ret)
{
	*ret = (struct probe_status){.ring_bytes = p->ring_bytes};
	for (uint32_t i = 0; i < ABI_STATUS_COUNT; i++)
		bpf_map_lookup_elem(p->map_status, &i, &ret->value[i]);
	ret->unwinds_repaired = atomic_load(&p->unwinds_repaired);
	ret->unwinds_failed = atomic_load(&p->unwinds_failed);
}
