/* Which file is it: identity that holds across hard links, symbolic links and overlay mounts. */
#include "discover/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define OVERLAY_MAGIC 0x794c7630 /* linux/magic.h OVERLAYFS_SUPER_MAGIC */
#define HANDLE_FID 0x200	 /* AT_HANDLE_FID, Linux 6.6: identify only, works on every file system */
#define MADE_UP_DEV (1ull << 63) /* no kernel device number has this bit */

/* An overlay's handle wraps that of the file below: pad[3], version, magic, length, flags, type, uuid[16],
 * handle. */
#define WRAP_MAGIC_AT 4
#define WRAP_MAGIC 0xfb
#define WRAP_TYPE_AT 7
#define WRAP_HANDLE_AT 24

int file_open_regular(const char *path)
{
	cleanup_fd int at = open(path, O_PATH | O_CLOEXEC);
	char again[64];
	struct stat st;
	int fd;

	if (at < 0 || fstat(at, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENOEXEC;
	snprintf(again, sizeof(again), "/proc/self/fd/%d", at);
	fd = open(again, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

static uint64_t hash_bytes(uint64_t h, const unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		h = (h ^ p[i]) * 0x100000001b3ull;
	return h;
}

/* Hash of the handle of the file, with an overlay of the file below; 0 = not known. */
static uint64_t handle_hash(const char *path, bool overlay)
{
	union {
		struct file_handle head;
		unsigned char bytes[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} h = {.head = {.handle_bytes = MAX_HANDLE_SZ}};
	const unsigned char *p = h.head.f_handle;
	unsigned char type;
	size_t n;
	int mount_id;

	if (name_to_handle_at(AT_FDCWD, path, &h.head, &mount_id, AT_SYMLINK_FOLLOW | HANDLE_FID) &&
		name_to_handle_at(AT_FDCWD, path, &h.head, &mount_id, AT_SYMLINK_FOLLOW))
		return 0;
	n = MIN((size_t)h.head.handle_bytes, (size_t)MAX_HANDLE_SZ);
	type = (unsigned char)h.head.handle_type;
	if (overlay) {
		if (n <= WRAP_HANDLE_AT || p[WRAP_MAGIC_AT] != WRAP_MAGIC)
			return 0;
		type = p[WRAP_TYPE_AT];
		p += WRAP_HANDLE_AT;
		n -= WRAP_HANDLE_AT;
	}
	return hash_bytes(hash_bytes(0xcbf29ce484222325ull, &type, 1), p, n) | 1;
}

int file_identify(struct cuda_lib *lib, dev_t map_dev, ino_t map_ino)
{
	struct statfs fs;
	struct stat st;

	if (stat(lib->open_path, &st) || statfs(lib->open_path, &fs))
		return -errno;
	if (!S_ISREG(st.st_mode) || !st.st_size)
		return -ENOEXEC;
	lib->overlay = fs.f_type == OVERLAY_MAGIC;
	lib->handle_hash = handle_hash(lib->open_path, lib->overlay);
	lib->dev = st.st_dev;
	lib->ino = st.st_ino;
	if (lib->overlay && map_ino && map_dev != st.st_dev) {
		/* kernels before 6.7 show the file below in maps */
		lib->dev = map_dev;
		lib->ino = map_ino;
	} else if (lib->overlay && lib->handle_hash) {
		lib->dev = MADE_UP_DEV;
		lib->ino = lib->handle_hash;
	}
	return 0;
}

bool discover_same_file(const struct cuda_lib *a, const struct cuda_lib *b)
{
	if (a->dev == b->dev && a->ino == b->ino)
		return true;
	/* between plain file systems a handle proves nothing: cloned volumes have equal ones */
	return (a->overlay || b->overlay) && a->handle_hash && a->handle_hash == b->handle_hash;
}
