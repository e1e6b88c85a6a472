/* The simulated runtime inside. One source, built for libcudart.so.11.0, .12 and .13: SIM_CUDART is the
 * major. */
#ifndef SIM_RUNTIME_H
#define SIM_RUNTIME_H

#include "sim/core.h"
#include "sim/copy.h"
#include "sim/driver_calls.h"

#define RT_INVALID_VALUE 1
#define RT_OUT_OF_MEMORY 2
#define RT_NO_DRIVER 35

typedef unsigned long long CUdeviceptr;
typedef void (*stream_callback)(void *stream, int status, void *user_data);

struct extent {
	size_t width, height, depth;
};

struct pitched_ptr {
	void *ptr;
	size_t pitch, x_size, y_size;
};

/* cudaMemLocation: 8 bytes, by value in one register */
struct location {
	int type, id;
};

#define D_ENUM(name, params) DRV_##name,
enum rt_driver_index { SIM_DRIVER_CALLS(D_ENUM, D_ENUM, D_ENUM) N_DRIVER_CALLS };
#undef D_ENUM

/* [1] is the per-thread-stream twin, or the plain call where there is none */
struct rt_driver {
	void (*fork)(int when);
	void *(*hidden_module)(void); /* runtime 11 */
	_Atomic int state;	      /* 0 not started, 1 started; else minus the error that starting gave */
#define D_FIELD(name, params) int(*name[2]) params;
	SIM_DRIVER_CALLS(D_FIELD, D_FIELD, D_FIELD)
#undef D_FIELD
};

extern struct rt_driver rt_driver;

/* Finds the driver, starts it and the primary context. Returns 0 or a cudaError. */
int rt_start(void);

static inline int rt_started(void)
{
	return SIM_LIKELY(atomic_load_explicit(&rt_driver.state, memory_order_acquire) == 1) ? 0 : rt_start();
}

/* Enters the driver through its exported symbol, as the real runtime does. Without one (SIM_DRIVER=none): 0.
 */
#define DRV(per_thread, name, ...)                                                                           \
	(rt_driver.name[per_thread] ? (sim_add(&sim_block()->made[DRV_##name * 2 + (per_thread)]),           \
					      rt_driver.name[per_thread](__VA_ARGS__))                       \
				    : 0)

/* One exported runtime call that needs the driver, also with its twin. */
#define RT(symbol, params, ...) SIM_CALL(symbol, 0, rt_started(), params, __VA_ARGS__)
#define RTZ(symbol, params, ...)                                                                             \
	SIM_CALL(symbol, 0, rt_started(), params, __VA_ARGS__)                                               \
	SIM_CALL(symbol##_ptsz, 1, rt_started(), params, __VA_ARGS__)
#define RTD(symbol, params, ...)                                                                             \
	SIM_CALL(symbol, 0, rt_started(), params, __VA_ARGS__)                                               \
	SIM_CALL(symbol##_ptds, 1, rt_started(), params, __VA_ARGS__)
/* One that does not start anything */
#define RT_PLAIN(symbol, params, ...) SIM_CALL(symbol, 0, 0, params, __VA_ARGS__)

/* An address of our own, for when there is no driver to give one. */
CUdeviceptr rt_address(size_t bytes);

static inline CUdeviceptr rt_dev(const void *p)
{
	return (uintptr_t)p;
}

/* ---- kernels (runtime_kernel.c) ---- */

/* The driver's handle for a host stub or kernel handle; func itself where it was never registered. */
void *rt_kernel(const void *func);
/* The library that stands for the program's own device code. Returns 0 or a cudaError. */
int rt_library(void **ret_library);
void rt_kernel_fork(enum sim_fork when);

#endif
