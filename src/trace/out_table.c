/* The live table: system bars, one boxed section per kind of call, losses. */
#include "trace/session.h"
#include "base/table.h"
#include "model/timefmt.h"

#include <inttypes.h>

#define BAR_CELLS 20
#define MARGIN 2

#define RED "\033[31m"
#define YELLOW "\033[33m"
#define GREEN "\033[32m"
#define RESET "\033[0m"

static void add_colour_bar(const struct screen *sc, struct strbuf *out, double pct)
{
	if (sc->colour)
		strbuf_adds(out, pct > 90 ? RED : pct > 70 ? YELLOW : GREEN);
	strbuf_addc(out, '[');
	text_add_bar(out, pct, BAR_CELLS);
	strbuf_addc(out, ']');
	if (sc->colour)
		strbuf_adds(out, RESET);
}

static void add_system(const struct session *s, struct strbuf *out)
{
	const struct system_sample *m = &s->last_sample;
	bool bars = s->screen.columns >= 108;

	strbuf_adds(out, "  System: CPU ");
	if (bars)
		add_colour_bar(&s->screen, out, m->cpu_pct);
	strbuf_addf(out, " %.0f%% | Mem ", m->cpu_pct);
	if (bars)
		add_colour_bar(&s->screen, out, m->mem_pct);
	strbuf_addf(out, " %.0f%% (%.1f GB free) | Load %.1f | Swap %" PRIu64 " MB\n", m->mem_pct,
		(double)m->mem_avail_mb / 1024, m->load1, m->swap_mb);
}

struct section {
	const char *title;
	bool (*member)(uint16_t op);
};

static bool is_runtime(uint16_t op)
{
	return OP_SOURCE(op) == SOURCE_CUDA;
}

static bool is_driver(uint16_t op)
{
	const struct op_info *info = op_by_code(op);

	return OP_SOURCE(op) == SOURCE_DRIVER && info && info->category != OPCAT_GRAPH;
}

static bool is_graph(uint16_t op)
{
	const struct op_info *info = op_by_code(op);

	return OP_SOURCE(op) == SOURCE_GRAPH ||
	       (OP_SOURCE(op) == SOURCE_DRIVER && info && info->category == OPCAT_GRAPH);
}

static bool is_nccl(uint16_t op)
{
	return OP_SOURCE(op) == SOURCE_NCCL;
}

static const struct section sections[] = {
	{"CUDA Runtime API", is_runtime},
	{"CUDA Driver API", is_driver},
	{"CUDA Graph", is_graph},
	{"NCCL", is_nccl},
};

static const struct table_column columns[] = {
	{"Operation", TABLE_LEFT, 20, 34},
	{"Count", TABLE_RIGHT, 8, 0},
	{"p50", TABLE_RIGHT, 8, 0},
	{"p95", TABLE_RIGHT, 8, 0},
	{"p99", TABLE_RIGHT, 8, 0},
	{"Flags", TABLE_LEFT, 7, 0},
	{"Errors", TABLE_RIGHT, 6, 0},
	{"Bytes", TABLE_RIGHT, 8, 0},
	{"Wall", TABLE_RIGHT, 6, 0},
};

static int by_time(const void *a, const void *b)
{
	const struct op_total *const *x = a, *const *y = b;

	if ((*x)->total.sum_ns != (*y)->total.sum_ns)
		return (*x)->total.sum_ns > (*y)->total.sum_ns ? -1 : 1;
	return (*x)->op < (*y)->op ? -1 : 1;
}

static void add_row(struct table *t, const struct op_total *o, uint64_t wall_ns)
{
	const struct op_counters *c = &o->total;
	uint64_t p50 = hist_percentile(&c->hist, 0.50), p99 = hist_percentile(&c->hist, 0.99);
	char name[64], cell[8][TIMEFMT_MAX];
	const char *cells[ARRAY_LEN(columns)];

	cells[0] = op_name(o->op, name, sizeof(name));
	cells[1] = fmt_count(counters_made(c), cell[0], TIMEFMT_MAX);
	cells[2] = fmt_duration(p50, cell[1], TIMEFMT_MAX);
	cells[3] = fmt_duration(hist_percentile(&c->hist, 0.95), cell[2], TIMEFMT_MAX);
	cells[4] = fmt_duration(p99, cell[3], TIMEFMT_MAX);
	/* at least a hundred calls, or p99 is just the maximum */
	cells[5] = c->count >= 100 && p50 && p99 > 3 * p50 ? "\xe2\x9a\xa0 p99" : "";
	cells[6] = c->errors ? fmt_count(c->errors, cell[5], TIMEFMT_MAX) : "";
	cells[7] = c->bytes ? fmt_bytes(c->bytes, cell[6], TIMEFMT_MAX) : "";
	snprintf(cell[7], TIMEFMT_MAX, "%.1f%%", wall_ns ? 100.0 * (double)c->sum_ns / (double)wall_ns : 0);
	cells[8] = cell[7];
	table_add_row(t, cells);
}

static void add_section(struct session *s, const struct section *sec, struct strbuf *out, uint64_t wall_ns)
{
	cleanup_free const struct op_total **rows = calloc(s->state.n_totals, sizeof(*rows));
	struct table *t = NULL;
	uint64_t calls = 0;
	size_t n = 0;
	char text[TIMEFMT_MAX];

	for (size_t i = 0; rows && i < s->state.n_totals; i++) {
		const struct op_total *o = &s->state.totals[i];

		if (!sec->member(o->op) || !(counters_made(&o->total) + o->total.unfinished))
			continue;
		rows[n++] = o;
		calls += counters_made(&o->total);
	}
	if (!n || table_new(columns, ARRAY_LEN(columns), &t))
		return;
	qsort(rows, n, sizeof(*rows), by_time);
	for (size_t i = 0; i < n; i++)
		add_row(t, rows[i], wall_ns);
	strbuf_addf(out, "\n  %-42s Events: %s\n", sec->title, fmt_count(calls, text, sizeof(text)));
	table_render(t, out, MARGIN, s->screen.columns);
	table_free(t);
}

/* Time inside CUDA calls, each moment of a thread once. */
static uint64_t outer_ns(const struct trace_state *st)
{
	uint64_t ns = 0;

	for (size_t i = 0; i < st->n_totals; i++)
		ns += st->totals[i].total.sum_ns - st->totals[i].total.nested_ns;
	return ns;
}

static void add_footer(struct session *s, struct strbuf *out, uint64_t wall_ns)
{
	struct call_totals t = state_call_totals(&s->state);
	char n[4][TIMEFMT_MAX];

	strbuf_addf(out, "\n  Wall %s | Calls %s | In CUDA calls %.1f%% of one thread | Slow %s\n",
		fmt_duration(wall_ns, n[0], TIMEFMT_MAX), fmt_count(t.made, n[1], TIMEFMT_MAX),
		wall_ns ? 100.0 * (double)outer_ns(&s->state) / (double)wall_ns : 0,
		fmt_count(s->state.anomalies, n[2], TIMEFMT_MAX));
	if (t.sampled_out)
		strbuf_addf(out, "  Sampled: 1 record in %u calls; %s calls without a record on purpose\n",
			s->adaptive.rate, fmt_count(t.sampled_out, n[3], TIMEFMT_MAX));
	if (t.lost)
		strbuf_addf(out,
			"  \xe2\x9a\xa0 Lost: %s records (%.2f%%); counts and percentiles above include "
			"those calls\n",
			fmt_count(t.lost, n[3], TIMEFMT_MAX),
			t.made ? 100.0 * (double)t.lost / (double)t.made : 0);
	if (s->store_stop_told)
		strbuf_adds(out, "  \xe2\x9a\xa0 Recording has stopped (see messages); tracing goes on\n");
}

void table_draw(struct session *s, bool final)
{
	cleanup_strbuf struct strbuf out = STRBUF_INIT(1 << 20);
	uint64_t wall_ns = session_now_ns() - s->start_mono_ns;
	size_t before;

	add_system(s, &out);
	before = out.len;
	for (size_t i = 0; i < ARRAY_LEN(sections); i++)
		add_section(s, &sections[i], &out, wall_ns);
	if (out.len == before)
		strbuf_adds(&out, "\n  (no CUDA calls yet)\n");
	add_footer(s, &out, wall_ns);
	if (final)
		s->screen.rows = 0; /* the last picture is shown whole */
	if (screen_show(&s->screen, &out))
		s->out_broken = true;
}
