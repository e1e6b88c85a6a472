/* Library copies on disk: the linker's cache, the usual folders, virtual environments. */
#include "discover/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <linux/openat2.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define CACHE_MAX_BYTES (16u << 20)
#define HOST_ROOT "/proc/1/root"

#if defined(__x86_64__)
#define MULTIARCH_FOLDER "/usr/lib/x86_64-linux-gnu"
#define DRIVER_CONTAINER_FOLDER "/run/nvidia/driver/usr/lib/x86_64-linux-gnu"
#else
#define MULTIARCH_FOLDER "/usr/lib/aarch64-linux-gnu"
#define DRIVER_CONTAINER_FOLDER "/run/nvidia/driver/usr/lib/aarch64-linux-gnu"
#endif

/* Folders where the system or an administrator puts them. */
static const char *const system_folders[] = {
	"/usr/local/cuda*/lib64",
	"/usr/local/cuda*/lib",
	"/usr/local/cuda*/targets/*/lib",
	"/usr/local/cuda*/compat",
	MULTIARCH_FOLDER,
	"/usr/lib64",
	"/usr/lib",
	"/usr/local/lib",
	"/usr/local/lib64",
	"/usr/lib/wsl/lib",
	"/usr/local/nvidia/lib64",
	"/home/kubernetes/bin/nvidia/lib64",
	DRIVER_CONTAINER_FOLDER,
	"/opt/cuda*/lib64",
	"/opt/cuda*/targets/*/lib",
	"/opt/nvidia/hpc_sdk/Linux_*/*/cuda/*/lib64",
};

/* Where environments (a folder with lib/ in it) lie, below a home folder. */
static const char *const home_environments[] = {
	"/.local",
	"/venv",
	"/.venv",
	"/*/venv",
	"/*/.venv",
	"/.virtualenvs/*",
	"/.conda/envs/*",
	"/anaconda3",
	"/anaconda3/envs/*",
	"/miniconda3",
	"/miniconda3/envs/*",
	"/miniforge3",
	"/miniforge3/envs/*",
	"/mambaforge",
	"/mambaforge/envs/*",
	"/micromamba/envs/*",
};

static const char *const system_environments[] = {
	"/usr",
	"/usr/local",
	"/opt/*",
	"/opt/*/envs/*",
	"/app/.venv",
	"/venv",
	"/workspace/.venv",
};

/* Libraries inside an environment. */
static const char *const environment_folders[] = {
	"/lib",
	"/targets/*/lib",
	"/lib/python3*/*-packages/nvidia/*/lib",
	"/lib/python3*/*-packages/torch/lib",
	"/lib/python3*/*-packages/*.libs",
	"/lib64/python3*/*-packages/nvidia/*/lib",
};

static const char *const file_patterns[] = {"/libcudart*.so*", "/libcuda.so*", "/libnccl*.so*"};

/* One view of the file system: our own or the host's. */
struct disk_scan {
	struct discovery *d;
	const char *root; /* "" or HOST_ROOT */
	int root_fd;
	struct cuda_lib *lib; /* scratch: large */
	int error;	      /* the first that ends the search */
};

/* ---- one file ---- */

/* Opens (without reading) what `path` means inside the root, whatever links it goes through. */
static int open_inside(const struct disk_scan *s, const char *path)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
	long fd;

	if (*s->root)
		fd = syscall(SYS_openat2, s->root_fd, path, &how, sizeof(how));
	else
		fd = open(path, O_PATH | O_CLOEXEC);
	return fd < 0 ? -errno : (int)fd;
}

/* Fills path and open_path with the file's own name; false when it is not a file that can be named. */
static bool name_file(const struct disk_scan *s, const char *path)
{
	cleanup_fd int fd = open_inside(s, path);
	struct cuda_lib *lib = s->lib;
	struct stat st, again;
	char link[64];
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || !st.st_size)
		return false;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, lib->path, sizeof(lib->path) - 1);
	if (n <= 0)
		return false;
	lib->path[n] = '\0';
	snprintf(lib->open_path, sizeof(lib->open_path), "%s%s", s->root, lib->path);
	return !stat(lib->open_path, &again) && again.st_dev == st.st_dev && again.st_ino == st.st_ino;
}

static void add_file(struct disk_scan *s, const char *path)
{
	const struct cuda_lib *known;
	enum lib_kind kind;
	int err;

	/* stand-ins for the linker are never loaded */
	if (s->error || strstr(path, "/stubs/") || !lib_kind_of_name(path, &kind))
		return;
	*s->lib = (struct cuda_lib){.kind = kind};
	if (!name_file(s, path))
		return;
	err = kind == LIB_UNWINDER ? lib_add_unwinder(s->d, s->lib, 0, 0)
				   : lib_add(s->d, s->lib, &kind, 0, 0, &known);
	if (err == -ENOMEM || err == -E2BIG)
		s->error = err;
}

/* ---- the linker's cache ---- */

static void on_cache_path(void *ctx, const char *path)
{
	add_file(ctx, path);
}

static void scan_cache(struct disk_scan *s)
{
	cleanup_fd int fd = -1;
	cleanup_free char *data = NULL;
	char path[PATH_MAX];
	struct stat st;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/etc/ld.so.cache", s->root);
	fd = file_open_regular(path);
	if (fd < 0 || fstat(fd, &st) || st.st_size <= 0 || st.st_size > CACHE_MAX_BYTES)
		return;
	data = malloc((size_t)st.st_size);
	n = data ? pread(fd, data, (size_t)st.st_size, 0) : -1;
	if (n > 0)
		ldcache_each(data, (size_t)n, on_cache_path, s);
}

/* ---- patterns ---- */

/* `folder` is a pattern; all three kinds of files below it are added. */
static void scan_folder(struct disk_scan *s, const char *folder)
{
	size_t root_len = strlen(s->root);

	for (size_t i = 0; i < ARRAY_LEN(file_patterns) && !s->error; i++) {
		char pattern[PATH_MAX];
		glob_t hits = {0};
		int n = snprintf(pattern, sizeof(pattern), "%s%s%s", s->root, folder, file_patterns[i]);

		if (n < 0 || (size_t)n >= sizeof(pattern))
			continue;
		if (!glob(pattern, 0, NULL, &hits)) {
			for (size_t k = 0; k < hits.gl_pathc; k++)
				add_file(s, hits.gl_pathv[k] + root_len);
		}
		globfree(&hits);
	}
}

static void scan_environment(struct disk_scan *s, const char *environment)
{
	for (size_t i = 0; i < ARRAY_LEN(environment_folders); i++) {
		char folder[PATH_MAX];
		int n = snprintf(folder, sizeof(folder), "%s%s", environment, environment_folders[i]);

		if (n > 0 && (size_t)n < sizeof(folder))
			scan_folder(s, folder);
	}
}

static void scan_home(struct disk_scan *s, const char *home)
{
	for (size_t i = 0; i < ARRAY_LEN(home_environments); i++) {
		char environment[PATH_MAX];
		int n = snprintf(environment, sizeof(environment), "%s%s", home, home_environments[i]);

		if (n > 0 && (size_t)n < sizeof(environment))
			scan_environment(s, environment);
	}
}

/* A real name as a pattern that means only itself. */
static bool escape_pattern(const char *name, char *buf, size_t size)
{
	size_t n = 0;

	for (; *name && n + 2 < size; name++) {
		if (strchr("*?[\\", *name))
			buf[n++] = '\\';
		buf[n++] = *name;
	}
	buf[n] = '\0';
	return !*name;
}

/* What only our own environment knows: the active environment and homes in unusual places. */
static void scan_own(struct disk_scan *s)
{
	static const char *const active[] = {"VIRTUAL_ENV", "CONDA_PREFIX"};
	const struct passwd *pw;
	char name[256], pattern[PATH_MAX];
	uint32_t uid, gid;

	for (size_t i = 0; i < ARRAY_LEN(active); i++) {
		const char *env = getenv(active[i]);

		if (env && *env == '/' && escape_pattern(env, pattern, sizeof(pattern)))
			scan_environment(s, pattern);
	}
	pw = discover_invoking_user(&uid, &gid, name, sizeof(name)) ? NULL : getpwuid(uid);
	if (pw && pw->pw_dir[0] == '/' && pw->pw_dir[1] &&
		escape_pattern(pw->pw_dir, pattern, sizeof(pattern)))
		scan_home(s, pattern);
}

static int scan_root(struct discovery *d, const char *root, struct cuda_lib *scratch)
{
	struct disk_scan s = {.d = d, .root = root, .lib = scratch};
	cleanup_fd int fd = open(*root ? root : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	s.root_fd = fd;
	scan_cache(&s);
	for (size_t i = 0; i < ARRAY_LEN(system_folders); i++)
		scan_folder(&s, system_folders[i]);
	for (size_t i = 0; i < ARRAY_LEN(system_environments); i++)
		scan_environment(&s, system_environments[i]);
	scan_home(&s, "/home/*");
	scan_home(&s, "/root");
	if (!*root)
		scan_own(&s);
	return s.error;
}

/* In a container that sees the host's processes, process 1 has the host's files. */
static bool has_host_root(void)
{
	struct stat own, host;

	return !stat("/", &own) && !stat(HOST_ROOT "/", &host) &&
	       (own.st_dev != host.st_dev || own.st_ino != host.st_ino);
}

int discover_on_disk(struct discovery *d)
{
	cleanup_free struct cuda_lib *scratch = calloc(1, sizeof(*scratch));
	int err = scratch ? scan_root(d, "", scratch) : -ENOMEM;

	if (!err && has_host_root())
		err = scan_root(d, HOST_ROOT, scratch);
	/* more files than can be held are said by `truncated`; a root that cannot be entered is no failure */
	return err == -ENOMEM ? err : 0;
}
