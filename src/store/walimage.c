/* Applies a write-ahead file by hand, for copies that lie where SQLite cannot make the shared index it needs.
 * Format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log */
#include "store/roopen.h"

#include <errno.h>
#include <fcntl.h>

#define IMAGE_MAX_BYTES (1ull << 30)
#define WAL_HEADER_BYTES 32
#define FRAME_HEADER_BYTES 24
#define PAGE_MAX_BYTES 65536

static uint32_t be32(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

struct wal {
	int fd;
	bool big_endian; /* of the checksums */
	uint32_t page_bytes;
	uint32_t salt[2];
	uint32_t sum[2]; /* running */
};

static void checksum(struct wal *w, const unsigned char *p, size_t n)
{
	for (size_t i = 0; i + 8 <= n; i += 8) {
		uint32_t x = be32(p + i), y = be32(p + i + 4);

		if (!w->big_endian) {
			x = __builtin_bswap32(x);
			y = __builtin_bswap32(y);
		}
		w->sum[0] += x + w->sum[1];
		w->sum[1] += y + w->sum[0];
	}
}

static bool read_at(int fd, void *buf, size_t n, off_t at)
{
	size_t done = 0;

	while (done < n) {
		ssize_t r = pread(fd, (char *)buf + done, n - done, at + (off_t)done);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return false;
		done += (size_t)r;
	}
	return true;
}

/* False: no valid header, which means that there is nothing to apply. */
static bool read_header(struct wal *w)
{
	unsigned char h[WAL_HEADER_BYTES];

	if (!read_at(w->fd, h, sizeof(h), 0) || (be32(h) & ~1u) != 0x377f0682)
		return false;
	w->big_endian = be32(h) & 1;
	w->page_bytes = be32(h + 8);
	w->salt[0] = be32(h + 16);
	w->salt[1] = be32(h + 20);
	checksum(w, h, 24);
	return w->sum[0] == be32(h + 24) && w->sum[1] == be32(h + 28) && w->page_bytes >= 512 &&
	       w->page_bytes <= PAGE_MAX_BYTES && !(w->page_bytes & (w->page_bytes - 1));
}

/* Reads frame i; false at the end of the valid part. */
static bool read_frame(struct wal *w, uint64_t i, unsigned char *frame)
{
	size_t size = FRAME_HEADER_BYTES + w->page_bytes;

	if (!read_at(w->fd, frame, size, (off_t)(WAL_HEADER_BYTES + i * size)))
		return false;
	if (be32(frame + 8) != w->salt[0] || be32(frame + 12) != w->salt[1] || !be32(frame))
		return false;
	checksum(w, frame, 8);
	checksum(w, frame + FRAME_HEADER_BYTES, w->page_bytes);
	return w->sum[0] == be32(frame + 16) && w->sum[1] == be32(frame + 20);
}

/* How many frames belong to complete transactions, and how many pages the database then has. */
static uint64_t count_committed(struct wal *w, unsigned char *frame, uint32_t *ret_pages)
{
	struct wal start = *w;
	uint64_t committed = 0;

	*ret_pages = 0;
	for (uint64_t i = 0; read_frame(w, i, frame); i++) {
		uint32_t pages = be32(frame + 4);

		if (pages) {
			committed = i + 1;
			*ret_pages = pages;
		}
	}
	*w = start;
	return committed;
}

static int apply(struct wal *w, unsigned char *frame, uint64_t frames, unsigned char *image, size_t size)
{
	for (uint64_t i = 0; i < frames; i++) {
		uint64_t at;

		if (!read_frame(w, i, frame))
			return -EAGAIN;
		at = ((uint64_t)be32(frame) - 1) * w->page_bytes;
		if (at + w->page_bytes <= size) /* pages cut off by a later transaction are not needed */
			memcpy(image + at, frame + FRAME_HEADER_BYTES, w->page_bytes);
	}
	return 0;
}

static bool same_file(int fd, const struct stat *before)
{
	struct stat now;

	return !fstat(fd, &now) && now.st_size == before->st_size &&
	       now.st_mtim.tv_sec == before->st_mtim.tv_sec && now.st_mtim.tv_nsec == before->st_mtim.tv_nsec;
}

static int build(int fd, struct wal *w, unsigned char **ret_image, size_t *ret_size)
{
	cleanup_free unsigned char *frame = malloc(FRAME_HEADER_BYTES + PAGE_MAX_BYTES);
	struct stat main_stat, wal_stat;
	uint32_t pages = 0;
	uint64_t size, frames = 0;
	unsigned char *image;
	int r = 0;

	if (!frame)
		return -ENOMEM;
	if (fstat(fd, &main_stat) || fstat(w->fd, &wal_stat))
		return -errno;
	size = (uint64_t)main_stat.st_size;
	if (read_header(w))
		frames = count_committed(w, frame, &pages);
	if (frames)
		size = (uint64_t)pages * w->page_bytes;
	if (size > IMAGE_MAX_BYTES)
		return -EFBIG;
	if (size < 512)
		return -EMEDIUMTYPE;
	image = sqlite3_malloc64(size);
	if (!image)
		return -ENOMEM;
	memset(image, 0, size);
	if (!read_at(fd, image, MIN(size, (uint64_t)main_stat.st_size), 0))
		r = -EIO;
	if (!r)
		r = apply(w, frame, frames, image, size);
	if (!r && (!same_file(fd, &main_stat) || !same_file(w->fd, &wal_stat)))
		r = -EAGAIN;
	if (r) {
		sqlite3_free(image);
		return r;
	}
	image[18] = image[19] = 1; /* no write-ahead file any more */
	*ret_image = image;
	*ret_size = size;
	return 0;
}

int wal_image(const char *path, const char *wal_path, unsigned char **ret_image, size_t *ret_size)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	cleanup_fd int wal_fd = -1;
	struct wal w = {0};

	if (fd < 0)
		return -errno;
	wal_fd = open(wal_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (wal_fd < 0)
		return -errno;
	w.fd = wal_fd;
	return build(fd, &w, ret_image, ret_size);
}
