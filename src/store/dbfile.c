#include "store/dbfile.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

static bool has_owner(uid_t uid, gid_t gid)
{
	return uid != (uid_t)-1 || gid != (gid_t)-1;
}

/* Gives away what was just made, by descriptor. */
static int give(int fd, uid_t uid, gid_t gid)
{
	return has_owner(uid, gid) && fchown(fd, uid, gid) ? -errno : 0;
}

/* Makes the missing folders on the way to `path` (a copy, cut at the last slash by the caller). */
static int make_folders(char *path, uid_t uid, gid_t gid)
{
	for (char *p = path + 1;; p++) {
		char end = *p;

		if (end && end != '/')
			continue;
		*p = '\0';
		if (!mkdir(path, 0700)) {
			cleanup_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			int r = fd < 0 ? -errno : give(fd, uid, gid);

			if (r)
				return r;
		} else if (errno != EEXIST && !(errno == EROFS || errno == EACCES || errno == EPERM)) {
			return -errno;
		}
		*p = end;
		if (!end)
			return 0;
	}
}

/* Resolves the folder of `path`, making it when missing: "folder/name". */
static int resolve(const char *path, uid_t uid, gid_t gid, char *out, size_t out_size)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	char folder[PATH_MAX], real[PATH_MAX];
	size_t len = slash ? (size_t)(slash - path) : 0;
	int n;

	if (!*name || !strcmp(name, ".") || !strcmp(name, ".."))
		return -EISDIR;
	if (len >= sizeof(folder))
		return -ENAMETOOLONG;
	if (!slash)
		snprintf(folder, sizeof(folder), ".");
	else if (!len)
		snprintf(folder, sizeof(folder), "/");
	else
		snprintf(folder, sizeof(folder), "%.*s", (int)len, path);
	if (!realpath(folder, real)) {
		int r = errno == ENOENT ? make_folders(folder, uid, gid) : -errno;

		if (r)
			return r;
		if (!realpath(folder, real))
			return -errno;
	}
	n = snprintf(out, out_size, "%s/%s", strcmp(real, "/") ? real : "", name);
	return n < 0 || (size_t)n >= out_size ? -ENAMETOOLONG : 0;
}

/* Opens the file, or makes it; never through a symbolic link, never anything but a regular file. */
static int open_or_create(struct dbfile *f, uid_t uid, gid_t gid)
{
	const int flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
	struct stat st;
	int r;

	f->fd = open(f->path, flags | O_CREAT | O_EXCL, 0600);
	if (f->fd >= 0) {
		f->created = true;
		r = fchmod(f->fd, 0600) ? -errno : 0;
		return r ? r : give(f->fd, uid, gid);
	}
	if (errno != EEXIST)
		return -errno;
	f->fd = open(f->path, flags);
	if (f->fd < 0)
		return -errno;
	if (fstat(f->fd, &st))
		return -errno;
	return S_ISREG(st.st_mode) ? 0 : -EMEDIUMTYPE;
}

static void explain_open(const char *path, int r, char *err, size_t err_size)
{
	switch (r) {
	case -ELOOP:
		snprintf(err, err_size, "%s is a symbolic link; recordings are never written through one",
			path);
		break;
	case -EMEDIUMTYPE:
		snprintf(err, err_size, "%s is not a regular file", path);
		break;
	default:
		snprintf(err, err_size, "cannot open %s for writing: %s", path, strerror(-r));
		break;
	}
}

static void explain_holder(const struct dbfile *f, char *err, size_t err_size)
{
	char comm[64] = "", file[64];
	struct stat st;
	long pid = fstat(f->fd, &st) ? 0 : dbfile_lock_holder(st.st_dev, st.st_ino, 0);

	if (pid > 0) {
		snprintf(file, sizeof(file), "/proc/%ld/comm", pid);
		cleanup_file FILE *in = fopen(file, "re");

		if (in && fgets(comm, sizeof(comm), in))
			comm[strcspn(comm, "\n")] = '\0';
		for (char *c = comm; *c; c++) {
			if ((unsigned char)*c < 0x20 || *c == 0x7f)
				*c = '?';
		}
		snprintf(err, err_size,
			"%s is being recorded to by process %ld (%s); choose another file with --db", f->path,
			pid, *comm ? comm : "unknown");
		return;
	}
	snprintf(err, err_size, "%s is being recorded to by another process; choose another file with --db",
		f->path);
}

int dbfile_open(const char *path, uid_t uid, gid_t gid, struct dbfile *ret, char *err, size_t err_size)
{
	struct dbfile f = DBFILE_INIT;
	struct stat st, again;
	int r = resolve(path, uid, gid, f.path, sizeof(f.path));

	if (!r)
		r = open_or_create(&f, uid, gid);
	if (r) {
		explain_open(path, r, err, err_size);
		dbfile_close(&f);
		return r;
	}
	if (flock(f.fd, LOCK_EX | LOCK_NB)) {
		r = errno == EWOULDBLOCK ? -EBUSY : -errno;
		if (r == -EBUSY)
			explain_holder(&f, err, err_size);
		else
			snprintf(err, err_size, "cannot lock %s: %s", path, strerror(-r));
		dbfile_close(&f);
		return r;
	}
	/* what the name means now must be what was locked */
	if (fstat(f.fd, &st) || lstat(f.path, &again) || st.st_dev != again.st_dev ||
		st.st_ino != again.st_ino) {
		snprintf(err, err_size, "%s was replaced while it was opened", path);
		dbfile_close(&f);
		return -ESTALE;
	}
	*ret = f;
	return 0;
}

void dbfile_close(struct dbfile *f)
{
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
}

static uint32_t be32(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

int dbfile_read_header(int fd, struct dbfile_header *ret)
{
	unsigned char b[100];
	ssize_t n = pread(fd, b, sizeof(b), 0);

	if (n < 0)
		return -errno;
	*ret = (struct dbfile_header){.empty = n == 0};
	if (n < (ssize_t)sizeof(b) || memcmp(b, "SQLite format 3", 16))
		return 0;
	ret->is_sqlite = true;
	ret->wal = b[18] == 2 || b[19] == 2;
	ret->user_version = be32(b + 60);
	ret->application_id = be32(b + 68);
	return 0;
}

long dbfile_lock_holder(dev_t dev, ino_t ino, long writer_pid)
{
	cleanup_file FILE *in = fopen("/proc/locks", "re");
	char line[256];

	if (!in)
		return -errno;
	while (fgets(line, sizeof(line), in)) {
		unsigned major_number, minor_number;
		unsigned long long inode;
		long pid;

		if (strstr(line, "->") || !strstr(line, " FLOCK "))
			continue; /* a waiter, or SQLite's own locks */
		if (sscanf(line, "%*s FLOCK %*s WRITE %ld %x:%x:%llu", &pid, &major_number, &minor_number,
			    &inode) != 4)
			continue;
		if (inode != ino)
			continue;
		/* some file systems show another device here than stat does */
		if ((major_number == major(dev) && minor_number == minor(dev)) ||
			(writer_pid && pid == writer_pid))
			return pid > 0 ? pid : 1;
	}
	return 0;
}

/* Home of the user on whose behalf we run. */
static int home_folder(char *buf, size_t size)
{
	const char *sudo_user = geteuid() == 0 ? getenv("SUDO_USER") : NULL;
	const char *home = getenv("HOME");
	struct passwd pw, *found = NULL;
	char text[4096];
	int n;

	if (sudo_user && *sudo_user && !getpwnam_r(sudo_user, &pw, text, sizeof(text), &found) && found)
		home = found->pw_dir;
	else if ((!home || !*home) && !getpwuid_r(geteuid(), &pw, text, sizeof(text), &found) && found)
		home = found->pw_dir;
	if (!home || *home != '/')
		return -ENOENT;
	n = snprintf(buf, size, "%s", home);
	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

int store_default_path(char *buf, size_t size)
{
	const char *set = getenv("INGERO_DB");
	char home[PATH_MAX];
	int n, r;

	if (set && *set) {
		n = snprintf(buf, size, "%s", set);
		return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
	}
	r = home_folder(home, sizeof(home));
	if (r)
		return r;
	n = snprintf(buf, size, "%s/.ingero/ingero.db", home);
	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}
