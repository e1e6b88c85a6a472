/* The simulated driver inside: handles, memory, the timelines of its device. */
#ifndef SIM_DRIVER_H
#define SIM_DRIVER_H

#include "sim/core.h"

#define CU_INVALID_VALUE 1
#define CU_OUT_OF_MEMORY 2
#define CU_INVALID_HANDLE 400
#define CU_NOT_READY 600
#define CU_CAPTURE_UNSUPPORTED 900

typedef unsigned long long CUdeviceptr;

/* One exported driver call, also with its _ptsz or _ptds twin. */
#define DR(symbol, params, ...) SIM_CALL(symbol, 0, 0, params, __VA_ARGS__)
#define DRZ(symbol, params, ...)                                                                             \
	SIM_CALL(symbol, 0, 0, params, __VA_ARGS__) SIM_CALL(symbol##_ptsz, 1, 0, params, __VA_ARGS__)
#define DRD(symbol, params, ...)                                                                             \
	SIM_CALL(symbol, 0, 0, params, __VA_ARGS__) SIM_CALL(symbol##_ptds, 1, 0, params, __VA_ARGS__)

/* ---- handles ---- */

enum obj_kind {
	OBJ_FREE,
	OBJ_STREAM,
	OBJ_EVENT,
	OBJ_GRAPH,
	OBJ_EXEC,
	OBJ_MODULE,
	OBJ_KERNEL,
	OBJ_ARRAY,
	OBJ_POOL,
	OBJ_CONTEXT,
};

struct obj {
	_Atomic int kind;
	unsigned n_nodes;	   /* graph, exec */
	_Atomic uint64_t ready_ns; /* stream, event: when its work is done; graph, exec: how long it takes */
	struct obj *link;	   /* stream: graph being captured; free: next free */
	char *name;		   /* kernel */
};

/* Makes an object. Returns 0 or a CUresult. */
int obj_new(enum obj_kind kind, const char *name, void **ret_handle);
/* The object, or NULL where the handle is not a live one of this kind. */
struct obj *obj_get(const void *handle, enum obj_kind kind);
int obj_delete(const void *handle, enum obj_kind kind);

/* ---- memory ---- */

enum mem_kind { MEM_DEVICE, MEM_HOST, MEM_REGISTERED, MEM_RANGE };

/* Allocates (host memory for real, device addresses only by number) or registers memory. Returns 0 or a
 * CUresult. */
int mem_alloc(enum mem_kind kind, size_t bytes, CUdeviceptr *ret_ptr);
int mem_register(const void *ptr, size_t bytes);
/* 0 for address 0 (does nothing) */
int mem_free(enum mem_kind kind, CUdeviceptr ptr);
/* Size of the allocation that starts at ptr. */
int mem_size(CUdeviceptr ptr, size_t *ret_bytes);
void mem_info(size_t *ret_free, size_t *ret_total);
void mem_set_total(uint64_t bytes);
void mem_fork(enum sim_fork when);

/* ---- device ---- */

/* Puts work of a kernel or copy onto a stream's timeline. Returns 0 or a CUresult. */
int device_kernel(void *stream, bool per_thread);
int device_copy(void *stream, bool per_thread, uint64_t bytes);
/* The same, then waits for it. */
int device_copy_wait(bool per_thread, uint64_t bytes);
/* One wait; the blocking ones are cancellation points. */
int device_sync_stream(void *stream, bool per_thread);
int device_query_stream(void *stream, bool per_thread);
int device_sync_all(void);
int device_wait_event(void *stream, bool per_thread, void *event);
int device_record(void *event, void *stream, bool per_thread);
int device_sync_event(void *event);
int device_query_event(void *event);
int device_elapsed_ms(float *ret_ms, void *start, void *end);

int device_begin_capture(void *stream, bool per_thread, void *graph);
int device_end_capture(void *stream, bool per_thread, void **ret_graph);
int device_is_capturing(void *stream, bool per_thread, int *ret_status);
int device_instantiate(void **ret_exec, void *graph);
int device_launch_graph(void *exec, void *stream, bool per_thread);

/* Calls fn when the stream has got there: on a thread of its own, or at once on this one (hostfunc_inline).
 */
int device_host_func(void *stream, bool per_thread, void (*fn)(void *), void *user_data);
/* "kernel=20us,copy=12,wait=spin" (copy in GB/s) */
int device_set(const char *value);
void device_set_inline(bool on);
void device_fork(enum sim_fork when);

#endif
