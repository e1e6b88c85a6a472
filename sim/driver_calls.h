/* The driver calls the simulated runtime makes: D plain, DZ with a _ptsz twin, DD with a _ptds twin. */
#ifndef SIM_DRIVER_CALLS_H
#define SIM_DRIVER_CALLS_H

#define SIM_DRIVER_CALLS(D, DZ, DD)                                                                          \
	D(cuInit, (unsigned))                                                                                \
	D(cuDeviceGetCount, (int *))                                                                         \
	D(cuDeviceGet, (int *, int))                                                                         \
	D(cuDeviceGetAttribute, (int *, int, int))                                                           \
	D(cuDevicePrimaryCtxRetain, (void **, int))                                                          \
	D(cuDevicePrimaryCtxReset, (int))                                                                    \
	D(cuCtxSetCurrent, (void *))                                                                         \
	D(cuCtxGetDevice, (int *))                                                                           \
	D(cuCtxGetDevice_v2, (int *, void *))                                                                \
	D(cuCtxGetApiVersion, (void *, unsigned *))                                                          \
	D(cuCtxSynchronize, (void))                                                                          \
	D(cuCtxSynchronize_v2, (void *))                                                                     \
	D(cuProfilerStart, (void))                                                                           \
	D(cuModuleGetFunction, (void **, void *, const char *))                                              \
	D(cuLibraryLoadData, (void **, const void *, void *, void **, unsigned, void *, void **, unsigned))  \
	D(cuLibraryGetModule, (void **, void *))                                                             \
	D(cuLibraryGetKernel, (void **, void *, const char *))                                               \
	D(cuLibraryGetGlobal, (CUdeviceptr *, size_t *, void *, const char *))                               \
	D(cuKernelGetFunction, (void **, void *))                                                            \
	D(cuKernelGetAttribute, (int *, int, void *, int))                                                   \
	D(cuKernelSetAttribute, (int, int, void *, int))                                                     \
	D(cuMemAlloc_v2, (CUdeviceptr *, size_t))                                                            \
	D(cuMemAllocManaged, (CUdeviceptr *, size_t, unsigned))                                              \
	D(cuMemHostAlloc, (void **, size_t, unsigned))                                                       \
	D(cuMemHostGetDevicePointer_v2, (CUdeviceptr *, void *, unsigned))                                   \
	D(cuMemAllocPitch_v2, (CUdeviceptr *, size_t *, size_t, size_t, unsigned))                           \
	D(cuArrayCreate_v2, (void **, const void *))                                                         \
	D(cuArray3DCreate_v2, (void **, const void *))                                                       \
	D(cuMemHostRegister_v2, (void *, size_t, unsigned))                                                  \
	D(cuDeviceGetDefaultMemPool, (void **, int))                                                         \
	D(cuMemPoolCreate, (void **, const void *))                                                          \
	D(cuMemPoolTrimTo, (void *, size_t))                                                                 \
	D(cuMemPoolDestroy, (void *))                                                                        \
	D(cuMemFree_v2, (CUdeviceptr))                                                                       \
	D(cuMemFreeHost, (void *))                                                                           \
	D(cuMemHostUnregister, (void *))                                                                     \
	D(cuArrayDestroy, (void *))                                                                          \
	D(cuMemGetInfo_v2, (size_t *, size_t *))                                                             \
	D(cuPointerGetAttributes, (unsigned, void *, void **, CUdeviceptr))                                  \
	D(cuMemAdvise, (CUdeviceptr, size_t, int, int))                                                      \
	D(cuMemAdvise_v2, (CUdeviceptr, size_t, int, uint64_t))                                              \
	DZ(cuMemAllocAsync, (CUdeviceptr *, size_t, void *))                                                 \
	DZ(cuMemAllocFromPoolAsync, (CUdeviceptr *, size_t, void *, void *))                                 \
	DZ(cuMemFreeAsync, (CUdeviceptr, void *))                                                            \
	DZ(cuMemPrefetchAsync, (CUdeviceptr, size_t, int, void *))                                           \
	DZ(cuMemPrefetchAsync_v2, (CUdeviceptr, size_t, uint64_t, unsigned, void *))                         \
	DZ(cuMemPrefetchBatchAsync,                                                                          \
		(CUdeviceptr *, size_t *, size_t, void *, size_t *, size_t, uint64_t, void *))               \
	DZ(cuMemDiscardAndPrefetchBatchAsync,                                                                \
		(CUdeviceptr *, size_t *, size_t, void *, size_t *, size_t, uint64_t, void *))               \
	DZ(cuMemDiscardBatchAsync, (CUdeviceptr *, size_t *, size_t, uint64_t, void *))                      \
	DD(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t))                                             \
	DD(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t))                                                   \
	DD(cuMemcpyDtoD_v2, (CUdeviceptr, CUdeviceptr, size_t))                                              \
	DD(cuMemcpy, (CUdeviceptr, CUdeviceptr, size_t))                                                     \
	DZ(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, void *))                                \
	DZ(cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, void *))                                      \
	DZ(cuMemcpyDtoDAsync_v2, (CUdeviceptr, CUdeviceptr, size_t, void *))                                 \
	DZ(cuMemcpyAsync, (CUdeviceptr, CUdeviceptr, size_t, void *))                                        \
	D(cuMemcpyPeer, (CUdeviceptr, void *, CUdeviceptr, void *, size_t))                                  \
	D(cuMemcpyPeerAsync, (CUdeviceptr, void *, CUdeviceptr, void *, size_t, void *))                     \
	DD(cuMemcpyHtoA_v2, (void *, size_t, const void *, size_t))                                          \
	DD(cuMemcpyAtoH_v2, (void *, void *, size_t, size_t))                                                \
	DD(cuMemcpyAtoA_v2, (void *, size_t, void *, size_t, size_t))                                        \
	DZ(cuMemcpyHtoAAsync_v2, (void *, size_t, const void *, size_t, void *))                             \
	DZ(cuMemcpyAtoHAsync_v2, (void *, void *, size_t, size_t, void *))                                   \
	DD(cuMemcpy2DUnaligned_v2, (const struct copy_2d *))                                                 \
	DZ(cuMemcpy2DAsync_v2, (const struct copy_2d *, void *))                                             \
	DD(cuMemcpy3D_v2, (const struct copy_3d *))                                                          \
	DZ(cuMemcpy3DAsync_v2, (const struct copy_3d *, void *))                                             \
	DD(cuMemcpy3DPeer, (const struct copy_3d *))                                                         \
	DZ(cuMemcpy3DPeerAsync, (const struct copy_3d *, void *))                                            \
	DZ(cuMemcpyBatchAsync, (CUdeviceptr *, CUdeviceptr *, size_t *, size_t, void *, size_t *, size_t,    \
				       size_t *, void *))                                                    \
	DZ(cuMemcpyBatchAsync_v2,                                                                            \
		(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, void *, size_t *, size_t, void *))          \
	DZ(cuMemcpy3DBatchAsync, (size_t, void *, size_t *, uint64_t, void *))                               \
	DZ(cuMemcpy3DBatchAsync_v2, (size_t, void *, uint64_t, void *))                                      \
	DD(cuMemsetD8_v2, (CUdeviceptr, uint8_t, size_t))                                                    \
	DZ(cuMemsetD8Async, (CUdeviceptr, uint8_t, size_t, void *))                                          \
	DD(cuMemsetD2D8_v2, (CUdeviceptr, size_t, uint8_t, size_t, size_t))                                  \
	DZ(cuMemsetD2D8Async, (CUdeviceptr, size_t, uint8_t, size_t, size_t, void *))                        \
	DZ(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,    \
				   void *, void **, void **))                                                \
	DZ(cuLaunchCooperativeKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,   \
					      unsigned, void *, void **))                                    \
	DZ(cuLaunchKernelEx, (const void *, void *, void **, void **))                                       \
	D(cuLaunchCooperativeKernelMultiDevice, (void *, unsigned, unsigned))                                \
	DZ(cuLaunchHostFunc, (void *, sim_host_fn, void *))                                                  \
	DZ(cuStreamAddCallback, (void *, stream_callback, void *, unsigned))                                 \
	D(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, (int *, void *, int, size_t, unsigned))      \
	D(cuStreamCreate, (void **, unsigned))                                                               \
	D(cuStreamCreateWithPriority, (void **, unsigned, int))                                              \
	D(cuStreamDestroy_v2, (void *))                                                                      \
	DZ(cuStreamSynchronize, (void *))                                                                    \
	DZ(cuStreamQuery, (void *))                                                                          \
	DZ(cuStreamWaitEvent, (void *, void *, unsigned))                                                    \
	D(cuEventCreate, (void **, unsigned))                                                                \
	D(cuEventDestroy_v2, (void *))                                                                       \
	DZ(cuEventRecord, (void *, void *))                                                                  \
	DZ(cuEventRecordWithFlags, (void *, void *, unsigned))                                               \
	D(cuEventSynchronize, (void *))                                                                      \
	D(cuEventQuery, (void *))                                                                            \
	D(cuEventElapsedTime, (float *, void *, void *))                                                     \
	D(cuEventElapsedTime_v2, (float *, void *, void *))                                                  \
	DZ(cuStreamBeginCapture_v2, (void *, int))                                                           \
	DZ(cuStreamBeginCaptureToGraph, (void *, void *, const void *, const void *, size_t, int))           \
	DZ(cuStreamEndCapture, (void *, void **))                                                            \
	DZ(cuStreamIsCapturing, (void *, int *))                                                             \
	D(cuGraphCreate, (void **, unsigned))                                                                \
	D(cuGraphDestroy, (void *))                                                                          \
	D(cuGraphAddKernelNode_v2, (void **, void *, const void *, size_t, const void *))                    \
	D(cuGraphAddHostNode, (void **, void *, const void *, size_t, const void *))                         \
	D(cuGraphAddMemcpyNode, (void **, void *, const void *, size_t, const void *, void *))               \
	D(cuGraphInstantiate_v2, (void **, void *, void **, char *, size_t))                                 \
	D(cuGraphInstantiateWithFlags, (void **, void *, uint64_t))                                          \
	DZ(cuGraphInstantiateWithParams, (void **, void *, void *))                                          \
	D(cuGraphExecUpdate, (void *, void *, void **, int *))                                               \
	D(cuGraphExecUpdate_v2, (void *, void *, void *))                                                    \
	D(cuGraphExecDestroy, (void *))                                                                      \
	DZ(cuGraphUpload, (void *, void *))                                                                  \
	DZ(cuGraphLaunch, (void *, void *))

#endif
