/* Which threads are traced, and the state kept for each of them. */
#ifndef INGERO_BPF_THREAD_H
#define INGERO_BPF_THREAD_H

#include "counters.h"

#define MAX_ANCESTORS 16

static __always_inline u64 proc_start_ns(struct task_struct *task)
{
	return BPF_CORE_READ(task, group_leader, start_boottime);
}

/* Is this process, or one it descends from, among the targets? */
static __always_inline bool target_by_pid(struct task_struct *task)
{
	struct task_struct *p = task;

	for (int i = 0; i < MAX_ANCESTORS; i++) {
		u32 tgid = BPF_CORE_READ(p, tgid);

		if (!tgid || tgid == 1)
			return false;
		if (bpf_map_lookup_elem(&ing_targets, &tgid))
			return true;
		p = BPF_CORE_READ(p, group_leader, real_parent);
		if (!p)
			return false;
	}
	return false;
}

static __always_inline bool thread_wanted(const struct abi_control *ctl, struct task_struct *task)
{
	switch (ctl->target_mode) {
	case ABI_TARGET_ALL:
		return true;
	case ABI_TARGET_UID:
		return (u32)bpf_get_current_uid_gid() == ctl->target_uid;
	default:
		return target_by_pid(task);
	}
}

/* Fills a thread record (the current thread unless `comm` names another state of it). */
static __always_inline void thread_describe(struct abi_rec_thread *r, struct task_struct *task, u8 type)
{
	__builtin_memset(r, 0, sizeof(*r));
	r->type = type;
	r->tgid = task->tgid;
	r->tid = task->pid;
	r->uid = (u32)bpf_get_current_uid_gid();
	r->ppid = BPF_CORE_READ(task, group_leader, real_parent, tgid);
	r->proc_start_ns = proc_start_ns(task);
	r->time_ns = bpf_ktime_get_ns();
	r->cgroup_id = bpf_get_current_cgroup_id();
	bpf_get_current_comm(r->comm, sizeof(r->comm));
	bpf_probe_read_kernel_str(
		r->leader_comm, sizeof(r->leader_comm), BPF_CORE_READ(task, group_leader)->comm);
}

static __always_inline bool thread_report(struct task_struct *task, u8 type)
{
	struct abi_rec_thread *r = bpf_ringbuf_reserve(&ing_proc, sizeof(*r), 0);

	if (!r) {
		status_count(ABI_STATUS_PROC_RING_FULL);
		return false;
	}
	thread_describe(r, task, type);
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return true;
}

static __always_inline void thread_introduce(struct abi_thread *t, struct task_struct *task)
{
	u32 tgid = t->tgid;
	u64 start = t->proc_start_ns;

	bpf_map_update_elem(&ing_procs, &tgid, &start, BPF_ANY);
	if (thread_report(task, ABI_REC_THREAD))
		t->introduced = 1;
}

static __always_inline struct abi_thread *thread_by_slot(u32 slot_plus_1)
{
	u32 slot = slot_plus_1 - 1;

	return bpf_map_lookup_elem(&ing_threads, &slot);
}

/* The record of the current thread if it is traced and has one, else NULL. */
static __always_inline struct abi_thread *thread_find(struct task_struct *task)
{
	struct abi_task *s = bpf_task_storage_get(&ing_task, task, 0, 0);
	u32 tid, *slot;

	if (s)
		return s->slot && (s->flags & ABI_TASK_TRACED) ? thread_by_slot(s->slot) : NULL;
	tid = task->pid;
	slot = bpf_map_lookup_elem(&ing_tids, &tid);
	if (!slot)
		return NULL;
	status_count(ABI_STATUS_STORAGE_BUSY);
	return thread_by_slot(*slot);
}

/* Gives a wanted thread a record. False when none is free. */
static __always_inline bool thread_assign(struct abi_task *s, struct task_struct *task)
{
	u32 slot, tid = task->pid, slot_plus_1;
	struct abi_thread *t;

	if (bpf_map_pop_elem(&ing_free, &slot))
		return false;
	t = bpf_map_lookup_elem(&ing_threads, &slot);
	if (!t)
		return false;
	t->proc_start_ns = proc_start_ns(task);
	t->tgid = task->tgid;
	t->tid = tid;
	t->depth = 0;
	t->introduced = 0;
	t->time_last_ns = 0;
	t->time_state = ABI_TIME_RUN;
	__builtin_memset(t->time_ns, 0, sizeof(t->time_ns));
	__builtin_memset(t->counters, 0, sizeof(t->counters));
	slot_plus_1 = slot + 1;
	bpf_map_update_elem(&ing_tids, &tid, &slot_plus_1, BPF_ANY);
	t->slot_plus_1 = slot_plus_1;
	s->slot = slot_plus_1;
	return true;
}

enum thread_verdict { THREAD_IGNORED, THREAD_TRACED, THREAD_NO_SLOT };

/* Judges the current thread once per policy, then only looks the answer up. */
static __always_inline enum thread_verdict thread_enter(
	const struct abi_control *ctl, struct task_struct *task, struct abi_thread **ret_thread)
{
	struct abi_task *s = bpf_task_storage_get(&ing_task, task, 0, 0);

	if (!s) {
		struct abi_thread *t = thread_find(task); /* storage busy? */

		if (t) {
			*ret_thread = t;
			return THREAD_TRACED;
		}
		s = bpf_task_storage_get(&ing_task, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!s)
			return thread_wanted(ctl, task) ? THREAD_NO_SLOT : THREAD_IGNORED;
		s->policy_gen = ctl->policy_gen - 1;
	}
	if (s->policy_gen != ctl->policy_gen) {
		s->policy_gen = ctl->policy_gen;
		s->flags = thread_wanted(ctl, task) ? ABI_TASK_TRACED : 0;
	}
	if (!(s->flags & ABI_TASK_TRACED))
		return THREAD_IGNORED;
	if (!s->slot && !thread_assign(s, task)) {
		status_count(ABI_STATUS_NO_SLOT);
		return THREAD_NO_SLOT;
	}
	*ret_thread = thread_by_slot(s->slot);
	return *ret_thread ? THREAD_TRACED : THREAD_NO_SLOT;
}

#endif
