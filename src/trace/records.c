/* From kernel records to events: identity, wall time, selection, outputs. */
#include "trace/session.h"
#include "trace/decode.h"

#define OUT_FLUSH_BYTES (256u << 10)

static void fill_process(struct session *s, struct traced_process *p, const struct abi_rec_thread *rec)
{
	struct process_info *info = &p->info;
	struct process_info found;

	memcpy(info->comm, rec->leader_comm, sizeof(info->comm));
	info->comm[COMM_LEN - 1] = '\0';
	info->uid = rec->uid;
	info->ppid = rec->ppid;
	info->cgroup_id = rec->cgroup_id;
	if (!proc_read_info(rec->tgid, &found)) { /* may be gone already: then without rank */
		info->rank = found.rank;
		info->local_rank = found.local_rank;
		info->world_size = found.world_size;
	}
	if (s->store)
		store_add_process(s->store, info);
	p->stored = true;
}

static void on_thread(void *ctx, const struct abi_rec_thread *rec)
{
	struct session *s = ctx;
	struct proc_id id = {rec->tgid, rec->proc_start_ns};
	struct traced_process *p = state_process(&s->state, id, rec->type != ABI_REC_EXIT);

	if (!p) {
		s->state.unknown_process += rec->type != ABI_REC_EXIT;
		return;
	}
	if (rec->type == ABI_REC_EXIT) {
		p->ended = true;
		return;
	}
	if (!p->stored || memcmp(p->info.comm, rec->leader_comm, sizeof(p->info.comm)))
		fill_process(s, p, rec);
}

static void on_name(void *ctx, const struct abi_rec_name *rec)
{
	struct session *s = ctx;
	struct proc_id id = {rec->tgid, rec->proc_start_ns};

	state_add_name(&s->state, id, rec->handle, rec->name);
	if (s->store)
		store_add_kernel_name(s->store, id, rec->handle, rec->name);
}

static void decode(const struct session *s, const struct abi_rec_call *rec, const struct symbol_info *sym,
	size_t n_val, struct call_event *e)
{
	*e = (struct call_event){
		.mono_ns = rec->start_ns,
		.wall_ns = session_wall_ns(s, rec->start_ns),
		.dur_ns = rec->dur_ns,
		.proc = {rec->tgid, rec->proc_start_ns},
		.tid = rec->tid,
		.op = sym->op_code,
		.depth = rec->depth,
		.flags = (uint16_t)((rec->flags & ABI_CALL_NESTED ? CALL_NESTED : 0) |
				    (rec->flags & ABI_CALL_UNFINISHED ? CALL_UNFINISHED : 0)),
		.ret = rec->ret,
		.weight = rec->weight ? rec->weight : 1,
	};
	decode_values(sym, rec->val, n_val, e);
}

static void emit(struct session *s, struct call_event *e, const struct traced_process *p, uint64_t capture_ns)
{
	switch (s->o->output) {
	case TRACE_JSON:
		json_event(s, e, p, capture_ns);
		break;
	case TRACE_VERBOSE:
		verbose_event(s, e, p);
		break;
	default:
		return;
	}
	if (s->out.len >= OUT_FLUSH_BYTES)
		session_flush_out(s);
}

static void on_call(void *ctx, const struct abi_rec_call *rec, size_t size)
{
	struct session *s = ctx;
	size_t n_val = MIN(rec->n_val, (size - ABI_REC_CALL_BASE) / sizeof(rec->val[0]));
	const struct symbol_info *sym = rec->desc < symbol_count() ? symbol_at(rec->desc) : NULL;
	struct traced_process *p;
	struct call_event e;
	struct op_state *o;
	uint64_t capture_ns;
	uint32_t weight;

	if (!sym)
		return;
	decode(s, rec, sym, MIN(n_val, ABI_MAX_FIELDS), &e);
	p = state_process(&s->state, e.proc, false);
	if (!p || !p->stored) { /* its introduction is in the other ring, and was there first */
		probe_drain_process(s->probe, &(struct probe_sink){on_call, on_thread, on_name, s});
		p = state_process(&s->state, e.proc, true);
	}
	o = p ? state_pair(&s->state, p, e.op) : NULL;
	if (!o) {
		s->state.unknown_process++;
		return;
	}
	s->state.events++;
	if (!(e.flags & CALL_UNFINISHED))
		o->total.delivered++;
	capture_ns = state_capture(&s->state, &e, sym->desc.flags);
	weight = e.weight;
	state_select(&s->state, o, &e, s->o->record_all);
	if (s->store && e.reason)
		store_add_event(s->store, &e);
	e.weight = weight; /* of the stream; the row's weight counts what the rows leave out */
	emit(s, &e, p, capture_ns);
}

long records_drain(struct session *s, size_t budget)
{
	struct probe_sink sink = {on_call, on_thread, on_name, s};

	return probe_drain(s->probe, &sink, budget);
}

struct counter_round {
	struct session *s;
	int64_t wall_ns;
};

static struct traced_process *process_of_key(struct session *s, const struct abi_counter_key *key)
{
	struct proc_id id = {key->tgid, key->proc_start_ns};
	struct traced_process *p = state_process(&s->state, id, true);
	struct process_info info;

	if (!p || p->stored)
		return p;
	/* its introduction was lost or is still in the ring: ask /proc */
	if (key->tgid && !proc_read_info(key->tgid, &info)) {
		memcpy(p->info.comm, info.comm, sizeof(info.comm));
		p->info.uid = info.uid;
		p->info.ppid = info.ppid;
		if (s->store)
			store_add_process(s->store, &p->info);
		p->stored = true;
	}
	return p;
}

static void on_counters(void *ctx, const struct abi_counter_key *key, const struct abi_counters *raw)
{
	struct counter_round *r = ctx;
	struct session *s = r->s;
	struct traced_process *p = process_of_key(s, key);
	struct op_state *o = p ? state_pair(&s->state, p, (uint16_t)key->op) : NULL;
	struct op_counters delta;

	if (!o)
		return;
	if (state_update(&s->state, o, raw, &delta) && s->store)
		store_add_counters(s->store, r->wall_ns, p->info.id, o->op, &delta);
}

static void forget_pair(void *ctx, const struct op_state *o)
{
	struct session *s = ctx;
	struct abi_counter_key key = {
		.proc_start_ns = o->proc->info.id.start_ns, .tgid = o->proc->info.id.pid, .op = o->op};

	probe_forget_counters(s->probe, &key);
}

/* Ended processes leave the kernel's table one round after their last counters were taken, so that it never
 * fills up with the dead. */
static void forget_ended(struct session *s)
{
	size_t pos = 0;
	struct traced_process *p;

	while ((p = idmap_next(&s->state.processes, &pos))) {
		if (p->ended && !p->counters_taken && ++p->ended_rounds >= 2)
			state_end_process(&s->state, p, forget_pair, s);
	}
	state_trim(&s->state);
}

/* Records may have come for pairs whose counters went to the overflow table. */
static void report_delivered(struct session *s, int64_t wall_ns)
{
	struct op_counters delta;
	size_t pos = 0;
	struct op_state *o;

	while ((o = idmap_next(&s->state.pairs, &pos))) {
		if (state_update(&s->state, o, NULL, &delta) && s->store)
			store_add_counters(s->store, wall_ns, o->proc->info.id, o->op, &delta);
	}
}

static void report_status(struct session *s, int64_t wall_ns)
{
	static const char *const names[ABI_STATUS_COUNT] = {
		"ring_process", "thread_table", "counter_table", "stale_calls", "storage_busy"};
	struct probe_status st;

	probe_get_status(s->probe, &st);
	for (size_t i = 0; i < ABI_STATUS_COUNT; i++) {
		if (s->store && st.value[i] > s->status_reported[i])
			store_add_loss(s->store, wall_ns, names[i], st.value[i] - s->status_reported[i]);
		s->status_reported[i] = st.value[i];
	}
}

void records_counters(struct session *s)
{
	struct counter_round r = {s, session_wall_ns(s, session_now_ns())};

	probe_read_counters(s->probe, on_counters, &r);
	report_delivered(s, r.wall_ns);
	report_status(s, r.wall_ns);
	forget_ended(s);
}
