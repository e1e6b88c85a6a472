#include "trace/state.h"

#include <errno.h>

int state_init(struct trace_state *s)
{
	*s = (struct trace_state){
		.processes = IDMAP_INIT(STATE_MAX_PROCESSES),
		.pairs = IDMAP_INIT(STATE_MAX_PAIRS),
		.names = IDMAP_INIT(STATE_MAX_NAMES),
	};
	s->totals = calloc(op_count(), sizeof(*s->totals));
	if (!s->totals)
		return -ENOMEM;
	s->n_totals = op_count();
	for (size_t i = 0; i < s->n_totals; i++)
		s->totals[i].op = op_at(i)->code;
	return 0;
}

static void free_values(struct idmap *m)
{
	size_t pos = 0;
	void *v;

	while ((v = idmap_next(m, &pos)))
		free(v);
	idmap_free(m);
}

void state_free(struct trace_state *s)
{
	free_values(&s->processes);
	free_values(&s->pairs);
	free_values(&s->names);
	free(s->totals);
	s->totals = NULL;
}

static struct idmap_key process_key(struct proc_id id)
{
	return (struct idmap_key){id.pid, id.start_ns};
}

static struct idmap_key pair_key(struct proc_id id, uint16_t op)
{
	return (struct idmap_key){id.pid | (uint64_t)op << 32, id.start_ns};
}

static struct idmap_key name_key(struct proc_id id, uint64_t handle)
{
	return (struct idmap_key){handle ^ ((uint64_t)id.pid << 40), id.start_ns ^ id.pid};
}

static void forget_process(struct trace_state *s, struct traced_process *proc)
{
	for (size_t i = 0; i < s->n_totals; i++)
		free(idmap_remove(&s->pairs, pair_key(proc->info.id, s->totals[i].op)));
	for (size_t i = s->n_captures; i-- > 0;) {
		if (proc_id_equal(s->captures[i].proc, proc->info.id))
			s->captures[i] = s->captures[--s->n_captures];
	}
	free(idmap_remove(&s->processes, process_key(proc->info.id)));
	s->forgotten_processes++;
}

/* A full table makes room by dropping a process that has ended and whose last counters are taken. */
static bool drop_one_ended(struct trace_state *s)
{
	size_t pos = 0;
	struct traced_process *p;

	while ((p = idmap_next(&s->processes, &pos))) {
		if (p->counters_taken) {
			forget_process(s, p);
			return true;
		}
	}
	return false;
}

struct traced_process *state_process(struct trace_state *s, struct proc_id id, bool add)
{
	struct traced_process *p = idmap_get(&s->processes, process_key(id));

	if (p || !add)
		return p;
	if (s->processes.n >= s->processes.max && !drop_one_ended(s))
		return NULL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->info.id = id;
	p->info.rank = p->info.local_rank = p->info.world_size = -1;
	if (idmap_put(&s->processes, process_key(id), p)) {
		free(p);
		return NULL;
	}
	return p;
}

struct op_state *state_pair(struct trace_state *s, struct traced_process *proc, uint16_t op)
{
	struct idmap_key key = pair_key(proc->info.id, op);
	struct op_state *o = idmap_get(&s->pairs, key);

	if (o)
		return o;
	o = calloc(1, sizeof(*o));
	if (!o)
		return NULL;
	o->proc = proc;
	o->op = op;
	if (idmap_put(&s->pairs, key, o)) {
		free(o);
		return NULL;
	}
	return o;
}

struct op_total *state_total(struct trace_state *s, uint16_t op)
{
	for (size_t i = 0; i < s->n_totals; i++) {
		if (s->totals[i].op == op)
			return &s->totals[i];
	}
	return NULL;
}

void state_end_process(struct trace_state *s, struct traced_process *proc, state_pair_fn on_pair, void *ctx)
{
	proc->counters_taken = true;
	for (size_t i = 0; i < s->n_totals; i++) {
		struct op_state *o = idmap_get(&s->pairs, pair_key(proc->info.id, s->totals[i].op));

		if (o)
			on_pair(ctx, o);
	}
}

void state_trim(struct trace_state *s)
{
	while (s->pairs.n > STATE_KEEP_PAIRS && drop_one_ended(s))
		;
}

void state_add_name(struct trace_state *s, struct proc_id proc, uint64_t handle, const char *name)
{
	struct kernel_name *k = idmap_get(&s->names, name_key(proc, handle));

	if (!k) {
		k = calloc(1, sizeof(*k));
		if (!k)
			return;
		k->proc = proc;
		k->handle = handle;
		if (idmap_put(&s->names, name_key(proc, handle), k)) {
			free(k);
			return;
		}
	}
	snprintf(k->name, sizeof(k->name), "%s", name);
}

const char *state_kernel_name(const struct trace_state *s, struct proc_id proc, uint64_t handle)
{
	const struct kernel_name *k = handle ? idmap_get(&s->names, name_key(proc, handle)) : NULL;

	return k && k->handle == handle && proc_id_equal(k->proc, proc) ? k->name : NULL;
}

static uint64_t lowest_ns(const struct hist *h)
{
	for (unsigned i = 0; i < HIST_BUCKETS; i++) {
		if (h->bucket[i])
			return hist_bucket_low(i);
	}
	return 0;
}

static uint64_t highest_ns(const struct hist *h)
{
	for (unsigned i = HIST_BUCKETS; i-- > 0;) {
		if (h->bucket[i])
			return hist_bucket_mid(i);
	}
	return 0;
}

static void add_counters(struct op_counters *to, const struct op_counters *d)
{
	to->count += d->count;
	to->sum_ns += d->sum_ns;
	to->max_ns = MAX(to->max_ns, d->max_ns);
	to->errors += d->errors;
	to->bytes += d->bytes;
	to->delivered += d->delivered;
	to->sampled_out += d->sampled_out;
	to->lost += d->lost;
	to->untimed += d->untimed;
	to->unfinished += d->unfinished;
	to->nested += d->nested;
	to->nested_ns += d->nested_ns;
	hist_merge(&to->hist, &d->hist);
	to->min_ns = lowest_ns(&to->hist);
}

/* What the kernel counted since `t` was brought up to date. */
static void kernel_delta(const struct op_counters *t, const struct abi_counters *raw, struct op_counters *d)
{
	for (unsigned i = 0; i < HIST_BUCKETS; i++) {
		/* the kernel's buckets have 32 bits: the difference is right across a wrap */
		d->hist.bucket[i] = (uint32_t)(raw->hist[i] - (uint32_t)t->hist.bucket[i]);
		d->count += d->hist.bucket[i];
	}
	d->sum_ns = raw->sum_ns - t->sum_ns;
	d->max_ns = raw->max_ns; /* of the whole run: an upper bound for the interval */
	d->errors = raw->errors - t->errors;
	d->bytes = raw->bytes - t->bytes;
	d->sampled_out = raw->sampled_out - t->sampled_out;
	d->lost = raw->lost_ring + raw->lost_state - t->lost;
	d->untimed = raw->lost_state - t->untimed;
	d->unfinished = raw->unfinished - t->unfinished;
	d->nested = raw->nested - t->nested;
	d->nested_ns = raw->nested_ns - t->nested_ns;
	d->min_ns = lowest_ns(&d->hist);
	if (d->max_ns <= t->max_ns) /* no new maximum: the interval's own lies in its highest bucket */
		d->max_ns = MIN(highest_ns(&d->hist), t->max_ns);
}

bool state_update(struct trace_state *s, struct op_state *o, const struct abi_counters *raw,
	struct op_counters *ret_delta)
{
	struct op_counters *t = &o->total, *d = ret_delta;
	struct op_total *sum = state_total(s, o->op);
	uint64_t delivered = t->delivered;

	if (!raw && delivered == o->delivered_reported)
		return false;
	memset(d, 0, sizeof(*d));
	if (raw)
		kernel_delta(t, raw, d);
	d->delivered = delivered - o->delivered_reported;
	if (!d->count && !d->lost && !d->unfinished && !d->delivered && !d->sampled_out)
		return false;
	o->delivered_reported = delivered;
	t->delivered = delivered - d->delivered; /* add_counters adds it again */
	add_counters(t, d);
	if (sum)
		add_counters(&sum->total, d);
	o->p50_ns = t->count > 10 ? hist_percentile(&t->hist, 0.5) : 0;
	return true;
}

uint64_t counters_made(const struct op_counters *c)
{
	return c->count + c->untimed;
}

struct call_totals state_call_totals(const struct trace_state *s)
{
	struct call_totals t = {0};

	for (size_t i = 0; i < s->n_totals; i++) {
		const struct op_counters *c = &s->totals[i].total;

		t.delivered += c->delivered;
		t.sampled_out += c->sampled_out;
		t.lost += c->lost;
		t.unfinished += c->unfinished;
		t.made += counters_made(c);
	}
	return t;
}
