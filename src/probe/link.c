#include "probe/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>

/* uapi/linux/bpf.h, enum bpf_attach_type; newer than the headers this may be built with */
#define ATTACH_UPROBE_MULTI 48
#define ATTACH_UPROBE_SESSION 57
#define UPROBE_MULTI_RETURN 1u

/* The uprobe_multi part of union bpf_attr (BPF_LINK_CREATE); the packaged libbpf has no call for it. */
struct link_create_attr {
	uint32_t prog_fd, target_fd, attach_type, flags;
	uint64_t path, offsets, ref_ctr_offsets, cookies;
	uint32_t cnt, multi_flags, pid, pad;
};

unsigned way_attach_type(enum probe_way way)
{
	return way == PROBE_WAY_SESSION ? ATTACH_UPROBE_SESSION
	       : way == PROBE_WAY_MULTI ? ATTACH_UPROBE_MULTI
					: 0;
}

int link_multi(int prog_fd, unsigned attach_type, const char *path, const uint64_t *offsets,
	const uint64_t *cookies, size_t n, bool at_return)
{
	struct link_create_attr attr = {
		.prog_fd = (uint32_t)prog_fd,
		.attach_type = attach_type,
		.path = (uintptr_t)path,
		.offsets = (uintptr_t)offsets,
		.cookies = (uintptr_t)cookies,
		.cnt = (uint32_t)n,
		.multi_flags = at_return ? UPROBE_MULTI_RETURN : 0,
	};
	long fd = syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));

	if (fd < 0)
		return -errno;
	fcntl((int)fd, F_SETFD, FD_CLOEXEC);
	return (int)fd;
}

int probe_keep_fd(struct probe *p, int fd)
{
	int err = UTIL_GROW(p->link_fds, p->cap_link_fds, p->n_link_fds + 1, PROBE_MAX_LINKS);

	if (err) {
		close(fd);
		return err;
	}
	p->link_fds[p->n_link_fds++] = fd;
	return 0;
}

/* One link for many points; when the kernel refuses the set, halves are tried so that one bad address costs
 * only itself. Returns how many points are attached. */
static size_t attach_halving(struct probe *p, int prog_fd, unsigned type, const char *path,
	const uint64_t *offsets, const uint64_t *cookies, size_t n, bool at_return, int *ret_error)
{
	int fd;
	size_t half = n / 2;

	if (!n)
		return 0;
	fd = link_multi(prog_fd, type, path, offsets, cookies, n, at_return);
	if (fd >= 0) {
		int err = probe_keep_fd(p, fd);

		if (err)
			*ret_error = err;
		return err ? 0 : n;
	}
	*ret_error = fd;
	if (n == 1 || fd == -EPERM || fd == -ENOENT || fd == -EACCES)
		return 0;
	return attach_halving(p, prog_fd, type, path, offsets, cookies, half, at_return, ret_error) +
	       attach_halving(p, prog_fd, type, path, offsets + half, cookies + half, n - half, at_return,
		       ret_error);
}

static int program_fd(const struct probe *p, const char *name)
{
	struct bpf_program *prog = bpf_object__find_program_by_name(p->object, name);

	return prog ? bpf_program__fd(prog) : -ENOENT;
}

struct point_set {
	uint64_t *offsets, *cookies;
	size_t n;
};

static void point_set_free(struct point_set *s)
{
	free(s->offsets);
	free(s->cookies);
}

/* Picks the points of one kind: calls, names known at entry, names whose handle comes at return. */
static int point_set_make(
	const struct probe_point_spec *points, size_t n, bool names, bool entry_only, struct point_set *ret)
{
	struct point_set s = {.offsets = calloc(n, sizeof(uint64_t)), .cookies = calloc(n, sizeof(uint64_t))};

	if (!s.offsets || !s.cookies) {
		point_set_free(&s);
		return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++) {
		if (points[i].is_name != names || (entry_only && !points[i].entry_only_name))
			continue;
		s.offsets[s.n] = points[i].file_offset;
		s.cookies[s.n++] = points[i].desc;
	}
	*ret = s;
	return 0;
}

static int attach_calls_multi(
	struct probe *p, const char *path, const struct point_set *s, struct probe_attach_result *ret)
{
	int err = 0;
	unsigned type = way_attach_type(p->way);

	if (p->way == PROBE_WAY_SESSION) {
		ret->attached = attach_halving(p, program_fd(p, "ing_session"), type, path, s->offsets,
			s->cookies, s->n, false, &err);
	} else {
		/* Returns first: a return without an entry is ignored, an entry without a return would look
		 * unfinished. */
		size_t n = attach_halving(p, program_fd(p, "ing_multi_return"), type, path, s->offsets,
			s->cookies, s->n, true, &err);

		ret->attached = attach_halving(p, program_fd(p, "ing_multi_entry"), type, path, s->offsets,
			s->cookies, s->n, false, &err);
		ret->attached = MIN(ret->attached, n);
	}
	ret->refused = s->n - ret->attached;
	return ret->attached || !s->n ? 0 : err;
}

/* Names are a comfort: failures to attach are not errors. */
static void attach_names_multi(
	struct probe *p, const char *path, const struct probe_point_spec *points, size_t n)
{
	struct point_set all = {0};
	int ignored = 0;
	const char *entry = p->faulting_names ? "ing_name_fault" : "ing_name";

	if (point_set_make(points, n, true, false, &all))
		return;
	attach_halving(p, program_fd(p, "ing_name_ret"), ATTACH_UPROBE_MULTI, path, all.offsets, all.cookies,
		all.n, true, &ignored);
	attach_halving(p, program_fd(p, entry), ATTACH_UPROBE_MULTI, path, all.offsets, all.cookies, all.n,
		false, &ignored);
	point_set_free(&all);
}

static int attach_single(struct probe *p, const char *prog_name, bool at_return, const char *path,
	uint64_t offset, uint64_t cookie)
{
	LIBBPF_OPTS(bpf_uprobe_opts, opts, .bpf_cookie = cookie, .retprobe = at_return);
	struct bpf_program *prog = bpf_object__find_program_by_name(p->object, prog_name);
	struct bpf_link *link;
	int err = UTIL_GROW(p->links, p->cap_links, p->n_links + 1, PROBE_MAX_LINKS);

	if (err)
		return err;
	if (!prog)
		return -ENOENT;
	link = bpf_program__attach_uprobe_opts(prog, -1, path, offset, &opts);
	if (!link)
		return -errno;
	p->links[p->n_links++] = link;
	return 0;
}

static int by_priority(const void *a, const void *b)
{
	const struct probe_point_spec *x = a, *y = b;

	if (x->priority != y->priority)
		return x->priority < y->priority ? -1 : 1;
	return x->desc < y->desc ? -1 : x->desc > y->desc;
}

static int attach_calls_single(struct probe *p, const char *path, const struct probe_point_spec *points,
	size_t n, size_t max_single, struct probe_attach_result *ret)
{
	cleanup_free struct probe_point_spec *sorted = calloc(n ? n : 1, sizeof(*sorted));
	int err = 0;

	if (!sorted)
		return -ENOMEM;
	memcpy(sorted, points, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), by_priority);
	for (size_t i = 0; i < n; i++) {
		if (sorted[i].is_name)
			continue;
		if (ret->attached >= max_single || p->n_single >= PROBE_SINGLE_MAX) {
			ret->left_out++;
			continue;
		}
		err = attach_single(p, "ing_return", true, path, sorted[i].file_offset, sorted[i].desc);
		if (!err)
			err = attach_single(
				p, "ing_entry", false, path, sorted[i].file_offset, sorted[i].desc);
		if (err) {
			ret->refused++;
			continue;
		}
		p->n_single++;
		ret->attached++;
	}
	return ret->attached || ret->left_out || !ret->refused ? 0 : err;
}

size_t probe_single_room(const struct probe *p)
{
	return p->way == PROBE_WAY_SINGLE ? PROBE_SINGLE_MAX - MIN(p->n_single, (size_t)PROBE_SINGLE_MAX)
					  : SIZE_MAX;
}

int probe_attach(struct probe *p, const char *path, const struct probe_point_spec *points, size_t n,
	size_t max_single, struct probe_attach_result *ret)
{
	struct probe_attach_result r = {0};
	struct point_set calls = {0};
	int err;

	if (p->way == PROBE_WAY_SINGLE) {
		err = attach_calls_single(p, path, points, n, max_single, &r);
	} else {
		err = point_set_make(points, n, false, false, &calls);
		if (!err)
			err = attach_calls_multi(p, path, &calls, &r);
		if (!err)
			attach_names_multi(p, path, points, n);
		point_set_free(&calls);
	}
	if (!err)
		*ret = r;
	return err;
}

int probe_attach_unwinder(struct probe *p, const char *path, const uint64_t *file_offsets, size_t n)
{
	cleanup_free uint64_t *cookies = calloc(n ? n : 1, sizeof(*cookies));
	int err = 0;

	if (!cookies)
		return -ENOMEM;
	if (p->way == PROBE_WAY_SINGLE) {
		for (size_t i = 0; i < n && !err; i++)
			err = attach_single(p, "ing_unwind", false, path, file_offsets[i], 0);
		return err;
	}
	if (attach_halving(p, program_fd(p, "ing_unwind"), ATTACH_UPROBE_MULTI, path, file_offsets, cookies,
		    n, false, &err) == n)
		return 0;
	return err;
}

void probe_detach(struct probe *p)
{
	/* removal goes file by file: no layer may still count new calls when the other no longer does */
	if (p->control)
		__atomic_store_n(&p->control->active, 0, __ATOMIC_SEQ_CST);
	for (size_t i = 0; i < p->n_link_fds; i++)
		close(p->link_fds[i]);
	p->n_link_fds = 0;
	for (size_t i = 0; i < p->n_links; i++)
		bpf_link__destroy(p->links[i]);
	p->n_links = 0;
}
