/* Processes that use CUDA, and the library files they have mapped. */
#include "discover/internal.h"
#include "base/parse.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

#define MAX_THREADS_TRIED 64
#define MAX_PENDING 8

/* Memory of one process while it is looked at. */
struct scan {
	struct discovery *d;
	struct cuda_proc proc;
	uint32_t tid; /* whose /proc directory shows the memory: the first thread's, unless that one has ended
		       */
	struct cuda_lib *lib;	    /* scratch: large */
	struct cuda_lib *unwinders; /* of a process that may turn out to use CUDA */
	size_t n_unwinders, cap_unwinders;
	uint64_t seen_dev, seen_ino; /* file of the mapping before: a file has several */
};

/* ---- mappings ---- */

/* What a mapping is by name; files without one (memfd, deleted) are asked for their own. */
static bool kind_of_mapping(const struct scan *s, const struct map_entry *m, enum lib_kind *ret)
{
	cleanup_elf struct elf_file e = ELF_FILE_INIT;
	cleanup_free char *path = strdup(m->path);
	char soname[256], open_path[128];
	bool nameless;

	if (!path)
		return false;
	nameless = maps_cut_deleted(path);
	if (lib_kind_of_name(path, ret))
		return true;
	if (!nameless)
		return false;
	snprintf(open_path, sizeof(open_path), "/proc/%u/map_files/%llx-%llx", s->tid,
		(unsigned long long)m->start, (unsigned long long)m->end);
	return !elf_open(open_path, &e) && !elf_soname(&e, soname, sizeof(soname)) &&
	       lib_kind_of_name(soname, ret);
}

static int hold_unwinder(struct scan *s)
{
	int err = UTIL_GROW(s->unwinders, s->cap_unwinders, s->n_unwinders + 1, MAX_PENDING);

	if (!err)
		s->unwinders[s->n_unwinders++] = *s->lib;
	return err == -E2BIG ? 0 : err;
}

static int add_mapping(struct scan *s, const struct map_entry *m, enum lib_kind kind)
{
	const struct cuda_lib *known;
	int err;

	*s->lib = (struct cuda_lib){.kind = kind};
	err = maps_resolve(s->proc.id.pid, s->tid, m, s->lib);
	if (err)
		return err;
	if (kind == LIB_UNWINDER) {
		/* the numbers the kernel showed, until it is known whether they are needed */
		s->lib->dev = m->dev;
		s->lib->ino = m->ino;
		return hold_unwinder(s);
	}
	err = lib_add(s->d, s->lib, &kind, m->dev, m->ino, &known);
	if (err)
		return err;
	s->proc.has_runtime |= known->kind == LIB_CUDART;
	s->proc.has_driver |= known->kind == LIB_CUDA;
	return 0;
}

/* A vanished process, an unreadable or strange file cost only themselves. */
static bool is_fatal(int err)
{
	return err == -ENOMEM || err == -EMFILE || err == -ENFILE;
}

static int scan_maps(struct scan *s)
{
	cleanup_free char *line = NULL;
	cleanup_file FILE *f = NULL;
	char path[64];
	size_t cap = 0, n_lines = 0;

	snprintf(path, sizeof(path), "/proc/%u/maps", s->tid);
	f = fopen(path, "re");
	if (!f)
		return -errno;
	for (; getline(&line, &cap, f) > 0; n_lines++) {
		struct map_entry m;
		enum lib_kind kind;
		int err;

		if (!maps_parse_line(line, &m) || !m.executable ||
			(m.dev == s->seen_dev && m.ino == s->seen_ino))
			continue;
		s->seen_dev = m.dev;
		s->seen_ino = m.ino;
		if (!kind_of_mapping(s, &m, &kind))
			continue;
		err = add_mapping(s, &m, kind);
		if (is_fatal(err))
			return err;
	}
	return n_lines ? 0 : -ENODATA;
}

/* A first thread that ended shows no memory; any other thread does. */
static int scan_memory(struct scan *s, int dir, const struct proc_stat *st)
{
	int err = scan_maps(s), fd;
	const struct dirent *e;
	DIR *tasks;

	if (err != -ENODATA || st->n_threads < 2)
		return err;
	fd = openat(dir, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	tasks = fd < 0 ? NULL : fdopendir(fd);
	if (!tasks) {
		util_close_fd(&fd);
		return err;
	}
	for (int tries = 0; err == -ENODATA && tries < MAX_THREADS_TRIED && (e = readdir(tasks)); tries++) {
		uint64_t tid;

		if (parse_u64(e->d_name, &tid) || tid == s->proc.id.pid || tid > UINT32_MAX)
			continue;
		s->tid = (uint32_t)tid;
		err = scan_maps(s);
	}
	closedir(tasks);
	return err;
}

/* ---- one process ---- */

static bool passes(const struct discover_filter *f, uint32_t pid)
{
	for (size_t i = 0; f->pids && i < f->n_pids; i++) {
		if (f->pids[i] == pid)
			return true;
	}
	return !f->pids;
}

static bool is_known(const struct discovery *d, struct proc_id id)
{
	for (size_t i = 0; i < d->n_procs; i++) {
		if (proc_id_equal(d->procs[i].id, id))
			return true;
	}
	return false;
}

static int keep_process(struct scan *s)
{
	struct discovery *d = s->d;
	int err;

	for (size_t i = 0; i < s->n_unwinders; i++) {
		err = lib_add_unwinder(
			d, &s->unwinders[i], (dev_t)s->unwinders[i].dev, (ino_t)s->unwinders[i].ino);
		if (is_fatal(err))
			return err;
	}
	if (is_known(d, s->proc.id))
		return 0;
	err = UTIL_GROW(d->procs, d->cap_procs, d->n_procs + 1, DISCOVER_MAX_PROCS);
	if (err == -E2BIG) {
		d->truncated = true;
		return 0;
	}
	if (!err)
		d->procs[d->n_procs++] = s->proc;
	return err;
}

static int look_at(struct scan *s, const struct discover_filter *f, int dir, uint32_t pid)
{
	struct proc_stat st;
	int err = proc_read_stat(dir, &st);

	if (!err)
		err = proc_read_uid(dir, &s->proc.uid);
	if (err)
		return err;
	if (proc_is_dead(&st) || (f->by_uid && s->proc.uid != f->uid))
		return 0;
	s->proc.id = (struct proc_id){.pid = pid, .start_ns = proc_ticks_to_ns(st.start_ticks)};
	s->proc.ppid = st.ppid;
	s->tid = pid;
	memcpy(s->proc.comm, st.comm, sizeof(s->proc.comm));
	err = scan_memory(s, dir, &st);
	if (err == -EACCES || err == -EPERM)
		s->d->n_unreadable++;
	if (err)
		return err;
	if (!s->proc.has_runtime)
		err = discover_static(s->d, &s->proc);
	if (is_fatal(err))
		return err;
	if (s->proc.has_runtime || s->proc.has_driver || s->proc.static_runtime)
		return keep_process(s);
	return 0;
}

static int scan_process(
	struct discovery *d, const struct discover_filter *f, uint32_t pid, struct cuda_lib *scratch)
{
	struct scan s = {.d = d, .lib = scratch};
	cleanup_fd int dir = proc_open(pid);
	int err;

	if (dir < 0)
		return dir;
	err = look_at(&s, f, dir, pid);
	free(s.unwinders);
	return err;
}

int discover_running(const struct discover_filter *f, struct discovery *ret)
{
	cleanup_free struct cuda_lib *scratch = calloc(1, sizeof(*scratch));
	DIR *proc = opendir("/proc");
	const struct dirent *e;
	int err = 0;

	if (!proc)
		return -errno;
	if (!scratch)
		err = -ENOMEM;
	while (!is_fatal(err) && (e = readdir(proc))) {
		uint64_t pid;

		if (e->d_name[0] < '1' || e->d_name[0] > '9' || parse_u64(e->d_name, &pid) ||
			pid > UINT32_MAX)
			continue;
		if (passes(f, (uint32_t)pid))
			err = scan_process(ret, f, (uint32_t)pid, scratch);
	}
	closedir(proc);
	return is_fatal(err) ? err : 0;
}
