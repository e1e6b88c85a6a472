/* The operation table: what is traced, under which number and name, where its arguments are. Generated from
 * ops.def; probes, names, lookup tables of the database, documents and tests are all driven from it. */
#ifndef INGERO_MODEL_OPS_H
#define INGERO_MODEL_OPS_H

#include "base/util.h"
#include "abi.h"

/* Source ids (spec tracing §0.3). An operation's code is source << 8 | id, the reference's two numbers. */
enum source_id {
	SOURCE_CUDA = 1,
	SOURCE_HOST = 3,
	SOURCE_DRIVER = 4,
	SOURCE_IO = 5,
	SOURCE_TCP = 6,
	SOURCE_NET = 7,
	SOURCE_GRAPH = 8,
	SOURCE_NCCL = 9,
};

#define OP_CODE(source, id) ((uint16_t)((source) << 8 | (id)))
#define OP_SOURCE(code) ((code) >> 8)
#define OP_ID(code) ((code)&0xff)

enum op_category {
	OPCAT_OTHER,
	OPCAT_ALLOC,
	OPCAT_FREE,
	OPCAT_COPY,
	OPCAT_SET, /* memset */
	OPCAT_LAUNCH,
	OPCAT_SYNC,
	OPCAT_QUERY, /* "not ready" (600) is a normal answer */
	OPCAT_GRAPH,
	OPCAT_EVENT,
	OPCAT_STREAM,
	OPCAT_CONTEXT,
	OPCAT_HOST,
};

struct op_info {
	uint16_t code;
	const char *name;  /* printed name, for example cudaStreamSync */
	const char *descr; /* one line for the ops lookup table */
	enum op_category category;
};

struct source_info {
	uint8_t id;
	const char *name;    /* printed: cuda, host, driver, io, tcp, net, cuda_graph, nccl */
	const char *db_name; /* in the sources table: CUDA, HOST, … */
	const char *descr;
};

/* One probed symbol. Rows for _ptsz/_ptds twins are expanded from their base row. */
struct symbol_info {
	const char *symbol;
	uint16_t op_code;
	uint8_t layer;		/* enum abi_layer */
	uint8_t so_min, so_max; /* runtime major versions it is valid for (0 and 255 = all) */
	struct abi_desc desc;	/* what the BPF side needs */
};

const struct source_info *source_by_id(unsigned id); /* NULL if unknown */
const struct op_info *op_by_code(unsigned code);     /* NULL if unknown */
/* Calls fn for every row of the tables in order. */
size_t op_count(void);
const struct op_info *op_at(size_t i);
size_t source_count(void);
const struct source_info *source_at(size_t i);
size_t symbol_count(void);
const struct symbol_info *symbol_at(size_t i);

/* Name for printing, never NULL: "unknown(N)", "driver_op(N)", … for unknown ones, written into buf then. */
const char *op_name(unsigned code, char *buf, size_t buf_size);
const char *source_name(unsigned source, char *buf, size_t buf_size);

/* Finds operations by printed name or by symbol name (any case; cuMemAlloc_v2, cudaStreamSynchronize,
 * cudaLaunchKernel_ptsz, cuMemAllocV2 …). Writes up to `max` codes; returns how many there are (0 = unknown).
 */
size_t op_find(const char *name, uint16_t *ret_codes, size_t max);

#endif
