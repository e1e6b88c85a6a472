/* What the tests of the store share: a scratch folder, events, a store that must open, SQL answers. */
#ifndef TESTS_UNIT_STORE_FIXTURE_H
#define TESTS_UNIT_STORE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "model/ops.h"
#include "store/reader.h"
#include "store/store.h"

#define T0 1764547200000000000ll /* a whole minute */
#define SEC ((int64_t)NSEC_PER_SEC)
#define EVERYTHING ((struct time_window){INT64_MIN, INT64_MAX})

struct fixture {
	char dir[64];
	char db[96];
};

static inline int fixture_remove_one(
	const char *path, const struct stat *st UNUSED, int type UNUSED, struct FTW *where UNUSED)
{
	return remove(path);
}

static inline int fixture_setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f)
		return -1;
	snprintf(f->dir, sizeof(f->dir), "/tmp/ingero-test-XXXXXX");
	if (!mkdtemp(f->dir))
		return -1;
	snprintf(f->db, sizeof(f->db), "%s/t.db", f->dir);
	*state = f;
	return 0;
}

static inline int fixture_teardown(void **state)
{
	struct fixture *f = *state;

	nftw(f->dir, fixture_remove_one, 8, FTW_DEPTH | FTW_PHYS);
	free(f);
	return 0;
}

static inline struct store_options fixture_options(const char *path)
{
	return (struct store_options){
		.path = path,
		.owner_uid = (uid_t)-1,
		.owner_gid = (gid_t)-1,
		.node = "node-a",
		.version = "test",
		.flags = "record",
		.pid_filter = "",
	};
}

static inline struct store *fixture_open_with(const struct store_options *o)
{
	struct store *s = NULL;
	char err[512] = "";
	int r = store_open(o, &s, err, sizeof(err));

	if (r)
		fail_msg("store_open: %d %s", r, err);
	return s;
}

static inline struct store *fixture_open(const char *path)
{
	struct store_options o = fixture_options(path);

	return fixture_open_with(&o);
}

static inline struct reader *fixture_reader(const char *path)
{
	struct reader *r = NULL;
	char err[512] = "";
	int e = reader_open(path, &r, err, sizeof(err));

	if (e)
		fail_msg("reader_open: %d %s", e, err);
	return r;
}

/* An ordinary launch, n milliseconds after T0. */
static inline struct call_event fixture_event(int64_t n)
{
	return (struct call_event){
		.wall_ns = T0 + n * 1000000,
		.mono_ns = 1000000000ull + (uint64_t)n * 1000000,
		.dur_ns = 1000 + (uint64_t)n,
		.proc = {100, 7},
		.tid = 100,
		.op = OP_CODE(SOURCE_CUDA, 3),
		.weight = 1,
		.reason = REASON_ALL,
		.kernel = 0x4000,
		.arg0 = 0x4000,
	};
}

/* First column of the first row by a connection of its own; the caller knows that it is a number. */
static inline int64_t fixture_number(const char *path, const char *sql)
{
	sqlite3 *db = NULL;
	sqlite3_stmt *st = NULL;
	int64_t v = INT64_MIN;

	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	sqlite3_busy_timeout(db, 5000);
	if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	if (sqlite3_step(st) == SQLITE_ROW)
		v = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	sqlite3_close(db);
	return v;
}

static inline void fixture_make_db(const char *path, const char *sql)
{
	sqlite3 *db = NULL;
	char *message = NULL;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK)
		fail_msg("%s", message);
	sqlite3_close(db);
}

static inline uint64_t fixture_size(const char *path)
{
	struct stat st;

	return stat(path, &st) ? 0 : (uint64_t)st.st_size;
}

/* main + -wal + -shm */
static inline uint64_t fixture_total_size(const char *path)
{
	char wal[128], shm[128];

	snprintf(wal, sizeof(wal), "%s-wal", path);
	snprintf(shm, sizeof(shm), "%s-shm", path);
	return fixture_size(path) + fixture_size(wal) + fixture_size(shm);
}

/* A sum over the names, sizes, times and bytes of everything in a folder: whatever happens there changes it.
 */
static inline uint64_t fixture_folder_sum(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	uint64_t sum = 0;

	assert_non_null(d);
	while ((e = readdir(d))) {
		char path[PATH_MAX];
		uint64_t h = 0xcbf29ce484222325ull;
		struct stat st;
		FILE *in;
		int c;

		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%.1000s/%.255s", dir, e->d_name);
		assert_int_equal(stat(path, &st), 0);
		for (const char *p = e->d_name; *p; p++)
			h = (h ^ (unsigned char)*p) * 0x100000001b3ull;
		h = (h ^ (uint64_t)st.st_mtim.tv_sec ^ (uint64_t)st.st_mtim.tv_nsec << 20) * 0x100000001b3ull;
		in = fopen(path, "re");
		assert_non_null(in);
		while ((c = getc_unlocked(in)) != EOF)
			h = (h ^ (uint64_t)c) * 0x100000001b3ull;
		fclose(in);
		sum += h; /* the order of names in the folder does not matter */
	}
	closedir(d);
	return sum;
}

static inline void fixture_copy(const char *from, const char *to)
{
	FILE *in = fopen(from, "re"), *out = fopen(to, "we");
	char buf[65536];
	size_t n;

	assert_non_null(in);
	assert_non_null(out);
	while ((n = fread(buf, 1, sizeof(buf), in)))
		assert_int_equal(fwrite(buf, 1, n, out), n);
	fclose(in);
	assert_int_equal(fclose(out), 0);
}

#endif
