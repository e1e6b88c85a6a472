/* The few kernel types the programs use, CO-RE relocated: field offsets come from the running kernel's BTF,
 * so only names and types matter here. A hand-written subset instead of a generated vmlinux.h makes the build
 * independent of the build machine's kernel. */
#ifndef INGERO_BPF_KERNEL_H
#define INGERO_BPF_KERNEL_H

#include <linux/types.h>
#include <linux/bpf.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

/* libbpf's PT_REGS_* macros take the kernel's register names when this is set. */
#define __VMLINUX_H__

/* The probe context: its layout is user-space ABI, no relocation. */
#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs,
		flags, sp, ss;
};
#elif defined(__TARGET_ARCH_arm64)
struct user_pt_regs {
	__u64 regs[31];
	__u64 sp;
	__u64 pc;
	__u64 pstate;
};
struct pt_regs {
	struct user_pt_regs user_regs;
};
#endif

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

struct kernfs_node {
	u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct signal_struct {
	atomic_t live;
};

struct return_instance {
	unsigned long stack;	      /* where the return address lay */
	unsigned long orig_ret_vaddr; /* what it was */
	struct return_instance *next;
};

struct uprobe_task {
	struct return_instance *return_instances;
};

struct xol_area {
	unsigned long vaddr; /* the return probes' trampoline is its first instruction */
};

struct uprobes_state {
	struct xol_area *xol_area;
};

struct mm_struct {
	struct uprobes_state uprobes_state;
};

struct task_struct {
	struct mm_struct *mm;
	struct uprobe_task *utask;
	int pid;
	int tgid;
	int exit_code;
	u64 start_boottime; /* 5.5+ */
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	struct signal_struct *signal;
	struct css_set *cgroups;
	char comm[16];
	void *bpf_storage; /* 5.11+ */
};

#pragma clang attribute pop

#endif
