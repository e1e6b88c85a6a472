/* Which calls become rows, and what a row stands for. Statistics never come from rows, so this decides only
 * about evidence. */
#include "trace/state.h"

#define FIRST_CALLS 10
#define ORDINARY_ONE_IN 100
#define SLOW_FACTOR 3 /* times the median */
#define SLOW_ROWS_PER_SECOND                                                                                 \
	500 /* per process and operation; beyond, slow calls are sampled like ordinary ones */

static const uint32_t category_reason[] = {
	[OPCAT_ALLOC] = REASON_MEMORY,
	[OPCAT_FREE] = REASON_MEMORY,
	[OPCAT_SYNC] = REASON_SYNC,
	[OPCAT_GRAPH] = REASON_GRAPH,
	[OPCAT_HOST] = 0,
};

static uint32_t reason_of_category(unsigned op)
{
	const struct op_info *info = op_by_code(op);

	return info && info->category < ARRAY_LEN(category_reason) ? category_reason[info->category] : 0;
}

static bool is_error(const struct call_event *e)
{
	const struct op_info *info = op_by_code(e->op);

	return e->ret && !(e->ret == 600 && info && info->category == OPCAT_QUERY);
}

static bool is_slow(const struct op_state *o, const struct call_event *e)
{
	return o->p50_ns && e->dur_ns > SLOW_FACTOR * o->p50_ns;
}

void state_select(struct trace_state *s, struct op_state *o, struct call_event *e, bool record_all)
{
	uint32_t reason = reason_of_category(e->op);

	o->seen++;
	if (o->seen <= FIRST_CALLS) {
		reason |= REASON_FIRST;
		if (o->seen == 1)
			e->flags |= CALL_FIRST;
	}
	if (is_error(e))
		reason |= REASON_ERROR;
	if (is_slow(o, e)) {
		e->flags |= CALL_ANOMALY;
		s->anomalies++;
		if (o->slow_seen++ < SLOW_ROWS_PER_SECOND)
			reason |= REASON_SLOW;
	}
	if (e->flags & CALL_UNFINISHED)
		reason |= REASON_FIRST;
	if (record_all)
		reason |= REASON_ALL;
	if (!reason && o->ordinary++ % ORDINARY_ONE_IN == ORDINARY_ONE_IN / 2) {
		reason = REASON_SAMPLE;
		e->weight *= ORDINARY_ONE_IN;
	}
	e->reason = reason;
}

void state_tick(struct trace_state *s)
{
	size_t pos = 0;
	struct op_state *o;

	while ((o = idmap_next(&s->pairs, &pos)))
		o->slow_seen = 0;
}

static struct capture *find_capture(struct trace_state *s, const struct call_event *e)
{
	for (size_t i = 0; i < s->n_captures; i++) {
		if (s->captures[i].stream == e->stream && proc_id_equal(s->captures[i].proc, e->proc))
			return &s->captures[i];
	}
	return NULL;
}

/* Runtime and driver both see a capture begin; the outer call opens it, the inner one finds it open. */
uint64_t state_capture(struct trace_state *s, struct call_event *e, unsigned desc_flags)
{
	struct capture *c;
	uint64_t begin_ns;

	if (!s->n_captures && !(desc_flags & ABI_DESC_CAPTURE_BEGIN))
		return 0;
	c = find_capture(s, e);
	if (desc_flags & ABI_DESC_CAPTURE_BEGIN) {
		if (e->ret || s->n_captures >= STATE_MAX_CAPTURES)
			return 0;
		if (!c)
			c = &s->captures[s->n_captures++];
		*c = (struct capture){
			.proc = e->proc, .stream = e->stream, .begin_mono_ns = e->mono_ns + e->dur_ns};
		return 0;
	}
	if (!c)
		return 0;
	if (!(desc_flags & ABI_DESC_CAPTURE_END)) {
		if (e->mono_ns >= c->begin_mono_ns)
			e->flags |= CALL_CAPTURING;
		return 0;
	}
	begin_ns = c->begin_mono_ns;
	if (!(e->flags & CALL_NESTED)) /* the inner layer's end comes first; the outer one closes */
		*c = s->captures[--s->n_captures];
	return e->mono_ns > begin_ns ? e->mono_ns - begin_ns : 0;
}
