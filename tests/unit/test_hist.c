#include "model/hist.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <errno.h>

#define RANGE_END (1ull << (ABI_HIST_SUB_BITS + ABI_HIST_OCTAVES))
#define N_SAMPLES 20000

static uint64_t random_state = 0x2545f4914f6cdd1dull;

static uint64_t random_u64(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* Every magnitude is equally likely. */
static uint64_t random_duration(void)
{
	return random_u64() % RANGE_END >> random_u64() % (ABI_HIST_SUB_BITS + ABI_HIST_OCTAVES);
}

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void assert_close(uint64_t reported, uint64_t real)
{
	uint64_t off = reported > real ? reported - real : real - reported;

	if (off > real / 32)
		fail_msg("%llu reported for %llu", (unsigned long long)reported, (unsigned long long)real);
}

static void buckets_tile_the_range(void **state UNUSED)
{
	for (unsigned i = 0; i < HIST_BUCKETS; i++) {
		uint64_t low = hist_bucket_low(i), next = hist_bucket_low(i + 1);

		assert_true(next > low);
		assert_int_equal(hist_index(low), i);
		assert_int_equal(hist_index(next - 1), i);
		assert_true(hist_bucket_mid(i) >= low && hist_bucket_mid(i) < next);
	}
	assert_int_equal(hist_bucket_low(0), 0);
	assert_true(hist_bucket_low(HIST_BUCKETS) == RANGE_END);
}

static void reported_value_is_close_everywhere(void **state UNUSED)
{
	for (unsigned i = 0; i < HIST_BUCKETS; i++) {
		assert_close(hist_bucket_mid(i), hist_bucket_low(i));
		assert_close(hist_bucket_mid(i), hist_bucket_low(i + 1) - 1);
	}
	for (unsigned i = 0; i < N_SAMPLES; i++) {
		uint64_t v = random_duration();

		assert_close(hist_bucket_mid(hist_index(v)), v);
	}
	for (uint64_t v = 0; v < 16; v++)
		assert_int_equal(hist_bucket_mid(hist_index(v)), v);
}

static void longer_than_the_range_saturates(void **state UNUSED)
{
	struct hist h = {0};

	assert_int_equal(hist_index(RANGE_END - 1), HIST_BUCKETS - 1);
	for (unsigned bit = ABI_HIST_SUB_BITS + ABI_HIST_OCTAVES; bit < 64; bit++)
		assert_int_equal(hist_index(1ull << bit), HIST_BUCKETS - 1);
	hist_add(&h, UINT64_MAX, 3);
	assert_int_equal(hist_count(&h), 3);
	assert_true(hist_percentile(&h, 0.5) == hist_bucket_mid(HIST_BUCKETS - 1));
}

static void percentiles_follow_the_sorted_samples(void **state UNUSED)
{
	static const unsigned permille[] = {1, 10, 250, 500, 900, 950, 990, 999, 1000};
	static uint64_t samples[N_SAMPLES];

	for (size_t n = 1; n <= N_SAMPLES; n = n * 3 + 1) {
		struct hist h = {0};

		for (size_t i = 0; i < n; i++) {
			samples[i] = random_duration();
			hist_add(&h, samples[i], 1);
		}
		qsort(samples, n, sizeof(samples[0]), ascending);
		for (size_t k = 0; k < ARRAY_LEN(permille); k++) {
			size_t rank = (n * permille[k] + 999) / 1000;

			assert_close(hist_percentile(&h, permille[k] / 1000.0), samples[rank - 1]);
		}
		assert_close(hist_percentile(&h, 0), samples[0]);
	}
}

static void percentile_of_nothing_is_zero(void **state UNUSED)
{
	struct hist h = {0};

	assert_int_equal(hist_count(&h), 0);
	assert_int_equal(hist_percentile(&h, 0), 0);
	assert_int_equal(hist_percentile(&h, 1), 0);
}

static void weights_count_as_repeats(void **state UNUSED)
{
	struct hist h = {0};

	hist_add(&h, 5, 99);
	hist_add(&h, 1 << 20, 1);
	assert_int_equal(hist_count(&h), 100);
	assert_int_equal(hist_percentile(&h, 0.99), 5);
	assert_close(hist_percentile(&h, 0.991), 1 << 20);
}

static void counts_no_double_holds_stay_in_their_bucket(void **state UNUSED)
{
	struct hist h = {0};

	hist_add(&h, 7, (1ull << 53) + 3);
	assert_int_equal(hist_percentile(&h, 1), 7);
	memset(&h, 0, sizeof(h));
	hist_add(&h, 7, UINT64_MAX);
	assert_int_equal(hist_percentile(&h, 1), 7);
}

static void merged_is_as_if_added_to_one(void **state UNUSED)
{
	struct hist parts[3] = {0}, all = {0}, merged = {0}, before;

	for (unsigned i = 0; i < N_SAMPLES; i++) {
		uint64_t v = random_duration();

		hist_add(&parts[i % 3], v, i % 5);
		hist_add(&all, v, i % 5);
	}
	before = parts[1];
	for (unsigned i = 0; i < 3; i++)
		hist_merge(&merged, &parts[i]);
	assert_memory_equal(&merged, &all, sizeof(all));
	assert_memory_equal(&parts[1], &before, sizeof(before));
}

static void stored_form_comes_back_and_adds_up(void **state UNUSED)
{
	cleanup_strbuf struct strbuf blob = STRBUF_INIT(1 << 16);
	struct hist h = {0}, twice = {0}, back = {0};

	hist_add(&h, 0, 1);
	hist_add(&h, 1000, UINT64_MAX / 2);
	hist_add(&h, UINT64_MAX, 128);
	for (unsigned i = 0; i < 100; i++)
		hist_add(&h, random_duration(), i);
	hist_encode(&h, &blob);
	assert_int_equal(blob.error, 0);
	assert_int_equal(hist_decode_add(&back, blob.data, blob.len), 0);
	assert_memory_equal(&back, &h, sizeof(h));
	assert_int_equal(hist_decode_add(&back, blob.data, blob.len), 0);
	hist_merge(&twice, &h);
	hist_merge(&twice, &h);
	assert_memory_equal(&back, &twice, sizeof(twice));
	assert_int_equal(hist_decode_add(&back, "", 0), 0);
	assert_memory_equal(&back, &twice, sizeof(twice));
}

static void malformed_blobs_are_refused(void **state UNUSED)
{
#define BLOB(text)                                                                                           \
	{                                                                                                    \
		text, sizeof(text) - 1                                                                       \
	}
	static const struct {
		const char *data;
		size_t len;
	} bad[] = {
		BLOB("\x05"),						  /* a bucket without its count */
		BLOB("\x05\x80"),					  /* a count that does not end */
		BLOB("\xf0\x04\x01"),					  /* bucket 624 */
		BLOB("\xef\x04\x01\x01\x01"),				  /* 623, then one further */
		BLOB("\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"),	  /* more than 64 bits */
		BLOB("\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), /* eleven bytes */
		BLOB("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01"),	  /* a step that would wrap around */
	};
	struct hist h = {0};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		if (hist_decode_add(&h, bad[i].data, bad[i].len) != -EINVAL)
			fail_msg("blob %zu was taken", i);
	}
	assert_int_equal(hist_decode_add(&h, "\xef\x04\x01", 3), 0);
#undef BLOB
}

/* Whatever the bytes, nothing outside the histogram is touched: the sanitizers watch. */
static void random_blobs_do_no_harm(void **state UNUSED)
{
	for (unsigned i = 0; i < N_SAMPLES; i++) {
		size_t len = random_u64() % 24;
		unsigned char *data = malloc(len + 1);
		struct hist h = {0};
		int r;

		assert_non_null(data);
		for (size_t k = 0; k < len; k++)
			data[k] = (unsigned char)(random_u64() & (i & 1 ? 0xff : 0x83));
		r = hist_decode_add(&h, data, len);
		assert_true(r == 0 || r == -EINVAL);
		free(data);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buckets_tile_the_range),
		cmocka_unit_test(reported_value_is_close_everywhere),
		cmocka_unit_test(longer_than_the_range_saturates),
		cmocka_unit_test(percentiles_follow_the_sorted_samples),
		cmocka_unit_test(percentile_of_nothing_is_zero),
		cmocka_unit_test(weights_count_as_repeats),
		cmocka_unit_test(counts_no_double_holds_stay_in_their_bucket),
		cmocka_unit_test(merged_is_as_if_added_to_one),
		cmocka_unit_test(stored_form_comes_back_and_adds_up),
		cmocka_unit_test(malformed_blobs_are_refused),
		cmocka_unit_test(random_blobs_do_no_harm),
	};

	return cmocka_run_group_tests_name("hist", tests, NULL, NULL);
}
