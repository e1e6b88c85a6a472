#include "store/roopen.h"
#include "store/dbfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>

#define TRIES 3

/* "file:" name of the path; everything that means something in one is escaped. */
static int uri_of(const char *path, const char *query, char *buf, size_t size)
{
	size_t n = (size_t)snprintf(buf, size, "file:");

	for (const char *p = path; *p; p++) {
		bool plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
			     (*p >= '0' && *p <= '9') || strchr("/._-", *p);

		if (n + 4 >= size)
			return -ENAMETOOLONG;
		n += (size_t)snprintf(buf + n, size - n, plain ? "%c" : "%%%02X", (unsigned char)*p);
	}
	if (n + strlen(query) >= size)
		return -ENAMETOOLONG;
	snprintf(buf + n, size - n, "%s", query);
	return 0;
}

/* Nothing in a stranger's file may run code, be trusted, or cost without bound. */
static void harden(sqlite3 *db)
{
	static const int off[] = {SQLITE_DBCONFIG_TRUSTED_SCHEMA, SQLITE_DBCONFIG_ENABLE_TRIGGER,
		SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER};
	static const int limits[][2] = {{SQLITE_LIMIT_LENGTH, 16 << 20}, {SQLITE_LIMIT_ATTACHED, 0},
		{SQLITE_LIMIT_TRIGGER_DEPTH, 1}, {SQLITE_LIMIT_WORKER_THREADS, 0}, {SQLITE_LIMIT_COLUMN, 200},
		{SQLITE_LIMIT_COMPOUND_SELECT, 50}, {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000}};

	for (size_t i = 0; i < ARRAY_LEN(off); i++)
		sqlite3_db_config(db, off[i], 0, NULL);
	for (size_t i = 0; i < ARRAY_LEN(limits); i++)
		sqlite3_limit(db, limits[i][0], limits[i][1]);
	sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	sqlite3_extended_result_codes(db, 1);
	sqlite3_busy_timeout(db, 2000);
	db_exec(db, "PRAGMA query_only = ON; PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY; PRAGMA "
		    "mmap_size = 0");
}

/* Reads something, so that what is wrong with the file shows now. */
static int probe(sqlite3 *db)
{
	int64_t n;
	int rc = db_i64(db, "SELECT count(*) FROM sqlite_master", &n);

	return rc == SQLITE_NOTFOUND ? SQLITE_OK : rc;
}

static int open_uri(struct ro_db *r, const char *query)
{
	char uri[3 * PATH_MAX + 64];
	int rc, err = uri_of(r->path, query, uri, sizeof(uri));

	if (err)
		return SQLITE_CANTOPEN;
	rc = sqlite3_open_v2(uri, &r->db,
		SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE,
		NULL);
	if (rc == SQLITE_OK) {
		harden(r->db);
		rc = probe(r->db);
	}
	if (rc != SQLITE_OK) {
		sqlite3_close(r->db);
		r->db = NULL;
	}
	return rc;
}

static int open_image(struct ro_db *r, const char *wal_path)
{
	unsigned char *image;
	size_t size;
	int err = wal_image(r->path, wal_path, &image, &size), rc;

	if (err)
		return err;
	rc = sqlite3_open_v2(":memory:", &r->db,
		SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE, NULL);
	if (rc != SQLITE_OK) {
		sqlite3_free(image);
	} else {
		/* frees the image in any case */
		rc = sqlite3_deserialize(r->db, "main", image, (sqlite3_int64)size, (sqlite3_int64)size,
			SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_READONLY);
		harden(r->db);
	}
	if (rc == SQLITE_OK)
		rc = probe(r->db);
	if (rc == SQLITE_OK)
		return 0;
	sqlite3_close(r->db);
	r->db = NULL;
	return db_errno(rc);
}

static bool has_bytes(const char *path, off_t at_least, bool *ret_unknown)
{
	struct stat st;

	if (!stat(path, &st))
		return st.st_size >= at_least;
	if (errno != ENOENT)
		*ret_unknown = true;
	return false;
}

/* Only called when nobody writes: closing the file here would drop the locks of a writer in this process. */
static int header_of(const char *path, struct dbfile_header *ret)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	return fd < 0 ? -errno : dbfile_read_header(fd, ret);
}

/* Returns 0 or negative errno. */
static int open_best(struct ro_db *r)
{
	char wal[sizeof(r->path) + 8], shm[sizeof(r->path) + 8], journal[sizeof(r->path) + 12];
	bool unknown = false, pending;
	struct dbfile_header h = {0};
	int rc, err;

	snprintf(wal, sizeof(wal), "%s-wal", r->path);
	snprintf(shm, sizeof(shm), "%s-shm", r->path);
	snprintf(journal, sizeof(journal), "%s-journal", r->path);
	if (stat(r->path, &r->seen))
		return -errno;
	/* an empty write-ahead file with its index belongs to a writer between two transactions */
	pending = has_bytes(wal, 1, &unknown) || (has_bytes(wal, 0, &unknown) && has_bytes(shm, 0, &unknown));
	if (unknown)
		return -EACCES;
	if (!pending) {
		err = header_of(r->path, &h);
		if (err)
			return err;
		if (!h.is_sqlite)
			return h.empty ? -ENODATA : -EMEDIUMTYPE;
		r->way = h.wal || !has_bytes(journal, 1, &unknown) ? RO_IMMUTABLE : RO_SHARED;
		rc = open_uri(r, r->way == RO_IMMUTABLE ? "?mode=ro&immutable=1" : "?mode=ro");
		return db_errno(rc);
	}
	if (access(wal, R_OK))
		return -errno;
	r->way = RO_SHARED;
	rc = open_uri(r, "?mode=ro&readonly_shm=1");
	if (rc == SQLITE_OK || (rc & 0xff) == SQLITE_NOMEM || (rc & 0xff) == SQLITE_NOTADB)
		return db_errno(rc);
	r->way = RO_IMAGE;
	return open_image(r, wal);
}

static void explain(const struct ro_db *r, int err, char *text, size_t size)
{
	switch (err) {
	case -ENOENT:
		snprintf(text, size, "no recording at %s; `sudo ingero trace` makes one", r->path);
		break;
	case -EACCES:
		snprintf(text, size,
			"no permission to read %s (and its -wal and -shm files while it is being written); "
			"run as its "
			"owner or with sudo",
			r->path);
		break;
	case -ENODATA:
		snprintf(text, size, "%s is empty: nothing was recorded to it; `sudo ingero trace` does that",
			r->path);
		break;
	case -EMEDIUMTYPE:
		snprintf(text, size, "%s is not a recording (%s); name one with --db", r->path,
			S_ISREG(r->seen.st_mode)   ? "no SQLite database"
			: S_ISDIR(r->seen.st_mode) ? "a folder"
						   : "not a regular file");
		break;
	case -EFBIG:
		snprintf(text, size,
			"%s has an unfinished -wal file that cannot be read where it lies; copy both files "
			"to a folder you "
			"can write to and read the copy",
			r->path);
		break;
	case -EAGAIN:
		snprintf(text, size, "%s keeps changing while it is read; try again", r->path);
		break;
	case -EUCLEAN:
		snprintf(text, size, "%s is damaged; `sqlite3 FILE .recover` may save what is left in it",
			r->path);
		break;
	default:
		snprintf(text, size, "cannot read %s: %s", r->path, strerror(-err));
		break;
	}
}

int ro_open(const char *path, struct ro_db *ret, char *err, size_t err_size)
{
	struct ro_db r = {0};
	char real[PATH_MAX];
	int e = 0;

	snprintf(r.path, sizeof(r.path), "%s", path);
	if (!realpath(path, real))
		e = -errno;
	else
		snprintf(r.path, sizeof(r.path), "%s", real);
	if (!e && stat(r.path, &r.seen))
		e = -errno;
	if (!e && !S_ISREG(r.seen.st_mode))
		e = -EMEDIUMTYPE;
	if (!e) {
		e = -EAGAIN;
		for (int i = 0; i < TRIES && e == -EAGAIN; i++)
			e = open_best(&r);
	}
	if (e == -ENOTDIR)
		e = -ENOENT;
	if (e) {
		explain(&r, e, err, err_size);
		return e;
	}
	*ret = r;
	return 0;
}

void ro_close(struct ro_db *r)
{
	sqlite3_close(r->db);
	r->db = NULL;
}

bool ro_changed(const struct ro_db *r)
{
	char wal[sizeof(r->path) + 8];
	bool unknown = false;
	struct stat now;

	if (r->way == RO_SHARED)
		return false;
	snprintf(wal, sizeof(wal), "%s-wal", r->path);
	return stat(r->path, &now) || now.st_dev != r->seen.st_dev || now.st_ino != r->seen.st_ino ||
	       now.st_size != r->seen.st_size || now.st_mtim.tv_sec != r->seen.st_mtim.tv_sec ||
	       now.st_mtim.tv_nsec != r->seen.st_mtim.tv_nsec ||
	       (r->way == RO_IMMUTABLE && has_bytes(wal, 1, &unknown));
}
