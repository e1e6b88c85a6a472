/* C++ exceptions and forced unwinding read return addresses from the stack. Where a return probe replaced
 * one, the unwinder would find no frame description and end the program. So before it starts, the real
 * addresses are put back: the thread is stopped and user space does it (src/probe/guard.c), for locked-down
 * kernels do not let programs write to the memory of processes. What was replaced, the kernel keeps per
 * thread (struct return_instance, kernel/events/uprobes.c). */
#ifndef INGERO_BPF_UNWIND_H
#define INGERO_BPF_UNWIND_H

#include "calls.h"

#define SIGSTOP_NR 19

static __always_inline u64 trampoline_address(struct task_struct *task)
{
	return BPF_CORE_READ(task, mm, uprobes_state.xol_area, vaddr);
}

/* Where the instance's return address lies; 0 unless the trampoline is there now: a frame that was left
 * already may have been written over since. Global, so that the loop around it has one path for the verifier.
 */
__noinline u64 replaced_at(u64 instance, u64 trampoline)
{
	struct return_instance *ri = (void *)instance;
	u64 word = 0, at = BPF_CORE_READ(ri, stack);

	if (bpf_probe_read_user(&word, sizeof(word), (void *)at) || word != trampoline)
		return 0;
	return at;
}

static __always_inline void forget_open_calls(struct task_struct *task)
{
	struct abi_thread *t = thread_find(task);

	if (t)
		calls_unwind(t, ~0ull);
}

/* Returns whether there is anything to put back. */
static __always_inline bool unwind_report(
	struct abi_rec_unwind *r, struct task_struct *task, struct return_instance *ri)
{
	u64 trampoline = trampoline_address(task), any = 0, at;
	u32 n = 0;

	r->type = ABI_REC_UNWIND;
	r->tgid = task->tgid;
	r->tid = task->pid;
	for (; n < ABI_MAX_UNWIND && ri; n++) {
		at = replaced_at((u64)ri, trampoline);
		r->word[n].address = at;
		r->word[n].value = BPF_CORE_READ(ri, orig_ret_vaddr);
		any |= at;
		ri = BPF_CORE_READ(ri, next);
	}
	r->n = n;
	return any;
}

SEC("uprobe")
int ing_unwind(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct return_instance *ri = BPF_CORE_READ(task, utask, return_instances);
	struct abi_rec_unwind *r;

	if (!ri)
		return 0;
	r = bpf_ringbuf_reserve(&ing_unwinds, sizeof(*r), 0);
	if (!r) {
		status_count(ABI_STATUS_UNWINDS_FAILED);
		return 0;
	}
	if (!unwind_report(r, task, ri)) {
		bpf_ringbuf_discard(r, BPF_RB_NO_WAKEUP);
		return 0;
	}
	if (bpf_send_signal_thread(SIGSTOP_NR)) {
		status_count(ABI_STATUS_UNWINDS_FAILED);
		bpf_ringbuf_discard(r, BPF_RB_NO_WAKEUP);
		return 0;
	}
	bpf_ringbuf_submit(r, BPF_RB_FORCE_WAKEUP);
	forget_open_calls(task);
	return 0;
}

#endif
