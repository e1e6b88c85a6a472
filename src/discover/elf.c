/* Bounded reading of ELF files that strangers made. */
#include "discover/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define MAX_SEGMENTS 4096u
#define MAX_SECTIONS (1u << 18)
#define MAX_TABLE_BYTES (512ull << 20)
#define MAX_DYNAMIC 4096u

#if defined(__x86_64__)
#define NATIVE_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define NATIVE_MACHINE EM_AARCH64
#else
#error "this machine is not supported"
#endif

size_t elf_read(const struct elf_file *e, uint64_t offset, void *buf, size_t n)
{
	size_t done = 0;

	if (offset >= e->size)
		return 0;
	n = MIN(n, e->size - offset);
	while (done < n) {
		ssize_t r = pread(e->fd, (char *)buf + done, n - done, (off_t)(offset + done));

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			break;
		done += (size_t)r;
	}
	return done;
}

/* Reads exactly n bytes into new memory with a NUL behind; *ret stays untouched on error. */
static int read_alloc(const struct elf_file *e, uint64_t offset, uint64_t n, char **ret)
{
	cleanup_free char *buf = NULL;

	if (n > MAX_TABLE_BYTES)
		return -EFBIG;
	if (offset > e->size || n > e->size - offset)
		return -ENOEXEC;
	buf = malloc((size_t)n + 1);
	if (!buf)
		return -ENOMEM;
	if (elf_read(e, offset, buf, (size_t)n) != n)
		return -ENOEXEC;
	buf[n] = '\0';
	*ret = STEAL_PTR(buf);
	return 0;
}

static bool header_is_native(const Elf64_Ehdr *h)
{
	return !memcmp(h->e_ident, ELFMAG, SELFMAG) && h->e_ident[EI_CLASS] == ELFCLASS64 &&
	       h->e_ident[EI_DATA] == ELFDATA2LSB && h->e_ident[EI_VERSION] == EV_CURRENT &&
	       h->e_machine == NATIVE_MACHINE && (h->e_type == ET_DYN || h->e_type == ET_EXEC);
}

/* Section 0 holds the counts that do not fit into the header. */
static int load_sections(struct elf_file *e, const Elf64_Ehdr *h)
{
	uint64_t n = h->e_shnum;
	Elf64_Shdr first;
	char *data;
	int err;

	if (!h->e_shoff)
		return 0;
	if (h->e_shentsize != sizeof(Elf64_Shdr) ||
		elf_read(e, h->e_shoff, &first, sizeof(first)) != sizeof(first))
		return -ENOEXEC;
	if (!n)
		n = first.sh_size;
	if (!n || n > MAX_SECTIONS)
		return -ENOEXEC;
	err = read_alloc(e, h->e_shoff, n * sizeof(Elf64_Shdr), &data);
	if (err)
		return err;
	e->sections = (Elf64_Shdr *)(void *)data;
	e->n_sections = (size_t)n;
	e->names_index = h->e_shstrndx == SHN_XINDEX ? first.sh_link : h->e_shstrndx;
	return 0;
}

static int load_segments(struct elf_file *e, const Elf64_Ehdr *h)
{
	uint64_t n = h->e_phnum;
	char *data;
	int err;

	if (n == PN_XNUM && e->n_sections)
		n = e->sections[0].sh_info;
	if (!h->e_phoff || !n || n > MAX_SEGMENTS || h->e_phentsize != sizeof(Elf64_Phdr))
		return -ENOEXEC;
	err = read_alloc(e, h->e_phoff, n * sizeof(Elf64_Phdr), &data);
	if (err)
		return err;
	e->segments = (Elf64_Phdr *)(void *)data;
	e->n_segments = (size_t)n;
	return 0;
}

int elf_open(const char *path, struct elf_file *ret)
{
	cleanup_elf struct elf_file e = ELF_FILE_INIT;
	struct stat st;
	Elf64_Ehdr h;
	int err;

	e.fd = file_open_regular(path);
	if (e.fd < 0)
		return e.fd;
	if (fstat(e.fd, &st))
		return -errno;
	e.size = (uint64_t)st.st_size;
	if (elf_read(&e, 0, &h, sizeof(h)) != sizeof(h) || !header_is_native(&h))
		return -ENOEXEC;
	e.type = h.e_type;
	e.machine = h.e_machine;
	err = load_sections(&e, &h);
	if (!err)
		err = load_segments(&e, &h);
	if (err)
		return err;
	*ret = e;
	e = ELF_FILE_INIT;
	return 0;
}

void elf_close(struct elf_file *e)
{
	if (!e)
		return;
	util_close_fd(&e->fd);
	free(e->segments);
	free(e->sections);
	*e = ELF_FILE_INIT;
}

/* ---- sections ---- */

int elf_load_section(const struct elf_file *e, const Elf64_Shdr *sh, uint64_t max_bytes, char **ret_data)
{
	if (sh->sh_type == SHT_NOBITS || (sh->sh_flags & SHF_COMPRESSED))
		return -ENOEXEC;
	if (sh->sh_size > max_bytes)
		return -EFBIG;
	return read_alloc(e, sh->sh_offset, sh->sh_size, ret_data);
}

int elf_find_section(const struct elf_file *e, const char *name, Elf64_Shdr *ret)
{
	cleanup_free char *names = NULL;
	uint64_t size;
	int err;

	if (!e->names_index || e->names_index >= e->n_sections)
		return -ENOENT;
	size = e->sections[e->names_index].sh_size;
	err = elf_load_section(e, &e->sections[e->names_index], MAX_TABLE_BYTES, &names);
	if (err)
		return err;
	for (size_t i = 1; i < e->n_sections; i++) {
		if (e->sections[i].sh_name < size && !strcmp(names + e->sections[i].sh_name, name)) {
			*ret = e->sections[i];
			return 0;
		}
	}
	return -ENOENT;
}

/* ---- symbols ---- */

void elf_free_symbols(struct elf_symbols *t)
{
	if (!t)
		return;
	free(t->sym);
	free(t->names);
	*t = (struct elf_symbols){0};
}

int elf_load_symbols(const struct elf_file *e, uint32_t type, struct elf_symbols *ret)
{
	const Elf64_Shdr *sh = NULL, *names;
	cleanup_free char *sym_data = NULL;
	char *name_data;
	int err;

	for (size_t i = 1; i < e->n_sections && !sh; i++) {
		if (e->sections[i].sh_type == type)
			sh = &e->sections[i];
	}
	if (!sh)
		return -ENOENT;
	if (sh->sh_entsize != sizeof(Elf64_Sym) || !sh->sh_link || sh->sh_link >= e->n_sections)
		return -ENOEXEC;
	names = &e->sections[sh->sh_link];
	err = elf_load_section(e, sh, MAX_TABLE_BYTES, &sym_data);
	if (!err)
		err = elf_load_section(e, names, MAX_TABLE_BYTES, &name_data);
	if (err)
		return err;
	*ret = (struct elf_symbols){
		.sym = (Elf64_Sym *)(void *)STEAL_PTR(sym_data),
		.n = (size_t)(sh->sh_size / sizeof(Elf64_Sym)),
		.names = name_data,
		.names_size = (size_t)names->sh_size,
	};
	return 0;
}

const char *elf_symbol_name(const struct elf_symbols *t, const Elf64_Sym *sym)
{
	return sym->st_name < t->names_size ? t->names + sym->st_name : "";
}

bool elf_is_function(const Elf64_Sym *sym)
{
	return ELF64_ST_TYPE(sym->st_info) == STT_FUNC && sym->st_shndx != SHN_UNDEF &&
	       sym->st_shndx != SHN_ABS && sym->st_value;
}

bool elf_name_equal(const char *name, const char *want)
{
	size_t n = strlen(want);

	return !strncmp(name, want, n) && (name[n] == '\0' || name[n] == '@');
}

int elf_code_offset(const struct elf_file *e, uint64_t address, uint64_t *ret_offset)
{
	for (size_t i = 0; i < e->n_segments; i++) {
		const Elf64_Phdr *p = &e->segments[i];
		uint64_t at = address - p->p_vaddr;

		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X) || address < p->p_vaddr || at >= p->p_filesz)
			continue;
		if (p->p_offset >= e->size || at >= e->size - p->p_offset)
			return -ENOENT;
		*ret_offset = p->p_offset + at;
		return 0;
	}
	return -ENOENT;
}

/* ---- dynamic section ---- */

/* Offset of an address in any loaded segment, and how many bytes of the file follow there. */
static int data_offset(const struct elf_file *e, uint64_t address, uint64_t *ret_offset, uint64_t *ret_left)
{
	for (size_t i = 0; i < e->n_segments; i++) {
		const Elf64_Phdr *p = &e->segments[i];
		uint64_t at = address - p->p_vaddr;

		if (p->p_type != PT_LOAD || address < p->p_vaddr || at >= p->p_filesz)
			continue;
		if (p->p_offset >= e->size || at >= e->size - p->p_offset)
			return -ENOEXEC;
		*ret_offset = p->p_offset + at;
		*ret_left = MIN(p->p_filesz - at, e->size - *ret_offset);
		return 0;
	}
	return -ENOEXEC;
}

static bool read_dynamic(const struct elf_file *e, uint64_t *ret_names, uint64_t *ret_soname)
{
	const Elf64_Phdr *dyn = NULL;
	bool has_names = false, has_soname = false;
	Elf64_Dyn d;

	for (size_t i = 0; i < e->n_segments && !dyn; i++) {
		if (e->segments[i].p_type == PT_DYNAMIC)
			dyn = &e->segments[i];
	}
	for (uint64_t i = 0; dyn && i < MIN(dyn->p_filesz / sizeof(d), MAX_DYNAMIC); i++) {
		if (dyn->p_offset >= e->size ||
			elf_read(e, dyn->p_offset + i * sizeof(d), &d, sizeof(d)) != sizeof(d))
			break;
		if (d.d_tag == DT_NULL)
			break;
		if (d.d_tag == DT_STRTAB && !has_names) {
			*ret_names = d.d_un.d_ptr;
			has_names = true;
		} else if (d.d_tag == DT_SONAME && !has_soname) {
			*ret_soname = d.d_un.d_val;
			has_soname = true;
		}
	}
	return has_names && has_soname;
}

int elf_soname(const struct elf_file *e, char *ret, size_t size)
{
	uint64_t names = 0, soname = 0, offset, left;
	char buf[256];
	size_t n;

	if (!read_dynamic(e, &names, &soname))
		return -ENOENT;
	if (soname > UINT64_MAX - names || data_offset(e, names + soname, &offset, &left))
		return -ENOEXEC;
	n = elf_read(e, offset, buf, (size_t)MIN(left, sizeof(buf)));
	if (!n || !memchr(buf, '\0', n) || strlen(buf) >= size)
		return -ENOEXEC;
	memcpy(ret, buf, strlen(buf) + 1);
	return 0;
}
