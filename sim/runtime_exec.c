/* libcudart, simulated: launches, streams, events, host functions, graphs. */
#include "sim/runtime.h"

/* cudaLaunchConfig_t */
struct launch_config {
	struct sim_dim3 grid, block;
	size_t shared_bytes;
	void *stream;
	void *attributes;
	unsigned n_attributes;
};

/* CUlaunchConfig */
struct driver_config {
	struct sim_dim3 grid, block;
	unsigned shared_bytes;
	void *stream;
	void *attributes;
	unsigned n_attributes;
};

_Static_assert(offsetof(struct launch_config, stream) == 32, "cudaLaunchConfig_t");

static inline int launch_ex(bool per_thread, const struct launch_config *c, const void *func, void **args)
{
	struct driver_config d;

	if (!c)
		return RT_INVALID_VALUE;
	d = (struct driver_config){
		c->grid, c->block, (unsigned)c->shared_bytes, c->stream, c->attributes, c->n_attributes};
	return DRV(per_thread, cuLaunchKernelEx, &d, rt_kernel(func), args, NULL);
}

static int function_attributes(void *ret_attributes, const void *func)
{
	void *f = NULL;
	int device, value;
	int rc;

#if SIM_CUDART >= 13
	rc = DRV(0, cuCtxGetDevice_v2, &device, NULL);
#else
	rc = DRV(0, cuCtxGetDevice, &device);
#endif
	if (!rc)
		rc = DRV(0, cuKernelGetFunction, &f, rt_kernel(func));
	for (int i = 0; !rc && ret_attributes && i < 16; i++)
		rc = DRV(0, cuKernelGetAttribute, &value, i, f, 0);
	return rc;
}

/* ---- launches ---- */

#define LAUNCH                                                                                               \
	(const void *func, struct sim_dim3 grid, struct sim_dim3 block, void **args, size_t shared_bytes,    \
		void *stream)
#define GRID grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared_bytes

RTZ(cudaLaunchKernel, LAUNCH, DRV(pt, cuLaunchKernel, rt_kernel(func), GRID, stream, args, NULL))
RTZ(cudaLaunchCooperativeKernel, LAUNCH,
	DRV(pt, cuLaunchCooperativeKernel, rt_kernel(func), GRID, stream, args))
RTZ(cudaLaunchKernelExC, (const struct launch_config *config, const void *func, void **args),
	launch_ex(pt, config, func, args))
#if SIM_CUDART >= 12
/* What <<<>>> calls: one launch, two exported symbols. */
RT_PLAIN(__cudaLaunchKernel, LAUNCH, cudaLaunchKernel(func, grid, block, args, shared_bytes, stream))
RT_PLAIN(
	__cudaLaunchKernel_ptsz, LAUNCH, cudaLaunchKernel_ptsz(func, grid, block, args, shared_bytes, stream))
#endif
#if SIM_CUDART <= 12
RT(cudaLaunchCooperativeKernelMultiDevice, (void *list, unsigned n, unsigned flags),
	DRV(0, cuLaunchCooperativeKernelMultiDevice, list, n, flags))
#endif
RTZ(cudaLaunchHostFunc, (void *stream, sim_host_fn fn, void *user_data),
	DRV(pt, cuLaunchHostFunc, stream, fn, user_data))
RTZ(cudaStreamAddCallback, (void *stream, stream_callback fn, void *user_data, unsigned flags),
	DRV(pt, cuStreamAddCallback, stream, fn, user_data, flags))
RT(cudaFuncGetAttributes, (void *ret_attributes, const void *func), function_attributes(ret_attributes, func))
RT(cudaFuncSetAttribute, (const void *func, int attribute, int value),
	DRV(0, cuKernelSetAttribute, attribute, value, rt_kernel(func), 0))
RT(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
	(int *ret_n, const void *func, int block_size, size_t shared_bytes, unsigned flags),
	DRV(0, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, ret_n, rt_kernel(func), block_size,
		shared_bytes, flags))

/* ---- streams ---- */

RT(cudaStreamCreate, (void **ret_stream), DRV(0, cuStreamCreate, ret_stream, 0))
RT(cudaStreamCreateWithFlags, (void **ret_stream, unsigned flags), DRV(0, cuStreamCreate, ret_stream, flags))
RT(cudaStreamCreateWithPriority, (void **ret_stream, unsigned flags, int priority),
	DRV(0, cuStreamCreateWithPriority, ret_stream, flags, priority))
RT(cudaStreamDestroy, (void *stream), DRV(0, cuStreamDestroy_v2, stream))
RTZ(cudaStreamSynchronize, (void *stream), DRV(pt, cuStreamSynchronize, stream))
RTZ(cudaStreamQuery, (void *stream), DRV(pt, cuStreamQuery, stream))
RTZ(cudaStreamWaitEvent, (void *stream, void *event, unsigned flags),
	DRV(pt, cuStreamWaitEvent, stream, event, flags))

/* ---- events ---- */

RT(cudaEventCreate, (void **ret_event), DRV(0, cuEventCreate, ret_event, 0))
RT(cudaEventCreateWithFlags, (void **ret_event, unsigned flags), DRV(0, cuEventCreate, ret_event, flags))
RT(cudaEventDestroy, (void *event), DRV(0, cuEventDestroy_v2, event))
RTZ(cudaEventRecord, (void *event, void *stream), DRV(pt, cuEventRecord, event, stream))
RTZ(cudaEventRecordWithFlags, (void *event, void *stream, unsigned flags),
	DRV(pt, cuEventRecordWithFlags, event, stream, flags))
RT(cudaEventSynchronize, (void *event), DRV(0, cuEventSynchronize, event))
RT(cudaEventQuery, (void *event), DRV(0, cuEventQuery, event))
#if SIM_CUDART >= 13
RT(cudaEventElapsedTime, (float *ret_ms, void *start, void *end),
	DRV(0, cuEventElapsedTime_v2, ret_ms, start, end))
#else
RT(cudaEventElapsedTime, (float *ret_ms, void *start, void *end),
	DRV(0, cuEventElapsedTime, ret_ms, start, end))
#endif

/* ---- graphs ---- */

RTZ(cudaStreamBeginCapture, (void *stream, int mode), DRV(pt, cuStreamBeginCapture_v2, stream, mode))
RTZ(cudaStreamEndCapture, (void *stream, void **ret_graph), DRV(pt, cuStreamEndCapture, stream, ret_graph))
RTZ(cudaStreamIsCapturing, (void *stream, int *ret_status), DRV(pt, cuStreamIsCapturing, stream, ret_status))
RT(cudaGraphCreate, (void **ret_graph, unsigned flags), DRV(0, cuGraphCreate, ret_graph, flags))
RT(cudaGraphDestroy, (void *graph), DRV(0, cuGraphDestroy, graph))
RT(cudaGraphAddKernelNode, (void **ret_node, void *graph, const void *deps, size_t n, const void *params),
	DRV(0, cuGraphAddKernelNode_v2, ret_node, graph, deps, n, params))
RT(cudaGraphAddHostNode, (void **ret_node, void *graph, const void *deps, size_t n, const void *params),
	DRV(0, cuGraphAddHostNode, ret_node, graph, deps, n, params))
RT(cudaGraphAddMemcpyNode1D,
	(void **ret_node, void *graph, const void *deps, size_t n, void *dst, const void *src, size_t bytes,
		int kind),
	DRV(0, cuGraphAddMemcpyNode, ret_node, graph, deps, n, NULL, NULL))
RT(cudaGraphInstantiateWithFlags, (void **ret_exec, void *graph, uint64_t flags),
	DRV(0, cuGraphInstantiateWithFlags, ret_exec, graph, flags))
RT(cudaGraphExecDestroy, (void *exec), DRV(0, cuGraphExecDestroy, exec))
RTZ(cudaGraphUpload, (void *exec, void *stream), DRV(pt, cuGraphUpload, exec, stream))
RTZ(cudaGraphLaunch, (void *exec, void *stream), DRV(pt, cuGraphLaunch, exec, stream))
#if SIM_CUDART >= 12
RTZ(cudaStreamBeginCaptureToGraph,
	(void *stream, void *graph, const void *deps, const void *edges, size_t n, int mode),
	DRV(pt, cuStreamBeginCaptureToGraph, stream, graph, deps, edges, n, mode))
RT(cudaGraphInstantiate, (void **ret_exec, void *graph, uint64_t flags),
	DRV(0, cuGraphInstantiateWithFlags, ret_exec, graph, flags))
RTZ(cudaGraphInstantiateWithParams, (void **ret_exec, void *graph, void *params),
	DRV(pt, cuGraphInstantiateWithParams, ret_exec, graph, params))
RT(cudaGraphExecUpdate, (void *exec, void *graph, void *ret_info),
	DRV(0, cuGraphExecUpdate_v2, exec, graph, ret_info))
#else
RT(cudaGraphInstantiate, (void **ret_exec, void *graph, void **ret_node, char *log, size_t log_bytes),
	DRV(0, cuGraphInstantiate_v2, ret_exec, graph, ret_node, log, log_bytes))
RT(cudaGraphExecUpdate, (void *exec, void *graph, void **ret_node, int *ret_result),
	DRV(0, cuGraphExecUpdate, exec, graph, ret_node, ret_result))
#endif
