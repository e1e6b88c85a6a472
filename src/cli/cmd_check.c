/* Is this machine ready? Every line is a row of one table; only kernel, BTF, privileges and the trial are
 * needed. */
#include "cli/check_gpu.h"
#include "cli/cli.h"
#include "base/jsonw.h"
#include "base/parse.h"
#include "base/table.h"
#include "discover/discover.h"
#include "model/timefmt.h"
#include "probe/probe.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

enum outcome { PASS, ADVICE, FAIL };

struct finding {
	enum outcome outcome;
	char value[320];
	char detail[640];
};

struct check_state {
	struct discovery found;
	int found_error;
	bool require_gpu, may_trace;
};

static void say(struct finding *f, enum outcome outcome, const char *value, const char *detail)
{
	f->outcome = outcome;
	snprintf(f->value, sizeof(f->value), "%.319s", value);
	snprintf(f->detail, sizeof(f->detail), "%.639s", detail);
}

/* What misses for want of a GPU is advice unless it was asked for. */
static enum outcome gpu_miss(const struct check_state *s)
{
	return s->require_gpu ? FAIL : ADVICE;
}

static void check_kernel(struct check_state *s UNUSED, struct finding *f)
{
	struct utsname u;
	unsigned major = 0, minor = 0;

	if (uname(&u) || sscanf(u.release, "%u.%u", &major, &minor) != 2) {
		say(f, FAIL, "unknown", "the kernel's release cannot be read");
		return;
	}
	say(f, major > 5 || (major == 5 && minor >= 15) ? PASS : FAIL, u.release, "need 5.15+");
}

static void check_btf(struct check_state *s UNUSED, struct finding *f)
{
	static const char path[] = "/sys/kernel/btf/vmlinux";
	struct stat st;
	char text[96];

	if (stat(path, &st)) {
		say(f, FAIL, "missing",
			"need a kernel built with CONFIG_DEBUG_INFO_BTF=y (in a container: mount "
			"/sys/kernel/btf)");
		return;
	}
	snprintf(text, sizeof(text), "available (%lld bytes)", (long long)st.st_size);
	say(f, PASS, path, text);
}

static bool has_capability(unsigned cap)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};

	return !syscall(SYS_capget, &head, data) && (data[cap / 32].effective >> cap % 32 & 1);
}

static void check_privileges(struct check_state *s, struct finding *f)
{
	bool admin = has_capability(CAP_SYS_ADMIN);
	bool bpf = has_capability(CAP_BPF) && has_capability(CAP_PERFMON);

	s->may_trace = admin || bpf;
	if (geteuid() == 0 && admin)
		say(f, PASS, "root", "all rights for tracing");
	else if (s->may_trace)
		say(f, PASS, admin ? "CAP_SYS_ADMIN" : "CAP_BPF, CAP_PERFMON",
			admin ? "all rights for tracing"
			      : "enough for the session and multi ways; single probes need CAP_SYS_ADMIN");
	else if (geteuid() == 0)
		say(f, FAIL, "root without capabilities",
			"need CAP_BPF and CAP_PERFMON (container: --privileged --pid=host)");
	else
		say(f, ADVICE, "not root",
			"only `trace` needs rights: run it with sudo, or give CAP_BPF and CAP_PERFMON");
}

static void check_memlock(struct check_state *s UNUSED, struct finding *f)
{
	struct rlimit limit;
	char text[64];

	if (getrlimit(RLIMIT_MEMLOCK, &limit)) {
		say(f, ADVICE, "unknown", strerror(errno));
		return;
	}
	if (limit.rlim_cur == RLIM_INFINITY)
		snprintf(text, sizeof(text), "unlimited");
	else
		fmt_bytes(limit.rlim_cur, text, sizeof(text));
	say(f, PASS, text, "BPF memory is charged to the memory cgroup since 5.11, not to this limit");
}

static void check_ring(struct check_state *s UNUSED, struct finding *f)
{
	char text[64];

	fmt_bytes(PROBE_RING_DEFAULT_BYTES, text, sizeof(text));
	say(f, PASS, text, "one ring for calls, size by --ringbuf-size");
}

static void check_trial(struct check_state *s, struct finding *f)
{
	struct probe_trial_result r = {0};
	int err;

	if (!s->may_trace) {
		say(f, ADVICE, "not tried", "run with sudo to load and attach a trial program");
		return;
	}
	err = probe_trial(&r);
	say(f, err ? FAIL : PASS, err ? "failed" : r.way, r.detail);
}

static void check_driver(struct check_state *s, struct finding *f)
{
	char version[64];
	bool open_modules;
	unsigned major = 0;

	if (gpu_driver_version(version, sizeof(version), &open_modules)) {
		say(f, gpu_miss(s), "not loaded",
			"no NVIDIA kernel module here; simulated CUDA libraries can be traced all the same");
		return;
	}
	sscanf(version, "%u", &major);
	if (major >= 550)
		say(f, PASS, version,
			open_modules ? "open kernel modules (550+)" : "proprietary kernel modules (550+)");
	else
		say(f, gpu_miss(s), version, "older than 550: not tested; CUDA calls can still be traced");
}

static void check_gpu(struct check_state *s, struct finding *f)
{
	char text[256];

	if (gpu_models(text, sizeof(text)))
		say(f, gpu_miss(s), "none found", "no GPU, or its driver does not answer");
	else
		say(f, PASS, text, "");
}

static size_t users_of(const struct check_state *s, enum lib_kind kind)
{
	size_t n = 0;

	for (size_t i = 0; i < s->found.n_procs; i++) {
		const struct cuda_proc *p = &s->found.procs[i];

		n += kind == LIB_CUDA ? p->has_driver : p->has_runtime || p->static_runtime;
	}
	return n;
}

static const struct cuda_lib *find_lib(const struct check_state *s, enum lib_kind kind)
{
	for (size_t i = 0; i < s->found.n_libs; i++) {
		if (s->found.libs[i].kind == kind)
			return &s->found.libs[i];
	}
	return NULL;
}

static void check_library(struct check_state *s, struct finding *f, enum lib_kind kind, const char *missing,
	const char *purpose)
{
	const struct cuda_lib *lib = find_lib(s, kind);
	size_t users = users_of(s, kind), copies = 0;
	char text[160];

	for (size_t i = 0; i < s->found.n_libs; i++)
		copies += s->found.libs[i].kind == kind;
	if (!lib) {
		say(f, gpu_miss(s), "not found", missing);
		return;
	}
	if (users)
		snprintf(text, sizeof(text), "loaded by %zu process(es)", users);
	else
		snprintf(text, sizeof(text), "%s%s", purpose,
			copies > 1 ? "; more copies are on this machine" : "");
	say(f, PASS, lib->path, text);
}

static void check_runtime(struct check_state *s, struct finding *f)
{
	check_library(s, f, LIB_CUDART,
		"no libcudart.so in a process or on disk; name one with `trace --cuda-lib FILE`",
		"found on disk, no process has it loaded");
}

static void check_libcuda(struct check_state *s, struct finding *f)
{
	check_library(s, f, LIB_CUDA,
		"comes with the NVIDIA driver; shows the calls of cuBLAS, cuDNN and others",
		"available for driver API tracing");
}

static void check_processes(struct check_state *s, struct finding *f)
{
	struct strbuf list = STRBUF_INIT(512);
	char count[48];

	if (s->found_error) {
		say(f, ADVICE, "unknown", strerror(-s->found_error));
		return;
	}
	for (size_t i = 0; i < s->found.n_procs && i < 5; i++) {
		strbuf_addf(&list, "%sPID %u (", i ? ", " : "", s->found.procs[i].id.pid);
		text_add_safe(&list, s->found.procs[i].comm, 32);
		strbuf_addc(&list, ')');
	}
	if (s->found.n_procs > 5)
		strbuf_addf(&list, " and %zu more", s->found.n_procs - 5);
	if (s->found.n_procs)
		snprintf(count, sizeof(count), "%zu found", s->found.n_procs);
	else
		snprintf(count, sizeof(count), "none");
	say(f, PASS, count,
		s->found.n_procs ? strbuf_str(&list)
		: geteuid()	 ? "none of this user's; those of others are seen by root only"
				 : "start one before or while tracing");
	strbuf_free(&list);
}

static void check_ptrace(struct check_state *s UNUSED, struct finding *f)
{
	static const struct {
		enum outcome outcome;
		const char *detail;
	} levels[] = {{PASS, "process memory may be read by its own user"},
		{PASS, "reading other processes' memory (Python frames) needs root, which `trace` has"},
		{ADVICE, "reading process memory needs CAP_SYS_PTRACE: run `trace` as root"},
		{ADVICE, "no process memory can be read; Python frames will need --py-walker ebpf"}};
	cleanup_file FILE *in = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
	unsigned level;
	char text[32];

	if (!in || fscanf(in, "%u", &level) != 1 || level >= ARRAY_LEN(levels)) {
		say(f, PASS, "no Yama", "not restricted");
		return;
	}
	snprintf(text, sizeof(text), "%u", level);
	say(f, levels[level].outcome, text, levels[level].detail);
}

static const struct check {
	const char *name;
	void (*run)(struct check_state *s, struct finding *f);
} checks[] = {
	{"Kernel version", check_kernel},
	{"BTF support", check_btf},
	{"Privileges", check_privileges},
	{"Locked memory limit", check_memlock},
	{"Ring buffer", check_ring},
	{"Trial probe", check_trial},
	{"NVIDIA driver", check_driver},
	{"GPU model", check_gpu},
	{"CUDA runtime", check_runtime},
	{"CUDA driver (libcuda.so)", check_libcuda},
	{"CUDA processes", check_processes},
	{"ptrace_scope", check_ptrace},
};

static void print_text(const struct finding *findings, size_t failed, size_t advice)
{
	static const char *const icons[] = {[PASS] = "✓", [ADVICE] = "~", [FAIL] = "✗"};
	struct strbuf out = STRBUF_INIT(64 * 1024);

	strbuf_adds(&out, "\nIngero  -  System Readiness Check\n\n");
	for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
		strbuf_addf(&out, "  [%s] %s: ", icons[findings[i].outcome], checks[i].name);
		text_add_safe(&out, findings[i].value, 0);
		strbuf_addc(&out, '\n');
		if (*findings[i].detail) {
			strbuf_adds(&out, "      ");
			text_add_safe(&out, findings[i].detail, 0);
			strbuf_addc(&out, '\n');
		}
	}
	if (failed)
		strbuf_addf(&out, "\n%zu check(s) failed  -  not ready to trace\n", failed);
	else if (advice)
		strbuf_addf(&out, "\nNo needed check failed, %zu are advice (~)\n", advice);
	else
		strbuf_adds(&out, "\nAll checks passed  -  ready to trace!\n");
	fputs(strbuf_str(&out), stdout);
	strbuf_free(&out);
}

static void print_json(const struct finding *findings, size_t failed)
{
	struct strbuf out = STRBUF_INIT(64 * 1024);
	struct jsonw w = JSONW_INIT(&out, 2);

	jsonw_object_begin(&w);
	jsonw_kv_bool(&w, "all_passed", !failed);
	jsonw_key(&w, "checks");
	jsonw_array_begin(&w);
	for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
		jsonw_object_begin(&w);
		jsonw_kv_str(&w, "name", checks[i].name);
		jsonw_kv_bool(&w, "pass", findings[i].outcome == PASS);
		if (findings[i].outcome == ADVICE)
			jsonw_kv_bool(&w, "optional", true);
		if (*findings[i].value)
			jsonw_kv_str(&w, "value", findings[i].value);
		if (*findings[i].detail)
			jsonw_kv_str(&w, "detail", findings[i].detail);
		jsonw_object_end(&w);
	}
	jsonw_array_end(&w);
	jsonw_object_end(&w);
	printf("%s\n", strbuf_str(&out));
	strbuf_free(&out);
}

int cmd_check(struct cli_context *ctx)
{
	struct check_state s = {.require_gpu = opt_bool(ctx, OPT_REQUIRE_GPU)};
	struct finding findings[ARRAY_LEN(checks)] = {0};
	size_t failed = 0, advice = 0;

	s.found_error = discover_running(&(struct discover_filter){0}, &s.found);
	if (!s.found_error)
		discover_on_disk(&s.found);
	for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
		checks[i].run(&s, &findings[i]);
		failed += findings[i].outcome == FAIL;
		advice += findings[i].outcome == ADVICE;
	}
	if (opt_bool(ctx, OPT_JSON))
		print_json(findings, failed);
	else
		print_text(findings, failed, advice);
	discovery_free(&s.found);
	if (cli_finish_output())
		return EXIT_ERROR;
	return failed ? EXIT_NODATA : EXIT_OK;
}
