#include "probe/internal.h"

#include <errno.h>
#include <link.h>
#include <time.h>

/* Functions of our own to try probes on, with a known first instruction. */
#if defined(__x86_64__)
__asm__(".text\n.balign 16\n.type trial_emulated, @function\ntrial_emulated:\n"
	"push %rbp\npop %rbp\nxor %eax, %eax\nret\n.size trial_emulated, .-trial_emulated\n"
	".balign 16\n.type trial_stepped, @function\ntrial_stepped:\n"
	"sub $8, %rsp\nadd $8, %rsp\nxor %eax, %eax\nret\n.size trial_stepped, .-trial_stepped\n");
#elif defined(__aarch64__)
__asm__(".text\n.balign 16\n.type trial_emulated, %function\ntrial_emulated:\n"
	"nop\nmov w0, #0\nret\n.size trial_emulated, .-trial_emulated\n"
	".balign 16\n.type trial_stepped, %function\ntrial_stepped:\n"
	"sub sp, sp, #16\nadd sp, sp, #16\nmov w0, #0\nret\n.size trial_stepped, .-trial_stepped\n");
#else
#error "no trial functions for this architecture"
#endif

extern int trial_emulated(void) __attribute__((visibility("hidden")));
extern int trial_stepped(void) __attribute__((visibility("hidden")));

struct own_segment {
	uintptr_t address;
	uint64_t offset;
};

/* The program itself is the first entry of the list. */
static int find_segment(struct dl_phdr_info *info, size_t size UNUSED, void *data)
{
	struct own_segment *want = data;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + ph->p_vaddr;

		if (ph->p_type != PT_LOAD || want->address < start || want->address >= start + ph->p_filesz)
			continue;
		want->offset = want->address - start + ph->p_offset;
		return 1;
	}
	return 0;
}

int trial_function_offset(bool single_step, uint64_t *ret_offset)
{
	struct own_segment want = {
		.address = single_step ? (uintptr_t)trial_stepped : (uintptr_t)trial_emulated};

	if (!dl_iterate_phdr(find_segment, &want))
		return -ENOENT;
	*ret_offset = want.offset;
	return 0;
}

void trial_call(bool single_step, unsigned n)
{
	int (*volatile fn)(void) = single_step ? trial_stepped : trial_emulated;

	for (unsigned i = 0; i < n; i++)
		fn();
}

static double time_calls(bool single_step)
{
	const unsigned n = 200;
	struct timespec a, b;

	trial_call(single_step, 20);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
	trial_call(single_step, n);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
	return ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / n;
}

/* Median of five. */
static double median_cost(bool single_step)
{
	double t[5] = {0};

	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		double v = time_calls(single_step);
		size_t j = i;

		for (; j > 0 && t[j - 1] > v; j--)
			t[j] = t[j - 1];
		t[j] = v;
	}
	return t[2];
}

static int attach_trial(struct probe *p, bool single_step)
{
	struct probe_point_spec point = {.desc = ABI_MAX_DESCS - 1};
	struct probe_attach_result result;
	int err = trial_function_offset(single_step, &point.file_offset);

	return err ? err : probe_attach(p, "/proc/self/exe", &point, 1, 1, &result);
}

int probe_measure_entry_cost(struct probe *p, double *ret_emulated_ns, double *ret_single_step_ns)
{
	size_t fds = p->n_link_fds, links = p->n_links, single = p->n_single;
	int err = attach_trial(p, false);

	if (!err)
		err = attach_trial(p, true);
	if (!err) {
		*ret_emulated_ns = median_cost(false);
		*ret_single_step_ns = median_cost(true);
	}
	while (p->n_link_fds > fds)
		close(p->link_fds[--p->n_link_fds]);
	while (p->n_links > links)
		bpf_link__destroy(p->links[--p->n_links]);
	p->n_single = single;
	return err;
}

struct trial_counts {
	unsigned records;
	uint64_t counted;
};

static void trial_on_call(void *ctx, const struct abi_rec_call *rec, size_t size UNUSED)
{
	struct trial_counts *c = ctx;

	c->records += rec->desc == ABI_MAX_DESCS - 1;
}

static void trial_on_thread(void *ctx UNUSED, const struct abi_rec_thread *rec UNUSED)
{
}

static void trial_on_name(void *ctx UNUSED, const struct abi_rec_name *rec UNUSED)
{
}

static void trial_on_counter(void *ctx, const struct abi_counter_key *key, const struct abi_counters *c)
{
	struct trial_counts *t = ctx;

	if (key->op != UINT16_MAX)
		return;
	for (size_t i = 0; i < ABI_HIST_BUCKETS; i++)
		t->counted += c->hist[i];
}

static int run_trial(struct probe *p, struct probe_trial_result *ret)
{
	const unsigned calls = 37;
	struct trial_counts got = {0};
	struct probe_sink sink = {trial_on_call, trial_on_thread, trial_on_name, &got};
	uint32_t pid = (uint32_t)getpid();
	int err = probe_set_targets(p, ABI_TARGET_PIDS, 0, &pid, 1);

	if (!err)
		err = attach_trial(p, false);
	if (err) {
		snprintf(ret->detail, sizeof(ret->detail), "the trial probe could not be attached: %s",
			strerror(-err));
		return err;
	}
	probe_activate(p);
	trial_call(false, calls);
	probe_detach(p);
	probe_drain(p, &sink, 0);
	probe_read_counters(p, trial_on_counter, &got);
	if (got.records != calls || got.counted != calls) {
		snprintf(ret->detail, sizeof(ret->detail),
			"of %u calls of a trial function %u records and %llu counted calls arrived", calls,
			got.records, (unsigned long long)got.counted);
		return -EIO;
	}
	snprintf(ret->detail, sizeof(ret->detail), "%u of %u calls of a trial function recorded and counted",
		got.records, calls);
	return 0;
}

/* Can programs that take typed kernel pointers be loaded? (bpftool's answer is wrong on some kernels.) */
static bool btf_tracepoints_work(void)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_TRACE_RAW_TP);
	struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int fd, id = libbpf_find_vmlinux_btf_id("sched_switch", BPF_TRACE_RAW_TP);

	if (id <= 0)
		return false;
	opts.attach_btf_id = (uint32_t)id;
	fd = bpf_prog_load(BPF_PROG_TYPE_TRACING, "ing_trial", "GPL", insns, ARRAY_LEN(insns), &opts);
	if (fd < 0)
		return false;
	close(fd);
	return true;
}

int probe_trial(struct probe_trial_result *ret)
{
	struct probe_options options = {.records = true, .sampling_rate = 1, .ring_bytes = 64 << 10};
	struct probe_trial_result r = {.way = "none"};
	struct probe *p = NULL;
	int err = probe_open(&options, &p, r.detail, sizeof(r.detail));

	if (!err) {
		snprintf(r.way, sizeof(r.way), "%s", probe_way_name(probe_get_way(p)));
		err = run_trial(p, &r);
		r.btf_sched = btf_tracepoints_work();
	}
	probe_close(p);
	*ret = r;
	return err;
}
