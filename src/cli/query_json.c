/* `ingero query --json`: the matching rows as one array, written piece by piece. */
#include "cli/query.h"
#include "base/jsonw.h"
#include "base/log.h"
#include "base/utf8.h"
#include "model/ops.h"

#define BUFFER_BYTES (4u << 20)
#define FLUSH_BYTES (64u << 10)

struct writer {
	struct strbuf out;
	struct jsonw w;
	uint64_t n;
};

/* JSON from the file's own text: its form is right, its bytes are a stranger's. */
static void add_json(struct jsonw *w, const char *json)
{
	cleanup_strbuf struct strbuf safe = STRBUF_INIT(BUFFER_BYTES);
	size_t len = strlen(json);

	for (size_t i = 0; i < len;) {
		uint32_t code = 0;
		int n = utf8_decode(json + i, len - i, &code);

		if (!n)
			strbuf_adds(&safe, UTF8_REPLACEMENT);
		else if (utf8_is_control(code))
			strbuf_addf(&safe, "\\u%04x", code);
		else
			strbuf_add(&safe, json + i, (size_t)n);
		i += n ? (size_t)n : 1;
	}
	jsonw_raw(w, strbuf_str(&safe));
	if (safe.error && !w->out->error)
		w->out->error = safe.error;
}

static void add_hex(struct jsonw *w, const char *key, uint64_t v)
{
	char text[24];

	if (!v)
		return;
	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)v);
	jsonw_kv_str(w, key, text);
}

static void add_dims(struct jsonw *w, const char *key, const uint32_t dims[3])
{
	if (!dims[0])
		return;
	jsonw_key(w, key);
	jsonw_array_begin(w);
	for (int i = 0; i < 3; i++)
		jsonw_u64(w, dims[i]);
	jsonw_array_end(w);
}

/* The reasons a call became a row, as words. */
static void add_reasons(struct jsonw *w, uint32_t reason)
{
	static const char *const names[] = {
		"sample", "error", "memory", "sync", "graph", "first", "slow", "all", "lifecycle"};

	if (!reason)
		return;
	jsonw_key(w, "reason");
	jsonw_array_begin(w);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (reason & 1u << i)
			jsonw_str(w, names[i]);
	}
	jsonw_array_end(w);
}

/* What the reference's output has, in its order. */
static void add_common(struct jsonw *w, const struct reader_event *ev)
{
	const struct call_event *e = &ev->e;
	char text[TIMEFMT_MAX], name[64];

	jsonw_kv_str(w, "timestamp", fmt_rfc3339(e->wall_ns, text, sizeof(text)));
	jsonw_kv_u64(w, "pid", e->proc.pid);
	jsonw_kv_u64(w, "tid", e->tid);
	if (*ev->comm)
		jsonw_kv_str(w, "comm", ev->comm);
	jsonw_kv_str(w, "source", source_name(OP_SOURCE(e->op), name, sizeof(name)));
	jsonw_kv_str(w, "op", op_name(e->op, name, sizeof(name)));
	jsonw_kv_u64(w, "duration_ns", e->dur_ns);
	jsonw_kv_str(w, "duration", fmt_duration(e->dur_ns, text, sizeof(text)));
	if (ev->gpu_id)
		jsonw_kv_i64(w, "gpu_id", ev->gpu_id);
	jsonw_key(w, "args");
	jsonw_array_begin(w);
	jsonw_u64(w, e->arg0);
	jsonw_u64(w, e->arg1);
	jsonw_array_end(w);
	if (e->ret)
		jsonw_kv_i64(w, "return_code", e->ret);
	if (ev->cgroup_id)
		jsonw_kv_u64(w, "cgroup_id", ev->cgroup_id);
}

/* What it left out. */
static void add_more(struct jsonw *w, const struct reader_event *ev)
{
	const struct call_event *e = &ev->e;

	jsonw_kv_str(w, "id", ev->id);
	if (*ev->node)
		jsonw_kv_str(w, "node", ev->node);
	if (ev->rank >= 0)
		jsonw_kv_i64(w, "rank", ev->rank);
	add_hex(w, "stream", e->stream);
	add_hex(w, "handle", e->handle);
	add_hex(w, "exec", e->exec);
	add_hex(w, "kernel", e->kernel);
	if (*ev->kernel_name)
		jsonw_kv_str(w, "kernel_name", ev->kernel_name);
	add_dims(w, "grid", e->grid);
	add_dims(w, "block", e->block);
	if (e->depth)
		jsonw_kv_u64(w, "depth", e->depth);
	if (e->flags & CALL_UNFINISHED)
		jsonw_kv_bool(w, "unfinished", true);
	if (e->flags & CALL_CAPTURING)
		jsonw_kv_bool(w, "capturing", true);
	if (e->weight > 1)
		jsonw_kv_u64(w, "weight", e->weight);
	add_reasons(w, e->reason);
}

static int write_event(void *ctx, const struct reader_event *ev)
{
	struct writer *wr = ctx;

	wr->n++;
	jsonw_object_begin(&wr->w);
	add_common(&wr->w, ev);
	if (*ev->stack_json) {
		jsonw_key(&wr->w, "stack");
		add_json(&wr->w, ev->stack_json);
	}
	add_more(&wr->w, ev);
	jsonw_object_end(&wr->w);
	return wr->out.len >= FLUSH_BYTES || wr->out.error ? query_flush(&wr->out) : 0;
}

/* The bound nobody asked for must not look like all there is. */
static int say_cut(const struct query *q)
{
	bool more;
	int e = reader_exceeds_limit(q->reader, &q->filter, &more);

	if (e)
		return query_read_error(q, e);
	if (more)
		log_warn("only the newest %lld events are shown: narrow the window, or --limit -1 for all",
			(long long)q->filter.limit);
	return 0;
}

int query_json(const struct query *q)
{
	struct writer wr = {.out = STRBUF_INIT(BUFFER_BYTES)};
	int e;

	wr.w = JSONW_INIT(&wr.out, 2);
	jsonw_array_begin(&wr.w);
	e = reader_events(q->reader, &q->filter, write_event, &wr);
	if (e < 0)
		e = query_read_error(q, e);
	if (!e) {
		jsonw_array_end(&wr.w);
		strbuf_addc(&wr.out, '\n');
		e = query_flush(&wr.out);
	}
	strbuf_free(&wr.out);
	if (!e && !q->limit_given && (int64_t)wr.n == q->filter.limit)
		e = say_cut(q);
	return e ? EXIT_ERROR : wr.n ? EXIT_OK : EXIT_NODATA;
}
