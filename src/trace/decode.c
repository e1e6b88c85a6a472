#include "trace/decode.h"

#define STREAM_PER_THREAD 2 /* cudaStreamPerThread; what stream 0 means in _ptsz/_ptds entries */

struct decoded {
	uint64_t bytes, kind, mode, device, count, event;
	bool has_bytes;
};

static void set_pair(uint32_t v[3], uint64_t xy)
{
	v[0] = (uint32_t)xy;
	v[1] = (uint32_t)(xy >> 32);
}

static void take_field(enum abi_role role, uint64_t v, struct call_event *e, struct decoded *d)
{
	switch (role) {
	case ABI_ROLE_BYTES:
		d->bytes = v;
		d->has_bytes = true;
		break;
	case ABI_ROLE_KIND:
		d->kind = v;
		break;
	case ABI_ROLE_MODE:
		d->mode = v;
		break;
	case ABI_ROLE_DEVICE:
		d->device = v;
		break;
	case ABI_ROLE_COUNT:
		d->count = v;
		break;
	case ABI_ROLE_EVENT:
		d->event = v;
		e->handle = v;
		break;
	case ABI_ROLE_PTR:
	case ABI_ROLE_GRAPH:
		e->handle = v;
		break;
	case ABI_ROLE_STREAM:
		e->stream = v;
		break;
	case ABI_ROLE_EXEC:
		e->exec = v;
		break;
	case ABI_ROLE_KERNEL:
		e->kernel = v;
		break;
	case ABI_ROLE_GRID_XY:
		set_pair(e->grid, v);
		break;
	case ABI_ROLE_BLOCK_XY:
		set_pair(e->block, v);
		break;
	case ABI_ROLE_GRID_X:
		e->grid[0] = (uint32_t)v;
		break;
	case ABI_ROLE_GRID_Y:
		e->grid[1] = (uint32_t)v;
		break;
	case ABI_ROLE_GRID_Z:
		e->grid[2] = (uint32_t)v;
		break;
	case ABI_ROLE_BLOCK_X:
		e->block[0] = (uint32_t)v;
		break;
	case ABI_ROLE_BLOCK_Y:
		e->block[1] = (uint32_t)v;
		break;
	case ABI_ROLE_BLOCK_Z:
		e->block[2] = (uint32_t)v;
		break;
	default:
		break;
	}
}

static void set_args(const struct symbol_info *sym, const struct decoded *d, struct call_event *e)
{
	bool runtime = sym->layer == ABI_LAYER_RUNTIME;

	switch ((enum op_category)sym->desc.category) {
	case OPCAT_ALLOC:
		e->arg0 = d->has_bytes ? d->bytes : d->count;
		e->arg1 = runtime ? e->handle : 0;
		break;
	case OPCAT_FREE:
		e->arg0 = e->handle;
		break;
	case OPCAT_COPY:
	case OPCAT_SET:
		e->arg0 = d->has_bytes ? d->bytes : d->count;
		e->arg1 = d->kind;
		break;
	case OPCAT_LAUNCH:
		e->arg0 = e->kernel;
		break;
	case OPCAT_SYNC:
	case OPCAT_QUERY:
	case OPCAT_EVENT:
	case OPCAT_STREAM:
		e->arg0 = e->stream ? e->stream : d->event;
		break;
	case OPCAT_CONTEXT:
		e->arg0 = d->device;
		break;
	case OPCAT_GRAPH:
		e->arg1 = d->mode;
		break;
	default:
		break;
	}
}

static bool has_stream(const struct symbol_info *sym)
{
	for (unsigned i = 0; i < sym->desc.n_fields; i++) {
		if (sym->desc.field[i].role == ABI_ROLE_STREAM)
			return true;
	}
	return false;
}

void decode_values(const struct symbol_info *sym, const uint64_t *values, size_t n, struct call_event *e)
{
	struct decoded d = {0};

	for (size_t i = 0; i < n && i < sym->desc.n_fields; i++)
		take_field((enum abi_role)sym->desc.field[i].role, values[i], e, &d);
	if ((sym->desc.flags & ABI_DESC_PER_THREAD) && has_stream(sym) && !e->stream)
		e->stream = STREAM_PER_THREAD;
	set_args(sym, &d, e);
}
