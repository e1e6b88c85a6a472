/* Files a process has mapped: lines of /proc/PID/maps, and how to open the very file behind one. */
#include "discover/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#define DELETED " (deleted)"
#define OVERLAY_MAGIC 0x794c7630 /* linux/magic.h */
#define BTRFS_MAGIC 0x9123683e

/* Reads a hexadecimal number that must be followed by `end`; moves *p behind that. */
static bool take_number(char **p, int base, char end, uint64_t *ret)
{
	char *stop;

	if (!**p || **p == ' ' || **p == '-' || **p == '+')
		return false;
	errno = 0;
	*ret = strtoull(*p, &stop, base);
	if (errno || stop == *p || *stop != end)
		return false;
	*p = stop + 1;
	return true;
}

bool maps_parse_line(char *line, struct map_entry *ret)
{
	uint64_t start, end, offset, major, minor, ino;
	char *p = line, perms[5] = "";

	line[strcspn(line, "\n")] = '\0';
	if (!take_number(&p, 16, '-', &start) || !take_number(&p, 16, ' ', &end))
		return false;
	if (strnlen(p, 5) < 5 || p[4] != ' ')
		return false;
	memcpy(perms, p, 4);
	p += 5;
	if (!take_number(&p, 16, ' ', &offset) || !take_number(&p, 16, ':', &major) ||
		!take_number(&p, 16, ' ', &minor) || !take_number(&p, 10, ' ', &ino))
		return false;
	while (*p == ' ')
		p++;
	if (*p != '/')
		return false;
	*ret = (struct map_entry){
		.start = start,
		.end = end,
		.executable = perms[2] == 'x',
		.dev = makedev((unsigned)major, (unsigned)minor),
		.ino = ino,
		.path = p,
	};
	return true;
}

void maps_unescape(char *path)
{
	char *to = path;

	for (const char *p = path; *p; p++) {
		if (!strncmp(p, "\\012", 4)) {
			*to++ = '\n';
			p += 3;
		} else {
			*to++ = *p;
		}
	}
	*to = '\0';
}

bool maps_cut_deleted(char *path)
{
	size_t n = strlen(path), cut = sizeof(DELETED) - 1;

	if (n <= cut || strcmp(path + n - cut, DELETED))
		return false;
	path[n - cut] = '\0';
	return true;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* The mapping's own name is the surest way to its file, where we may use it. */
static bool stat_map_file(uint32_t tid, const struct map_entry *m, char *path, size_t size, struct stat *ret)
{
	snprintf(path, size, "/proc/%u/map_files/%llx-%llx", tid, (unsigned long long)m->start,
		(unsigned long long)m->end);
	return !stat(path, ret);
}

/* Is the file at this path, in the process's own root, the mapped one? */
static bool try_path(uint32_t tid, const char *path, const struct map_entry *m, const struct stat *mapped,
	bool deleted, struct cuda_lib *lib)
{
	struct statfs fs;
	struct stat st;
	char open_path[sizeof(lib->open_path)];
	int n = snprintf(open_path, sizeof(open_path), "/proc/%u/root%s", tid, path);

	if (n < 0 || (size_t)n >= sizeof(open_path) || strlen(path) >= sizeof(lib->path))
		return false;
	if (stat(open_path, &st) || !S_ISREG(st.st_mode))
		return false;
	if (mapped ? !is_same(&st, mapped) : st.st_ino != m->ino || st.st_dev != m->dev) {
		/* overlay and btrfs show another device in maps than in stat; without map_files the path must
		 * do */
		if (mapped || deleted || major(st.st_dev) || statfs(open_path, &fs))
			return false;
		if (fs.f_type != OVERLAY_MAGIC && (fs.f_type != BTRFS_MAGIC || st.st_ino != m->ino))
			return false;
	}
	memcpy(lib->path, path, strlen(path) + 1);
	memcpy(lib->open_path, open_path, (size_t)n + 1);
	return true;
}

int maps_resolve(uint32_t pid, uint32_t tid, const struct map_entry *m, struct cuda_lib *lib)
{
	cleanup_free char *plain = strdup(m->path), *cut = strdup(m->path);
	char by_range[128];
	struct stat st, *mapped = NULL;
	bool deleted;

	if (!plain || !cut)
		return -ENOMEM;
	if (stat_map_file(tid, m, by_range, sizeof(by_range), &st))
		mapped = &st;
	maps_unescape(plain);
	maps_unescape(cut);
	deleted = maps_cut_deleted(cut);
	lib->from_pid = pid;
	/* a name may really end like that, or hold what looks like an escape: what fits the file is right */
	if (try_path(tid, plain, m, mapped, deleted, lib) ||
		try_path(tid, m->path, m, mapped, deleted, lib) ||
		try_path(tid, cut, m, mapped, deleted, lib))
		return 0;
	if (!mapped)
		return -ENOENT;
	if (strlen(cut) >= sizeof(lib->path))
		return -ENAMETOOLONG;
	memcpy(lib->path, cut, strlen(cut) + 1);
	snprintf(lib->open_path, sizeof(lib->open_path), "%s", by_range);
	return 0;
}
