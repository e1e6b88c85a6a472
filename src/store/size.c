/* Keeps the files within --max-db. The write-ahead file is written back early and often; the main file never
 * grows beyond its share: the oldest rows make room. While a reader holds an old state nothing can be written
 * back, so the write-ahead file grows; beyond 1.4 times the limit rows are dropped and counted until the
 * reader is gone. */
#include "store/internal.h"

#include <sys/stat.h>

#define WAL_DEFAULT_BYTES (8ull << 20)
#define WAL_MIN_BYTES (256ull << 10)
#define OVERRUN_MAX_BYTES (2ull << 30)
#define SHM_BYTES (64ull << 10)
#define PRUNE_TIME_NS (40 * NSEC_PER_MSEC) /* per turn; the queue holds what comes meanwhile */
#define VACUUM_PAGES "200"

static int on_wal(void *ctx, sqlite3 *db UNUSED, const char *name UNUSED, int frames)
{
	struct store *s = ctx;

	s->wal_bytes = (uint64_t)frames * (s->page_bytes + 24);
	return SQLITE_OK;
}

void size_init(struct store *s)
{
	uint64_t max = s->options.max_bytes;
	char sql[64];
	int64_t page = 4096;

	db_i64(s->db, "PRAGMA page_size", &page);
	s->page_bytes = (uint64_t)page;
	s->wal_limit_bytes = max ? MIN(MAX(max / 16, WAL_MIN_BYTES), WAL_DEFAULT_BYTES) : WAL_DEFAULT_BYTES;
	if (max) {
		s->main_limit_bytes = max - 2 * s->wal_limit_bytes - SHM_BYTES;
		s->total_limit_bytes = max + MIN(max / 5 * 2, OVERRUN_MAX_BYTES);
	}
	snprintf(
		sql, sizeof(sql), "PRAGMA journal_size_limit = %llu", (unsigned long long)s->wal_limit_bytes);
	db_exec(s->db, sql);
	sqlite3_wal_hook(s->db, on_wal, s); /* replaces the automatic checkpoint */
}

static uint64_t file_bytes(const struct store *s, const char *suffix)
{
	char path[sizeof(s->file.path) + 8];
	struct stat st;

	snprintf(path, sizeof(path), "%s%s", s->file.path, suffix);
	return stat(path, &st) ? 0 : (uint64_t)st.st_size;
}

static uint64_t total_bytes(const struct store *s)
{
	return file_bytes(s, "") + file_bytes(s, "-wal") + file_bytes(s, "-shm");
}

/* Returns whether everything was written back. */
static bool checkpoint(struct store *s, int mode)
{
	int in_log = 0, done = 0, rc;

	sqlite3_busy_timeout(s->db, 0); /* never wait for a reader */
	rc = sqlite3_wal_checkpoint_v2(s->db, NULL, mode, &in_log, &done);
	sqlite3_busy_timeout(s->db, 1000);
	if ((rc & 0xff) == SQLITE_FULL || (rc & 0xff) == SQLITE_IOERR)
		writer_stop(s, "writing the recording failed", rc);
	if (rc == SQLITE_OK && mode == SQLITE_CHECKPOINT_TRUNCATE)
		s->wal_bytes = 0;
	return rc == SQLITE_OK && in_log == done;
}

/* Returns whether the write-ahead file is held by a reader. */
static bool write_back(struct store *s)
{
	if (s->wal_bytes <= s->wal_limit_bytes)
		return false;
	checkpoint(s, SQLITE_CHECKPOINT_PASSIVE);
	/* when it was complete the next transaction starts the file anew; else end it by force once it is
	 * twice as big */
	return s->wal_bytes > 2 * s->wal_limit_bytes && !checkpoint(s, SQLITE_CHECKPOINT_TRUNCATE);
}

struct pages {
	uint64_t used_bytes, file_bytes, free_pages;
};

static struct pages measure(struct store *s)
{
	uint64_t pages = (uint64_t)writer_i64(s, W_PAGES, 0);
	uint64_t unused = (uint64_t)writer_i64(s, W_FREE_PAGES, 0);

	return (struct pages){(pages - MIN(unused, pages)) * s->page_bytes, pages * s->page_bytes, unused};
}

static void make_room(struct store *s)
{
	uint64_t deadline_ns = queue_now_ns() + PRUNE_TIME_NS, limit = s->main_limit_bytes;
	struct pages p = measure(s);
	bool prune = p.used_bytes > limit / 100 * 97;

	while (prune && !s->stopped && queue_now_ns() < deadline_ns) {
		if (!prune_slice(s))
			break;
		p = measure(s);
		prune = p.used_bytes > limit / 100 * 95;
		if (write_back(s))
			return;
	}
	while (p.file_bytes > limit && p.free_pages && !s->stopped && queue_now_ns() < deadline_ns) {
		if (db_exec(s->db, "PRAGMA incremental_vacuum(" VACUUM_PAGES ")") != SQLITE_OK)
			return;
		p = measure(s);
		if (write_back(s))
			return;
	}
}

void size_after_commit(struct store *s)
{
	bool held = write_back(s);

	if (s->stopped)
		return;
	if (!held) {
		prune_fold(s);
		if (s->main_limit_bytes)
			make_room(s);
	}
	if (s->total_limit_bytes && held && total_bytes(s) > s->total_limit_bytes)
		s->blocked = true;
}

bool size_try_unblock(struct store *s)
{
	uint64_t now_ns = queue_now_ns();

	if (now_ns < s->unblock_mono_ns)
		return false;
	s->unblock_mono_ns = now_ns + 100 * NSEC_PER_MSEC;
	if (checkpoint(s, SQLITE_CHECKPOINT_TRUNCATE) || total_bytes(s) < s->total_limit_bytes) {
		s->blocked = false;
		if (!s->stopped && s->main_limit_bytes)
			make_room(s);
	}
	return !s->blocked;
}
