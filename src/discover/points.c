/* Symbols of the operation table in a file: where the probes go. */
#include "discover/internal.h"
#include "model/ops.h"

#include <errno.h>

#define CODE_BYTES 16
#define MAX_SYMBOLS (8u << 20) /* per table; real ones have below a million */

/* The table's rows by name, for looking up each symbol of a file. */
struct row_index {
	uint32_t *row;
	size_t n;
};

struct found {
	struct probe_point *points;
	size_t n, cap;
	bool *in_dynsym; /* by row */
};

/* ---- row index ---- */

static int compare_rows(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	int c = strcmp(symbol_at(x)->symbol, symbol_at(y)->symbol);

	return c ? c : (x > y) - (x < y);
}

static int compare_name(const void *key, const void *row)
{
	return strcmp(key, symbol_at(*(const uint32_t *)row)->symbol);
}

static bool row_fits(const struct symbol_info *s, int layer, unsigned major)
{
	if (layer >= 0 && s->layer != layer)
		return false;
	return s->layer != ABI_LAYER_RUNTIME || !major || (major >= s->so_min && major <= s->so_max);
}

/* layer -1 = all, major 0 = all. */
static int index_make(int layer, unsigned major, struct row_index *ret)
{
	size_t n = 0;
	uint32_t *row = calloc(symbol_count(), sizeof(*row));

	if (!row)
		return -ENOMEM;
	for (size_t i = 0; i < symbol_count(); i++) {
		if (row_fits(symbol_at(i), layer, major))
			row[n++] = (uint32_t)i;
	}
	qsort(row, n, sizeof(*row), compare_rows);
	*ret = (struct row_index){.row = row, .n = n};
	return 0;
}

static void index_free(struct row_index *ix)
{
	free(ix->row);
}

#define cleanup_index __attribute__((cleanup(index_free)))

/* First position with that name, or ix->n. */
static size_t index_find(const struct row_index *ix, const char *name)
{
	const uint32_t *hit = bsearch(name, ix->row, ix->n, sizeof(*ix->row), compare_name);

	if (!hit)
		return ix->n;
	while (hit > ix->row && !compare_name(name, hit - 1))
		hit--;
	return (size_t)(hit - ix->row);
}

/* Copies the name without a version suffix; false when it cannot be one of ours. */
static bool plain_name(const char *name, char *buf, size_t size)
{
	size_t n;

	if (strncmp(name, "cu", 2) && strncmp(name, "__cu", 4) && strncmp(name, "nccl", 4))
		return false;
	n = strcspn(name, "@");
	if (n >= size)
		return false;
	memcpy(buf, name, n);
	buf[n] = '\0';
	return true;
}

/* ---- both symbol tables of a file ---- */

struct tables {
	struct elf_symbols dynsym, symtab; /* empty when the file has none */
};

static void tables_free(struct tables *t)
{
	elf_free_symbols(&t->dynsym);
	elf_free_symbols(&t->symtab);
}

#define cleanup_tables __attribute__((cleanup(tables_free)))

static int tables_load(const struct elf_file *e, struct tables *t)
{
	int err = elf_load_symbols(e, SHT_DYNSYM, &t->dynsym);

	if (err && err != -ENOENT)
		return err;
	err = elf_load_symbols(e, SHT_SYMTAB, &t->symtab);
	return err == -ENOENT ? 0 : err;
}

static bool table_has(const struct elf_symbols *t, const char *name)
{
	for (size_t i = 0; i < MIN(t->n, MAX_SYMBOLS); i++) {
		if (elf_is_function(&t->sym[i]) && elf_name_equal(elf_symbol_name(t, &t->sym[i]), name))
			return true;
	}
	return false;
}

static bool tables_have(const struct tables *t, const char *name)
{
	return table_has(&t->dynsym, name) || table_has(&t->symtab, name);
}

/* ---- counting ---- */

static void count_table(const struct row_index *ix, const struct elf_symbols *t, size_t counts[FAMILY_COUNT])
{
	char name[64];

	for (size_t i = 0; i < MIN(t->n, MAX_SYMBOLS); i++) {
		size_t at;

		if (!elf_is_function(&t->sym[i]) ||
			!plain_name(elf_symbol_name(t, &t->sym[i]), name, sizeof(name)))
			continue;
		if (!strcmp(name, "ncclCommInitRank") || !strcmp(name, "ncclAllReduce"))
			counts[FAMILY_NCCL]++;
		at = index_find(ix, name);
		if (at < ix->n)
			counts[symbol_at(ix->row[at])->layer == ABI_LAYER_RUNTIME ? FAMILY_RUNTIME
										  : FAMILY_DRIVER]++;
	}
}

int points_count_families(const struct elf_file *e, size_t ret_counts[FAMILY_COUNT])
{
	cleanup_index struct row_index ix = {0};
	cleanup_tables struct tables t = {0};
	size_t counts[FAMILY_COUNT] = {0};
	int err = tables_load(e, &t);

	if (!err)
		err = index_make(-1, 0, &ix);
	if (err)
		return err;
	count_table(&ix, &t.dynsym, counts);
	if (!counts[FAMILY_RUNTIME] && !counts[FAMILY_DRIVER] && !counts[FAMILY_NCCL])
		count_table(&ix, &t.symtab, counts);
	memcpy(ret_counts, counts, sizeof(counts));
	return 0;
}

/* ---- points ---- */

/* Which runtime is it when no file name says so: names that came or went with a major version. */
static unsigned guess_major(const struct tables *t)
{
	if (tables_have(t, "cudaMemPrefetchBatchAsync") || tables_have(t, "cudaMemDiscardBatchAsync"))
		return 13;
	/* 11 and 12 differ in nothing that the table reads, except for names that 11 lacks */
	return 12;
}

/* Two names of one place are one point; the earlier row names it. */
static int add_point(struct found *f, uint32_t row, uint64_t offset)
{
	int err;

	for (size_t i = 0; i < f->n; i++) {
		if (f->points[i].entry_offset == offset) {
			f->points[i].desc = MIN(f->points[i].desc, row);
			return 0;
		}
	}
	err = UTIL_GROW(f->points, f->cap, f->n + 1, ABI_MAX_DESCS);
	if (err)
		return err;
	f->points[f->n++] = (struct probe_point){.desc = row, .entry_offset = offset};
	return 0;
}

/* Local namesakes in .symtab count only where nothing is exported: in a program with the runtime linked in.
 */
static bool is_wanted(const struct found *f, uint32_t row, bool is_dynsym, enum lib_kind kind)
{
	if (is_dynsym || kind == LIB_STATIC_CUDART)
		return true;
	return !f->in_dynsym[row];
}

static int collect(const struct elf_file *e, const struct row_index *ix, const struct elf_symbols *t,
	bool is_dynsym, enum lib_kind kind, struct found *f)
{
	char name[64];

	for (size_t i = 0; i < MIN(t->n, MAX_SYMBOLS); i++) {
		uint64_t offset;

		if (!elf_is_function(&t->sym[i]) ||
			!plain_name(elf_symbol_name(t, &t->sym[i]), name, sizeof(name)))
			continue;
		for (size_t at = index_find(ix, name); at < ix->n && !compare_name(name, &ix->row[at]);
			at++) {
			uint32_t row = ix->row[at];
			int err;

			if (!is_wanted(f, row, is_dynsym, kind) ||
				elf_code_offset(e, t->sym[i].st_value, &offset))
				continue;
			f->in_dynsym[row] |= is_dynsym;
			err = add_point(f, row, offset);
			if (err == -E2BIG) /* no real library has that many */
				return 0;
			if (err)
				return err;
		}
	}
	return 0;
}

static int compare_points(const void *a, const void *b)
{
	const struct probe_point *x = a, *y = b;

	if (x->desc != y->desc)
		return x->desc < y->desc ? -1 : 1;
	return (x->entry_offset > y->entry_offset) - (x->entry_offset < y->entry_offset);
}

static void complete_points(const struct elf_file *e, struct found *f)
{
	if (f->n)
		qsort(f->points, f->n, sizeof(*f->points), compare_points);
	for (size_t i = 0; i < f->n; i++) {
		struct probe_point *p = &f->points[i];
		uint8_t code[CODE_BYTES];
		uint64_t skip;
		size_t n = elf_read(e, p->entry_offset, code, sizeof(code));

		insn_choose(code, n, e->machine, &skip, &p->single_step);
		p->file_offset = p->entry_offset + skip;
		snprintf(p->symbol, sizeof(p->symbol), "%s", symbol_at(p->desc)->symbol);
	}
}

/* The layer whose rows apply to a kind of library; -1 = none has any. */
static int layer_of_kind(enum lib_kind kind)
{
	switch (kind) {
	case LIB_CUDART:
	case LIB_STATIC_CUDART:
		return ABI_LAYER_RUNTIME;
	case LIB_CUDA:
		return ABI_LAYER_DRIVER;
	case LIB_NCCL:
	case LIB_UNWINDER:
		break;
	}
	return -1;
}

static int find_points(const struct elf_file *e, enum lib_kind kind, unsigned major, struct found *f)
{
	cleanup_index struct row_index ix = {0};
	cleanup_tables struct tables t = {0};
	int err = tables_load(e, &t);

	if (err)
		return err;
	if (!major && layer_of_kind(kind) == ABI_LAYER_RUNTIME)
		major = guess_major(&t);
	err = index_make(layer_of_kind(kind), major, &ix);
	if (!err)
		err = collect(e, &ix, &t.dynsym, true, kind, f);
	if (!err)
		err = collect(e, &ix, &t.symtab, false, kind, f);
	return err;
}

int discover_points(const char *open_path, enum lib_kind kind, unsigned soname_major,
	struct probe_point **ret_points, size_t *ret_n)
{
	cleanup_elf struct elf_file e = ELF_FILE_INIT;
	struct found f = {0};
	int err = elf_open(open_path, &e);

	if (err)
		return err;
	if (layer_of_kind(kind) >= 0) {
		f.in_dynsym = calloc(symbol_count(), sizeof(*f.in_dynsym));
		err = f.in_dynsym ? find_points(&e, kind, soname_major, &f) : -ENOMEM;
	}
	free(f.in_dynsym);
	if (err) {
		free(f.points);
		return err;
	}
	complete_points(&e, &f);
	*ret_points = f.points;
	*ret_n = f.n;
	return 0;
}

/* ---- one symbol ---- */

static int offset_in_table(const struct elf_file *e, uint32_t type, const char *symbol, uint64_t *ret_offset)
{
	cleanup_symbols struct elf_symbols t = {0};
	int err = elf_load_symbols(e, type, &t);

	if (err)
		return err;
	for (size_t i = 0; i < MIN(t.n, MAX_SYMBOLS); i++) {
		if (elf_is_function(&t.sym[i]) && elf_name_equal(elf_symbol_name(&t, &t.sym[i]), symbol) &&
			!elf_code_offset(e, t.sym[i].st_value, ret_offset))
			return 0;
	}
	return -ENOENT;
}

int discover_symbol_offset(const char *open_path, const char *symbol, uint64_t *ret_offset)
{
	cleanup_elf struct elf_file e = ELF_FILE_INIT;
	int err = elf_open(open_path, &e);

	if (err)
		return err;
	err = offset_in_table(&e, SHT_DYNSYM, symbol, ret_offset);
	return err == -ENOENT ? offset_in_table(&e, SHT_SYMTAB, symbol, ret_offset) : err;
}
