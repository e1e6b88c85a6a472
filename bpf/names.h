/* Kernel names: functions that show which name belongs to a kernel handle or host stub. */
#ifndef INGERO_BPF_NAMES_H
#define INGERO_BPF_NAMES_H

#include "calls.h"

/* A look-up in progress: the name is known at entry, the handle at return. */
struct pending_name {
	u64 out_addr;
	char name[ABI_NAME_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, struct pending_name);
} ing_pending SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pending_name);
} ing_scratch SEC(".maps");

/* The i-th of the first four arguments. All are loaded first: the verifier takes no computed context offsets.
 */
static __always_inline u64 reg_arg(struct pt_regs *ctx, u32 i)
{
	u64 a0 = PT_REGS_PARM1(ctx), a1 = PT_REGS_PARM2(ctx), a2 = PT_REGS_PARM3(ctx),
	    a3 = PT_REGS_PARM4(ctx);

	asm volatile("" : "+r"(a0), "+r"(a1), "+r"(a2), "+r"(a3));
	return i == 0 ? a0 : i == 1 ? a1 : i == 2 ? a2 : i == 3 ? a3 : 0;
}

static __always_inline void name_send(struct task_struct *task, u64 handle, const char *name)
{
	struct abi_rec_name *r = bpf_ringbuf_reserve(&ing_proc, sizeof(*r), 0);

	if (!r) {
		status_count(ABI_STATUS_PROC_RING_FULL);
		return;
	}
	r->type = ABI_REC_NAME;
	r->tgid = task->tgid;
	r->proc_start_ns = proc_start_ns(task);
	r->handle = handle;
	__builtin_memcpy(r->name, name, ABI_NAME_MAX);
	r->name[ABI_NAME_MAX - 1] = 0;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

/* Reads a string that may not be resident yet: faulting copies, never across the end of its page into an
 * unmapped one. */
static __always_inline void name_copy(char *to, u64 addr)
{
	u32 first = 4096 - (addr & 4095);

	if (first >= ABI_NAME_MAX) {
		bpf_copy_from_user(to, ABI_NAME_MAX - 1, (void *)addr);
		return;
	}
	first &= ABI_NAME_MAX - 1;
	if (first && bpf_copy_from_user(to, first, (void *)addr))
		return;
	for (u32 i = 0; i < ABI_NAME_MAX; i++) {
		if (i >= first)
			break;
		if (!to[i & (ABI_NAME_MAX - 1)])
			return;
	}
	if (bpf_copy_from_user(to + first, ABI_NAME_MAX - 1 - first, (void *)(addr + first)))
		to[first & (ABI_NAME_MAX - 1)] = 0;
}

static __always_inline int name_enter(struct pt_regs *ctx, bool may_fault)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct abi_control *ctl = control();
	u64 cookie = bpf_get_attach_cookie(ctx);
	u32 desc = cookie, zero = 0, tid = task->pid;
	const volatile struct abi_desc *d;
	struct pending_name *p;
	u64 name_addr;

	if (!ctl || !ctl->active || desc >= ABI_MAX_DESCS || !thread_wanted(ctl, task))
		return 0;
	d = &ing_descs[desc];
	p = bpf_map_lookup_elem(&ing_scratch, &zero);
	if (!p)
		return 0;
	p->out_addr = reg_arg(ctx, d->field[1].a);
	name_addr = reg_arg(ctx, d->field[0].a);
	__builtin_memset(p->name, 0, sizeof(p->name));
	if (may_fault)
		name_copy(p->name, name_addr);
	else
		bpf_probe_read_user_str(p->name, sizeof(p->name), (void *)name_addr);
	if (!p->name[0])
		return 0;
	if (d->field[1].src == ABI_SRC_ARG)
		name_send(task, p->out_addr, p->name);
	else
		bpf_map_update_elem(&ing_pending, &tid, p, BPF_ANY);
	return 0;
}

SEC("uprobe")
int ing_name(struct pt_regs *ctx)
{
	return name_enter(ctx, false);
}

SEC("uprobe.s")
int ing_name_fault(struct pt_regs *ctx)
{
	return name_enter(ctx, true);
}

SEC("uretprobe")
int ing_name_ret(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 tid = task->pid;
	struct pending_name *p = bpf_map_lookup_elem(&ing_pending, &tid);

	if (!p)
		return 0;
	if (!(s32)PT_REGS_RC(ctx))
		name_send(task, user_u64(p->out_addr), p->name);
	bpf_map_delete_elem(&ing_pending, &tid);
	return 0;
}

#endif
