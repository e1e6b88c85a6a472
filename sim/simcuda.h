/* Our own simulated CUDA: the few runtime calls that programs here use by name, and the simulation's own
 * interface. Signatures are those of libcudart.so.12; nothing here comes from a vendor's header. */
#ifndef SIM_SIMCUDA_H
#define SIM_SIMCUDA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sim_dim3 {
	unsigned x, y, z;
};

#define SIM_DIM3(n) ((struct sim_dim3){(n), 1, 1})

enum sim_copy_kind { SIM_H2H, SIM_H2D, SIM_D2H, SIM_D2D, SIM_COPY_DEFAULT };

typedef void (*sim_host_fn)(void *user_data);

int cudaMalloc(void **ret_ptr, size_t bytes);
int cudaMallocHost(void **ret_ptr, size_t bytes);
int cudaFree(void *ptr);
int cudaFreeHost(void *ptr);
int cudaMemcpy(void *dst, const void *src, size_t bytes, int kind);
int cudaMemcpyAsync(void *dst, const void *src, size_t bytes, int kind, void *stream);
int cudaMemsetAsync(void *ptr, int value, size_t bytes, void *stream);
int cudaLaunchKernel(const void *func, struct sim_dim3 grid, struct sim_dim3 block, void **args,
	size_t shared_bytes, void *stream);
int cudaLaunchHostFunc(void *stream, sim_host_fn fn, void *user_data);
int cudaStreamCreate(void **ret_stream);
int cudaStreamDestroy(void *stream);
int cudaStreamSynchronize(void *stream);
int cudaStreamQuery(void *stream);
int cudaDeviceSynchronize(void);
int cudaGetLastError(void);
void **__cudaRegisterFatBinary(void *image);
void __cudaRegisterFunction(void **image, const char *host_fn, char *device_fn, const char *device_name,
	int thread_limit, void *tid, void *bid, void *block_dim, void *grid_dim, int *warp_size);

/* Exact counts of one simulated library: `calls` that entered the exported function `name`, how many `errors`
 * it returned. For the calls a runtime library made into the driver, layer is "driver", else NULL. */
typedef void (*ingero_sim_count_fn)(
	const char *layer, const char *name, uint64_t calls, uint64_t errors, void *ctx);

/* Calls fn for every function with a count above zero. Both simulated libraries export these two: take them
 * from the handle of the library meant. */
void ingero_sim_counts(ingero_sim_count_fn fn, void *ctx);
/* Changes one setting (README.md): the environment variable's name in lower case without SIM_, e.g. "error".
 * Returns how many functions or values took it, or negative errno. */
int ingero_sim_set(const char *key, const char *value);

#ifdef __cplusplus
}
#endif

#endif
