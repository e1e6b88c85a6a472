/* Finding what to trace: CUDA processes of a user, the CUDA libraries they map (through their own root),
 * copies on disk, statically linked runtimes. Reads /proc only; sends nothing, executes nothing. */
#ifndef INGERO_DISCOVER_DISCOVER_H
#define INGERO_DISCOVER_DISCOVER_H

#include "model/event.h"
#include "abi.h"

#define DISCOVER_MAX_LIBS 256
#define DISCOVER_MAX_PROCS 4096

enum lib_kind { LIB_CUDART, LIB_CUDA, LIB_NCCL, LIB_STATIC_CUDART, LIB_UNWINDER };

/* One library file to probe. Files are told apart by (device, inode), so that hard links and symbolic links
 * are one. Overlay mounts over one lower file have several devices and yet one set of probes: `dev` and `ino`
 * are then the lower file's, as far as the kernel tells them, else made from its file handle;
 * discover_same_file() knows the rest. */
struct cuda_lib {
	enum lib_kind kind;
	char path[4096];      /* as the process sees it */
	char open_path[4200]; /* how this program opens it: /proc/PID/root/…, /proc/PID/map_files/…, or the
				 plain path */
	uint64_t dev, ino;
	uint64_t handle_hash;  /* of the (lower) file's handle; 0 = the file system gives none */
	bool overlay;	       /* reached through an overlay mount */
	uint32_t from_pid;     /* a process that maps it; 0 = found on disk */
	unsigned soname_major; /* runtime: 11, 12, 13; 0 unknown. From DT_SONAME, else the file name */
};

struct cuda_proc {
	struct proc_id id;
	uint32_t uid, ppid;
	char comm[COMM_LEN];
	bool has_runtime, has_driver, static_runtime;
	bool static_stripped; /* runtime linked in, symbols stripped: only driver calls can be seen */
};

struct discover_filter {
	const uint32_t *pids; /* only these (NULL = all) */
	size_t n_pids;
	bool by_uid;
	uint32_t uid; /* real uid */
};

struct discovery {
	struct cuda_proc *procs;
	size_t n_procs, cap_procs;
	struct cuda_lib *libs;
	size_t n_libs, cap_libs;
	struct cuda_lib *unwinders; /* files with the C++ runtime's unwinder that those processes map */
	size_t n_unwinders, cap_unwinders;
	struct seen_program *programs; /* looked into for a linked-in runtime already */
	size_t n_programs, cap_programs;
	size_t n_unreadable; /* processes passing the filter whose maps may not be read */
	bool truncated;	     /* there was more than DISCOVER_MAX_LIBS or DISCOVER_MAX_PROCS */
};

void discovery_free(struct discovery *d);

/* Do both lead to the same file in the kernel's eyes, so that probes put through one fire for the other? */
bool discover_same_file(const struct cuda_lib *a, const struct cuda_lib *b);

/* Scans /proc for processes that map a CUDA library (or have a static runtime) and pass the filter, and
 * collects the libraries and unwinders of those, adding to what *ret holds (zero it first). An executable
 * mapping counts, a file merely read does not. Processes that vanish meanwhile are skipped. Returns 0 or
 * negative errno. */
int discover_running(const struct discover_filter *f, struct discovery *ret);

/* Adds library copies found on disk: the dynamic linker's cache (ld.so.cache), the usual folders, venvs and
 * conda environments, also of the host when its processes are visible (/proc/1/root). Stubs for linking are
 * left out. Never runs anything. Adds the system's unwinder too. */
int discover_on_disk(struct discovery *d);

/* Adds one explicitly named library (--cuda-lib). -ENOENT, -ENOEXEC (no ELF), -EINVAL (no CUDA symbol in it).
 */
int discover_add_file(struct discovery *d, const char *path);

/* Adds the program of a process when it has the runtime linked in statically: `.symtab` has cuda* functions.
 * Sets the static_ flags of p. 0 (also when there is no static runtime) or negative errno. */
int discover_static(struct discovery *d, struct cuda_proc *p);

/* Start time (boot-time clock, ns, from /proc/PID/stat, so rounded down to a clock tick), names, cgroup and
 * rank of a process; -ESRCH when it is gone or only waits to be reaped. */
int proc_read_info(uint32_t pid, struct process_info *ret);
/* Still the same process? Start times within one clock tick are equal; start_ns 0 = any. */
bool proc_alive(struct proc_id id);

/* User whose jobs are traced by default: SUDO_USER when root, else the real uid. Name lookup accepts a number
 * too. */
int discover_invoking_user(uint32_t *ret_uid, uint32_t *ret_gid, char *name, size_t name_size);
int discover_user_by_name(const char *name, uint32_t *ret_uid);

/* Symbols to probe in one file. Address arithmetic by program headers; aliases (same file offset) once. */
struct probe_point {
	uint32_t desc;	       /* row of the symbol table */
	uint64_t file_offset;  /* where the probe goes (after endbr64 when that pays) */
	uint64_t entry_offset; /* where the function begins */
	bool single_step; /* its first instruction cannot be emulated: costs about 10 µs per hit in a guest */
	char symbol[64];
};

/* Looks all symbols of the operation table up in the file (.dynsym and .symtab, version suffixes stripped).
 * Array is allocated, in the order of the table; at most ABI_MAX_DESCS entries. With soname_major 0 the
 * runtime's major is told from its symbols. 0 or negative errno (-ENOEXEC: no ELF file of this machine, or
 * damaged); *ret_n may be 0. */
int discover_points(const char *open_path, enum lib_kind kind, unsigned soname_major,
	struct probe_point **ret_points, size_t *ret_n);

/* File offset of a function of that name (.dynsym, then .symtab); -ENOENT, -ENOEXEC or another negative
 * errno. */
int discover_symbol_offset(const char *open_path, const char *symbol, uint64_t *ret_offset);

#endif
