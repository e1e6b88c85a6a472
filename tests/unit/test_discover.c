/* Discovery: odd /proc contents, hostile ELF files, the same file by several names, real child processes. */
#include "discover/internal.h"
#include "model/ops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#define REPLY_MS 30000

/* ---- fixture: a folder with libraries made at test time ---- */

struct fixture {
	char dir[64];
	bool has_compiler;
};

static const char runtime_source[] =
	"#define F(n) int n(void *p, unsigned long s) { return p != 0 && s > 7; }\n"
	"F(cudaMalloc) F(cudaFree) F(cudaLaunchKernel_ptsz) F(cudaMemPrefetchAsync)\n"
	"F(cudaThreadSynchronize) F(cudaNothingWeKnow)\n"
	"int cudaMemcpy(void *p, unsigned long s) { return p != 0 && s > 7; }\n"
	"int cudaLaunchKernel(void *p, unsigned long s) { return cudaMemcpy(p, s) + 2; }\n"
	"int cudaMemcpy_ptds(void *, unsigned long) __attribute__((alias(\"cudaMemcpy\")));\n"
	"int cudaVariable = 4;\n";

static const char driver_source[] =
	"int cuInit(unsigned f) { return f != 0; }\n"
	"int cuMemAlloc_v2(void *p, unsigned long s) { return p != 0 && s > 7; }\n"
	"int cuLaunchKernel(void *f) { return f == 0; }\n";

static const char program_source[] =
	"#include <dlfcn.h>\n#include <stdio.h>\n"
	"int cudaMalloc(void *, unsigned long);\n"
	"const char *const texts[] = {\"cuLaunchKernel\", \"cudaErrorInvalidValue\"};\n"
	"int main(int c, char **v) { void *h = c > 9 ? dlopen(v[1], 2) : 0;\n"
	"puts(texts[c > 9] + 2); fflush(stdout); getchar(); return cudaMalloc(h, 1); }\n";

static void write_file(const struct fixture *f, const char *name, const void *data, size_t n)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", f->dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0755);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, n), n);
	close(fd);
}

static bool shell(const struct fixture *f, const char *command)
{
	char line[4096];

	snprintf(line, sizeof(line), "cd %s && { %s; } >/dev/null 2>&1", f->dir, command);
	return system(line) == 0;
}

static const char *in_dir(const struct fixture *f, const char *name)
{
	static char path[4][PATH_MAX];
	static unsigned next;
	char *p = path[next++ % 4];

	snprintf(p, PATH_MAX, "%s/%s", f->dir, name);
	return p;
}

#define NEEDS_COMPILER(f)                                                                                    \
	do {                                                                                                 \
		if (!(f)->has_compiler) {                                                                    \
			print_message("no C compiler (cc): ");                                               \
			skip();                                                                              \
		}                                                                                            \
	} while (0)

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	snprintf(f->dir, sizeof(f->dir), "/tmp/discover-test-XXXXXX");
	if (!mkdtemp(f->dir))
		return -1;
	write_file(f, "rt.c", runtime_source, sizeof(runtime_source) - 1);
	write_file(f, "drv.c", driver_source, sizeof(driver_source) - 1);
	write_file(f, "app.c", program_source, sizeof(program_source) - 1);
	write_file(f, "rt.map", "libcudart.so.12 { global: cuda*; local: *; };\n", 46);
	f->has_compiler =
		shell(f, "cc -O1 -shared -fPIC -Wl,-soname,libcudart.so.12 -Wl,--version-script=rt.map "
			 "-Wl,-z,separate-code -Wl,--section-start=.text=0x49000 -o libcudart.so.12 rt.c && "
			 "cc -O1 -shared -fPIC -Wl,-soname,libcudart.so.13 -o libcudart.so.13 rt.c && "
			 "cc -O1 -shared -fPIC -Wl,-soname,libcuda.so.1 -o libcuda.so.1 drv.c && "
			 "cc -O1 -o app app.c rt.c -ldl && strip -o app-stripped app");
	*state = f;
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	nftw(f->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	free(f);
	return 0;
}

/* ---- children ---- */

struct child {
	pid_t pid;
	int in, out; /* to and from it */
};

static void wait_reply(const struct child *c)
{
	struct pollfd p = {.fd = c->out, .events = POLLIN};
	char byte;

	assert_int_equal(poll(&p, 1, REPLY_MS), 1);
	assert_int_equal(read(c->out, &byte, 1), 1);
}

static struct child start(char *const argv[], char *const envp[])
{
	struct child c;
	int to[2], from[2];

	assert_int_equal(pipe2(to, O_CLOEXEC), 0);
	assert_int_equal(pipe2(from, O_CLOEXEC), 0);
	c.pid = fork();
	assert_true(c.pid >= 0);
	if (!c.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(to[0], 0);
		dup2(from[1], 1);
		execve(argv[0], argv, envp);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	c.in = to[1];
	c.out = from[0];
	return c;
}

static void stop(struct child *c)
{
	close(c->in);
	close(c->out);
	kill(c->pid, SIGKILL);
	waitpid(c->pid, NULL, 0);
}

/* This very program as a process that does `what` with a library and waits. */
static struct child start_helper(const char *what, const char *path)
{
	char exe[PATH_MAX] = "", arg[16], lib[PATH_MAX];
	char *const argv[] = {exe, arg, lib, NULL};
	char *const envp[] = {NULL};
	struct child c;

	assert_true(readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0);
	snprintf(arg, sizeof(arg), "%s", what);
	snprintf(lib, sizeof(lib), "%s", path);
	c = start(argv, envp);
	wait_reply(&c);
	return c;
}

static void *say_ready_and_wait(void *arg)
{
	char byte = 'r';

	(void)arg;
	/* what the first thread leaves behind is a zombie only when it has really ended */
	if (getpid() != (pid_t)gettid()) {
		struct proc_stat st;
		int dir = proc_open((uint32_t)getpid());

		while (!proc_read_stat(dir, &st) && st.state != 'Z')
			poll(NULL, 0, 1);
	}
	if (write(1, &byte, 1) != 1 || read(0, &byte, 1) != 0)
		_exit(2);
	_exit(0);
}

static int helper(const char *what, const char *path)
{
	char fd_path[64];
	pthread_t thread;
	int fd = open(path, O_RDONLY);

	if (!strcmp(what, "read")) {
		if (mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED)
			return 3;
	} else if (!strcmp(what, "memfd")) {
		int mem = memfd_create("anything", 0);
		char buf[4096];
		ssize_t n;

		while ((n = read(fd, buf, sizeof(buf))) > 0) {
			if (write(mem, buf, (size_t)n) != n)
				return 4;
		}
		snprintf(fd_path, sizeof(fd_path), "/proc/self/fd/%d", mem);
		if (!dlopen(fd_path, RTLD_NOW))
			return 5;
	} else if (!dlopen(path, RTLD_NOW)) {
		return 6;
	}
	dlopen("libgcc_s.so.1", RTLD_NOW);
	close(fd);
	if (strcmp(what, "leaderless"))
		say_ready_and_wait(NULL);
	pthread_create(&thread, NULL, say_ready_and_wait, NULL);
	pthread_exit(NULL);
}

static void find(struct discovery *d, pid_t pid)
{
	uint32_t pids[] = {(uint32_t)pid};
	struct discover_filter filter = {.pids = pids, .n_pids = 1};

	discovery_free(d);
	assert_int_equal(discover_running(&filter, d), 0);
}

/* ---- first instructions ---- */

static void first_instructions_are_judged(void **state)
{
	static const struct {
		uint8_t code[8];
		uint16_t machine;
		uint64_t skip;
		bool single_step;
	} cases[] = {
		{{0x55, 0x48, 0x89, 0xe5}, EM_X86_64, 0, false},       /* push %rbp */
		{{0x41, 0x57}, EM_X86_64, 0, false},		       /* push %r15 */
		{{0x40, 0x55}, EM_X86_64, 0, true},		       /* push with another prefix */
		{{0x48, 0x83, 0xec, 8}, EM_X86_64, 0, true},	       /* sub $8,%rsp */
		{{0xf3, 0x0f, 0x1e, 0xfa, 0x55}, EM_X86_64, 4, false}, /* endbr64; push */
		{{0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x83, 0xec, 8}, EM_X86_64, 0, true}, /* endbr64; sub */
		{{0xf3, 0x0f, 0x1e, 0xfb, 0x55}, EM_X86_64, 0, true},		     /* endbr32 */
		{{0x90}, EM_X86_64, 0, false},					     /* nop */
		{{0x66, 0x90}, EM_X86_64, 0, false},				     /* 2-byte nop */
		{{0x0f, 0x1f, 0x44, 0, 0}, EM_X86_64, 0, false},		     /* 5-byte nop */
		{{0xe9, 1, 2, 3, 4}, EM_X86_64, 0, false},			     /* jmp */
		{{0xe8, 1, 2, 3, 4}, EM_X86_64, 0, false},			     /* call */
		{{0x0f, 0x84, 1, 2, 3, 4}, EM_X86_64, 0, false},		     /* je */
		{{0x66, 0xe9, 1, 2}, EM_X86_64, 0, true},			     /* jmp with a prefix */
		{{0xff, 0x25, 1, 2, 3, 4}, EM_X86_64, 0, true},			     /* jmp *x(%rip) */
		{{0xc3}, EM_X86_64, 0, true},					     /* ret */
		{{0x1f, 0x20, 0x03, 0xd5}, EM_AARCH64, 0, false},		     /* nop */
		{{0x3f, 0x23, 0x03, 0xd5}, EM_AARCH64, 0, true},		     /* paciasp */
		{{0x5f, 0x24, 0x03, 0xd5, 0x1f, 0x20, 0x03, 0xd5}, EM_AARCH64, 0, true}, /* bti c */
		{{0xfd, 0x7b, 0xbf, 0xa9}, EM_AARCH64, 0, true},			 /* stp */
		{{0x01, 0x00, 0x00, 0x14}, EM_AARCH64, 0, false},			 /* b */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t skip = 99;
		bool step = false;

		insn_choose(cases[i].code, sizeof(cases[i].code), cases[i].machine, &skip, &step);
		if (skip != cases[i].skip || step != cases[i].single_step)
			fail_msg("case %zu: skip %llu, single step %d", i, (unsigned long long)skip, step);
		for (size_t n = 0; n < sizeof(cases[i].code); n++)
			insn_choose(cases[i].code, n, cases[i].machine, &skip, &step);
	}
	for (unsigned n = 0; n <= 4; n++) {
		static const uint8_t endbr[] = {0xf3, 0x0f, 0x1e, 0xfa};
		uint64_t skip;
		bool step;

		insn_choose(endbr, n, EM_X86_64, &skip, &step);
		assert_int_equal(skip, 0);
		assert_true(step);
	}
}

/* ---- maps ---- */

static void map_lines_are_parsed(void **state)
{
	static const struct {
		const char *line, *path; /* NULL = none of interest */
		bool executable;
	} cases[] = {
		{"7f06cd152000-7f06cd153000 r-xp 00001000 fe:00 10952915  /usr/lib/a.so\n", "/usr/lib/a.so",
			true},
		{"7f06cd152000-7f06cd153000 r--p 00000000 fe:00 7  /a b/c  d.so (deleted)",
			"/a b/c  d.so (deleted)", false},
		{"1000-2000 r-xs 00000000 00:01 1034 /memfd:x y (deleted)\n", "/memfd:x y (deleted)", true},
		{"1000-2000 r-xp 00000000 103:1f 18446744073709551615 /x\\012y\n", "/x\\012y", true},
		{"1000-2000 r-xp 00000000 00:00 0 \n", NULL, false},
		{"1000-2000 r-xp 00000000 00:00 0", NULL, false},
		{"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n", NULL, false},
		{"1000-2000 rw-p 00000000 00:00 0 [heap]\n", NULL, false},
		{"1000-2000 rw-p 00000000 00:01 5 anon_inode:[perf_event]\n", NULL, false},
		{"", NULL, false},
		{"\n", NULL, false},
		{"1000", NULL, false},
		{"1000-2000", NULL, false},
		{"1000-2000 r-x", NULL, false},
		{"1000-2000 r-xp 0 fe:00 -4 /x", NULL, false},
		{"99999999999999999999-2000 r-xp 0 fe:00 4 /x", NULL, false},
		{"x-y r-xp 0 fe:00 4 /x", NULL, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct map_entry m;
		char line[256];
		bool ok;

		snprintf(line, sizeof(line), "%s", cases[i].line);
		ok = maps_parse_line(line, &m);
		if (ok != (cases[i].path != NULL))
			fail_msg("line %zu: %d", i, ok);
		if (!ok)
			continue;
		assert_string_equal(m.path, cases[i].path);
		assert_int_equal(m.executable, cases[i].executable);
	}
}

static void escapes_and_deleted_marks(void **state)
{
	char a[] = "/x\\012y\\0121\\01", b[] = "/lib.so (deleted)", c[] = "/lib (deleted).so",
	     d[] = " (deleted)";

	(void)state;
	maps_unescape(a);
	assert_string_equal(a, "/x\ny\n1\\01");
	assert_true(maps_cut_deleted(b));
	assert_string_equal(b, "/lib.so");
	assert_false(maps_cut_deleted(c));
	assert_false(maps_cut_deleted(d));
}

/* ---- processes ---- */

#define REST " S 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 3 0 5555 99 1\n"

static void stat_survives_any_name(void **state)
{
	static const char *const names[] = {
		"plain", "a b", "a) R 1 2 (", ") S 1", "((", "))))", "x\ny", "", "\xff\xfe\x01"};
	struct proc_stat st;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char text[512];
		int n = snprintf(text, sizeof(text), "42 (%s)%s", names[i], REST);

		assert_int_equal(proc_parse_stat(text, (size_t)n, &st), 0);
		assert_string_equal(st.comm, names[i]);
		assert_int_equal(st.state, 'S');
		assert_int_equal(st.ppid, 7);
		assert_int_equal(st.n_threads, 3);
		assert_int_equal(st.start_ticks, 5555);
		for (int cut = 0; cut < n - 12; cut++) /* never past the end; maybe fewer fields */
			proc_parse_stat(text, (size_t)cut, &st);
	}
	assert_int_equal(proc_parse_stat("", 0, &st), -EINVAL);
	assert_int_equal(proc_parse_stat("1 )(", 4, &st), -EINVAL);
	assert_int_equal(proc_parse_stat("1 (a) S 2 3", 11, &st), -EINVAL);
}

static void own_process_is_described(void **state)
{
	static const char *const names[] = {"two words", "(odd) R 1 2", "new\nline)", "Uid:\t0\t0"};
	struct process_info info;
	struct timespec now;
	char before[COMM_LEN];

	(void)state;
	prctl(PR_GET_NAME, before);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		prctl(PR_SET_NAME, names[i]);
		assert_int_equal(proc_read_info((uint32_t)getpid(), &info), 0);
		assert_string_equal(info.comm, names[i]);
		assert_int_equal(info.uid, getuid());
		assert_int_equal(info.ppid, getppid());
	}
	prctl(PR_SET_NAME, before);
	clock_gettime(CLOCK_BOOTTIME, &now);
	assert_true(info.id.start_ns > 0);
	assert_true(info.id.start_ns <= (uint64_t)now.tv_sec * NSEC_PER_SEC + (uint64_t)now.tv_nsec);
	assert_true(proc_alive(info.id));
	info.id.start_ns += proc_ticks_to_ns(1) - 1; /* as exact as the kernel side has it */
	assert_true(proc_alive(info.id));
	info.id.start_ns += proc_ticks_to_ns(2);
	assert_false(proc_alive(info.id));
	info.id.start_ns = 0;
	assert_true(proc_alive(info.id));
}

static void dead_and_absent_processes(void **state)
{
	struct process_info info = {.id = {.pid = 7}};
	siginfo_t si;
	pid_t pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (!pid)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT), 0);
	/* ended, not reaped: it will make no call any more */
	assert_int_equal(proc_read_info((uint32_t)pid, &info), -ESRCH);
	assert_false(proc_alive((struct proc_id){(uint32_t)pid, 0}));
	waitpid(pid, NULL, 0);
	assert_int_equal(proc_read_info(4194304, &info), -ESRCH);
	assert_int_equal(proc_read_info(0, &info), -ESRCH);
	assert_int_equal(info.id.pid, 7);
}

static void rank_comes_from_the_launcher(void **state)
{
	char cat[] = "/bin/cat", rank[] = "RANK=3", local[] = "LOCAL_RANK=1", world[] = "WORLD_SIZE=8";
	char slurm[] = "SLURM_PROCID=5", tasks[] = "SLURM_NTASKS=6", bad[] = "RANK=x", not_it[] = "MY_RANK=9";
	char *const argv[] = {cat, NULL};
	char *const envs[][5] = {
		{not_it, rank, local, world, NULL}, {bad, slurm, tasks, NULL}, {not_it, NULL}};
	static const int want[][3] = {{3, 1, 8}, {5, -1, 6}, {-1, -1, -1}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(envs); i++) {
		struct child c = start(argv, envs[i]);
		struct process_info info;

		assert_int_equal(write(c.in, "x", 1), 1);
		wait_reply(&c); /* it runs */
		assert_int_equal(proc_read_info((uint32_t)c.pid, &info), 0);
		stop(&c);
		assert_int_equal(info.rank, want[i][0]);
		assert_int_equal(info.local_rank, want[i][1]);
		assert_int_equal(info.world_size, want[i][2]);
	}
}

/* ---- users ---- */

static void users_by_name_and_number(void **state)
{
	uint32_t uid = 77, gid;
	char name[64];

	(void)state;
	assert_int_equal(discover_user_by_name("root", &uid), 0);
	assert_int_equal(uid, 0);
	assert_int_equal(discover_user_by_name("123456", &uid), 0);
	assert_int_equal(uid, 123456);
	assert_int_equal(discover_user_by_name("4294967295", &uid), -ENOENT);
	assert_int_equal(discover_user_by_name("-1", &uid), -ENOENT);
	assert_int_equal(discover_user_by_name("no such user", &uid), -ENOENT);
	assert_int_equal(discover_user_by_name("", &uid), -ENOENT);
	assert_int_equal(uid, 123456);
	unsetenv("SUDO_USER");
	unsetenv("SUDO_UID");
	unsetenv("SUDO_GID");
	assert_int_equal(discover_invoking_user(&uid, &gid, name, sizeof(name)), 0);
	assert_int_equal(uid, getuid());
	setenv("SUDO_UID", "54321", 1);
	setenv("SUDO_GID", "54322", 1);
	assert_int_equal(discover_invoking_user(&uid, &gid, name, sizeof(name)), 0);
	assert_int_equal(uid, getuid() ? getuid() : 54321);
	if (!getuid()) {
		assert_int_equal(gid, 54322);
		assert_string_equal(name, "54321");
	}
	setenv("SUDO_UID", "junk", 1);
	setenv("SUDO_USER", "root", 1);
	assert_int_equal(discover_invoking_user(&uid, &gid, name, sizeof(name)), 0);
	assert_int_equal(uid, getuid());
	unsetenv("SUDO_USER");
	unsetenv("SUDO_UID");
	unsetenv("SUDO_GID");
}

/* ---- names of libraries ---- */

static void kinds_by_name(void **state)
{
	static const struct {
		const char *path;
		int kind; /* -1 = none */
		unsigned major;
	} cases[] = {
		{"/usr/lib/libcudart.so", LIB_CUDART, 0},
		{"/usr/lib/libcudart.so.12.4.127", LIB_CUDART, 12},
		{"/x/libcudart-a7b20f20.so.11.0", LIB_CUDART, 11},
		{"/memfd:libcudart.so.13", LIB_CUDART, 13},
		{"/a.so.9/libcuda.so.1", LIB_CUDA, 1},
		{"/x/libcuda.so.550.163.01", LIB_CUDA, 550},
		{"/x/libcuda-12ab34cd.so.1", LIB_CUDA, 1},
		{"/x/libnccl.so.2", LIB_NCCL, 2},
		{"/x/libgcc_s.so.1", LIB_UNWINDER, 1},
		{"/x/libgcc_s-a3a07607.so.1", LIB_UNWINDER, 1},
		{"/x/libcudart_static.a", -1, 0},
		{"/x/libcudadebugger.so.1", -1, 1},
		{"/x/libcudnn.so.9", -1, 9},
		{"/x/libcudart.source", -1, 0},
		{"/libcudart.so.12/other", -1, 0},
		{"/x/mylibcudart.so", -1, 0},
		{"", -1, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		enum lib_kind kind = LIB_CUDART;
		const char *slash = strrchr(cases[i].path, '/');
		bool hit = lib_kind_of_name(cases[i].path, &kind);

		if (hit != (cases[i].kind >= 0) || (hit && (int)kind != cases[i].kind))
			fail_msg("%s: %d kind %d", cases[i].path, hit, kind);
		assert_int_equal(lib_major_of_name(slash ? slash + 1 : ""), cases[i].major);
	}
	assert_int_equal(lib_major_of_name("x.so.99999999999999999999"), 0);
}

static void identity_of_files(void **state)
{
	struct cuda_lib plain = {.dev = 1, .ino = 2, .handle_hash = 77},
			other = {.dev = 3, .ino = 2, .handle_hash = 77};
	struct cuda_lib overlay = {.dev = 4, .ino = 9, .handle_hash = 77, .overlay = true};
	struct cuda_lib unknown = {.dev = 5, .ino = 9, .overlay = true};

	(void)state;
	assert_true(discover_same_file(&plain, &plain));
	assert_false(discover_same_file(&plain, &other)); /* cloned volumes have equal handles */
	assert_true(discover_same_file(&plain, &overlay));
	assert_true(discover_same_file(&overlay, &plain));
	assert_false(discover_same_file(&overlay, &unknown));
	assert_false(discover_same_file(&unknown, &plain));
}

/* ---- the linker's cache ---- */

struct cache_hits {
	char path[8][64];
	size_t n;
};

static void on_hit(void *ctx, const char *path)
{
	struct cache_hits *h = ctx;

	if (h->n < ARRAY_LEN(h->path))
		snprintf(h->path[h->n++], sizeof(h->path[0]), "%s", path);
}

static void put_u32(char *p, uint32_t v)
{
	memcpy(p, &v, sizeof(v));
}

/* Two entries; with an old table of one entry in front when old. */
static size_t make_cache(char *buf, bool old)
{
	static const char texts[] = "libcudart.so.12\0/opt/x/libcudart.so.12\0relative.so";
	char *p = buf;

	memset(buf, 0, 512);
	if (old) {
		memcpy(p, "ld.so-1.7.0", 11);
		put_u32(p + 12, 1);
		p += 32; /* 16 + 12, to the next multiple of 8 */
	}
	memcpy(p, "glibc-ld.so.cache1.1", 20);
	put_u32(p + 20, 2);
	put_u32(p + 24, sizeof(texts));
	put_u32(p + 48 + 8, 96 + 16);
	put_u32(p + 72 + 8, 96 + 39);
	memcpy(p + 96, texts, sizeof(texts));
	return (size_t)(p - buf) + 96 + sizeof(texts);
}

static void linker_cache_is_read(void **state)
{
	char buf[512];

	(void)state;
	for (int old = 0; old < 2; old++) {
		struct cache_hits hits = {.n = 0};
		size_t len = make_cache(buf, old);

		assert_int_equal(ldcache_each(buf, len, on_hit, &hits), 0);
		assert_int_equal(hits.n, 1);
		assert_string_equal(hits.path[0], "/opt/x/libcudart.so.12");
		for (size_t cut = 0; cut < len; cut++) {
			char *exact =
				malloc(cut ? cut : 1); /* its end is guarded when built with a sanitizer */

			memcpy(exact, buf, cut);
			ldcache_each(exact, cut, on_hit, &hits);
			free(exact);
		}
		put_u32(buf + (old ? 32 : 0) + 20, 0xffffffff);
		assert_int_equal(ldcache_each(buf, len, on_hit, &hits), -EINVAL);
	}
	put_u32(buf + 12, 0xffffffff);
	assert_int_equal(ldcache_each(buf, 200, on_hit, &(struct cache_hits){.n = 0}), -EINVAL);
	assert_int_equal(ldcache_each("", 0, on_hit, NULL), -EINVAL);
}

/* ---- points ---- */

static const struct probe_point *point_of(const struct probe_point *points, size_t n, const char *symbol)
{
	for (size_t i = 0; i < n; i++) {
		if (!strcmp(points[i].symbol, symbol))
			return &points[i];
	}
	return NULL;
}

/* The bytes at the offset in the file are those of the loaded function, and each place occurs once. */
static void check_points(const char *path, const struct probe_point *points, size_t n)
{
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_non_null(lib);
	assert_true(fd >= 0);
	for (size_t i = 0; i < n; i++) {
		const void *code = dlsym(lib, points[i].symbol);
		char bytes[8];

		assert_non_null(code);
		assert_int_equal(
			pread(fd, bytes, sizeof(bytes), (off_t)points[i].entry_offset), sizeof(bytes));
		assert_memory_equal(bytes, code, sizeof(bytes));
		for (size_t k = 0; k < i; k++)
			assert_true(points[k].file_offset != points[i].file_offset);
	}
	close(fd);
	dlclose(lib);
}

static void points_of_a_runtime(void **state)
{
	const struct fixture *f = *state;
	const char *path = in_dir(f, "libcudart.so.12");
	struct probe_point *points = NULL;
	uint64_t offset;
	size_t n = 0;

	NEEDS_COMPILER(f);
	assert_int_equal(discover_points(path, LIB_CUDART, 12, &points, &n), 0);
	check_points(path, points, n);
	assert_int_equal(n, 7);
	assert_non_null(point_of(points, n, "cudaMalloc"));
	assert_non_null(point_of(points, n, "cudaLaunchKernel"));
	assert_non_null(point_of(points, n, "cudaLaunchKernel_ptsz"));
	assert_non_null(point_of(points, n, "cudaThreadSynchronize"));
	assert_non_null(point_of(points, n, "cudaMemcpy"));
	assert_null(point_of(points, n, "cudaMemcpy_ptds")); /* an alias */
	assert_int_equal(discover_symbol_offset(path, "cudaMalloc", &offset), 0);
	assert_int_equal(offset, point_of(points, n, "cudaMalloc")->entry_offset);
	assert_int_equal(discover_symbol_offset(path, "cudaVariable", &offset), -ENOENT);
	assert_int_equal(discover_symbol_offset(path, "dlopen", &offset), -ENOENT);
	free(points);
	/* another layer's names are not its business */
	assert_int_equal(discover_points(path, LIB_CUDA, 1, &points, &n), 0);
	assert_int_equal(n, 0);
	free(points);
}

static void rows_follow_the_major_version(void **state)
{
	static const struct {
		const char *file;
		unsigned major, want;
	} cases[] = {{"libcudart.so.12", 12, 12}, {"libcudart.so.12", 11, 11}, {"libcudart.so.13", 13, 13},
		{"libcudart.so.12", 0, 12}};
	const struct fixture *f = *state;

	NEEDS_COMPILER(f);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct probe_point *points = NULL;
		const struct probe_point *p;
		size_t n = 0;

		assert_int_equal(
			discover_points(in_dir(f, cases[i].file), LIB_CUDART, cases[i].major, &points, &n),
			0);
		p = point_of(points, n, "cudaMemPrefetchAsync");
		assert_non_null(p);
		assert_true(symbol_at(p->desc)->so_min <= cases[i].want &&
			    symbol_at(p->desc)->so_max >= cases[i].want);
		/* gone in 13 */
		assert_int_equal(point_of(points, n, "cudaThreadSynchronize") != NULL, cases[i].want < 13);
		free(points);
	}
}

static void landing_pads_are_skipped(void **state)
{
#if defined(__x86_64__)
	static const char *const flags[] = {"-fcf-protection=none", "-fcf-protection=full"};
	const struct fixture *f = *state;

	NEEDS_COMPILER(f);
	for (size_t i = 0; i < 2; i++) {
		char command[512];
		struct probe_point *points = NULL;
		const struct probe_point *p;
		size_t n = 0;

		snprintf(command, sizeof(command), "cc -O0 %s -shared -fPIC -o pads.so rt.c", flags[i]);
		assert_true(shell(f, command));
		assert_int_equal(discover_points(in_dir(f, "pads.so"), LIB_CUDART, 12, &points, &n), 0);
		p = point_of(points, n, "cudaMalloc");
		assert_non_null(p);
		assert_false(p->single_step);
		assert_int_equal(p->file_offset - p->entry_offset, i ? 4 : 0);
		free(points);
	}
#else
	(void)state;
	skip();
#endif
}

/* ---- what is no library ---- */

static int add(const struct fixture *f, const char *name)
{
	struct discovery d = {0};
	int err = discover_add_file(&d, in_dir(f, name));

	assert_int_equal(d.n_libs, err ? 0 : 1);
	discovery_free(&d);
	return err;
}

static void named_files_are_judged(void **state)
{
	const struct fixture *f = *state;
	Elf64_Ehdr h = {
		.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB, EV_CURRENT}, .e_type = ET_DYN};

	write_file(f, "text", "hello", 5);
	write_file(f, "empty", "", 0);
	write_file(f, "libcudart.so.32bit", &h, sizeof(h));
	h.e_ident[EI_CLASS] = ELFCLASS64;
	h.e_machine = EM_S390;
	write_file(f, "libcudart.so.s390", &h, sizeof(h));
	assert_int_equal(mkfifo(in_dir(f, "fifo"), 0600), 0);
	assert_int_equal(add(f, "text"), -ENOEXEC);
	assert_int_equal(add(f, "empty"), -ENOEXEC);
	assert_int_equal(add(f, "libcudart.so.32bit"), -ENOEXEC);
	assert_int_equal(add(f, "libcudart.so.s390"), -ENOEXEC);
	assert_int_equal(add(f, "fifo"), -ENOEXEC); /* and does not wait for a writer */
	assert_int_equal(add(f, "."), -ENOEXEC);
	assert_int_equal(add(f, "absent"), -ENOENT);
	NEEDS_COMPILER(f);
	assert_true(shell(f, "echo 'int x(void) { return 1; }' > x.c && cc -shared -o other.so x.c"));
	assert_int_equal(add(f, "other.so"), -EINVAL);
	assert_int_equal(add(f, "libcudart.so.12"), 0);
	assert_int_equal(add(f, "libcuda.so.1"), 0);
	assert_int_equal(add(f, "app"), 0);
}

static void one_file_by_many_names_is_one(void **state)
{
	const struct fixture *f = *state;
	struct discovery d = {0};

	NEEDS_COMPILER(f);
	assert_int_equal(link(in_dir(f, "libcudart.so.12"), in_dir(f, "hard.so")), 0);
	assert_int_equal(symlink("libcudart.so.12", in_dir(f, "soft.so")), 0);
	assert_int_equal(discover_add_file(&d, in_dir(f, "libcudart.so.12")), 0);
	assert_int_equal(discover_add_file(&d, in_dir(f, "hard.so")), 0);
	assert_int_equal(discover_add_file(&d, in_dir(f, "soft.so")), 0);
	assert_int_equal(d.n_libs, 1);
	assert_int_equal(d.libs[0].soname_major, 12);
	assert_int_equal(discover_add_file(&d, in_dir(f, "libcuda.so.1")), 0);
	assert_int_equal(d.n_libs, 2);
	assert_int_equal(d.libs[1].kind, LIB_CUDA);
	discovery_free(&d);
}

/* ---- hostile files ---- */

static void try_everything(const char *path)
{
	struct probe_point *points = NULL;
	struct discovery d = {0};
	struct static_runtime r;
	uint64_t offset;
	size_t n;

	if (!discover_points(path, LIB_CUDART, 0, &points, &n))
		free(points);
	points = NULL;
	if (!discover_points(path, LIB_STATIC_CUDART, 0, &points, &n))
		free(points);
	discover_add_file(&d, path);
	discover_symbol_offset(path, "cudaMalloc", &offset);
	static_inspect(path, &r);
	discovery_free(&d);
}

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

/* Changes a few bytes, preferring the header and the tables, where they hurt. */
static void damage(unsigned char *data, size_t len, uint32_t *seed)
{
	static const unsigned char nasty[] = {0, 1, 0x7f, 0x80, 0xff};
	Elf64_Ehdr h;

	memcpy(&h, data, sizeof(h));
	for (uint32_t k = next_random(seed) % 6 + 1; k; k--) {
		size_t at = next_random(seed) % len, where = next_random(seed) % 4;

		if (where == 0)
			at %= sizeof(Elf64_Ehdr);
		else if (where == 1)
			at = h.e_phoff + at % (h.e_phnum * sizeof(Elf64_Phdr));
		else if (where == 2)
			at = h.e_shoff + at % (h.e_shnum * sizeof(Elf64_Shdr));
		data[at] = nasty[next_random(seed) % sizeof(nasty)];
	}
}

static void damaged_files_do_no_harm(void **state)
{
	const struct fixture *f = *state;
	const char *names[] = {"libcudart.so.12", "app"};
	uint32_t seed = 20240607;

	NEEDS_COMPILER(f);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		int fd = open(in_dir(f, names[i]), O_RDONLY | O_CLOEXEC);
		off_t len = lseek(fd, 0, SEEK_END);
		unsigned char *data = malloc((size_t)len), *copy = malloc((size_t)len);
		struct probe_point *points = NULL;
		size_t n;

		assert_int_equal(pread(fd, data, (size_t)len, 0), len);
		close(fd);
		for (off_t cut = 0; cut < len; cut += cut < 256 ? 7 : 211) {
			write_file(f, "cut.so", data, (size_t)cut);
			/* the section table is at the end: a shortened file is always noticed */
			assert_int_equal(
				discover_points(in_dir(f, "cut.so"), LIB_CUDART, 12, &points, &n), -ENOEXEC);
			try_everything(in_dir(f, "cut.so"));
		}
		for (int round = 0; round < 1500; round++) {
			memcpy(copy, data, (size_t)len);
			damage(copy, (size_t)len, &seed);
			write_file(f, "bad.so", copy, (size_t)len);
			try_everything(in_dir(f, "bad.so"));
		}
		free(data);
		free(copy);
	}
}

/* ---- running processes ---- */

static void mapped_libraries_are_found(void **state)
{
	const struct fixture *f = *state;
	struct discovery d = {0};
	struct child c;
	uint32_t pid;

	NEEDS_COMPILER(f);
	assert_true(shell(
		f, "mkdir -p 'odd \n(deleted)' && cp libcudart.so.12 'odd \n(deleted)/libcudart.so.12'"));
	c = start_helper("load", in_dir(f, "odd \n(deleted)/libcudart.so.12"));
	find(&d, c.pid);
	assert_int_equal(d.n_procs, 1);
	assert_int_equal(d.procs[0].id.pid, c.pid);
	assert_true(d.procs[0].has_runtime);
	assert_false(d.procs[0].has_driver);
	assert_false(d.procs[0].static_runtime);
	assert_int_equal(d.n_libs, 1);
	assert_int_equal(d.libs[0].kind, LIB_CUDART);
	assert_int_equal(d.libs[0].from_pid, c.pid);
	assert_string_equal(d.libs[0].path, in_dir(f, "odd \n(deleted)/libcudart.so.12"));
	/* the wrong user or another process: nothing */
	pid = (uint32_t)c.pid;
	discovery_free(&d);
	assert_int_equal(discover_running(
				 &(struct discover_filter){
					 .pids = &pid, .n_pids = 1, .by_uid = true, .uid = getuid() + 1},
				 &d),
		0);
	assert_int_equal(d.n_procs + d.n_libs, 0);
	pid = (uint32_t)getpid();
	assert_int_equal(discover_running(&(struct discover_filter){.pids = &pid, .n_pids = 1}, &d), 0);
	assert_int_equal(d.n_procs + d.n_libs, 0);
	discovery_free(&d);
	stop(&c);
	find(&d, c.pid);
	assert_int_equal(d.n_procs + d.n_libs, 0);
	discovery_free(&d);
}

static void the_unwinder_of_a_target_is_found(void **state)
{
	const struct fixture *f = *state;
	struct discovery d = {0};
	uint64_t offset;
	struct child c;

	NEEDS_COMPILER(f);
	if (!dlopen("libgcc_s.so.1", RTLD_NOW)) {
		print_message("no libgcc_s.so.1: ");
		skip();
	}
	c = start_helper("load", in_dir(f, "libcuda.so.1"));
	find(&d, c.pid);
	assert_int_equal(d.n_libs, 1);
	assert_int_equal(d.n_unwinders, 1);
	assert_int_equal(d.unwinders[0].kind, LIB_UNWINDER);
	assert_non_null(strstr(d.unwinders[0].path, "libgcc_s"));
	assert_int_equal(
		discover_symbol_offset(d.unwinders[0].open_path, "_Unwind_RaiseException", &offset), 0);
	stop(&c);
	/* of no interest in a process without CUDA */
	c = start_helper("read", in_dir(f, "libcuda.so.1"));
	find(&d, c.pid);
	assert_int_equal(d.n_procs + d.n_unwinders, 0);
	discovery_free(&d);
	stop(&c);
}

/* Two mounts over one lower file: other device numbers, the same probes. */
static void overlays_of_one_file_are_one(void **state)
{
	static const char *const names[] = {
		"lower/libcudart.so.12", "m1/libcudart.so.12", "m2/libcudart.so.12"};
	const struct fixture *f = *state;
	struct discovery d = {0};
	struct child c[ARRAY_LEN(names)];
	uint32_t pids[ARRAY_LEN(names)];

	NEEDS_COMPILER(f);
	if (unshare(CLONE_NEWNS) || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) ||
		!shell(f, "mkdir lower u1 u2 w1 w2 m1 m2 && cp libcudart.so.12 lower/ && "
			  "mount -t overlay o1 -o lowerdir=lower,upperdir=u1,workdir=w1 m1 && "
			  "mount -t overlay o2 -o lowerdir=lower,upperdir=u2,workdir=w2 m2")) {
		print_message("overlay mounts need root: ");
		skip();
	}
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		c[i] = start_helper("load", in_dir(f, names[i]));
		pids[i] = (uint32_t)c[i].pid;
	}
	/* any order of meeting them gives the same answer */
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		discovery_free(&d);
		for (size_t k = 0; k < ARRAY_LEN(names); k++) {
			struct discover_filter filter = {
				.pids = &pids[(i + k) % ARRAY_LEN(names)], .n_pids = 1};

			assert_int_equal(discover_running(&filter, &d), 0);
		}
		assert_int_equal(d.n_procs, ARRAY_LEN(names));
		assert_int_equal(d.n_libs, 1);
	}
	discovery_free(&d);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		stop(&c[i]);
	assert_true(shell(f, "umount m1 m2"));
}

static void a_file_merely_read_is_not_loaded(void **state)
{
	const struct fixture *f = *state;
	struct discovery d = {0};
	struct child c;

	NEEDS_COMPILER(f);
	c = start_helper("read", in_dir(f, "libcudart.so.12"));
	find(&d, c.pid);
	assert_int_equal(d.n_procs + d.n_libs, 0);
	discovery_free(&d);
	stop(&c);
}

static bool can_use_map_files(pid_t pid)
{
	cleanup_free char *line = NULL;
	cleanup_file FILE *maps = NULL;
	struct map_entry m;
	struct stat st;
	char path[128];
	size_t cap = 0;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	do {
		if (!maps || getline(&line, &cap, maps) <= 0)
			return false;
	} while (!maps_parse_line(line, &m));
	snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", pid, (unsigned long long)m.start,
		(unsigned long long)m.end);
	return !stat(path, &st);
}

static size_t count_points(const struct cuda_lib *lib)
{
	struct probe_point *points = NULL;
	size_t n = 0;

	assert_int_equal(discover_points(lib->open_path, lib->kind, lib->soname_major, &points, &n), 0);
	free(points);
	return n;
}

static void deleted_and_replaced_files_are_the_mapped_ones(void **state)
{
	const struct fixture *f = *state;
	struct discovery d = {0};
	struct child c;

	NEEDS_COMPILER(f);
	assert_true(shell(f, "cp libcudart.so.12 libcudart-0a1b2c3d.so.11.0"));
	c = start_helper("load", in_dir(f, "libcudart-0a1b2c3d.so.11.0"));
	/* another, poorer library takes the name */
	assert_true(shell(f, "echo 'int cudaMalloc(void) { return 1; }' > d.c && cc -shared -o decoy d.c && "
			     "mv decoy libcudart-0a1b2c3d.so.11.0"));
	if (!can_use_map_files(c.pid)) {
		stop(&c);
		print_message("map_files needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN: ");
		skip();
	}
	for (int round = 0; round < 2; round++) {
		find(&d, c.pid);
		assert_int_equal(d.n_libs, 1);
		assert_string_equal(d.libs[0].path, in_dir(f, "libcudart-0a1b2c3d.so.11.0"));
		assert_int_equal(count_points(&d.libs[0]), 7);
		unlink(in_dir(f, "libcudart-0a1b2c3d.so.11.0"));
	}
	discovery_free(&d);
	stop(&c);
}

static void nameless_memory_files_tell_their_soname(void **state)
{
	const struct fixture *f = *state;
	struct discovery d = {0};
	struct child c;

	NEEDS_COMPILER(f);
	c = start_helper("memfd", in_dir(f, "libcudart.so.12"));
	if (!can_use_map_files(c.pid)) {
		stop(&c);
		print_message("map_files needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN: ");
		skip();
	}
	find(&d, c.pid);
	assert_int_equal(d.n_libs, 1);
	assert_string_equal(d.libs[0].path, "/memfd:anything");
	assert_int_equal(d.libs[0].soname_major, 12);
	assert_int_equal(count_points(&d.libs[0]), 7);
	discovery_free(&d);
	stop(&c);
}

static void a_process_outlives_its_first_thread(void **state)
{
	const struct fixture *f = *state;
	struct discovery d = {0};
	struct process_info info;
	struct child c;

	NEEDS_COMPILER(f);
	c = start_helper("leaderless", in_dir(f, "libcuda.so.1"));
	assert_int_equal(proc_read_info((uint32_t)c.pid, &info), 0);
	assert_true(proc_alive(info.id));
	find(&d, c.pid);
	assert_int_equal(d.n_procs, 1);
	assert_int_equal(d.procs[0].id.pid, c.pid);
	assert_true(d.procs[0].has_driver);
	assert_int_equal(d.n_libs, 1);
	assert_int_equal(count_points(&d.libs[0]), 3);
	discovery_free(&d);
	stop(&c);
}

static void linked_in_runtimes_are_found(void **state)
{
	static const char *const names[] = {"app", "app-stripped"};
	const struct fixture *f = *state;

	NEEDS_COMPILER(f);
	for (int stripped = 0; stripped < 2; stripped++) {
		char path[PATH_MAX];
		char *const argv[] = {path, NULL}, *const envp[] = {NULL};
		struct discovery d = {0};
		struct child c;

		snprintf(path, sizeof(path), "%s", in_dir(f, names[stripped]));
		c = start(argv, envp);
		wait_reply(&c);
		find(&d, c.pid);
		assert_int_equal(d.n_procs, 1);
		assert_true(d.procs[0].static_runtime);
		assert_int_equal(d.procs[0].static_stripped, stripped);
		assert_int_equal(d.n_libs, stripped ? 0 : 1);
		if (!stripped) {
			assert_int_equal(d.libs[0].kind, LIB_STATIC_CUDART);
			assert_string_equal(d.libs[0].path, path);
			assert_int_equal(count_points(&d.libs[0]), 7);
		}
		discovery_free(&d);
		stop(&c);
	}
}

/* ---- the vendor's own files, where there are any ---- */

static void real_libraries(void **state)
{
	static const struct {
		const char *path;
		enum lib_kind kind;
	} files[] = {
		{"/usr/local/cuda/lib64/libcudart.so", LIB_CUDART},
		{"/usr/local/cuda/lib64/stubs/libcuda.so", LIB_CUDA},
		{"/usr/lib/x86_64-linux-gnu/libcuda.so.1", LIB_CUDA},
	};
	size_t seen = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		struct discovery d = {0};
		struct probe_point *points = NULL;
		size_t n = 0, slow = 0;

		if (access(files[i].path, R_OK))
			continue;
		seen++;
		assert_int_equal(discover_add_file(&d, files[i].path), 0);
		assert_int_equal(d.libs[0].kind, files[i].kind);
		assert_int_equal(discover_points(d.libs[0].open_path, d.libs[0].kind, d.libs[0].soname_major,
					 &points, &n),
			0);
		check_points(files[i].path, points, n);
		for (size_t k = 0; k < n; k++)
			slow += points[k].single_step;
		print_message("%s: %zu points, %zu single-stepped\n", files[i].path, n, slow);
		assert_true(n > 100);
		assert_non_null(point_of(
			points, n, d.libs[0].kind == LIB_CUDA ? "cuLaunchKernel" : "cudaLaunchKernel"));
		free(points);
		discovery_free(&d);
	}
	if (!seen) {
		print_message("no CUDA toolkit or driver here: ");
		skip();
	}
}

static void the_disk_is_searched(void **state)
{
	struct discovery d = {0};
	char venv[PATH_MAX];
	const struct fixture *f = *state;
	bool seen = false;

	NEEDS_COMPILER(f);
	assert_true(shell(f,
		"d='env [1]/lib/python3.11/site-packages/nvidia/cuda_runtime/lib'; mkdir -p \"$d/stubs\" && "
		"cp libcudart.so.12 \"$d/\" && cp libcuda.so.1 \"$d/stubs/\" && "
		"ln -s libcudart.so.12 \"$d/libcudart.so\" && mkfifo \"$d/libcudart.so.9\""));
	snprintf(venv, sizeof(venv), "%s", in_dir(f, "env [1]"));
	setenv("VIRTUAL_ENV", venv, 1);
	assert_int_equal(discover_on_disk(&d), 0);
	unsetenv("VIRTUAL_ENV");
	for (size_t i = 0; i < d.n_libs; i++) {
		assert_null(strstr(d.libs[i].path, "/stubs/"));
		for (size_t k = 0; k < i; k++)
			assert_false(discover_same_file(&d.libs[k], &d.libs[i]));
		if (strncmp(d.libs[i].path, f->dir, strlen(f->dir)))
			continue;
		assert_false(seen);
		seen = true;
		assert_int_equal(d.libs[i].kind, LIB_CUDART);
		assert_int_equal(d.libs[i].from_pid, 0);
	}
	assert_true(seen);
	discovery_free(&d);
	discovery_free(NULL);
}

int main(int argc, char **argv)
{
#define T(name) cmocka_unit_test(name)
	const struct CMUnitTest tests[] = {
		T(first_instructions_are_judged),
		T(map_lines_are_parsed),
		T(escapes_and_deleted_marks),
		T(stat_survives_any_name),
		T(own_process_is_described),
		T(dead_and_absent_processes),
		T(rank_comes_from_the_launcher),
		T(users_by_name_and_number),
		T(kinds_by_name),
		T(identity_of_files),
		T(linker_cache_is_read),
		T(points_of_a_runtime),
		T(rows_follow_the_major_version),
		T(landing_pads_are_skipped),
		T(named_files_are_judged),
		T(one_file_by_many_names_is_one),
		T(damaged_files_do_no_harm),
		T(mapped_libraries_are_found),
		T(the_unwinder_of_a_target_is_found),
		T(overlays_of_one_file_are_one),
		T(a_file_merely_read_is_not_loaded),
		T(deleted_and_replaced_files_are_the_mapped_ones),
		T(nameless_memory_files_tell_their_soname),
		T(a_process_outlives_its_first_thread),
		T(linked_in_runtimes_are_found),
		T(real_libraries),
		T(the_disk_is_searched),
	};

	if (argc == 3)
		return helper(argv[1], argv[2]);
	return cmocka_run_group_tests_name("discover", tests, setup, teardown);
}
