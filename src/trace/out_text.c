/* Lines for people: the header, one line per event (--verbose), the closing account. */
#include "trace/session.h"
#include "base/log.h"
#include "base/table.h"
#include "model/timefmt.h"

#include <time.h>

static void add_time(struct strbuf *out, int64_t wall_ns)
{
	time_t sec = (time_t)(wall_ns / (int64_t)NSEC_PER_SEC);
	struct tm tm;
	char text[16] = "";

	if (localtime_r(&sec, &tm))
		strftime(text, sizeof(text), "%H:%M:%S", &tm);
	strbuf_addf(out, "%s.%06lld", text, (long long)(wall_ns % (int64_t)NSEC_PER_SEC / 1000));
}

static void add_handle(struct strbuf *out, const char *key, uint64_t v)
{
	if (v)
		strbuf_addf(out, " %s=0x%llx", key, (unsigned long long)v);
}

static bool counts_bytes(const struct call_event *e)
{
	const struct op_info *info = op_by_code(e->op);

	return info && e->arg0 &&
	       (info->category == OPCAT_ALLOC || info->category == OPCAT_COPY || info->category == OPCAT_SET);
}

void verbose_event(struct session *s, const struct call_event *e, const struct traced_process *p)
{
	struct strbuf *out = &s->out;
	char text[TIMEFMT_MAX], comm[COMM_LEN + 1];
	const char *kernel = state_kernel_name(&s->state, e->proc, e->kernel);

	snprintf(comm, sizeof(comm), "%.*s", COMM_LEN, p->info.comm);
	add_time(out, e->wall_ns);
	strbuf_adds(out, "  ");
	text_add_safe(out, comm, COMM_LEN);
	strbuf_addf(out, "/%u  %*s%s", e->tid, 2 * e->depth, "", op_name(e->op, text, sizeof(text)));
	strbuf_addf(out, "  %s", fmt_duration(e->dur_ns, text, sizeof(text)));
	if (counts_bytes(e))
		strbuf_addf(out, "  %s", fmt_bytes(e->arg0, text, sizeof(text)));
	add_handle(out, "stream", e->stream);
	add_handle(out, "ptr", e->handle);
	add_handle(out, "exec", e->exec);
	if (kernel) {
		strbuf_adds(out, " kernel=");
		text_add_safe(out, kernel, 80);
	} else {
		add_handle(out, "kernel", e->kernel);
	}
	if (e->ret)
		strbuf_addf(out, "  error %d", e->ret);
	if (e->flags & CALL_UNFINISHED)
		strbuf_adds(out, "  [unfinished]");
	if (e->flags & CALL_CAPTURING)
		strbuf_adds(out, "  [captured]");
	if (e->flags & CALL_ANOMALY)
		strbuf_adds(out, "  [slow]");
	strbuf_addc(out, '\n');
}

static void print_line(const struct session *s, const char *label, const char *value)
{
	fprintf(s->o->output == TRACE_JSON ? stderr : stdout, "  %s: %s\n", label, value);
}

static void print_libraries(const struct session *s)
{
	for (size_t i = 0; i < s->n_files; i++) {
		cleanup_strbuf struct strbuf safe = STRBUF_INIT(1024);

		if (!s->files[i].points)
			continue;
		text_add_safe(&safe, s->files[i].path, 0);
		print_line(s, s->files[i].kind == LIB_STATIC_CUDART ? "Program with CUDA runtime" : "Library",
			strbuf_str(&safe));
	}
}

static void print_probe_count(const struct session *s, const char *label, size_t n)
{
	char text[64];

	if (!n)
		return;
	snprintf(text, sizeof(text), "%zu attached", n);
	print_line(s, label, text);
}

static void print_slow_probes(const struct session *s)
{
	char text[512];
	double extra_us = (s->stepped_ns - s->emulated_ns) / 1000;

	if (s->skipped_points) {
		snprintf(text, sizeof(text), "%zu left out by --skip-slow-probes: %s", s->skipped_points,
			s->slow_names);
		print_line(s, "Slow probes", text);
	} else if (s->slow_points) {
		snprintf(text, sizeof(text),
			"%zu entries are single-stepped, measured %.1f us more per call here "
			"(--skip-slow-probes leaves "
			"them out): %s",
			s->slow_points, extra_us > 0 ? extra_us : 0, s->slow_names);
		print_line(s, "Slow probes", text);
	}
}

void text_header(struct session *s)
{
	FILE *f = s->o->output == TRACE_JSON ? stderr : stdout;
	char text[4400];

	fprintf(f, "\n  Ingero Trace  -  Live CUDA Event Stream\n");
	print_line(s, "Target", s->target_text);
	print_libraries(s);
	print_probe_count(s, "CUDA probes", s->runtime_points);
	print_probe_count(s, "Graph probes", s->graph_points);
	print_probe_count(s, "Driver probes", s->driver_points);
	print_line(s, "Attached by", probe_way_name(probe_get_way(s->probe)));
	if (s->left_out_points) {
		snprintf(text, sizeof(text), "%zu symbols (this kernel takes only single probes, at most %d)",
			s->left_out_points, PROBE_SINGLE_MAX);
		print_line(s, "Not probed", text);
	}
	print_slow_probes(s);
	if (s->store) {
		snprintf(text, sizeof(text), "%s (%s)", s->o->db_path,
			s->o->record_all ? "all events" : "selective");
		print_line(s, "Recording", text);
	}
	fprintf(f, "\n");
	fflush(f);
}

static void add_losses(struct session *s, char *text, size_t size)
{
	struct call_totals t = state_call_totals(&s->state);
	char n[5][TIMEFMT_MAX];

	snprintf(text, size, "Calls: made %s, delivered %s, sampled out %s, lost %s, unfinished %s",
		fmt_count(t.made, n[0], sizeof(n[0])), fmt_count(t.delivered, n[1], sizeof(n[1])),
		fmt_count(t.sampled_out, n[2], sizeof(n[2])), fmt_count(t.lost, n[3], sizeof(n[3])),
		fmt_count(t.unfinished, n[4], sizeof(n[4])));
}

void text_final(struct session *s)
{
	struct call_totals t = state_call_totals(&s->state);
	struct probe_status st;
	char text[320];

	add_losses(s, text, sizeof(text));
	log_info("%s", text);
	if (t.delivered + t.sampled_out + t.lost != t.made)
		log_warn("the accounting does not add up: made %llu, but delivered + sampled out + lost = "
			 "%llu",
			(unsigned long long)t.made,
			(unsigned long long)(t.delivered + t.sampled_out + t.lost));
	if (t.lost)
		log_warn("%llu calls have no record (%.2f%%); counts, sums and percentiles include them, "
			 "single events do "
			 "not. A larger --ringbuf-size or --sampling-rate 0 helps",
			(unsigned long long)t.lost, t.made ? 100.0 * (double)t.lost / (double)t.made : 0);
	probe_get_status(s->probe, &st);
	if (st.unwinds_failed)
		log_warn("%llu exceptions passed through traced calls and could not be guarded",
			(unsigned long long)st.unwinds_failed);
}
