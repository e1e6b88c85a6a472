/* The floor every design stands on: entry and return are trapped, nothing is done. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("kprobe.session")
int empty_session(void *ctx)
{
	(void)ctx;
	return 0;
}

SEC("kprobe.multi")
int empty_multi(void *ctx)
{
	(void)ctx;
	return 0;
}

char _license[] SEC("license") = "GPL";
