/* The call probes: one generic entry and one generic return body for every CUDA symbol. */
#ifndef INGERO_BPF_CALLS_H
#define INGERO_BPF_CALLS_H

#include "thread.h"

#if defined(__TARGET_ARCH_x86)
#define REG_SLOTS 6
#define RETURN_SP_DELTA 8 /* the return address has been popped */
#define STACK_ARGS_OFFSET 8
#else
#define REG_SLOTS 8
#define RETURN_SP_DELTA 0
#define STACK_ARGS_OFFSET 0
#endif

#define CUDA_NOT_READY 600

static __always_inline void read_slots(
	struct pt_regs *ctx, struct abi_open_call *call, bool stack_args, u64 sp)
{
#if defined(__TARGET_ARCH_x86)
	call->slot[0] = ctx->di;
	call->slot[1] = ctx->si;
	call->slot[2] = ctx->dx;
	call->slot[3] = ctx->cx;
	call->slot[4] = ctx->r8;
	call->slot[5] = ctx->r9;
#else
	for (int i = 0; i < REG_SLOTS; i++)
		call->slot[i] = ctx->user_regs.regs[i];
#endif
	if (!stack_args)
		return;
	if (bpf_probe_read_user(&call->slot[REG_SLOTS], sizeof(u64) * (ABI_SLOTS - REG_SLOTS),
		    (void *)(sp + STACK_ARGS_OFFSET)))
		__builtin_memset(&call->slot[REG_SLOTS], 0, sizeof(u64) * (ABI_SLOTS - REG_SLOTS));
}

static __always_inline u64 slot_at(const struct abi_open_call *call, u32 i)
{
	return i < ABI_SLOTS ? call->slot[i] : 0;
}

static __always_inline u64 mul_sat(u64 a, u64 b)
{
	/* by bit lengths: an exact overflow test would need a 128-bit product */
	if (a && b && log2_u64(a) + log2_u64(b) >= 63)
		return ~0ull;
	return a * b;
}

static __always_inline u64 user_u64(u64 addr)
{
	u64 v = 0;

	bpf_probe_read_user(&v, sizeof(v), (void *)addr);
	return v;
}

static __always_inline u64 user_product(u64 addr, bool three)
{
	u64 v[3] = {0, 0, 1};

	bpf_probe_read_user(v, three ? 24 : 16, (void *)addr);
	return mul_sat(mul_sat(v[0], v[1]), v[2]);
}

static __always_inline u64 user_sum(u64 addr, u64 n)
{
	u64 sum = 0;

	for (int i = 0; i < 16 && i < n; i++)
		sum += user_u64(addr + 8 * i);
	return sum;
}

/* Value of one field of the operation table. A global subprogram (like the other __noinline ones here): the
 * verifier looks at it once, not once for every path that leads to it. `spec` is src | a << 8 | b << 16. */
__noinline u64 field_value(struct abi_open_call *call, u32 spec)
{
	u32 src = spec & 0xff, a = spec >> 8 & 0xff, b = spec >> 16 & 0xff;
	u64 v, base;

	if (!call)
		return 0;
	base = slot_at(call, a);
	switch (src) {
	case ABI_SRC_ARG:
		return base;
	case ABI_SRC_ARG32:
		return (u32)base;
	case ABI_SRC_OUT:
		return user_u64(base);
	case ABI_SRC_MUL:
		return mul_sat(base, slot_at(call, b));
	case ABI_SRC_SCALE:
		return mul_sat(base, b);
	case ABI_SRC_SCALE2:
		return mul_sat(mul_sat(base, slot_at(call, b & 15)), b >> 4);
	case ABI_SRC_MEM:
		return user_u64(base + 4 * b);
	case ABI_SRC_MEM32:
		return (u32)user_u64(base + 4 * b);
	case ABI_SRC_MEM2:
		return user_product(base + 4 * b, false);
	case ABI_SRC_MEM3:
		return user_product(base + 4 * b, true);
	case ABI_SRC_VAL3:
#if defined(__TARGET_ARCH_x86)
		v = mul_sat(slot_at(call, REG_SLOTS + b), slot_at(call, REG_SLOTS + b + 1));
		return mul_sat(v, slot_at(call, REG_SLOTS + b + 2));
#else
		return user_product(base, true);
#endif
	case ABI_SRC_CONST:
		return a;
	case ABI_SRC_SUM:
		return user_sum(base, slot_at(call, b));
	}
	return 0;
}

static __always_inline u64 field_read(
	struct abi_open_call *call, const volatile struct abi_desc *d, u32 i, bool succeeded)
{
	u32 src = d->field[i].src, a = d->field[i].a;

	if (src == ABI_SRC_ARG)
		return slot_at(call, a);
	if (src == ABI_SRC_OUT && !succeeded)
		return 0;
	return field_value(call, src | a << 8 | d->field[i].b << 16);
}

static __always_inline u64 ring_flags(const struct abi_control *ctl)
{
	return bpf_ringbuf_query(&ing_calls, BPF_RB_AVAIL_DATA) > ctl->wake_bytes ? BPF_RB_FORCE_WAKEUP
										  : BPF_RB_NO_WAKEUP;
}

/* Sends the record of the call at `level`. Returns 0, negative when the ring was full. `how` is ret | flags
 * << 32. */
__noinline int call_send(struct abi_thread *t, u32 level, u64 now, u64 how, u32 weight)
{
	const volatile struct abi_desc *d;
	struct abi_control *ctl = control();
	struct abi_open_call *call;
	struct abi_rec_call r;
	u16 flags = how >> 32;
	s32 ret = (s32)how;
	bool succeeded = ret == 0 && !(flags & ABI_CALL_UNFINISHED);
	u32 n;

	if (!t || !ctl || level >= ABI_MAX_DEPTH)
		return 0;
	call = &t->call[mask_8(level)];
	if (call->desc >= ABI_MAX_DESCS)
		return 0;
	d = &ing_descs[call->desc];
	r.type = ABI_REC_CALL;
	r.depth = level;
	r.desc = call->desc;
	r.flags = flags | (level ? ABI_CALL_NESTED : 0);
	r.tgid = t->tgid;
	r.tid = t->tid;
	r.proc_start_ns = t->proc_start_ns;
	r.start_ns = call->start_ns;
	r.dur_ns = now - call->start_ns;
	r.ret = ret;
	r.weight = weight;
	n = d->n_fields;
	if (n > ABI_MAX_FIELDS)
		n = ABI_MAX_FIELDS;
	r.n_val = n;
	for (u32 i = 0; i < ABI_MAX_FIELDS; i++) {
		if (i >= n)
			r.val[i] = 0;
		else
			r.val[i] = field_read(call, d, i, succeeded);
	}
	return bpf_ringbuf_output(&ing_calls, &r, ABI_REC_CALL_BASE + 8 * n, ring_flags(ctl));
}

/* An open call that nobody will see return. */
static __always_inline void call_abandon(struct abi_thread *t, u32 level)
{
	struct abi_counters *c;
	u32 desc;

	if (level >= ABI_MAX_DEPTH)
		return;
	desc = t->call[mask_8(level)].desc;
	if (desc >= ABI_MAX_DESCS)
		return;
	c = counters_of(t, desc);
	if (c)
		__sync_fetch_and_add(&c->unfinished, 1);
	status_count(ABI_STATUS_STALE_CALLS);
}

/* Drops open calls whose stack frames are gone: all those at or below `limit_sp`. Returns the depth left. */
__noinline u32 calls_unwind(struct abi_thread *t, u64 limit_sp)
{
	u32 depth;

	if (!t)
		return 0;
	depth = t->depth;
	for (int i = 0; i < ABI_MAX_DEPTH; i++) {
		u32 level = depth - 1;

		if (!depth || level >= ABI_MAX_DEPTH || t->call[mask_8(level)].sp > limit_sp)
			break;
		call_abandon(t, level);
		depth--;
	}
	t->depth = depth;
	return depth;
}

/* Counts a call that cannot be timed. */
static __always_inline void call_uncounted(struct task_struct *task, u32 desc)
{
	struct abi_counters *c =
		counters_at(counters_index(proc_start_ns(task), task->tgid, ing_descs[desc].op), desc);

	if (c)
		__sync_fetch_and_add(&c->lost_state, 1);
}

/* Returns where the thread's state lies (slot + 1), 0 when the call is not traced. */
static __always_inline u32 call_enter(struct pt_regs *ctx, u64 cookie)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct abi_control *ctl = control();
	struct abi_thread *t = NULL;
	struct abi_open_call *call;
	u32 desc = cookie, depth;
	u64 sp = PT_REGS_SP(ctx);

	if (!ctl || !ctl->active || desc >= ABI_MAX_DESCS)
		return 0;
	switch (thread_enter(ctl, task, &t)) {
	case THREAD_IGNORED:
		return 0;
	case THREAD_NO_SLOT:
		call_uncounted(task, desc);
		return 0;
	default:
		break;
	}
	if (!t)
		return 0;
	if (!t->introduced)
		thread_introduce(t, task);
	depth = t->depth;
	if (depth && t->call[mask_8(depth - 1)].sp <= sp)
		depth = calls_unwind(t, sp);
	if (depth >= ABI_MAX_DEPTH) {
		call_uncounted(task, desc);
		return 0;
	}
	call = &t->call[mask_8(depth)];
	call->sp = sp;
	call->desc = desc;
	read_slots(ctx, call, ctl->records && (ing_descs[desc].flags & ABI_DESC_STACK_ARGS), sp);
	t->depth = depth + 1;
	call->start_ns = bpf_ktime_get_ns();
	return t->slot_plus_1;
}

/* One in `sampling_rate` ordinary calls gives a record; errors and rows marked KEEP always do. Returns the
 * weight, 0 = no record. */
static __always_inline u32 call_weight(
	const struct abi_control *ctl, struct abi_counters *c, const volatile struct abi_desc *d, bool failed)
{
	u32 rate = ctl->sampling_rate;

	if (!ctl->records)
		return 0;
	if (rate <= 1 || failed || (d->flags & ABI_DESC_KEEP))
		return 1;
	return __sync_fetch_and_add(&c->sample_seq, 1) % rate ? 0 : rate;
}

static __always_inline void call_return(struct pt_regs *ctx, struct abi_thread *t, u64 now)
{
	struct abi_control *ctl = control();
	u64 entry_sp = PT_REGS_SP(ctx) - RETURN_SP_DELTA, bytes = 0;
	const volatile struct abi_desc *d;
	struct abi_open_call *call;
	struct abi_counters *c;
	u32 depth, desc, weight, bytes_field;
	s32 ret = (s32)PT_REGS_RC(ctx);
	bool failed;

	if (!t || !ctl || !t->depth)
		return;
	depth = t->depth - 1;
	call = &t->call[mask_8(depth)];
	if (depth >= ABI_MAX_DEPTH || call->sp != entry_sp) {
		depth = calls_unwind(t, entry_sp - 1) - 1;
		call = &t->call[mask_8(depth)];
		if (depth >= ABI_MAX_DEPTH || call->sp != entry_sp)
			return; /* too deep at entry, or begun before we looked */
	}
	t->depth = depth;
	desc = call->desc;
	if (desc >= ABI_MAX_DESCS)
		return;
	d = &ing_descs[desc];
	c = counters_of(t, desc);
	if (!c)
		return;
	failed = ret && !(ret == CUDA_NOT_READY && (d->flags & ABI_DESC_QUERY));
	bytes_field = d->bytes_field;
	if (bytes_field && bytes_field <= ABI_MAX_FIELDS && !ret)
		bytes = field_read(call, d, mask_8(bytes_field - 1), true);
	counters_add(c, now - call->start_ns, bytes, failed, depth > 0);
	weight = call_weight(ctl, c, d, failed);
	if (!weight)
		__sync_fetch_and_add(&c->sampled_out, 1);
	else if (call_send(t, depth, now, (u32)ret, weight))
		__sync_fetch_and_add(&c->lost_ring, 1);
}

extern __u64 *bpf_session_cookie(void) __ksym __weak;
extern bool bpf_session_is_return(void) __ksym __weak;

/* 6.13+: entry and return in one program and one link. */
SEC("uprobe")
int ing_session(struct pt_regs *ctx)
{
	bool is_return = bpf_session_is_return();
	u64 *slot_plus_1;
	u32 slot;

	/* Keep the branch: folded into arithmetic, the verifier no longer knows that 0 or 1 is returned. */
	asm volatile("" : "+r"(is_return));
	if (is_return) {
		u64 now = bpf_ktime_get_ns();

		slot_plus_1 = bpf_session_cookie();
		if (slot_plus_1)
			call_return(ctx, thread_by_slot(*slot_plus_1), now);
		return 0;
	}
	slot = call_enter(ctx, bpf_get_attach_cookie(ctx));
	if (slot) {
		slot_plus_1 = bpf_session_cookie();
		if (slot_plus_1)
			*slot_plus_1 = slot;
		return 0;
	}
	return 1; /* not traced: no return hook for this call */
}

/* 6.6+: two links, one for entries and one for returns. */
SEC("uprobe")
int ing_multi_entry(struct pt_regs *ctx)
{
	call_enter(ctx, bpf_get_attach_cookie(ctx));
	return 0;
}

SEC("uprobe")
int ing_multi_return(struct pt_regs *ctx)
{
	u64 now = bpf_ktime_get_ns();

	call_return(ctx, thread_find(bpf_get_current_task_btf()), now);
	return 0;
}

/* 5.15+: one perf event per symbol and side. */
SEC("uprobe")
int ing_entry(struct pt_regs *ctx)
{
	call_enter(ctx, bpf_get_attach_cookie(ctx));
	return 0;
}

SEC("uretprobe")
int ing_return(struct pt_regs *ctx)
{
	u64 now = bpf_ktime_get_ns();

	call_return(ctx, thread_find(bpf_get_current_task_btf()), now);
	return 0;
}

#endif
