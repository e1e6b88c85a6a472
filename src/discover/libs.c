/* The list of library files: kinds, versions, each file once. */
#include "discover/internal.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>

void discovery_free(struct discovery *d)
{
	if (!d)
		return;
	free(d->procs);
	free(d->libs);
	free(d->unwinders);
	free(d->programs);
	*d = (struct discovery){0};
}

/* ---- names ---- */

/* Names as "libX.so", "libX.so.12", and "libX-0a1b2c3d.so.12" where packagers added a hash. `loose`: anything
 * may stand before ".so". */
static const struct {
	const char *prefix;
	bool loose;
	enum lib_kind kind;
} names[] = {
	{"libcudart", true, LIB_CUDART},
	{"libcuda", false, LIB_CUDA},
	{"libnccl", true, LIB_NCCL},
	{"libgcc_s", false, LIB_UNWINDER},
};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	return strncmp(name, "memfd:", 6) ? name : name + 6;
}

bool lib_kind_of_name(const char *path, enum lib_kind *ret_kind)
{
	const char *name = base_name(path);

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		size_t n = strlen(names[i].prefix);
		const char *rest = name + n, *so;

		if (strncmp(name, names[i].prefix, n))
			continue;
		so = strstr(rest, ".so");
		while (so && so[3] && so[3] != '.')
			so = strstr(so + 1, ".so");
		if (!so || (!names[i].loose && so != rest && *rest != '-'))
			continue;
		*ret_kind = names[i].kind;
		return true;
	}
	return false;
}

unsigned lib_major_of_name(const char *name)
{
	const char *so = strstr(name, ".so.");
	unsigned long major;

	while (so && !isdigit((unsigned char)so[4]))
		so = strstr(so + 1, ".so.");
	major = so ? strtoul(so + 4, NULL, 10) : 0;
	return major < 1000 ? (unsigned)major : 0;
}

/* ---- one file ---- */

static unsigned find_major(const struct elf_file *e, const char *path)
{
	char soname[256];
	unsigned major = elf_soname(e, soname, sizeof(soname)) ? 0 : lib_major_of_name(soname);

	return major ? major : lib_major_of_name(base_name(path));
}

static bool is_program(const struct elf_file *e)
{
	for (size_t i = 0; i < e->n_segments; i++) {
		if (e->segments[i].p_type == PT_INTERP)
			return true;
	}
	return e->type == ET_EXEC;
}

/* Sets kind and version. By name the symbols only confirm it, without one they decide. */
static int classify(struct cuda_lib *lib, const enum lib_kind *kind)
{
	cleanup_elf struct elf_file e = ELF_FILE_INIT;
	size_t n[FAMILY_COUNT];
	int err = elf_open(lib->open_path, &e);

	if (!err)
		err = points_count_families(&e, n);
	if (err)
		return err;
	if (!n[FAMILY_RUNTIME] && !n[FAMILY_DRIVER] && !n[FAMILY_NCCL])
		return -EINVAL;
	if (kind) {
		static const enum symbol_family family[] = {
			[LIB_CUDART] = FAMILY_RUNTIME, [LIB_CUDA] = FAMILY_DRIVER, [LIB_NCCL] = FAMILY_NCCL};

		if (!n[family[*kind]])
			return -EINVAL;
		lib->kind = *kind;
	} else if (n[FAMILY_NCCL]) {
		lib->kind = LIB_NCCL;
	} else if (n[FAMILY_DRIVER] > n[FAMILY_RUNTIME]) {
		lib->kind = LIB_CUDA;
	} else {
		lib->kind = is_program(&e) ? LIB_STATIC_CUDART : LIB_CUDART;
	}
	lib->soname_major = find_major(&e, lib->path);
	return 0;
}

static struct cuda_lib *find_same(struct cuda_lib *libs, size_t n, const struct cuda_lib *lib)
{
	for (size_t i = 0; i < n; i++) {
		if (discover_same_file(&libs[i], lib))
			return &libs[i];
	}
	return NULL;
}

int lib_add(struct discovery *d, struct cuda_lib *lib, const enum lib_kind *kind, dev_t map_dev,
	ino_t map_ino, const struct cuda_lib **ret_known)
{
	struct cuda_lib *known;
	int err = file_identify(lib, map_dev, map_ino);

	if (err)
		return err;
	known = find_same(d->libs, d->n_libs, lib);
	if (known) {
		*ret_known = known;
		if (!known->from_pid)
			known->from_pid = lib->from_pid;
		return 0;
	}
	if (kind && *kind == LIB_STATIC_CUDART)
		lib->kind = *kind;
	else
		err = classify(lib, kind);
	if (!err)
		err = UTIL_GROW(d->libs, d->cap_libs, d->n_libs + 1, DISCOVER_MAX_LIBS);
	if (err == -E2BIG)
		d->truncated = true;
	if (err)
		return err;
	d->libs[d->n_libs++] = *lib;
	*ret_known = &d->libs[d->n_libs - 1];
	return 0;
}

int lib_add_unwinder(struct discovery *d, struct cuda_lib *lib, dev_t map_dev, ino_t map_ino)
{
	uint64_t offset;
	int err = file_identify(lib, map_dev, map_ino);

	if (err || find_same(d->unwinders, d->n_unwinders, lib))
		return err;
	err = discover_symbol_offset(lib->open_path, "_Unwind_RaiseException", &offset);
	if (err)
		return err;
	lib->kind = LIB_UNWINDER;
	err = UTIL_GROW(d->unwinders, d->cap_unwinders, d->n_unwinders + 1, DISCOVER_MAX_LIBS);
	if (err == -E2BIG)
		d->truncated = true;
	if (err)
		return err;
	d->unwinders[d->n_unwinders++] = *lib;
	return 0;
}

int discover_add_file(struct discovery *d, const char *path)
{
	cleanup_free struct cuda_lib *lib = calloc(1, sizeof(*lib));
	cleanup_free char *real = realpath(path, NULL);
	const struct cuda_lib *known;

	if (!lib)
		return -ENOMEM;
	if (!real)
		return -errno;
	if (strlen(real) >= sizeof(lib->path))
		return -ENAMETOOLONG;
	memcpy(lib->path, real, strlen(real) + 1);
	memcpy(lib->open_path, real, strlen(real) + 1);
	return lib_add(d, lib, NULL, 0, 0, &known);
}
