/* JSON lines on stdout: one strict object per line (docs/json.md). */
#include "trace/session.h"
#include "base/jsonw.h"
#include "model/timefmt.h"

static void kv_hex(struct jsonw *w, const char *key, uint64_t v)
{
	char text[24];

	if (!v)
		return;
	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)v);
	jsonw_kv_str(w, key, text);
}

static void dim3(struct jsonw *w, const char *key, const uint32_t v[3])
{
	if (!v[0] && !v[1] && !v[2])
		return;
	jsonw_key(w, key);
	jsonw_array_begin(w);
	for (int i = 0; i < 3; i++)
		jsonw_u64(w, v[i]);
	jsonw_array_end(w);
}

/* The text of a process name field: at most COMM_LEN bytes, maybe unterminated. */
static void kv_comm(struct jsonw *w, const char *key, const char *comm)
{
	size_t len = strnlen(comm, COMM_LEN);

	if (!len)
		return;
	jsonw_key(w, key);
	jsonw_strn(w, comm, len);
}

static void identity(const struct session *s, struct jsonw *w, const struct traced_process *p)
{
	if (*s->o->node)
		jsonw_kv_str(w, "node", s->o->node);
	if (p->info.rank >= 0)
		jsonw_kv_i64(w, "rank", p->info.rank);
	if (p->info.local_rank >= 0)
		jsonw_kv_i64(w, "local_rank", p->info.local_rank);
	if (p->info.world_size >= 0)
		jsonw_kv_i64(w, "world_size", p->info.world_size);
	if (p->info.cgroup_id > 1)
		jsonw_kv_u64(w, "cgroup_id", p->info.cgroup_id);
}

static void handles(const struct session *s, struct jsonw *w, const struct call_event *e)
{
	const char *name = state_kernel_name(&s->state, e->proc, e->kernel);

	kv_hex(w, "stream", e->stream);
	kv_hex(w, OP_SOURCE(e->op) == SOURCE_GRAPH || e->exec ? "graph" : "handle", e->handle);
	kv_hex(w, "exec", e->exec);
	kv_hex(w, "kernel", e->kernel);
	if (name)
		jsonw_kv_str(w, "kernel_name", name);
	dim3(w, "grid", e->grid);
	dim3(w, "block", e->block);
}

static void flags(struct jsonw *w, const struct call_event *e, uint64_t capture_ns)
{
	jsonw_kv_u64(w, "depth", e->depth);
	jsonw_kv_bool(w, "nested", e->flags & CALL_NESTED);
	if (e->flags & CALL_UNFINISHED)
		jsonw_kv_bool(w, "unfinished", true);
	if (e->flags & CALL_CAPTURING)
		jsonw_kv_bool(w, "capturing", true);
	if (capture_ns)
		jsonw_kv_u64(w, "capture_ns", capture_ns);
	jsonw_kv_u64(w, "weight", e->weight);
}

void json_event(
	struct session *s, const struct call_event *e, const struct traced_process *p, uint64_t capture_ns)
{
	struct jsonw w = JSONW_INIT(&s->out, 0);
	char text[TIMEFMT_MAX];

	jsonw_object_begin(&w);
	jsonw_kv_str(&w, "type", "event");
	jsonw_kv_str(&w, "timestamp", fmt_rfc3339(e->wall_ns, text, sizeof(text)));
	jsonw_kv_u64(&w, "pid", e->proc.pid);
	jsonw_kv_u64(&w, "tid", e->tid);
	kv_comm(&w, "process_name", p->info.comm);
	jsonw_kv_str(&w, "source", source_name(OP_SOURCE(e->op), text, sizeof(text)));
	jsonw_kv_str(&w, "op", op_name(e->op, text, sizeof(text)));
	jsonw_kv_u64(&w, "duration_ns", e->dur_ns);
	jsonw_kv_str(&w, "duration", fmt_duration(e->dur_ns, text, sizeof(text)));
	jsonw_kv_u64(&w, "gpu_id", 0);
	jsonw_key(&w, "args");
	jsonw_array_begin(&w);
	jsonw_u64(&w, e->arg0);
	jsonw_u64(&w, e->arg1);
	jsonw_array_end(&w);
	jsonw_kv_i64(&w, "return_code", e->ret);
	jsonw_kv_bool(&w, "anomaly", e->flags & CALL_ANOMALY);
	identity(s, &w, p);
	handles(s, &w, e);
	flags(&w, e, capture_ns);
	jsonw_object_end(&w);
	strbuf_addc(&s->out, '\n');
}

void json_system(struct session *s, const struct system_sample *sample)
{
	struct jsonw w = JSONW_INIT(&s->out, 0);
	char text[TIMEFMT_MAX];

	jsonw_object_begin(&w);
	jsonw_kv_str(&w, "type", "system");
	jsonw_kv_str(&w, "timestamp", fmt_rfc3339(sample->wall_ns, text, sizeof(text)));
	if (*s->o->node)
		jsonw_kv_str(&w, "node", s->o->node);
	jsonw_key(&w, "cpu_percent");
	jsonw_double(&w, sample->cpu_pct, 1);
	jsonw_key(&w, "mem_percent");
	jsonw_double(&w, sample->mem_pct, 1);
	jsonw_kv_u64(&w, "mem_available_mb", sample->mem_avail_mb);
	jsonw_kv_u64(&w, "swap_mb", sample->swap_mb);
	jsonw_key(&w, "load1");
	jsonw_double(&w, sample->load1, 2);
	jsonw_object_end(&w);
	strbuf_addc(&s->out, '\n');
}

static void loss_operation(struct jsonw *w, const struct op_state *o)
{
	const struct op_counters *c = &o->total;
	char text[TIMEFMT_MAX];

	jsonw_object_begin(w);
	jsonw_kv_u64(w, "pid", o->proc->info.id.pid);
	kv_comm(w, "process_name", o->proc->info.comm);
	jsonw_kv_str(w, "source", source_name(OP_SOURCE(o->op), text, sizeof(text)));
	jsonw_kv_str(w, "op", op_name(o->op, text, sizeof(text)));
	jsonw_kv_u64(w, "made", counters_made(c));
	jsonw_kv_u64(w, "delivered", c->delivered);
	jsonw_kv_u64(w, "sampled_out", c->sampled_out);
	jsonw_kv_u64(w, "lost", c->lost);
	jsonw_kv_u64(w, "unfinished", c->unfinished);
	jsonw_kv_u64(w, "errors", c->errors);
	jsonw_kv_u64(w, "bytes", c->bytes);
	jsonw_kv_u64(w, "sum_ns", c->sum_ns);
	jsonw_kv_u64(w, "nested", c->nested);
	jsonw_kv_u64(w, "nested_ns", c->nested_ns);
	jsonw_kv_u64(w, "p50_ns", hist_percentile(&c->hist, 0.50));
	jsonw_kv_u64(w, "p95_ns", hist_percentile(&c->hist, 0.95));
	jsonw_kv_u64(w, "p99_ns", hist_percentile(&c->hist, 0.99));
	jsonw_kv_u64(w, "max_ns", c->max_ns);
	jsonw_object_end(w);
}

void json_loss(struct session *s, bool final)
{
	struct call_totals t = state_call_totals(&s->state);
	struct jsonw w = JSONW_INIT(&s->out, 0);
	char text[TIMEFMT_MAX];
	size_t pos = 0;
	struct op_state *o;

	jsonw_object_begin(&w);
	jsonw_kv_str(&w, "type", "loss");
	jsonw_kv_bool(&w, "final", final);
	jsonw_kv_str(&w, "timestamp", fmt_rfc3339(session_wall_ns(s, session_now_ns()), text, sizeof(text)));
	if (*s->o->node)
		jsonw_kv_str(&w, "node", s->o->node);
	jsonw_kv_u64(&w, "made", t.made);
	jsonw_kv_u64(&w, "delivered", t.delivered);
	jsonw_kv_u64(&w, "sampled_out", t.sampled_out);
	jsonw_kv_u64(&w, "lost", t.lost);
	jsonw_kv_u64(&w, "unfinished", t.unfinished);
	jsonw_kv_u64(&w, "sampling_rate", s->adaptive.rate);
	if (final) {
		if (s->state.forgotten_processes)
			jsonw_kv_u64(&w, "processes_not_listed", s->state.forgotten_processes);
		jsonw_key(&w, "operations");
		jsonw_array_begin(&w);
		while ((o = idmap_next(&s->state.pairs, &pos)))
			loss_operation(&w, o);
		jsonw_array_end(&w);
	}
	jsonw_object_end(&w);
	strbuf_addc(&s->out, '\n');
}
