/* Programs with the CUDA runtime linked in: by .symtab, or, when that was stripped, by what the runtime
 * leaves behind. */
#include "discover/internal.h"

#include <errno.h>
#include <sys/stat.h>

#define MAX_TEXTS_BYTES (256ull << 20) /* constants of a program that nvcc made */
#define MAX_PLAIN_TEXTS_BYTES                                                                                \
	(8ull << 20) /* of any other program: looked at each second, so small ones only */

static const char *const runtime_functions[] = {
	"cudaLaunchKernel", "cudaMalloc", "cudaFree", "cudaGetDeviceCount"};
static const char *const unwinder_functions[] = {"_Unwind_RaiseException"};

static bool defines_any(const struct elf_symbols *t, const char *const *names, size_t n)
{
	for (size_t i = 0; i < t->n; i++) {
		if (!elf_is_function(&t->sym[i]))
			continue;
		for (size_t k = 0; k < n; k++) {
			if (elf_name_equal(elf_symbol_name(t, &t->sym[i]), names[k]))
				return true;
		}
	}
	return false;
}

/* Searching the names first spares a walk over the symbols of programs that have nothing to do with CUDA. */
static bool mentions(const struct elf_symbols *t, const char *name)
{
	return t->names_size && memmem(t->names, t->names_size, name, strlen(name));
}

/* The runtime reaches the driver by dlopen, or is bound to it. */
static bool can_reach_driver(const struct elf_symbols *dynsym)
{
	for (size_t i = 0; i < dynsym->n; i++) {
		const char *name = elf_symbol_name(dynsym, &dynsym->sym[i]);

		if (dynsym->sym[i].st_shndx != SHN_UNDEF)
			continue;
		if (elf_name_equal(name, "dlopen") || elf_name_equal(name, "dlsym") ||
			!strncmp(name, "cu", 2))
			return true;
	}
	return !dynsym->n;
}

/* A program bound to the shared runtime has undefined cuda* symbols; what it names is not linked in. */
static bool uses_shared_runtime(const struct elf_symbols *dynsym)
{
	for (size_t i = 0; i < dynsym->n; i++) {
		if (dynsym->sym[i].st_shndx == SHN_UNDEF &&
			!strncmp(elf_symbol_name(dynsym, &dynsym->sym[i]), "cuda", 4))
			return true;
	}
	return false;
}

/* The runtime looks the driver's functions up by name and prints its own names and errors. */
static bool has_runtime_texts(const struct elf_file *e)
{
	cleanup_free char *data = NULL;
	Elf64_Shdr sh;
	bool by_nvcc = !elf_find_section(e, ".nv_fatbin", &sh);
	size_t n;

	if (elf_find_section(e, ".rodata", &sh) ||
		elf_load_section(e, &sh, by_nvcc ? MAX_TEXTS_BYTES : MAX_PLAIN_TEXTS_BYTES, &data))
		return false;
	n = (size_t)sh.sh_size;
	return memmem(data, n, "cuLaunchKernel", sizeof("cuLaunchKernel")) &&
	       (memmem(data, n, "cudaErrorInvalidValue", sizeof("cudaErrorInvalidValue")) ||
		       memmem(data, n, "cudaMalloc", sizeof("cudaMalloc")));
}

int static_inspect(const char *open_path, struct static_runtime *ret)
{
	cleanup_elf struct elf_file e = ELF_FILE_INIT;
	cleanup_symbols struct elf_symbols dynsym = {0};
	cleanup_symbols struct elf_symbols symtab = {0};
	struct static_runtime r = {0};
	int err = elf_open(open_path, &e);

	if (err)
		return err;
	err = elf_load_symbols(&e, SHT_DYNSYM, &dynsym);
	if (err && err != -ENOENT)
		return err;
	r.unwinder = defines_any(&dynsym, unwinder_functions, ARRAY_LEN(unwinder_functions));
	if (!can_reach_driver(&dynsym)) {
		*ret = r;
		return 0;
	}
	err = elf_load_symbols(&e, SHT_SYMTAB, &symtab);
	if (err && err != -ENOENT)
		return err;
	if (mentions(&symtab, "cuda"))
		r.linked = defines_any(&symtab, runtime_functions, ARRAY_LEN(runtime_functions));
	if (r.linked && mentions(&symtab, unwinder_functions[0]))
		r.unwinder |= defines_any(&symtab, unwinder_functions, ARRAY_LEN(unwinder_functions));
	if (!r.linked && !symtab.n && !uses_shared_runtime(&dynsym))
		r.stripped = has_runtime_texts(&e);
	*ret = r;
	return 0;
}

static bool is_ourselves(const struct stat *program)
{
	struct stat self;

	return !stat("/proc/self/exe", &self) && self.st_dev == program->st_dev &&
	       self.st_ino == program->st_ino;
}

/* static_inspect, once per file; what is no ELF file of this machine has no runtime in it. */
static int inspect_once(struct discovery *d, const char *open_path, struct static_runtime *ret)
{
	struct static_runtime r = {0};
	struct stat st;
	int err;

	if (stat(open_path, &st))
		return errno == ENOENT ? -ESRCH : -errno;
	for (size_t i = 0; i < d->n_programs; i++) {
		if (d->programs[i].dev == st.st_dev && d->programs[i].ino == st.st_ino) {
			*ret = d->programs[i].result;
			return 0;
		}
	}
	/* this program has all those names in its own tables */
	err = is_ourselves(&st) ? 0 : static_inspect(open_path, &r);
	if (err && err != -ENOEXEC && err != -EFBIG)
		return err;
	*ret = r;
	if (UTIL_GROW(d->programs, d->cap_programs, d->n_programs + 1, DISCOVER_MAX_PROCS))
		return 0; /* only slower without */
	d->programs[d->n_programs++] = (struct seen_program){.dev = st.st_dev, .ino = st.st_ino, .result = r};
	return 0;
}

static int find_program(struct cuda_proc *p, struct cuda_lib *lib)
{
	ssize_t n;

	snprintf(lib->open_path, sizeof(lib->open_path), "/proc/%u/exe", p->id.pid);
	n = readlink(lib->open_path, lib->path, sizeof(lib->path) - 1);
	if (n < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	lib->path[n] = '\0';
	maps_cut_deleted(lib->path);
	lib->from_pid = p->id.pid;
	return 0;
}

int discover_static(struct discovery *d, struct cuda_proc *p)
{
	cleanup_free struct cuda_lib *lib = calloc(1, sizeof(*lib));
	static const enum lib_kind kind = LIB_STATIC_CUDART;
	const struct cuda_lib *known;
	struct static_runtime r = {0};
	int err = lib ? find_program(p, lib) : -ENOMEM;

	if (!err)
		err = inspect_once(d, lib->open_path, &r);
	if (err)
		return err;
	if (r.linked) {
		err = lib_add(d, lib, &kind, 0, 0, &known);
		if (err)
			return err;
	}
	if (r.unwinder && r.linked)
		lib_add_unwinder(d, lib, 0, 0);
	p->static_runtime = r.linked || r.stripped;
	p->static_stripped = r.stripped;
	return 0;
}
