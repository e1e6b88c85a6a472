#include "probe/internal.h"

#include <errno.h>

static int on_call(void *ctx, void *data, size_t size)
{
	struct probe *p = ctx;

	if (size >= ABI_REC_CALL_BASE && *(const uint8_t *)data == ABI_REC_CALL) {
		p->sink->call(p->sink->ctx, data, size);
		p->drained++;
	}
	return p->budget && p->drained >= p->budget ? -ECANCELED : 0;
}

static int on_process(void *ctx, void *data, size_t size)
{
	struct probe *p = ctx;

	switch (size ? *(const uint8_t *)data : 0) {
	case ABI_REC_THREAD:
	case ABI_REC_EXIT:
	case ABI_REC_EXEC:
		if (size >= sizeof(struct abi_rec_thread))
			p->sink->thread(p->sink->ctx, data);
		break;
	case ABI_REC_NAME:
		if (size >= sizeof(struct abi_rec_name))
			p->sink->name(p->sink->ctx, data);
		break;
	}
	return 0;
}

static int open_rings(struct probe *p)
{
	struct bpf_map *map = bpf_object__find_map_by_name(p->object, "ing_proc");

	if (!p->calls)
		p->calls = ring_buffer__new(p->map_calls, on_call, p, NULL);
	if (!p->procs && map)
		p->procs = ring_buffer__new(bpf_map__fd(map), on_process, p, NULL);
	return p->calls && p->procs ? 0 : -ENOMEM;
}

int probe_wake_fd(const struct probe *p)
{
	return p->calls ? ring_buffer__epoll_fd(p->calls) : -1;
}

void probe_drain_process(struct probe *p, const struct probe_sink *sink)
{
	const struct probe_sink *outer = p->sink;

	if (open_rings(p))
		return;
	p->sink = sink;
	ring_buffer__consume(p->procs);
	p->sink = outer;
}

/* A plain poll would not see records submitted without wake-up; so consume, always. */
long probe_drain(struct probe *p, const struct probe_sink *sink, size_t budget)
{
	int err = open_rings(p);

	if (err)
		return err;
	probe_drain_process(p, sink);
	p->sink = sink;
	p->drained = 0;
	p->budget = budget;
	err = ring_buffer__consume(p->calls);
	p->sink = NULL;
	if (err < 0 && err != -ECANCELED)
		return err;
	return (long)p->drained;
}
