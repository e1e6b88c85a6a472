/* Log-linear latency histogram: 16 buckets per octave (relative error <= 1/32 at the bucket's middle), exact
 * below 16. The same index function runs in the BPF programs (bpf/abi.h holds it), here are the user-space
 * operations. */
#ifndef INGERO_MODEL_HIST_H
#define INGERO_MODEL_HIST_H

#include "base/util.h"
#include "base/strbuf.h"
#include "abi.h"

#define HIST_BUCKETS ABI_HIST_BUCKETS

struct hist {
	uint64_t bucket[HIST_BUCKETS];
};

unsigned hist_index(uint64_t value_ns);
/* Middle of the bucket, the value reported for everything in it. */
uint64_t hist_bucket_mid(unsigned index);
uint64_t hist_bucket_low(unsigned index);

void hist_add(struct hist *h, uint64_t value_ns, uint64_t count);
void hist_merge(struct hist *into, const struct hist *from);
uint64_t hist_count(const struct hist *h);
/* Nearest rank: the bucket holding value number ceil(p * n) (p in 0..1). 0 for an empty histogram. */
uint64_t hist_percentile(const struct hist *h, double p);

/* Compact form for storage: varint pairs (index delta, count). Decoding checks every bound: -EINVAL on
 * anything malformed; the destination is added to (so blobs merge by decoding one after the other). */
void hist_encode(const struct hist *h, struct strbuf *out);
int hist_decode_add(struct hist *h, const void *data, size_t len);

#endif
