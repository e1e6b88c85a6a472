/* Opens a database for reading without ever making or changing a file. Internal to src/store. */
#ifndef INGERO_STORE_ROOPEN_H
#define INGERO_STORE_ROOPEN_H

#include "store/db.h"

#include <sys/stat.h>

/* How the state of the file is kept steady while it is read. */
enum ro_way {
	RO_SHARED,    /* with the locks and the shared index of the writer */
	RO_IMMUTABLE, /* nothing waits in a write-ahead file: the main file alone, without locks */
	RO_IMAGE,     /* a private copy in memory with the write-ahead file applied */
};

struct ro_db {
	sqlite3 *db;
	enum ro_way way;
	char path[4096];  /* resolved */
	struct stat seen; /* the main file when it was opened; for RO_IMMUTABLE and RO_IMAGE */
};

int ro_open(const char *path, struct ro_db *ret, char *err, size_t err_size);
void ro_close(struct ro_db *r);
/* The file changed under a connection that has no locks: what was read since may be mixed. Open again. */
bool ro_changed(const struct ro_db *r);

/* walimage.c: the main file with the committed part of the write-ahead file applied, as a database without
 * one. The memory belongs to sqlite3_malloc64. -EFBIG above 1 GiB, -EAGAIN when the files changed meanwhile.
 */
int wal_image(const char *path, const char *wal_path, unsigned char **ret_image, size_t *ret_size);

#endif
