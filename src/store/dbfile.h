/* The database file as a file: made safely, locked against a second writer, recognised. Internal to
 * src/store. */
#ifndef INGERO_STORE_DBFILE_H
#define INGERO_STORE_DBFILE_H

#include "base/util.h"

#include <sys/types.h>

/* An open, exclusively locked file. The descriptor must outlive the SQLite connection: closing any descriptor
 * of the file drops the POSIX locks SQLite holds on it. */
struct dbfile {
	int fd;		 /* -1 = none */
	char path[4096]; /* folder resolved, so that nothing in it is a symbolic link */
	bool created;
};

#define DBFILE_INIT ((struct dbfile){.fd = -1})

/* Opens or creates (0600; missing folders 0700; new things get the owner unless it is -1) and locks. Returns
 * 0 or negative errno with a sentence in err; -EBUSY names the holder. */
int dbfile_open(const char *path, uid_t uid, gid_t gid, struct dbfile *ret, char *err, size_t err_size);
void dbfile_close(struct dbfile *f);

/* What the first bytes say. */
struct dbfile_header {
	bool empty; /* no bytes at all */
	bool is_sqlite;
	bool wal;
	uint32_t application_id, user_version;
};

int dbfile_read_header(int fd, struct dbfile_header *ret);

/* Process that holds the writer lock of the file: from /proc/locks, without touching the file. 0 = nobody;
 * negative errno when that cannot be known. writer_pid is the one the file names, 0 = none. */
long dbfile_lock_holder(dev_t dev, ino_t ino, long writer_pid);

#endif
