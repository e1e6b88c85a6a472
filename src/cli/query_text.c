/* `ingero query` for people: totals of every operation in boxed tables, and how far they can be trusted. */
#include "cli/query.h"
#include "base/log.h"
#include "base/table.h"
#include "model/ops.h"

#include <errno.h>
#include <sys/ioctl.h>

#define MARGIN 2
#define OUT_BYTES (16u << 20)

/* Which sources a section holds. */
struct section {
	const char *title;
	unsigned sources;
};

#define SOURCE_BIT(s) (1u << (s))
#define GRAPH_SECTION SOURCE_BIT(SOURCE_GRAPH)

static const struct section sections[] = {
	{"CUDA Runtime API", SOURCE_BIT(SOURCE_CUDA)},
	{"CUDA Driver API", SOURCE_BIT(SOURCE_DRIVER)},
	{"CUDA Graph", GRAPH_SECTION},
	{"NCCL", SOURCE_BIT(SOURCE_NCCL)},
	{"Host Context", SOURCE_BIT(SOURCE_HOST)},
	{"I/O and Network", SOURCE_BIT(SOURCE_IO) | SOURCE_BIT(SOURCE_TCP) | SOURCE_BIT(SOURCE_NET)},
};

static const struct table_column columns[] = {
	{"OPERATION", TABLE_LEFT, 20, 34},
	{"COUNT", TABLE_RIGHT, 8, 0},
	{"P50", TABLE_RIGHT, 7, 0},
	{"P95", TABLE_RIGHT, 7, 0},
	{"P99", TABLE_RIGHT, 7, 0},
	{"MAX", TABLE_RIGHT, 7, 0},
	{"WALL%", TABLE_RIGHT, 7, 0},
	{"SPIKES", TABLE_RIGHT, 6, 0},
	{"ERRORS", TABLE_RIGHT, 6, 0},
	{"BYTES", TABLE_RIGHT, 8, 0},
};

static unsigned section_bit(uint16_t op)
{
	const struct op_info *info = op_by_code(op);
	unsigned source = OP_SOURCE(op);

	if (info && info->category == OPCAT_GRAPH)
		return GRAPH_SECTION;
	return source < 32 ? SOURCE_BIT(source) : 0;
}

static bool in_section(const struct section *sec, uint16_t op)
{
	unsigned known = 0;

	for (size_t i = 0; i < ARRAY_LEN(sections); i++)
		known |= sections[i].sources;
	/* sources this version does not know are shown with the host's rather than left out */
	return sec->sources & (section_bit(op) & known ? section_bit(op) : SOURCE_BIT(SOURCE_HOST));
}

/* Calls longer than three medians, to the precision of the histogram. */
static uint64_t spikes(const struct reader_op_stats *s)
{
	uint64_t n = 0;

	if (s->c.count <= 10 || !s->p50_ns)
		return 0;
	for (unsigned i = 0; i < HIST_BUCKETS; i++) {
		if (hist_bucket_low(i) > 3 * s->p50_ns)
			n += s->c.hist.bucket[i];
	}
	return n;
}

static void add_row(struct table *t, const struct reader_op_stats *s, uint64_t wall_ns)
{
	char name[64], cell[10][TIMEFMT_MAX];
	const char *cells[ARRAY_LEN(columns)] = {op_name(s->op, name, sizeof(name))};
	const uint64_t percentiles[] = {s->p50_ns, s->p95_ns, s->p99_ns};
	uint64_t n_spikes = spikes(s);
	size_t i = 1;

	cells[i] = fmt_count(s->c.count + s->c.untimed, cell[i], TIMEFMT_MAX), i++;
	for (size_t p = 0; p < ARRAY_LEN(percentiles); p++, i++)
		cells[i] =
			reader_has_percentiles(s) ? fmt_duration(percentiles[p], cell[i], TIMEFMT_MAX) : "-";
	cells[i] = fmt_duration(s->c.max_ns, cell[i], TIMEFMT_MAX), i++;
	snprintf(cell[i], TIMEFMT_MAX, "%.1f%%",
		wall_ns ? 100.0 * (double)s->c.sum_ns / (double)wall_ns : 0.0);
	cells[i] = cell[i], i++;
	snprintf(cell[i], TIMEFMT_MAX, "%llu%s", (unsigned long long)n_spikes, n_spikes ? "!" : "");
	cells[i] = cell[i], i++;
	cells[i] = s->c.errors ? fmt_count(s->c.errors, cell[i], TIMEFMT_MAX) : "", i++;
	cells[i] = s->c.bytes ? fmt_bytes(s->c.bytes, cell[i], TIMEFMT_MAX) : "";
	table_add_row(t, cells);
}

static void add_section(struct strbuf *out, const struct section *sec, const struct reader_op_stats *stats,
	size_t n, uint64_t wall_ns, int width)
{
	struct table *t = NULL;
	size_t n_rows = 0;

	if (table_new(columns, ARRAY_LEN(columns), &t)) {
		out->error = out->error ? out->error : -ENOMEM;
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (in_section(sec, stats[i].op)) {
			add_row(t, &stats[i], wall_ns);
			n_rows++;
		}
	}
	if (n_rows) {
		strbuf_addf(out, "  %s\n", sec->title);
		table_render(t, out, MARGIN, width);
		strbuf_addc(out, '\n');
	}
	table_free(t);
}

/* "1h0m0s", "1m30s", "45s": the reference's form. */
static void add_span(struct strbuf *out, uint64_t ns)
{
	uint64_t s = ns / NSEC_PER_SEC;
	char text[TIMEFMT_MAX];

	if (ns % NSEC_PER_SEC)
		strbuf_adds(out, fmt_duration(ns, text, sizeof(text)));
	else if (s >= 3600)
		strbuf_addf(out, "%lluh%llum%llus", (unsigned long long)s / 3600,
			(unsigned long long)s / 60 % 60, (unsigned long long)s % 60);
	else if (s >= 60)
		strbuf_addf(out, "%llum%llus", (unsigned long long)s / 60, (unsigned long long)s % 60);
	else
		strbuf_addf(out, "%llus", (unsigned long long)s);
}

static void add_range(struct strbuf *out, const struct query *q)
{
	const struct time_window *w = &q->filter.window;
	char text[TIMEFMT_MAX];

	if (!q->has_from_to && !q->since_ns) {
		strbuf_adds(out, "everything");
	} else if (!q->has_from_to) {
		strbuf_adds(out, "last ");
		add_span(out, q->since_ns);
	} else {
		strbuf_adds(out, w->from_ns == INT64_MIN ? "from the start" : "from ");
		if (w->from_ns != INT64_MIN)
			strbuf_adds(out, fmt_local(w->from_ns, text, sizeof(text)));
		strbuf_adds(out, w->to_ns == INT64_MAX ? " to now" : " to ");
		if (w->to_ns != INT64_MAX)
			strbuf_adds(out, fmt_local(w->to_ns, text, sizeof(text)));
	}
}

static void add_header(struct strbuf *out, const struct query *q, uint64_t stored, uint64_t total)
{
	char text[TIMEFMT_MAX];

	strbuf_adds(out, "  Query: ");
	add_range(out, q);
	for (size_t i = 0; i < q->filter.n_pids; i++)
		strbuf_addf(out, "%s%u",
			i		       ? ","
			: q->filter.n_pids > 1 ? " | PIDs "
					       : " | PID ",
			q->filter.pids[i]);
	strbuf_addf(out, " | %s events", fmt_count(stored, text, sizeof(text)));
	if (total != stored)
		strbuf_addf(out, " (%s total, selective storage)", fmt_count(total, text, sizeof(text)));
	strbuf_adds(out, "\n\n");
}

/* The recorded machine's last sample, not this one's. 0 or negative errno. */
static int add_system(struct strbuf *out, const struct query *q)
{
	struct system_sample m;
	int e = reader_last_system(q->reader, &q->filter.window, &m);

	if (e)
		return e == -ENODATA ? 0 : e;
	strbuf_addf(out, "  System: Mem %.0f%% (%llu MB free) | Load %.1f", m.mem_pct,
		(unsigned long long)m.mem_avail_mb, m.load1);
	if (m.swap_mb)
		strbuf_addf(out, " | Swap %llu MB", (unsigned long long)m.swap_mb);
	strbuf_addc(out, '\n');
	return 0;
}

/* What is missing from the numbers above. */
static void add_losses(struct strbuf *out, const struct reader_summary *s)
{
	char a[TIMEFMT_MAX];

	if (s->lost)
		strbuf_addf(out, "  Lost: %s calls gave no record (their counts are exact)\n",
			fmt_count(s->lost, a, sizeof(a)));
	if (s->dropped)
		strbuf_addf(out, "  Dropped: %s rows were not stored\n", fmt_count(s->dropped, a, sizeof(a)));
	if (s->unfinished)
		strbuf_addf(out, "  Unfinished: %s calls never returned\n",
			fmt_count(s->unfinished, a, sizeof(a)));
	if (s->cut)
		strbuf_adds(out,
			"  The last recording was cut off (crash or kill): its last second may be missing\n");
	if (s->writing)
		strbuf_adds(out, "  A tracer is writing to this database now\n");
}

static int terminal_width(void)
{
	struct winsize ws;

	return isatty(STDOUT_FILENO) && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) ? ws.ws_col : 0;
}

static void add_nothing(struct strbuf *out, const struct query *q, const struct reader_summary *s)
{
	char first[TIMEFMT_MAX], last[TIMEFMT_MAX];

	strbuf_adds(out, "  No events found.\n  Database: ");
	text_add_safe(out, q->db_path, 0);
	strbuf_adds(out, "\n  Time range: ");
	add_range(out, q);
	strbuf_addc(out, '\n');
	if (s->first_ns)
		strbuf_addf(out, "  It holds %s to %s: use --since 0 for everything.\n",
			fmt_local(s->first_ns, first, sizeof(first)),
			fmt_local(s->last_ns, last, sizeof(last)));
}

int query_text(const struct query *q)
{
	cleanup_strbuf struct strbuf out = STRBUF_INIT(OUT_BYTES), system = STRBUF_INIT(1024);
	cleanup_free struct reader_op_stats *stats = NULL;
	struct reader_summary sum;
	uint64_t total = 0, stored = 0;
	size_t n = 0;
	int e = reader_op_totals(q->reader, &q->filter, false, &stats, &n), rc;

	if (!e)
		e = reader_summarize(q->reader, &q->filter.window, &sum);
	if (!e)
		e = add_system(&system, q);
	if (e)
		return query_read_error(q, e);
	if (!n) {
		add_nothing(&out, q, &sum);
		rc = query_flush(&out);
		return rc ? rc : EXIT_NODATA;
	}
	for (size_t i = 0; i < n; i++) {
		stored += stats[i].stored;
		total += MAX(stats[i].c.count + stats[i].c.untimed, stats[i].aggregate_count);
	}
	add_header(&out, q, stored, total);
	for (size_t i = 0; i < ARRAY_LEN(sections); i++)
		add_section(&out, &sections[i], stats, n, sum.recorded_ns, terminal_width());
	add_losses(&out, &sum);
	strbuf_adds(&out, strbuf_str(&system));
	return query_flush(&out);
}
