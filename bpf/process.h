/* Ends, renames and program changes of traced threads. */
#ifndef INGERO_BPF_PROCESS_H
#define INGERO_BPF_PROCESS_H

#include "calls.h"

/* The thread ends inside calls: report the innermost with what it took so far, count all. */
__noinline int thread_close_calls(struct abi_thread *t)
{
	struct abi_control *ctl = control();
	u64 now = bpf_ktime_get_ns();
	u32 depth;

	if (!t)
		return 0;
	depth = t->depth;

	for (int i = 0; i < ABI_MAX_DEPTH; i++) {
		u32 level = depth - 1, desc;

		if (!depth || level >= ABI_MAX_DEPTH)
			break;
		call_abandon(t, level);
		desc = t->call[mask_8(level)].desc;
		if (ctl && ctl->records && desc < ABI_MAX_DESCS)
			call_send(t, level, now, (u64)ABI_CALL_UNFINISHED << 32, 1);
		depth--;
	}
	t->depth = 0;
	return 0;
}

static __always_inline void thread_release(struct task_struct *task)
{
	struct abi_task *s = bpf_task_storage_get(&ing_task, task, 0, 0);
	u32 tid = task->pid, slot, *by_tid;
	struct abi_thread *t;

	by_tid = bpf_map_lookup_elem(&ing_tids, &tid);
	if (s && s->slot)
		slot = s->slot;
	else if (by_tid)
		slot = *by_tid;
	else
		return;
	t = thread_by_slot(slot);
	if (t)
		thread_close_calls(t);
	bpf_map_delete_elem(&ing_tids, &tid);
	if (s)
		s->slot = 0;
	slot--;
	bpf_map_push_elem(&ing_free, &slot, 0);
}

SEC("raw_tp/sched_process_exit")
int ing_exit(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct abi_rec_thread *r;
	u32 tgid = task->tgid;

	thread_release(task);
	if (BPF_CORE_READ(task, signal, live.counter))
		return 0;
	bpf_map_delete_elem(&ing_targets, &tgid);
	if (!bpf_map_lookup_elem(&ing_procs, &tgid))
		return 0;
	bpf_map_delete_elem(&ing_procs, &tgid);
	r = bpf_ringbuf_reserve(&ing_proc, sizeof(*r), 0);
	if (!r) {
		status_count(ABI_STATUS_PROC_RING_FULL);
		return 0;
	}
	thread_describe(r, task, ABI_REC_EXIT);
	r->exit_code = task->exit_code;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("raw_tp/sched_process_exec")
int ing_exec(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct abi_thread *t = thread_find(task);
	u32 tid = task->pid, old_tid, slot, *found;

	if (!t)
		return 0;
	calls_unwind(t, ~0ull); /* the old stack is gone */
	old_tid = t->tid;
	if (old_tid != tid) { /* exec by another thread than the leader: it took over the leader's id */
		found = bpf_map_lookup_elem(&ing_tids, &old_tid);
		slot = found ? *found : 0;
		bpf_map_delete_elem(&ing_tids, &old_tid);
		if (slot)
			bpf_map_update_elem(&ing_tids, &tid, &slot, BPF_ANY);
		t->tid = tid;
	}
	thread_report(task, ABI_REC_EXEC);
	return 0;
}

/* Threads that rename themselves (another thread's name set through /proc is seen at its next call or never).
 */
SEC("raw_tp/task_rename")
int ing_rename(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct abi_thread *t;

	if (ctx->args[0] != (u64)task)
		return 0;
	t = thread_find(task);
	if (t)
		t->introduced = 0; /* introduced anew at its next call, with the new name */
	return 0;
}

#endif
