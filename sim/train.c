/* sim-train: a simulated training job. Each step loads a batch, copies it to the device, launches forward,
 * backward and optimiser kernels, and waits for the loss; now and then it allocates a workspace or writes a
 * checkpoint. */
#include "sim/report.h"
#include "sim/simcuda.h"
#include "sim/stop.h"

#include "base/parse.h"

#include <getopt.h>

#define BATCH_BYTES (4u << 20)
#define WEIGHT_BYTES (512ull << 20)
#define WORKSPACE_BYTES (64u << 20)
#define LAYERS 8
#define WORKSPACE_EVERY 50
#define CHECKPOINT_EVERY 500

static const char *const kernel_names[] = {"sim_layernorm_forward", "sim_gemm_forward",
	"sim_attention_forward", "sim_cross_entropy", "sim_gemm_backward", "sim_attention_backward",
	"sim_layernorm_backward", "sim_adam_step"};

struct train {
	void *stream;
	void *weights, *batch, *loss;
	void *host_batch, *host_loss;
	uint64_t load_ns; /* data loading, on the CPU */
	uint64_t n_calls, n_errors;
};

static char stubs[ARRAY_LEN(kernel_names)];

static void check(struct train *t, int rc)
{
	t->n_calls++;
	t->n_errors += rc != 0;
}

static void register_kernels(void)
{
	void **image = __cudaRegisterFatBinary(NULL);

	for (size_t i = 0; i < ARRAY_LEN(kernel_names); i++)
		__cudaRegisterFunction(
			image, &stubs[i], &stubs[i], kernel_names[i], -1, NULL, NULL, NULL, NULL, NULL);
}

static void launch(struct train *t, size_t kernel, unsigned blocks)
{
	check(t, cudaLaunchKernel(&stubs[kernel], SIM_DIM3(blocks), SIM_DIM3(256), NULL, 0, t->stream));
}

static void set_up(struct train *t)
{
	register_kernels();
	check(t, cudaStreamCreate(&t->stream));
	check(t, cudaMalloc(&t->weights, WEIGHT_BYTES));
	check(t, cudaMalloc(&t->batch, BATCH_BYTES));
	check(t, cudaMalloc(&t->loss, sizeof(float)));
	check(t, cudaMallocHost(&t->host_batch, BATCH_BYTES));
	check(t, cudaMallocHost(&t->host_loss, 4096));
}

static void tear_down(struct train *t)
{
	check(t, cudaFree(t->weights));
	check(t, cudaFree(t->batch));
	check(t, cudaFree(t->loss));
	check(t, cudaFreeHost(t->host_batch));
	check(t, cudaFreeHost(t->host_loss));
	check(t, cudaStreamDestroy(t->stream));
}

/* Decoding and shuffling: works on the batch for as long as asked. */
static void load_batch(struct train *t)
{
	uint64_t end = stop_now_ns() + t->load_ns;
	unsigned char *data = t->host_batch;

	for (size_t i = 0; data && stop_now_ns() < end; i = (i + 64) % BATCH_BYTES)
		data[i] = (unsigned char)(data[i] * 31 + 7);
}

static void step(struct train *t, uint64_t number)
{
	void *workspace = NULL;

	load_batch(t);
	check(t, cudaMemcpyAsync(t->batch, t->host_batch, BATCH_BYTES, SIM_H2D, t->stream));
	if (number % WORKSPACE_EVERY == 0)
		check(t, cudaMalloc(&workspace, WORKSPACE_BYTES));
	for (unsigned layer = 0; layer < LAYERS; layer++) {
		for (size_t k = 0; k < 3; k++)
			launch(t, k, 108);
	}
	launch(t, 3, 1);
	for (unsigned layer = 0; layer < LAYERS; layer++) {
		for (size_t k = 4; k < 7; k++)
			launch(t, k, 108);
	}
	launch(t, 7, 432);
	check(t, cudaMemsetAsync(t->loss, 0, sizeof(float), t->stream));
	check(t, cudaMemcpyAsync(t->host_loss, t->loss, sizeof(float), SIM_D2H, t->stream));
	check(t, cudaStreamSynchronize(t->stream));
	if (workspace)
		check(t, cudaFree(workspace));
	if (number && number % CHECKPOINT_EVERY == 0)
		check(t, cudaMemcpy(t->host_batch, t->weights, BATCH_BYTES, SIM_D2H));
}

struct options {
	uint64_t seconds, steps, rate;
};

/* Waits until the calls made so far are due at `rate` calls per second. */
static void pace(const struct train *t, const struct options *o, uint64_t start_ns)
{
	if (o->rate)
		stop_sleep_until(
			start_ns + (uint64_t)((double)t->n_calls / (double)o->rate * (double)NSEC_PER_SEC));
}

static int run(struct train *t, const struct options *o)
{
	cleanup_strbuf struct strbuf line = STRBUF_INIT(REPORT_MAX);
	uint64_t start_ns, end_ns, n = 0;
	double seconds;

	set_up(t);
	start_ns = stop_now_ns();
	end_ns = start_ns + o->seconds * NSEC_PER_SEC;
	for (; !stop_wanted() && (!o->steps || n < o->steps) && (!o->seconds || stop_now_ns() < end_ns);
		n++) {
		step(t, n);
		pace(t, o, start_ns);
	}
	seconds = (double)(stop_now_ns() - start_ns) / (double)NSEC_PER_SEC;
	tear_down(t);
	strbuf_addf(&line,
		"{\"pid\":%d,\"steps\":%llu,\"seconds\":%.3f,\"steps_per_s\":%.2f,\"calls\":%llu,\"errors\":%"
		"llu}\n",
		(int)getpid(), (unsigned long long)n, seconds, (double)n / seconds,
		(unsigned long long)t->n_calls, (unsigned long long)t->n_errors);
	return report_write(&line) ? 1 : 0;
}

static int usage(void)
{
	fputs("usage: sim-train [--seconds N] [--steps N] [--rate CALLS-PER-SECOND] [--load DURATION]\n",
		stderr);
	return 2;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"seconds", 1, NULL, 's'}, {"steps", 1, NULL, 'n'},
		{"rate", 1, NULL, 'r'}, {"load", 1, NULL, 'l'}, {NULL, 0, NULL, 0}};
	struct train t = {.load_ns = 2 * NSEC_PER_MSEC};
	struct options o = {.seconds = 0};
	int opt, bad = 0;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt == 's')
			bad |= parse_u64(optarg, &o.seconds) || o.seconds > 86400;
		else if (opt == 'n')
			bad |= parse_u64(optarg, &o.steps);
		else if (opt == 'r')
			bad |= parse_u64(optarg, &o.rate);
		else if (opt == 'l')
			bad |= parse_duration(optarg, &t.load_ns);
		else
			bad = 1;
	}
	if (bad || optind != argc)
		return usage();
	if (!o.seconds && !o.steps)
		o.seconds = 10;
	if (stop_install(o.seconds ? (unsigned)o.seconds + 60 : 3600))
		return 1;
	/* a device with some work to do, unless the environment describes another */
	setenv("SIM_DEVICE", "kernel=100us,copy=12", 0);
	return run(&t, &o);
}
