/* What the files of this folder share. */
#ifndef INGERO_DISCOVER_INTERNAL_H
#define INGERO_DISCOVER_INTERNAL_H

#include "discover/discover.h"

#include <elf.h>
#include <sys/types.h>

/* ---- files ---- */

/* Opens a regular file for reading without ever blocking on a pipe or waking a device. Descriptor or negative
 * errno; -ENOEXEC when it is something else. */
int file_open_regular(const char *path);

/* Fills dev, ino, handle_hash and overlay of lib from open_path. map_dev and map_ino are what the kernel
 * showed for the mapping (0 = none). 0 or negative errno; -ENOEXEC when it is no regular file with content.
 */
int file_identify(struct cuda_lib *lib, dev_t map_dev, ino_t map_ino);

/* ---- ELF ---- */

/* A 64-bit ELF file of this machine. Everything in it is checked against the file's size; tables are read
 * into memory, never mapped: a file cut short by its owner must not end us. */
struct elf_file {
	int fd;
	uint64_t size;
	uint16_t type; /* ET_DYN, ET_EXEC */
	uint16_t machine;
	Elf64_Phdr *segments;
	size_t n_segments;
	Elf64_Shdr *sections;
	size_t n_sections;
	size_t names_index; /* section with the section names, 0 = none */
};

struct elf_symbols {
	Elf64_Sym *sym;
	size_t n;
	char *names; /* NUL-terminated at the end whatever the file says */
	size_t names_size;
};

#define ELF_FILE_INIT ((struct elf_file){.fd = -1})

/* -ENOEXEC: no ELF file, damaged, another word size, byte order or machine. */
int elf_open(const char *path, struct elf_file *ret);
void elf_close(struct elf_file *e);
/* type: SHT_DYNSYM or SHT_SYMTAB. -ENOENT when the file has none. */
int elf_load_symbols(const struct elf_file *e, uint32_t type, struct elf_symbols *ret);
void elf_free_symbols(struct elf_symbols *t);
/* Name of a symbol ("" when its index is out of bounds). */
const char *elf_symbol_name(const struct elf_symbols *t, const Elf64_Sym *sym);
/* Is it a function that this file defines? */
bool elf_is_function(const Elf64_Sym *sym);
/* Does `name` equal `want`, not counting a version suffix "@V" or "@@V"? */
bool elf_name_equal(const char *name, const char *want);
/* Offset in the file of an address in an executable segment; -ENOENT. */
int elf_code_offset(const struct elf_file *e, uint64_t address, uint64_t *ret_offset);
/* Section by name; -ENOENT. */
int elf_find_section(const struct elf_file *e, const char *name, Elf64_Shdr *ret);
/* Whole section in allocated memory, one NUL added; -EFBIG above max_bytes. */
int elf_load_section(const struct elf_file *e, const Elf64_Shdr *sh, uint64_t max_bytes, char **ret_data);
/* First DT_SONAME; -ENOENT. */
int elf_soname(const struct elf_file *e, char *ret, size_t size);
/* Up to n bytes at an offset; returns how many there are. */
size_t elf_read(const struct elf_file *e, uint64_t offset, void *buf, size_t n);

#define cleanup_elf __attribute__((cleanup(elf_close)))
#define cleanup_symbols __attribute__((cleanup(elf_free_symbols)))

/* ---- instructions ---- */

/* Where to put the probe of a function that begins with these bytes: skips a landing pad when that saves the
 * out-of-line single step. machine: EM_X86_64 or EM_AARCH64. */
void insn_choose(const uint8_t *code, size_t n, uint16_t machine, uint64_t *ret_skip, bool *ret_single_step);

/* ---- symbols of the operation table ---- */

enum symbol_family { FAMILY_RUNTIME, FAMILY_DRIVER, FAMILY_NCCL, FAMILY_COUNT };

/* How many functions of each family the file exports (or, without any, has in .symtab). */
int points_count_families(const struct elf_file *e, size_t ret_counts[FAMILY_COUNT]);

/* ---- libraries ---- */

/* What kind a library is by its file name; false = none of ours. "memfd:" in front is allowed. */
bool lib_kind_of_name(const char *path, enum lib_kind *ret_kind);
/* Major version in "…so.12" or "…so.12.4.127"; 0 = none. */
unsigned lib_major_of_name(const char *name);
/* Adds lib (path, open_path, from_pid set) unless the same file is there already; *ret_known points to the
 * entry then or to the new one. `kind` is what the name says, NULL = tell from the symbols. 0, -ENOEXEC,
 * -EINVAL (no CUDA symbol), -E2BIG or another negative errno. */
int lib_add(struct discovery *d, struct cuda_lib *lib, const enum lib_kind *kind, dev_t map_dev,
	ino_t map_ino, const struct cuda_lib **ret_known);
/* Adds a file with the unwinder; duplicates are nothing. */
int lib_add_unwinder(struct discovery *d, struct cuda_lib *lib, dev_t map_dev, ino_t map_ino);

/* ---- /proc ---- */

struct proc_stat {
	char comm[COMM_LEN];
	char state;
	uint32_t ppid;
	uint32_t n_threads;
	uint64_t start_ticks;
};

/* Parses the content of /proc/PID/stat; the name in it may hold anything. -EINVAL. */
int proc_parse_stat(const char *text, size_t len, struct proc_stat *ret);
uint64_t proc_ticks_to_ns(uint64_t ticks);
/* Directory of a process; all reads through it are of the same one. Descriptor or -ESRCH / negative errno. */
int proc_open(uint32_t pid);
int proc_read_stat(int dir, struct proc_stat *ret);
int proc_read_uid(int dir, uint32_t *ret_uid);
/* Content of a file of the process, at most size - 1 bytes, NUL-terminated; length or negative errno. */
ssize_t proc_read_file(int dir, const char *name, char *buf, size_t size);
/* No thread of it will run again. */
bool proc_is_dead(const struct proc_stat *st);
/* Rank, local rank, world size from the environment; -1 each when unknown. */
void proc_read_rank(int dir, struct process_info *info);
/* Id of its cgroup v2 group as the kernel side sees it; 0 = unknown. */
uint64_t proc_read_cgroup_id(int dir);

/* ---- maps ---- */

struct map_entry {
	uint64_t start, end;
	bool executable;
	dev_t dev;
	ino_t ino;
	const char *path; /* into the line, as the kernel escaped it */
};

/* Parses one line of /proc/PID/maps (changes it). False for lines without a file. */
bool maps_parse_line(char *line, struct map_entry *ret);
/* "\012" back to a line feed, in place. */
void maps_unescape(char *path);
/* Cuts " (deleted)" off; true when it was there. */
bool maps_cut_deleted(char *path);
/* Finds how to open the very file that is mapped, also when its path was deleted or replaced. Sets path,
 * open_path and from_pid of lib. tid: whose /proc directory to use. 0 or negative errno. */
int maps_resolve(uint32_t pid, uint32_t tid, const struct map_entry *m, struct cuda_lib *lib);

/* ---- statically linked runtime ---- */

struct static_runtime {
	bool linked;   /* its functions are in .symtab */
	bool stripped; /* linked in, names gone */
	bool unwinder; /* the unwinder is linked in */
};

int static_inspect(const char *open_path, struct static_runtime *ret);

/* Result by file: hundreds of processes run the same few programs. */
struct seen_program {
	dev_t dev;
	ino_t ino;
	struct static_runtime result;
};

/* ---- disk ---- */

/* Calls fn for each path in the content of ld.so.cache (new format, also behind an old one). -EINVAL when it
 * is something else. */
int ldcache_each(const char *data, size_t len, void (*fn)(void *ctx, const char *path), void *ctx);

#endif
