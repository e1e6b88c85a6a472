/* C++ exceptions and forced unwinding read return addresses from the stack. Where a return probe replaced
 * one, the unwinder would find no frame description and end the program. So before it starts, the real
 * addresses are put back: by the program itself where the kernel lets it, else the thread is stopped and user
 * space does it. */
#ifndef INGERO_BPF_UNWIND_H
#define INGERO_BPF_UNWIND_H

#include "calls.h"

#define SIGSTOP_NR 19

static __always_inline void unwind_report(struct abi_thread *t, u32 depth)
{
	struct abi_rec_unwind *r = bpf_ringbuf_reserve(&ing_unwinds, sizeof(*r), 0);

	if (!r)
		return;
	r->type = ABI_REC_UNWIND;
	r->n = depth;
	r->tgid = t->tgid;
	r->tid = t->tid;
	for (u32 i = 0; i < ABI_MAX_DEPTH; i++) {
		r->address[i] = i < depth ? t->call[mask_8(i)].sp : 0;
		r->value[i] = i < depth ? t->call[mask_8(i)].ret_addr : 0;
	}
	if (bpf_send_signal_thread(SIGSTOP_NR)) {
		bpf_ringbuf_discard(r, BPF_RB_NO_WAKEUP);
		return;
	}
	bpf_ringbuf_submit(r, BPF_RB_FORCE_WAKEUP);
}

SEC("uprobe")
int ing_unwind(struct pt_regs *ctx)
{
	struct abi_thread *t = thread_find(bpf_get_current_task_btf());
	u32 depth;

	if (!t || !t->depth)
		return 0;
	depth = calls_unwind(t, PT_REGS_SP(ctx) - 1);
	if (!depth || depth > ABI_MAX_DEPTH)
		return 0;
	unwind_report(t, depth);
	calls_unwind(t, ~0ull);
	return 0;
}

#endif
