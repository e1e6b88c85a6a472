/* Which files get probes: every CUDA library (or program with the runtime linked in) of the targets. */
#include "trace/session.h"
#include "base/log.h"
#include "model/timefmt.h"

#include <errno.h>
#include <sys/stat.h>

/* Attach order where only a few symbols can be probed (single way). */
static unsigned priority_of(unsigned op)
{
	static const unsigned char by_category[] = {
		[OPCAT_LAUNCH] = 1,
		[OPCAT_SYNC] = 2,
		[OPCAT_ALLOC] = 3,
		[OPCAT_FREE] = 4,
		[OPCAT_COPY] = 5,
		[OPCAT_GRAPH] = 6,
		[OPCAT_HOST] = 0,
	};
	const struct op_info *info = op_by_code(op);
	unsigned p = info && info->category < ARRAY_LEN(by_category) ? by_category[info->category] : 0;

	/* the reference's own operations have the lowest ids: they are the ones everybody uses */
	return (p ? p : 9) * 1000 + OP_ID(op);
}

static bool is_attached(const struct session *s, const struct cuda_lib *lib)
{
	for (size_t i = 0; i < s->n_files; i++) {
		const struct attached_file *f = &s->files[i];
		struct cuda_lib known;

		known.dev = f->dev;
		known.ino = f->ino;
		known.handle_hash = f->handle_hash;
		known.overlay = f->overlay;
		if (discover_same_file(&known, lib))
			return true;
	}
	return false;
}

static void note_slow(struct session *s, const struct probe_point *pt)
{
	size_t len = strlen(s->slow_names);

	if (len + strlen(pt->symbol) + 6 < sizeof(s->slow_names))
		snprintf(s->slow_names + len, sizeof(s->slow_names) - len, "%s%s", len ? ", " : "",
			pt->symbol);
	else if (len && s->slow_names[len - 1] != '.')
		snprintf(s->slow_names + len, sizeof(s->slow_names) - len, "...");
}

/* Turns found symbols into probe points; single-stepped ones are left out only when the user said so. */
static size_t make_specs(
	struct session *s, const struct probe_point *points, size_t n, struct probe_point_spec *specs)
{
	size_t k = 0;

	for (size_t i = 0; i < n; i++) {
		const struct symbol_info *sym = symbol_at(points[i].desc);

		if (points[i].single_step && s->o->skip_slow_probes) {
			s->skipped_points++;
			note_slow(s, &points[i]);
			continue;
		}
		if (points[i].single_step) {
			s->slow_points++;
			note_slow(s, &points[i]);
		}
		specs[k++] = (struct probe_point_spec){
			.desc = points[i].desc,
			.file_offset = points[i].file_offset,
			.is_name = sym->desc.flags & ABI_DESC_NAME,
			.entry_only_name = sym->desc.field[1].src == ABI_SRC_ARG,
			.priority = priority_of(sym->op_code),
		};
	}
	return k;
}

static void count_points(struct session *s, const struct probe_point_spec *specs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct symbol_info *sym = symbol_at(specs[i].desc);

		if (specs[i].is_name)
			continue;
		if (OP_SOURCE(sym->op_code) == SOURCE_GRAPH)
			s->graph_points++;
		else if (sym->layer == ABI_LAYER_DRIVER)
			s->driver_points++;
		else
			s->runtime_points++;
	}
}

static int remember_file(struct session *s, const struct cuda_lib *lib, size_t points)
{
	int err = UTIL_GROW(s->files, s->cap_files, s->n_files + 1, SESSION_MAX_FILES);
	struct attached_file *f;

	if (err)
		return err;
	f = &s->files[s->n_files++];
	*f = (struct attached_file){.dev = lib->dev,
		.ino = lib->ino,
		.handle_hash = lib->handle_hash,
		.overlay = lib->overlay,
		.kind = lib->kind,
		.points = points};
	snprintf(f->path, sizeof(f->path), "%.255s", lib->path);
	return 0;
}

static int attach_lib(struct session *s, const struct cuda_lib *lib, size_t max_single)
{
	cleanup_free struct probe_point *points = NULL;
	cleanup_free struct probe_point_spec *specs = NULL;
	struct probe_attach_result result = {0};
	size_t n = 0, n_specs;
	int err = discover_points(lib->open_path, lib->kind, lib->soname_major, &points, &n);

	if (err) {
		log_warn("%s: cannot be read for its symbols: %s", lib->path, strerror(-err));
		return remember_file(s, lib, 0);
	}
	specs = calloc(n ? n : 1, sizeof(*specs));
	if (!specs)
		return -ENOMEM;
	n_specs = make_specs(s, points, n, specs);
	err = n_specs ? probe_attach(s->probe, lib->open_path, specs, n_specs, max_single, &result) : 0;
	if (err) {
		log_warn("%s: the kernel refused the probes: %s", lib->path, strerror(-err));
		return remember_file(s, lib, 0); /* said once, not every second */
	}
	if (result.refused)
		log_warn("%s: %zu of %zu symbols could not be probed", lib->path, result.refused, n_specs);
	s->left_out_points += result.left_out;
	count_points(s, specs, n_specs);
	return remember_file(s, lib, result.attached);
}

/* The runtime's files first: its calls are what programs make, and where places are few they are shared
 * evenly over the files, at most half of them to a driver. */
static void attach_libs(struct session *s, const struct discovery *d)
{
	size_t left = 0;

	for (size_t i = 0; i < d->n_libs; i++)
		left += !is_attached(s, &d->libs[i]);
	for (int driver = 0; driver < 2; driver++) {
		for (size_t i = 0; i < d->n_libs && left; i++) {
			size_t room = probe_single_room(s->probe), share = room / left + (room % left != 0);

			if ((d->libs[i].kind == LIB_CUDA) != driver || is_attached(s, &d->libs[i]))
				continue;
			attach_lib(s, &d->libs[i], driver ? MIN(share, (size_t)PROBE_SINGLE_MAX / 2) : share);
			left--;
		}
	}
}

/* Between loading and probing a process may have called: that no counter knows of it must be said. */
static void tell_late(const struct session *s, const struct discovery *d)
{
	char when[TIMEFMT_MAX];

	fmt_local(session_wall_ns(s, session_now_ns()), when, sizeof(when));
	for (size_t i = 0; i < d->n_libs; i++) {
		const struct cuda_lib *lib = &d->libs[i];

		if (lib->from_pid && !is_attached(s, lib))
			log_warn("%s came into use while tracing (PID %u): its calls are counted from %s on, "
				 "earlier ones are not",
				lib->path, lib->from_pid, when);
	}
}

static void note_coverage(struct session *s, const struct discovery *d)
{
	int64_t now = session_wall_ns(s, session_now_ns());

	for (size_t i = 0; s->store && i < d->n_libs; i++) {
		struct process_info info;

		if (d->libs[i].from_pid && !proc_read_info(d->libs[i].from_pid, &info))
			store_add_coverage(s->store, now, info.id, d->libs[i].path, "");
	}
}

/* The unwinder of the C++ runtime: exceptions through probed calls must find real return addresses. */
static void attach_unwinders(struct session *s, const struct discovery *d)
{
	static const char *const symbols[] = {"_Unwind_RaiseException", "_Unwind_ForcedUnwind",
		"_Unwind_Resume_or_Rethrow", "_Unwind_Backtrace"};

	for (size_t i = 0; i < d->n_unwinders; i++) {
		const struct cuda_lib *lib = &d->unwinders[i];
		uint64_t offsets[ARRAY_LEN(symbols)];
		size_t n = 0;

		if (is_attached(s, lib))
			continue;
		for (size_t k = 0; k < ARRAY_LEN(symbols); k++) {
			if (!discover_symbol_offset(lib->open_path, symbols[k], &offsets[n]))
				n++;
		}
		if (n && probe_attach_unwinder(s->probe, lib->open_path, offsets, n))
			log_debug("%s: exceptions through traced calls cannot be guarded", lib->path);
		remember_file(s, lib, 0);
	}
}

static void warn_static(const struct session *s, const struct cuda_proc *p)
{
	if (p->static_stripped)
		log_warn("PID %u (%.*s): the CUDA runtime is linked in and stripped; its own calls cannot be "
			 "seen, only "
			 "the driver's",
			p->id.pid, COMM_LEN, p->comm);
	(void)s;
}

static void warn_incomplete(const struct discovery *d)
{
	if (d->truncated)
		log_warn("more than %d CUDA libraries or %d CUDA processes: the rest is not traced; choose "
			 "with --pid",
			DISCOVER_MAX_LIBS, DISCOVER_MAX_PROCS);
	if (d->n_unreadable)
		log_warn("the memory maps of %zu processes cannot be read: their CUDA libraries are unknown",
			d->n_unreadable);
}

static int collect(struct session *s, struct discovery *d, bool first)
{
	struct discover_filter filter = {
		.by_uid = s->o->by_uid, .uid = s->o->uid, .pids = s->o->pids, .n_pids = s->o->n_pids};
	int err;

	if (first) {
		for (size_t i = 0; i < s->o->n_cuda_libs; i++) {
			err = discover_add_file(d, s->o->cuda_libs[i]);
			if (err) {
				log_error("--cuda-lib %s: %s", s->o->cuda_libs[i],
					err == -ENOENT	  ? "no such file"
					: err == -ENOEXEC ? "not a shared library"
					: err == -EINVAL  ? "no CUDA symbol in it"
							  : strerror(-err));
				return err;
			}
		}
	}
	err = discover_running(&filter, d);
	/* nothing runs yet, or a target has not loaded its library: the copies on disk are probed ahead */
	if (!err && first && !s->o->n_cuda_libs && !d->n_libs)
		err = discover_on_disk(d);
	return err;
}

int attach_scan(struct session *s, bool first)
{
	struct discovery d = {0};
	size_t before = s->n_files;
	int err = collect(s, &d, first);

	if (err) {
		discovery_free(&d);
		return err;
	}
	if (!first)
		tell_late(s, &d);
	attach_libs(s, &d);
	attach_unwinders(s, &d);
	if (first) {
		warn_incomplete(&d);
		for (size_t i = 0; i < d.n_procs; i++)
			warn_static(s, &d.procs[i]);
		if (d.n_procs == 1)
			snprintf(s->target_text, sizeof(s->target_text), "PID %u (%.*s)", d.procs[0].id.pid,
				COMM_LEN, d.procs[0].comm);
		else if (d.n_procs)
			snprintf(s->target_text, sizeof(s->target_text), "%zu processes", d.n_procs);
	}
	if (first || s->n_files > before)
		note_coverage(s, &d);
	discovery_free(&d);
	return (int)(s->n_files - before);
}

/* With explicit targets: is any of them, or any process seen with calls, still there? */
bool attach_targets_alive(const struct session *s)
{
	size_t pos = 0;
	struct traced_process *p;

	for (size_t i = 0; i < s->o->n_pids; i++) {
		struct process_info info;

		if (!proc_read_info(s->o->pids[i], &info))
			return true;
	}
	while ((p = idmap_next(&s->state.processes, &pos))) {
		if (!p->ended && p->info.id.pid && proc_alive(p->info.id))
			return true;
	}
	return false;
}
