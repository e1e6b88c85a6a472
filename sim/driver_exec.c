/* libcuda.so.1, simulated: launches, streams, events, graphs, host functions. */
#include "sim/driver.h"

/* CUlaunchConfig */
struct launch_config {
	unsigned grid[3], block[3];
	unsigned shared_bytes;
	void *stream;
	void *attributes;
	unsigned n_attributes;
};

_Static_assert(offsetof(struct launch_config, stream) == 32, "CUlaunchConfig");

typedef void (*host_fn)(void *user_data);
typedef void (*stream_callback)(void *stream, int status, void *user_data);

struct callback {
	stream_callback fn;
	void *stream;
	void *user_data;
};

static void run_callback(void *arg)
{
	struct callback c = *(struct callback *)arg;

	free(arg);
	c.fn(c.stream, 0, c.user_data);
}

static int add_callback(void *stream, bool per_thread, stream_callback fn, void *user_data)
{
	struct callback *c = fn ? malloc(sizeof(*c)) : NULL;
	int rc;

	if (!c)
		return CU_INVALID_VALUE;
	*c = (struct callback){fn, stream, user_data};
	rc = device_host_func(stream, per_thread, run_callback, c);
	if (rc)
		free(c);
	return rc;
}

static int new_event(void **ret_event)
{
	return obj_new(OBJ_EVENT, NULL, ret_event);
}

static int add_node(void *graph, void **ret_node)
{
	struct obj *g = obj_get(graph, OBJ_GRAPH);

	if (!g || !ret_node)
		return CU_INVALID_VALUE;
	*ret_node = (void *)(uintptr_t)++g->n_nodes;
	return 0;
}

static int update_exec(void *exec, void *graph)
{
	struct obj *x = obj_get(exec, OBJ_EXEC);
	struct obj *g = obj_get(graph, OBJ_GRAPH);

	if (!x || !g)
		return CU_INVALID_HANDLE;
	x->n_nodes = g->n_nodes;
	atomic_store(&x->ready_ns, atomic_load(&g->ready_ns));
	return 0;
}

/* ---- launches ---- */

#define GRID unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared

DRZ(cuLaunchKernel, (void *f, GRID, void *stream, void **params, void **extra), device_kernel(stream, pt))
DRZ(cuLaunchCooperativeKernel, (void *f, GRID, void *stream, void **params), device_kernel(stream, pt))
DRZ(cuLaunchKernelEx, (const struct launch_config *config, void *f, void **params, void **extra),
	config ? device_kernel(config->stream, pt) : CU_INVALID_VALUE)
DR(cuLaunchCooperativeKernelMultiDevice, (void *list, unsigned n, unsigned flags), device_kernel(NULL, 0))
DR(cuLaunch, (void *f), device_kernel(NULL, 0))
DR(cuLaunchGrid, (void *f, int width, int height), device_kernel(NULL, 0))
DR(cuLaunchGridAsync, (void *f, int width, int height, void *stream), device_kernel(stream, 0))
DRZ(cuLaunchHostFunc, (void *stream, host_fn fn, void *user_data),
	device_host_func(stream, pt, fn, user_data))
DRZ(cuStreamAddCallback, (void *stream, stream_callback fn, void *user_data, unsigned flags),
	add_callback(stream, pt, fn, user_data))
DR(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
	(int *ret_n, void *f, int block_size, size_t shared_bytes, unsigned flags),
	ret_n ? ((void)(*ret_n = 1), 0) : CU_INVALID_VALUE)

/* ---- streams ---- */

DR(cuStreamCreate, (void **ret_stream, unsigned flags), obj_new(OBJ_STREAM, NULL, ret_stream))
DR(cuStreamCreateWithPriority, (void **ret_stream, unsigned flags, int priority),
	obj_new(OBJ_STREAM, NULL, ret_stream))
DR(cuGreenCtxStreamCreate, (void **ret_stream, void *green_ctx, unsigned flags, int priority),
	obj_new(OBJ_STREAM, NULL, ret_stream))
DR(cuStreamDestroy_v2, (void *stream), obj_delete(stream, OBJ_STREAM))
DRZ(cuStreamSynchronize, (void *stream), device_sync_stream(stream, pt))
DRZ(cuStreamQuery, (void *stream), device_query_stream(stream, pt))
DRZ(cuStreamWaitEvent, (void *stream, void *event, unsigned flags), device_wait_event(stream, pt, event))

#define VALUE_OPS(bits, suffix)                                                                              \
	DRZ(cuStreamWaitValue##bits##suffix,                                                                 \
		(void *stream, CUdeviceptr ptr, uint##bits##_t value, unsigned flags),                       \
		device_copy(stream, pt, 0))                                                                  \
	DRZ(cuStreamWriteValue##bits##suffix,                                                                \
		(void *stream, CUdeviceptr ptr, uint##bits##_t value, unsigned flags),                       \
		device_copy(stream, pt, 0))

VALUE_OPS(32, )
VALUE_OPS(64, )
VALUE_OPS(32, _v2)
VALUE_OPS(64, _v2)
DRZ(cuStreamBatchMemOp, (void *stream, unsigned n, void *ops, unsigned flags), device_copy(stream, pt, 0))
DRZ(cuStreamBatchMemOp_v2, (void *stream, unsigned n, void *ops, unsigned flags), device_copy(stream, pt, 0))

/* ---- events ---- */

DR(cuEventCreate, (void **ret_event, unsigned flags), new_event(ret_event))
DR(cuEventDestroy_v2, (void *event), obj_delete(event, OBJ_EVENT))
DRZ(cuEventRecord, (void *event, void *stream), device_record(event, stream, pt))
DRZ(cuEventRecordWithFlags, (void *event, void *stream, unsigned flags), device_record(event, stream, pt))
DR(cuEventSynchronize, (void *event), device_sync_event(event))
DR(cuEventQuery, (void *event), device_query_event(event))
DR(cuEventElapsedTime, (float *ret_ms, void *start, void *end), device_elapsed_ms(ret_ms, start, end))
DR(cuEventElapsedTime_v2, (float *ret_ms, void *start, void *end), device_elapsed_ms(ret_ms, start, end))

/* ---- graphs ---- */

DRZ(cuStreamBeginCapture, (void *stream), device_begin_capture(stream, pt, NULL))
DRZ(cuStreamBeginCapture_v2, (void *stream, int mode), device_begin_capture(stream, pt, NULL))
DRZ(cuStreamBeginCaptureToGraph,
	(void *stream, void *graph, const void *deps, const void *edges, size_t n, int mode),
	graph ? device_begin_capture(stream, pt, graph) : CU_INVALID_VALUE)
DRZ(cuStreamEndCapture, (void *stream, void **ret_graph), device_end_capture(stream, pt, ret_graph))
DRZ(cuStreamIsCapturing, (void *stream, int *ret_status), device_is_capturing(stream, pt, ret_status))
DR(cuGraphCreate, (void **ret_graph, unsigned flags), obj_new(OBJ_GRAPH, NULL, ret_graph))
DR(cuGraphDestroy, (void *graph), obj_delete(graph, OBJ_GRAPH))
DR(cuGraphAddKernelNode_v2, (void **ret_node, void *graph, const void *deps, size_t n, const void *params),
	add_node(graph, ret_node))
DR(cuGraphAddHostNode, (void **ret_node, void *graph, const void *deps, size_t n, const void *params),
	add_node(graph, ret_node))
DR(cuGraphAddMemcpyNode,
	(void **ret_node, void *graph, const void *deps, size_t n, const void *params, void *ctx),
	add_node(graph, ret_node))
DR(cuGraphInstantiate, (void **ret_exec, void *graph, void **ret_node, char *log, size_t log_bytes),
	device_instantiate(ret_exec, graph))
DR(cuGraphInstantiate_v2, (void **ret_exec, void *graph, void **ret_node, char *log, size_t log_bytes),
	device_instantiate(ret_exec, graph))
DR(cuGraphInstantiateWithFlags, (void **ret_exec, void *graph, uint64_t flags),
	device_instantiate(ret_exec, graph))
DRZ(cuGraphInstantiateWithParams, (void **ret_exec, void *graph, void *params),
	device_instantiate(ret_exec, graph))
DR(cuGraphExecUpdate, (void *exec, void *graph, void **ret_node, int *ret_result), update_exec(exec, graph))
DR(cuGraphExecUpdate_v2, (void *exec, void *graph, void *ret_info), update_exec(exec, graph))
DR(cuGraphExecDestroy, (void *exec), obj_delete(exec, OBJ_EXEC))
DRZ(cuGraphUpload, (void *exec, void *stream), obj_get(exec, OBJ_EXEC) ? 0 : CU_INVALID_HANDLE)
DRZ(cuGraphLaunch, (void *exec, void *stream), device_launch_graph(exec, stream, pt))
