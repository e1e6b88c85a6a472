#include "sim/call_table.h"
#include "sim/copy.h"

#define DEFAULT_BYTES 4096
#define DEFAULT_SIDE 64
#define PITCH 4096

/* Where sonames differ, one shape serves all: a stream stands in every place that one of them may look at. */
static const struct {
	const char *name, *shape;
} shapes[] = {
	/* runtime: memory */
	{"cudaMalloc", "Mn"},
	{"cudaMallocManaged", "Mn1"},
	{"cudaMallocHost", "Hn"},
	{"cudaHostAlloc", "Hn0"},
	{"cudaMallocAsync", "Mns"},
	{"cudaMallocFromPoolAsync", "Mnps"},
	{"cudaMallocPitch", "MOnw"},
	{"cudaMalloc3D", "MV"},
	{"cudaMallocArray", "AOww0"},
	{"cudaMalloc3DArray", "AOV0"},
	{"cudaFree", "-m"},
	{"cudaFreeHost", "-h"},
	{"cudaFreeArray", "-a"},
	{"cudaFreeAsync", "-ms"},
	{"cudaHostRegister", "on0"},
	{"cudaHostUnregister", "o"},
	{"cudaDeviceGetDefaultMemPool", "P0"},
	{"cudaMemPoolCreate", "PO"},
	{"cudaMemPoolDestroy", "-p"},
	{"cudaMemGetInfo", "OO"},
	{"cudaMemPrefetchAsync", "mn0ss"},
	{"cudaMemPrefetchAsync_v2", "mn00s"},
	{"cudaMemPrefetchBatchAsync", "vzOOO00s"},
	{"cudaMemDiscardAndPrefetchBatchAsync", "vzOOO00s"},
	{"cudaMemDiscardBatchAsync", "vz10s"},
	/* runtime: copies and fills */
	{"cudaMemcpy", "mhni"},
	{"cudaMemcpyAsync", "mhnis"},
	{"cudaMemcpyPeer", "m0m0n"},
	{"cudaMemcpyPeerAsync", "m0m0ns"},
	{"cudaMemcpy2D", "myhynwi"},
	{"cudaMemcpy2DAsync", "myhynwis"},
	{"cudaMemcpy3D", "q"},
	{"cudaMemcpy3DAsync", "qs"},
	{"cudaMemcpy3DPeer", "r"},
	{"cudaMemcpy3DPeerAsync", "rs"},
	{"cudaMemcpyToSymbol", "Ohn0i"},
	{"cudaMemcpyToSymbolAsync", "Ohn0is"},
	{"cudaMemcpyFromSymbol", "hOn02"},
	{"cudaMemcpyFromSymbolAsync", "hOn02s"},
	{"cudaMemcpyToArray", "a00hni"},
	{"cudaMemcpyToArrayAsync", "a00hnis"},
	{"cudaMemcpyFromArray", "ha00n2"},
	{"cudaMemcpyFromArrayAsync", "ha00n2s"},
	{"cudaMemcpy2DToArray", "a00hynwi"},
	{"cudaMemcpy2DToArrayAsync", "a00hynwis"},
	{"cudaMemcpy2DFromArray", "hya00nw2"},
	{"cudaMemcpy2DFromArrayAsync", "hya00nw2s"},
	{"cudaMemcpyArrayToArray", "a00a00n3"},
	{"cudaMemcpy2DArrayToArray", "a00a00nw3"},
	{"cudaMemcpyBatchAsync", "vvz1OO0ss"},
	{"cudaMemcpy3DBatchAsync", "1O0ss"},
	{"cudaMemset", "m0n"},
	{"cudaMemsetAsync", "m0ns"},
	{"cudaMemset2D", "my0nw"},
	{"cudaMemset2DAsync", "my0nws"},
	{"cudaMemset3D", "W0V"},
	{"cudaMemset3DAsync", "W0Vs"},
	/* runtime: the rest */
	{"cudaLaunchKernel", "fDDO0s"},
	{"__cudaLaunchKernel", "fDDO0s"},
	{"cudaLaunchCooperativeKernel", "fDDO0s"},
	{"cudaLaunchKernelExC", "cfO"},
	{"cudaLaunchHostFunc", "sb0"},
	{"cudaStreamAddCallback", "sk00"},
	{"__cudaGetKernel", "Ff"},
	{"cudaGetKernel", "Ff"},
	{"cudaStreamCreate", "S"},
	{"cudaStreamCreateWithFlags", "S1"},
	{"cudaStreamCreateWithPriority", "S10"},
	{"cudaStreamDestroy", "-s"},
	{"cudaStreamSynchronize", "s"},
	{"cudaStreamQuery", "s"},
	{"cudaStreamWaitEvent", "se0"},
	{"cudaEventCreate", "E"},
	{"cudaEventCreateWithFlags", "E0"},
	{"cudaEventDestroy", "-e"},
	{"cudaEventRecord", "es"},
	{"cudaEventRecordWithFlags", "es0"},
	{"cudaEventSynchronize", "e"},
	{"cudaEventQuery", "e"},
	{"cudaEventElapsedTime", "Oee"},
	{"cudaStreamBeginCapture", "s0"},
	{"cudaStreamEndCapture", "sG"},
	{"cudaStreamIsCapturing", "sO"},
	{"cudaGraphCreate", "G0"},
	{"cudaGraphDestroy", "-g"},
	{"cudaGraphInstantiate", "Xg000"},
	{"cudaGraphInstantiateWithFlags", "Xg0"},
	{"cudaGraphInstantiateWithParams", "XgO"},
	{"cudaStreamBeginCaptureToGraph", "sg0000"},
	{"cudaGraphExecUpdate", "xgOO"},
	{"cudaGraphExecDestroy", "-x"},
	{"cudaGraphUpload", "xs"},
	{"cudaGraphLaunch", "xs"},
	{"cudaGetDeviceCount", "O"},
	{"cudaGetDevice", "O"},
	{"cudaSetDevice", "."},
	{"cudaDeviceGetAttribute", "Oi0"},
	/* driver: memory */
	{"cuMemAlloc_v2", "Mn"},
	{"cuMemAllocManaged", "Mn1"},
	{"cuMemAllocHost_v2", "Hn"},
	{"cuMemHostAlloc", "Hn0"},
	{"cuMemAllocAsync", "Mns"},
	{"cuMemAllocFromPoolAsync", "Mnps"},
	{"cuMemAllocPitch_v2", "MOnw4"},
	{"cuArrayCreate_v2", "Ad"},
	{"cuArray3DCreate_v2", "Ad"},
	{"cuMipmappedArrayCreate", "Ad1"},
	{"cuMemCreate", "MnO0"},
	{"cuMemAddressReserve", "Mn000"},
	{"cuMemMap", "mn000"},
	{"cuMemFree_v2", "-m"},
	{"cuMemFreeHost", "-h"},
	{"cuMemHostRegister", "on0"},
	{"cuMemHostRegister_v2", "on0"},
	{"cuMemHostUnregister", "o"},
	{"cuArrayDestroy", "-a"},
	{"cuMemRelease", "-m"},
	{"cuMemUnmap", "mn"},
	{"cuMemAddressFree", "-mn"},
	{"cuMemFreeAsync", "-ms"},
	{"cuIpcOpenMemHandle_v2", "M1"}, /* the handle by value is whatever lies on the stack */
	{"cuIpcCloseMemHandle", "-m"},
	{"cuMemImportFromShareableHandle", "M01"},
	{"cuMemPoolImportPointer", "M00"},
	{"cuDeviceGetDefaultMemPool", "P0"},
	{"cuMemGetInfo_v2", "OO"},
	{"cuMemPrefetchAsync", "mn0s"},
	{"cuMemPrefetchAsync_v2", "mn00s"},
	{"cuMemPrefetchBatchAsync", "vzOOO00s"},
	{"cuMemDiscardAndPrefetchBatchAsync", "vzOOO00s"},
	{"cuMemDiscardBatchAsync", "vz10s"},
	/* driver: copies and fills */
	{"cuMemcpyHtoD_v2", "mhn"},
	{"cuMemcpyDtoH_v2", "hmn"},
	{"cuMemcpyDtoD_v2", "mmn"},
	{"cuMemcpy", "mmn"},
	{"cuMemcpyHtoDAsync_v2", "mhns"},
	{"cuMemcpyDtoHAsync_v2", "hmns"},
	{"cuMemcpyDtoDAsync_v2", "mmns"},
	{"cuMemcpyAsync", "mmns"},
	{"cuMemcpyPeer", "m0m0n"},
	{"cuMemcpyPeerAsync", "m0m0ns"},
	{"cuMemcpy2D_v2", "t"},
	{"cuMemcpy2DUnaligned_v2", "t"},
	{"cuMemcpy2DAsync_v2", "ts"},
	{"cuMemcpy3D_v2", "u"},
	{"cuMemcpy3DAsync_v2", "us"},
	{"cuMemcpy3DPeer", "u"},
	{"cuMemcpy3DPeerAsync", "us"},
	{"cuMemcpyHtoA_v2", "a0hn"},
	{"cuMemcpyAtoH_v2", "ha0n"},
	{"cuMemcpyDtoA_v2", "a0mn"},
	{"cuMemcpyAtoD_v2", "ma0n"},
	{"cuMemcpyAtoA_v2", "a0a0n"},
	{"cuMemcpyHtoAAsync_v2", "a0hns"},
	{"cuMemcpyAtoHAsync_v2", "ha0ns"},
	{"cuMemcpyBatchAsync", "vvz1OOOOs"},
	{"cuMemcpyBatchAsync_v2", "vvz1OOOs"},
	{"cuMemcpy3DBatchAsync", "1OO0s"},
	{"cuMemcpy3DBatchAsync_v2", "1O0s"},
	{"cuMemsetD8_v2", "m0n"},
	{"cuMemsetD16_v2", "m0n"},
	{"cuMemsetD32_v2", "m0n"},
	{"cuMemsetD8Async", "m0ns"},
	{"cuMemsetD16Async", "m0ns"},
	{"cuMemsetD32Async", "m0ns"},
	{"cuMemsetD2D8_v2", "my0nw"},
	{"cuMemsetD2D16_v2", "my0nw"},
	{"cuMemsetD2D32_v2", "my0nw"},
	{"cuMemsetD2D8Async", "my0nws"},
	{"cuMemsetD2D16Async", "my0nws"},
	{"cuMemsetD2D32Async", "my0nws"},
	/* driver: the rest */
	{"cuLaunchKernel", "fi11i110s00"},
	{"cuLaunchCooperativeKernel", "fi11i110s0"},
	{"cuLaunchKernelEx", "cfO0"},
	{"cuLaunch", "f"},
	{"cuLaunchGrid", "fi1"},
	{"cuLaunchGridAsync", "fi1s"},
	{"cuLaunchHostFunc", "sb0"},
	{"cuStreamAddCallback", "sk00"},
	{"cuModuleLoadData", "L0"},
	{"cuLibraryLoadData", "L0000000"},
	{"cuModuleUnload", "-l"},
	{"cuLibraryUnload", "-l"},
	{"cuModuleGetFunction", "FlN"},
	{"cuLibraryGetKernel", "FlN"},
	{"cuStreamCreate", "S0"},
	{"cuStreamCreateWithPriority", "S00"},
	{"cuGreenCtxStreamCreate", "S000"},
	{"cuStreamDestroy_v2", "-s"},
	{"cuStreamSynchronize", "s"},
	{"cuStreamQuery", "s"},
	{"cuStreamWaitEvent", "se0"},
	{"cuEventCreate", "E0"},
	{"cuEventDestroy_v2", "-e"},
	{"cuEventRecord", "es"},
	{"cuEventRecordWithFlags", "es0"},
	{"cuEventSynchronize", "e"},
	{"cuEventQuery", "e"},
	{"cuStreamWaitValue32", "sm00"},
	{"cuStreamWaitValue32_v2", "sm00"},
	{"cuStreamWaitValue64", "sm00"},
	{"cuStreamWaitValue64_v2", "sm00"},
	{"cuStreamWriteValue32", "sm00"},
	{"cuStreamWriteValue32_v2", "sm00"},
	{"cuStreamWriteValue64", "sm00"},
	{"cuStreamWriteValue64_v2", "sm00"},
	{"cuStreamBatchMemOp", "s1O0"},
	{"cuStreamBatchMemOp_v2", "s1O0"},
	{"cuStreamBeginCapture", "s"},
	{"cuStreamBeginCapture_v2", "s0"},
	{"cuStreamBeginCaptureToGraph", "sg0000"},
	{"cuStreamEndCapture", "sG"},
	{"cuGraphCreate", "G0"},
	{"cuGraphDestroy", "-g"},
	{"cuGraphInstantiate", "Xg000"},
	{"cuGraphInstantiate_v2", "Xg000"},
	{"cuGraphInstantiateWithFlags", "Xg0"},
	{"cuGraphInstantiateWithParams", "XgO"},
	{"cuGraphExecUpdate", "xgOO"},
	{"cuGraphExecUpdate_v2", "xgO"},
	{"cuGraphExecDestroy", "-x"},
	{"cuGraphUpload", "xs"},
	{"cuGraphLaunch", "xs"},
	{"cuInit", "0"},
	{"cuDevicePrimaryCtxRetain", "O."},
	{"cuCtxCreate_v2", "O0."},
	{"cuCtxCreate_v3", "O000."},
	{"cuCtxCreate_v4", "O00."},
	{"cuCtxPopCurrent_v2", "O"},
	{"cuCtxGetCurrent", "O"},
};

/* ---- shapes ---- */

const char *call_shape(const char *name)
{
	size_t len = strlen(name);

	if (len > 5 && (!strcmp(name + len - 5, "_ptsz") || !strcmp(name + len - 5, "_ptds")))
		len -= 5;
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
		if (!strncmp(shapes[i].name, name, len) && !shapes[i].name[len])
			return shapes[i].shape;
	}
	return NULL;
}

bool call_takes_number(char letter)
{
	return letter && strchr("nwi.DVWqrtudz", letter);
}

uint64_t call_default(char letter)
{
	switch (letter) {
	case 'w':
		return DEFAULT_SIDE;
	case 'i':
	case 'D':
		return 1;
	case '.':
		return 0;
	default:
		return DEFAULT_BYTES;
	}
}

/* ---- arguments ---- */

static void nothing(void *user_data)
{
	(void)user_data;
}

static void nothing_for_stream(void *stream, int status, void *user_data)
{
	(void)stream, (void)status, (void)user_data;
}

void call_word(struct call_words *words, uint64_t value)
{
	if (words->n_reg < CALL_REGS)
		words->reg[words->n_reg++] = value;
	else if (words->n_stack < CALL_STACK)
		words->stack[words->n_stack++] = value;
}

static uint64_t *memory(struct call_words *words, unsigned n)
{
	unsigned at = words->n_memory;

	if (n > ARRAY_LEN(words->memory) - at)
		abort(); /* a shape in the table above asks for too much */
	words->n_memory += n;
	return &words->memory[at];
}

/* A structure by value too large for registers: x86-64 puts it on the stack, arm64 passes its address. */
static void by_value(struct call_words *words, const uint64_t *value, unsigned n)
{
	unsigned i;

#if defined(__aarch64__)
	uint64_t *copy = memory(words, n);

	for (i = 0; i < n; i++)
		copy[i] = value[i];
	call_word(words, (uintptr_t)copy);
#else
	for (i = 0; i < n && words->n_stack < CALL_STACK; i++)
		words->stack[words->n_stack++] = value[i];
#endif
}

/* One of the structures that hold a copy; `where` is the word of the width, height 1 (and depth 1) follow. */
static void by_address(struct call_words *words, unsigned n, unsigned where, uint64_t width)
{
	uint64_t *m = memory(words, n);

	m[where] = width;
	for (unsigned i = where + 1; i < n && i < where + 3; i++)
		m[i] = 1;
	call_word(words, (uintptr_t)m);
}

static void launch_config(struct call_words *words)
{
	uint64_t *m = memory(words, 7);

	m[0] = m[2] = 1ull << 32 | 1;
	m[1] = 32ull << 32 | 1;
	call_word(words, (uintptr_t)m);
}

static __thread char own[4096];

void call_argument(struct call_words *words, char letter, uint64_t number, const char *kernel_name)
{
	switch (letter) {
	case 'D': /* three sides in two registers */
		call_word(words, 1ull << 32 | (uint32_t)number);
		call_word(words, 1);
		break;
	case 'V':
		by_value(words, (uint64_t[]){number, 1, 1}, 3);
		break;
	case 'W':
		by_value(words, (uint64_t[]){0, number, number, 1}, 4);
		break;
	case 'O': /* room for whatever comes back */
		call_word(words, (uintptr_t)memory(words, 8));
		break;
	case 'N':
		call_word(words, (uintptr_t)(kernel_name ? kernel_name : "kernel"));
		break;
	case 'b':
		call_word(words, (uintptr_t)nothing);
		break;
	case 'k':
		call_word(words, (uintptr_t)nothing_for_stream);
		break;
	case 'c':
		launch_config(words);
		break;
	case 'd':
		by_address(words, 5, 0, number);
		break;
	case 't':
		by_address(words, sizeof(struct copy_2d) / 8, offsetof(struct copy_2d, width) / 8, number);
		break;
	case 'u':
		by_address(words, sizeof(struct copy_3d) / 8, offsetof(struct copy_3d, width) / 8, number);
		break;
	case 'q': /* cudaMemcpy3DParms, direction 0 */
		by_address(words, 20, 16, number);
		break;
	case 'r': /* cudaMemcpy3DPeerParms */
		by_address(words, 21, 18, number);
		break;
	case 'v':
		call_word(words, (uintptr_t)memory(words, 1));
		break;
	case 'z':
		by_address(words, 1, 0, number);
		break;
	case 'o': /* memory of the thread's own, to register */
		call_word(words, (uintptr_t)own);
		break;
	case 'y':
		call_word(words, PITCH);
		break;
	default:
		call_word(words, letter >= '0' && letter <= '9' ? (uint64_t)(letter - '0') : number);
	}
}

int call_words(void *fn, const struct call_words *words)
{
	const uint64_t *r = words->reg, *s = words->stack;
#if defined(__aarch64__)
#define REG_TYPES uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t
#define REGS r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7]
#else
#define REG_TYPES uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t
#define REGS r[0], r[1], r[2], r[3], r[4], r[5]
#endif
	int (*f)(REG_TYPES, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

	*(void **)&f = fn;
	return f(REGS, s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]);
}
