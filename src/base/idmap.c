#include "base/idmap.h"

#include <errno.h>

static size_t slot_of(struct idmap_key k, size_t n_slots)
{
	uint64_t h = k.a * 0x9e3779b97f4a7c15ull ^ (k.b + 0x7f4a7c15) * 0xc2b2ae3d27d4eb4full;

	h ^= h >> 29;
	h *= 0xbf58476d1ce4e5b9ull;
	h ^= h >> 32;
	return h & (n_slots - 1);
}

static bool key_equal(struct idmap_key x, struct idmap_key y)
{
	return x.a == y.a && x.b == y.b;
}

/* The entry with this key, or the free one where it would go. */
static struct idmap_entry *find(const struct idmap *m, struct idmap_key key)
{
	size_t i = slot_of(key, m->n_slots);

	while (m->entries[i].value && !key_equal(m->entries[i].key, key))
		i = (i + 1) & (m->n_slots - 1);
	return &m->entries[i];
}

void idmap_free(struct idmap *m)
{
	free(m->entries);
	m->entries = NULL;
	m->n_slots = m->n = 0;
}

void *idmap_get(const struct idmap *m, struct idmap_key key)
{
	return m->n_slots ? find(m, key)->value : NULL;
}

static int grow(struct idmap *m)
{
	struct idmap bigger = {.n_slots = m->n_slots ? m->n_slots * 2 : 16, .max = m->max};

	bigger.entries = calloc(bigger.n_slots, sizeof(*bigger.entries));
	if (!bigger.entries)
		return -ENOMEM;
	for (size_t i = 0; i < m->n_slots; i++) {
		if (m->entries[i].value)
			*find(&bigger, m->entries[i].key) = m->entries[i];
	}
	free(m->entries);
	m->entries = bigger.entries;
	m->n_slots = bigger.n_slots;
	return 0;
}

int idmap_put(struct idmap *m, struct idmap_key key, void *value)
{
	struct idmap_entry *e;
	int err;

	if (m->n_slots) {
		e = find(m, key);
		if (e->value) {
			e->value = value;
			return 0;
		}
	}
	if (m->n >= m->max)
		return -E2BIG;
	if (2 * (m->n + 1) > m->n_slots) {
		err = grow(m);
		if (err)
			return err;
	}
	e = find(m, key);
	e->key = key;
	e->value = value;
	m->n++;
	return 0;
}

void *idmap_remove(struct idmap *m, struct idmap_key key)
{
	struct idmap_entry *e;
	void *value;
	size_t hole, i, mask = m->n_slots - 1;

	if (!m->n_slots)
		return NULL;
	e = find(m, key);
	value = e->value;
	if (!value)
		return NULL;
	/* close the gap: move later members of the probe sequence back, so that no tombstones are needed */
	hole = (size_t)(e - m->entries);
	for (i = (hole + 1) & mask; m->entries[i].value; i = (i + 1) & mask) {
		size_t home = slot_of(m->entries[i].key, m->n_slots);

		if (((i - home) & mask) >= ((i - hole) & mask)) {
			m->entries[hole] = m->entries[i];
			hole = i;
		}
	}
	m->entries[hole].value = NULL;
	m->n--;
	return value;
}

void *idmap_next(const struct idmap *m, size_t *pos)
{
	while (*pos < m->n_slots) {
		void *value = m->entries[(*pos)++].value;

		if (value)
			return value;
	}
	return NULL;
}
