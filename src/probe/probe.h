/* Loads the BPF programs, attaches them to library files, hands out records and counters. One thread uses a
 * probe; only the unwind guard runs on a thread of its own, inside. */
#ifndef INGERO_PROBE_PROBE_H
#define INGERO_PROBE_PROBE_H

#include "abi.h"
#include "base/util.h"

/* How calls are hooked, best first (spec kernel-measurements §4, §12). */
enum probe_way { PROBE_WAY_AUTO, PROBE_WAY_SESSION, PROBE_WAY_MULTI, PROBE_WAY_SINGLE };

#define PROBE_SINGLE_MAX 25 /* each single probe takes about 0.1 s to detach, serialised in the kernel */
#define PROBE_RING_DEFAULT_BYTES (8u << 20)
#define PROBE_RING_MIN_BYTES 4096u

struct probe_options {
	enum probe_way way;  /* AUTO: the best that really attaches */
	uint64_t ring_bytes; /* call ring, a power of two >= one page; 0 = default */
	uint32_t sampling_rate;
	bool records; /* false: counters only */
};

struct probe;

/* Loads the programs and settles the way by attaching to this very program. 0 or negative errno with one
 * sentence in err (-EPERM: rights, -ENOTSUP: kernel). */
int probe_open(const struct probe_options *options, struct probe **ret_probe, char *err, size_t err_size);
/* Detaches everything and frees. NULL is fine. */
void probe_close(struct probe *p);

enum probe_way probe_get_way(const struct probe *p);
const char *probe_way_name(enum probe_way way); /* "session", "multi", "single" */

/* Whose calls are recorded. Processes begun by a target belong to it. May be called at any time. */
int probe_set_targets(
	struct probe *p, enum abi_target_mode mode, uint32_t uid, const uint32_t *pids, size_t n);

struct probe_point_spec {
	uint32_t desc; /* row of the operation table */
	uint64_t file_offset;
	bool entry_only_name; /* row shows a name at entry; no return needed */
	bool is_name;	      /* ABI_DESC_NAME row */
	unsigned priority;    /* lower first when only a few can be attached */
};

struct probe_attach_result {
	size_t attached; /* points now probed */
	size_t refused;	 /* the kernel would not place a probe there */
	size_t left_out; /* over the limit of the single way */
};

/* Probes one file for all processes. `path` is opened by the kernel at once and not needed afterwards.
 * `max_single` bounds the points of this file in the single way. 0 or negative errno. */
int probe_attach(struct probe *p, const char *path, const struct probe_point_spec *points, size_t n,
	size_t max_single, struct probe_attach_result *ret);

/* How many symbols can still be probed (single way); SIZE_MAX where there is no limit. */
size_t probe_single_room(const struct probe *p);

/* Guards exceptions that pass through probed calls: probes the unwinder's entry points of this file
 * (libgcc_s). */
int probe_attach_unwinder(struct probe *p, const char *path, const uint64_t *file_offsets, size_t n);

/* From here on calls are recorded. */
void probe_activate(struct probe *p);
void probe_set_sampling(struct probe *p, uint32_t rate);
/* Removes all probes; records and counters stay readable. Takes about 0.1 s (single way: per probe). */
void probe_detach(struct probe *p);

/* Records, in the order they were made per thread. `type` says which (first byte). Return false to stop
 * early. */
struct probe_sink {
	void (*call)(void *ctx, const struct abi_rec_call *rec, size_t size);
	void (*thread)(void *ctx, const struct abi_rec_thread *rec); /* THREAD, EXIT, EXEC */
	void (*name)(void *ctx, const struct abi_rec_name *rec);
	void *ctx;
};

/* Descriptor that becomes readable when the call ring fills up beyond a quarter. */
int probe_wake_fd(const struct probe *p);
/* Hands over what is in the rings, at most `budget` call records (0 = all). Returns how many call records, or
 * negative errno. */
long probe_drain(struct probe *p, const struct probe_sink *sink, size_t budget);
/* Only the process ring; for a sink that meets a thread it has not been introduced to. */
void probe_drain_process(struct probe *p, const struct probe_sink *sink);

/* Counters of every (process, operation), and of the overflow rows (key.tgid 0, key.op = the operation). */
typedef void (*probe_counter_fn)(void *ctx, const struct abi_counter_key *key, const struct abi_counters *c);
int probe_read_counters(struct probe *p, probe_counter_fn fn, void *ctx);
/* Forgets the counters of a dead process's operation. */
void probe_forget_counters(struct probe *p, const struct abi_counter_key *key);

struct probe_status {
	uint64_t value[ABI_STATUS_COUNT];
	uint64_t ring_bytes, ring_used_bytes;
	uint64_t unwinds_repaired, unwinds_failed;
};

void probe_get_status(const struct probe *p, struct probe_status *ret);

/* What one trapped call costs here, measured on this program: emulated and single-stepped entry instruction.
 */
int probe_measure_entry_cost(struct probe *p, double *ret_emulated_ns, double *ret_single_step_ns);

struct probe_trial_result {
	char way[16];	  /* "session", "multi", "single" */
	char detail[200]; /* one sentence: what worked or the kernel's reason */
	bool btf_sched;	  /* BTF tracepoints (scheduler programs) can be loaded */
};

/* Loads, attaches to this program, calls a probed function and checks that exactly those calls arrive through
 * ring and counters. 0 or negative errno; ret->detail is filled in both cases. */
int probe_trial(struct probe_trial_result *ret);

#endif
