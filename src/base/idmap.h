/* Hash map from a 128-bit key to a pointer, bounded. Pointers are borrowed. Not thread-safe. */
#ifndef INGERO_BASE_IDMAP_H
#define INGERO_BASE_IDMAP_H

#include "base/util.h"

struct idmap_key {
	uint64_t a, b;
};

struct idmap_entry {
	struct idmap_key key;
	void *value; /* NULL = free */
};

struct idmap {
	struct idmap_entry *entries; /* power of two, at most half full */
	size_t n_slots, n, max;
};

#define IDMAP_INIT(max_entries) ((struct idmap){.max = (max_entries)})

void idmap_free(struct idmap *m); /* not the values */
void *idmap_get(const struct idmap *m, struct idmap_key key);
/* Adds or replaces. -ENOMEM, -E2BIG when full. value must not be NULL. */
int idmap_put(struct idmap *m, struct idmap_key key, void *value);
void *idmap_remove(struct idmap *m, struct idmap_key key); /* the removed value or NULL */
/* Walks all values: start with *pos = 0; NULL at the end. Nothing may be added or removed meanwhile. */
void *idmap_next(const struct idmap *m, size_t *pos);

#endif
