#include "model/hist.h"

#include <errno.h>

#define SUB (1u << ABI_HIST_SUB_BITS)

unsigned hist_index(uint64_t v)
{
	unsigned e, i;

	if (v < SUB)
		return (unsigned)v;
	e = 63u - (unsigned)__builtin_clzll(v);
	i = ((e - ABI_HIST_SUB_BITS + 1) << ABI_HIST_SUB_BITS) + ((v >> (e - ABI_HIST_SUB_BITS)) & (SUB - 1));
	return MIN(i, HIST_BUCKETS - 1u);
}

uint64_t hist_bucket_low(unsigned i)
{
	unsigned octave = i >> ABI_HIST_SUB_BITS, sub = i & (SUB - 1);

	return octave ? (uint64_t)(SUB + sub) << (octave - 1) : i;
}

uint64_t hist_bucket_mid(unsigned i)
{
	unsigned octave = i >> ABI_HIST_SUB_BITS;

	return hist_bucket_low(i) + (octave > 1 ? (1ull << (octave - 1)) / 2 : 0);
}

void hist_add(struct hist *h, uint64_t value_ns, uint64_t count)
{
	h->bucket[hist_index(value_ns)] += count;
}

void hist_merge(struct hist *into, const struct hist *from)
{
	for (unsigned i = 0; i < HIST_BUCKETS; i++)
		into->bucket[i] += from->bucket[i];
}

uint64_t hist_count(const struct hist *h)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < HIST_BUCKETS; i++)
		n += h->bucket[i];
	return n;
}

uint64_t hist_percentile(const struct hist *h, double p)
{
	uint64_t n = hist_count(h), seen = 0, rank;

	if (!n)
		return 0;
	rank = (uint64_t)(p * (double)n);
	if ((double)rank < p * (double)n)
		rank++;
	rank = MIN(MAX(rank, 1u), n); /* p * n is rounded above 2^53 */
	for (unsigned i = 0; i < HIST_BUCKETS; i++) {
		seen += h->bucket[i];
		if (seen >= rank)
			return hist_bucket_mid(i);
	}
	return hist_bucket_mid(HIST_BUCKETS - 1);
}

static void put_varint(struct strbuf *out, uint64_t v)
{
	do
		strbuf_addc(out, (char)((v & 0x7f) | (v > 0x7f ? 0x80 : 0)));
	while (v >>= 7);
}

static int get_varint(const unsigned char **p, const unsigned char *end, uint64_t *ret)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 64 && *p < end; shift += 7) {
		unsigned char c = *(*p)++;

		if (shift == 63 && c > 1)
			return -EINVAL;
		v |= (uint64_t)(c & 0x7f) << shift;
		if (!(c & 0x80)) {
			*ret = v;
			return 0;
		}
	}
	return -EINVAL;
}

void hist_encode(const struct hist *h, struct strbuf *out)
{
	unsigned last = 0;

	for (unsigned i = 0; i < HIST_BUCKETS; i++) {
		if (!h->bucket[i])
			continue;
		put_varint(out, i - last);
		put_varint(out, h->bucket[i]);
		last = i;
	}
}

int hist_decode_add(struct hist *h, const void *data, size_t len)
{
	const unsigned char *p = data, *end = p + len;
	uint64_t index = 0, delta, count;

	while (p < end) {
		if (get_varint(&p, end, &delta) || get_varint(&p, end, &count))
			return -EINVAL;
		if (delta >= HIST_BUCKETS || index + delta >= HIST_BUCKETS)
			return -EINVAL;
		index += delta;
		h->bucket[index] += count;
	}
	return 0;
}
