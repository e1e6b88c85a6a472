#include "probe/internal.h"
#include "base/log.h"
#include "model/ops.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/mman.h>

extern const unsigned char ingero_bpf_object[], ingero_bpf_object_end[];

#define EVERY_WAY (1 << PROBE_WAY_SESSION | 1 << PROBE_WAY_MULTI | 1 << PROBE_WAY_SINGLE)

/* Which programs each way needs; the others are not loaded. */
static const struct {
	const char *name;
	unsigned ways; /* bits 1 << way */
	bool multi;    /* expected attach type of uprobe_multi */
} programs[] = {
	{"ing_session", 1 << PROBE_WAY_SESSION, false},
	{"ing_multi_entry", 1 << PROBE_WAY_MULTI, true},
	{"ing_multi_return", 1 << PROBE_WAY_MULTI, true},
	{"ing_entry", 1 << PROBE_WAY_SINGLE, false},
	{"ing_return", 1 << PROBE_WAY_SINGLE, false},
	{"ing_name_fault", 1 << PROBE_WAY_SESSION | 1 << PROBE_WAY_MULTI, true},
	{"ing_name", 1 << PROBE_WAY_SESSION | 1 << PROBE_WAY_MULTI, true},
	{"ing_name_ret", 1 << PROBE_WAY_SESSION | 1 << PROBE_WAY_MULTI, true},
	{"ing_unwind", EVERY_WAY, true},
};

static const char *const tracepoint_programs[] = {"ing_exit", "ing_exec", "ing_rename"};

const char *probe_way_name(enum probe_way way)
{
	static const char *const names[] = {"auto", "session", "multi", "single"};

	return names[way];
}

/* libbpf's own messages are for developers; the verifier's are long and come as one. */
PRINTF_LIKE(2, 0)
static int on_libbpf_message(enum libbpf_print_level level UNUSED, const char *fmt, va_list args)
{
	cleanup_free char *text = NULL;
	char *line, *rest;

	if (!log_enabled(LOG_DEBUG) || vasprintf(&text, fmt, args) < 0)
		return 0;
	rest = text;
	while ((line = strsep(&rest, "\n"))) {
		if (*line)
			log_debug("%s", line);
	}
	return 0;
}

static int configure_programs(struct bpf_object *object, enum probe_way way)
{
	for (size_t i = 0; i < ARRAY_LEN(programs); i++) {
		struct bpf_program *prog = bpf_object__find_program_by_name(object, programs[i].name);

		if (!prog)
			return -ENOENT;
		bpf_program__set_autoload(prog, programs[i].ways & (1u << way));
		if (programs[i].multi && way != PROBE_WAY_SINGLE)
			bpf_program__set_expected_attach_type(prog, way_attach_type(PROBE_WAY_MULTI));
		else if (way == PROBE_WAY_SESSION)
			bpf_program__set_expected_attach_type(prog, way_attach_type(PROBE_WAY_SESSION));
	}
	return 0;
}

static int fill_descs(struct bpf_object *object)
{
	struct bpf_map *map = bpf_object__find_map_by_name(object, ".rodata.descs");
	cleanup_free struct abi_desc *descs = calloc(ABI_MAX_DESCS, sizeof(*descs));

	if (!descs)
		return -ENOMEM;
	if (!map)
		return -ENOENT;
	if (symbol_count() > ABI_MAX_DESCS - 1)
		return -E2BIG;
	for (size_t i = 0; i < symbol_count(); i++)
		descs[i] = symbol_at(i)->desc;
	/* the last row belongs to the trial */
	descs[ABI_MAX_DESCS - 1] = (struct abi_desc){.op = UINT16_MAX};
	return bpf_map__set_initial_value(map, descs, ABI_MAX_DESCS * sizeof(*descs));
}

static int map_fd(const struct probe *p, const char *name)
{
	struct bpf_map *map = bpf_object__find_map_by_name(p->object, name);

	return map ? bpf_map__fd(map) : -ENOENT;
}

static size_t whole_pages(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (bytes + page - 1) / page * page;
}

#define CONTROL_BYTES sizeof(struct abi_control)
#define COUNTERS_BYTES (ABI_MAX_COUNTERS * sizeof(struct abi_counters))

static int map_memory(const struct probe *p, const char *name, size_t bytes, void **ret)
{
	void *mem = mmap(NULL, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, map_fd(p, name), 0);

	if (mem == MAP_FAILED)
		return -errno;
	*ret = mem;
	return 0;
}

static int fill_free(int map, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (bpf_map_update_elem(map, NULL, &i, 0))
			return -errno;
	}
	return 0;
}

static int attach_tracepoints(struct probe *p)
{
	for (size_t i = 0; i < ARRAY_LEN(tracepoint_programs); i++) {
		struct bpf_program *prog =
			bpf_object__find_program_by_name(p->object, tracepoint_programs[i]);
		int err = UTIL_GROW(p->links, p->cap_links, p->n_links + 1, PROBE_MAX_LINKS);

		if (err)
			return err;
		p->links[p->n_links] = prog ? bpf_program__attach(prog) : NULL;
		if (!p->links[p->n_links])
			return prog ? -errno : -ENOENT;
		p->n_links++;
	}
	return 0;
}

/* Does a link of this way really come about? Loading alone proves nothing (spec kernel-measurements §4). */
static int try_link(struct probe *p)
{
	struct probe_point_spec point = {.desc = ABI_MAX_DESCS - 1};
	struct probe_attach_result result;
	int err = trial_function_offset(false, &point.file_offset);

	if (err)
		return err;
	err = probe_attach(p, "/proc/self/exe", &point, 1, 1, &result);
	probe_detach(p);
	p->n_single = 0;
	return err;
}

static int load_way(struct probe *p, const struct probe_options *o, enum probe_way way, bool faulting_names)
{
	LIBBPF_OPTS(bpf_object_open_opts, open_opts, .object_name = "ingero");
	struct bpf_map *ring;
	int err;

	p->object = bpf_object__open_mem(ingero_bpf_object,
		(uintptr_t)ingero_bpf_object_end - (uintptr_t)ingero_bpf_object, &open_opts);
	if (!p->object)
		return -errno;
	p->way = way;
	p->faulting_names = faulting_names;
	err = configure_programs(p->object, way);
	if (!err)
		err = fill_descs(p->object);
	ring = bpf_object__find_map_by_name(p->object, "ing_calls");
	if (!err)
		err = ring ? bpf_map__set_max_entries(ring, (uint32_t)p->ring_bytes) : -ENOENT;
	if (err)
		return err;
	bpf_program__set_autoload(bpf_object__find_program_by_name(p->object, "ing_name_fault"),
		faulting_names && way != PROBE_WAY_SINGLE);
	if (o->ring_bytes > UINT32_MAX)
		return -ERANGE;
	return bpf_object__load(p->object);
}

static int open_maps(struct probe *p)
{
	void *control = NULL, *counters = NULL;
	int err = map_memory(p, "ing_control", CONTROL_BYTES, &control);

	p->control = control;
	if (!err)
		err = map_memory(p, "ing_counters", COUNTERS_BYTES, &counters);
	p->counters = counters;
	p->map_index = map_fd(p, "ing_counter_index");
	p->map_counter_free = map_fd(p, "ing_counter_free");
	p->map_overflow = map_fd(p, "ing_overflow");
	p->map_status = map_fd(p, "ing_status");
	p->map_targets = map_fd(p, "ing_targets");
	p->map_free = map_fd(p, "ing_free");
	p->map_calls = map_fd(p, "ing_calls");
	return err;
}

static void unload(struct probe *p)
{
	probe_detach(p);
	if (p->control)
		munmap(p->control, whole_pages(CONTROL_BYTES));
	if (p->counters)
		munmap(p->counters, whole_pages(COUNTERS_BYTES));
	p->control = NULL;
	p->counters = NULL;
	bpf_object__close(p->object);
	p->object = NULL;
}

/* Loads for one way, without the page-faulting name program if the kernel refuses that one. */
static int try_way(struct probe *p, const struct probe_options *o, enum probe_way way)
{
	int err = 0;

	for (int faulting = way != PROBE_WAY_SINGLE; faulting >= 0; faulting--) {
		err = load_way(p, o, way, faulting);
		if (!err)
			err = open_maps(p);
		if (!err)
			err = try_link(p);
		if (!err)
			return 0;
		unload(p);
		if (err == -EPERM)
			break;
	}
	return err;
}

static int choose_way(struct probe *p, const struct probe_options *o, char *err_text, size_t err_size)
{
	int err = -ENOTSUP, first = 0;

	for (enum probe_way way = PROBE_WAY_SESSION; way <= PROBE_WAY_SINGLE; way++) {
		if (o->way != PROBE_WAY_AUTO && o->way != way)
			continue;
		err = try_way(p, o, way);
		if (!err)
			return 0;
		if (!first)
			first = err;
		log_debug("attach way %s: %s", probe_way_name(way), strerror(-err));
	}
	if (err == -EPERM || err == -EACCES)
		snprintf(err_text, err_size,
			"tracing needs root, or the capabilities CAP_BPF and CAP_PERFMON (on kernels before "
			"6.6 "
			"CAP_SYS_ADMIN): run it with sudo");
	else if (o->way != PROBE_WAY_AUTO)
		snprintf(err_text, err_size,
			"this kernel does not take probes the way '%s': %s (try --probe-mode auto)",
			probe_way_name(o->way), strerror(-err));
	else
		snprintf(err_text, err_size, "the kernel refuses the probes: %s (see 'ingero check')",
			strerror(-err));
	return err;
}

enum probe_way probe_get_way(const struct probe *p)
{
	return p->way;
}

int probe_set_targets(
	struct probe *p, enum abi_target_mode mode, uint32_t uid, const uint32_t *pids, size_t n)
{
	uint32_t one = 1;

	if (n > ABI_MAX_TARGETS)
		return -E2BIG;
	for (size_t i = 0; i < n; i++) {
		if (bpf_map_update_elem(p->map_targets, &pids[i], &one, BPF_ANY))
			return -errno;
	}
	p->control->target_mode = mode;
	p->control->target_uid = uid;
	__atomic_add_fetch(&p->control->policy_gen, 1, __ATOMIC_SEQ_CST);
	return 0;
}

void probe_activate(struct probe *p)
{
	__atomic_store_n(&p->control->active, 1, __ATOMIC_SEQ_CST);
}

void probe_set_sampling(struct probe *p, uint32_t rate)
{
	__atomic_store_n(&p->control->sampling_rate, rate ? rate : 1, __ATOMIC_SEQ_CST);
}

int probe_open(const struct probe_options *options, struct probe **ret_probe, char *err, size_t err_size)
{
	struct probe *p = calloc(1, sizeof(*p));
	int r;

	if (!p) {
		snprintf(err, err_size, "out of memory");
		return -ENOMEM;
	}
	libbpf_set_print(on_libbpf_message);
	p->ring_bytes = options->ring_bytes ? options->ring_bytes : PROBE_RING_DEFAULT_BYTES;
	r = choose_way(p, options, err, err_size);
	if (r) {
		probe_close(p);
		return r;
	}
	p->control->sampling_rate = options->sampling_rate ? options->sampling_rate : 1;
	p->control->records = options->records;
	p->control->wake_bytes = p->ring_bytes / 4;
	r = fill_free(p->map_free, ABI_MAX_THREADS);
	if (!r)
		r = fill_free(p->map_counter_free, ABI_MAX_COUNTERS);
	if (!r)
		r = attach_tracepoints(p);
	if (!r)
		r = guard_start(p);
	if (r) {
		snprintf(err, err_size, "the probes could not be prepared: %s", strerror(-r));
		probe_close(p);
		return r;
	}
	*ret_probe = p;
	return 0;
}

void probe_close(struct probe *p)
{
	if (!p)
		return;
	probe_detach(p); /* first: nothing runs any more when the rings go */
	guard_stop(p);
	unload(p);
	ring_buffer__free(p->calls);
	ring_buffer__free(p->procs);
	free(p->batch_keys);
	free(p->batch_slots);
	free(p->counters_copy);
	free(p->link_fds);
	free(p->links);
	free(p);
}
