/* Shared by the files of this folder only. */
#ifndef INGERO_PROBE_INTERNAL_H
#define INGERO_PROBE_INTERNAL_H

#include "probe/probe.h"

#include <pthread.h>
#include <stdatomic.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#define PROBE_MAX_LINKS 2048

struct guard_batch;

struct probe {
	struct bpf_object *object;
	enum probe_way way;
	struct abi_control *control;   /* mapped */
	struct abi_counters *counters; /* mapped, ABI_MAX_COUNTERS of them */
	struct ring_buffer *calls, *procs;
	int map_index, map_counter_free, map_overflow, map_status, map_targets, map_free;
	int map_calls;
	uint64_t ring_bytes;
	/* links: descriptors of multi/session links, libbpf links of the single way */
	int *link_fds;
	size_t n_link_fds, cap_link_fds;
	struct bpf_link **links;
	size_t n_links, cap_links;
	size_t n_single;     /* single probes so far */
	bool faulting_names; /* the sleepable name program was accepted */
	/* drain state */
	const struct probe_sink *sink;
	size_t drained, budget;
	/* batch buffers of probe_read_counters */
	struct abi_counter_key *batch_keys;
	uint32_t *batch_slots;
	struct abi_counters *counters_copy;
	/* unwind guard */
	struct ring_buffer *unwinds;
	struct guard_batch *guard_batch;
	pthread_t guard;
	bool guard_running;
	atomic_bool guard_stop;
	atomic_ullong unwinds_repaired, unwinds_failed;
};

/* link.c */
int link_multi(int prog_fd, unsigned attach_type, const char *path, const uint64_t *offsets,
	const uint64_t *cookies, size_t n, bool at_return);
int probe_keep_fd(struct probe *p, int fd);
unsigned way_attach_type(enum probe_way way);

/* trial.c */
int trial_function_offset(bool single_step, uint64_t *ret_offset);
void trial_call(bool single_step, unsigned n);

/* guard.c */
int guard_start(struct probe *p);
void guard_stop(struct probe *p);

#endif
