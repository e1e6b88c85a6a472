#include "model/ops.h"

#include <ctype.h>
#include <strings.h>

/* ---- operations ---- */

enum op_ident {
#define OP(source, id, ident, name, category) IDENT_##ident,
#include "model/ops.def"
};

static const struct op_info op_table[] = {
#define OP(source, id, ident, op_name, cat)                                                                  \
	[IDENT_##ident] = {.code = OP_CODE(SOURCE_##source, id),                                             \
		.name = op_name,                                                                             \
		.descr = op_name,                                                                            \
		.category = OPCAT_##cat},
#include "model/ops.def"
};

static const struct source_info source_table[] = {
	{SOURCE_CUDA, "cuda", "CUDA", "CUDA runtime API calls"},
	{SOURCE_HOST, "host", "HOST", "Host kernel events"},
	{SOURCE_DRIVER, "driver", "DRIVER", "CUDA driver API calls"},
	{SOURCE_IO, "io", "IO", "Block I/O"},
	{SOURCE_TCP, "tcp", "TCP", "TCP retransmissions"},
	{SOURCE_NET, "net", "NET", "Socket calls"},
	{SOURCE_GRAPH, "cuda_graph", "CUDA_GRAPH", "CUDA graph life cycle"},
	{SOURCE_NCCL, "nccl", "NCCL", "NCCL collectives"},
};

/* ---- symbols ---- */

#define RT ABI_LAYER_RUNTIME
#define DR ABI_LAYER_DRIVER
#define K ABI_DESC_KEEP
#define S ABI_DESC_STACK_ARGS
#define Q ABI_DESC_QUERY
#define N ABI_DESC_NAME
#define CB ABI_DESC_CAPTURE_BEGIN
#define CE ABI_DESC_CAPTURE_END
#define F(r, s, x, y)                                                                                        \
	{                                                                                                    \
		.role = ABI_ROLE_##r, .src = ABI_SRC_##s, .a = (x), .b = (y)                                 \
	}
#define B(s, x, y) F(BYTES, s, x, y)

/* Slot of an argument behind structures passed by value in memory: they take no register on x86-64, one (a
 * pointer) each on arm64. */
#if defined(__aarch64__)
#define BYVAL_SLOT(x86, arm64) (arm64)
#else
#define BYVAL_SLOT(x86, arm64) (x86)
#endif

#define ROW(ident, sym, lay, lo, hi, fl, ...)                                                                \
	{.symbol = sym,                                                                                      \
		.op_code = 0,                                                                                \
		.layer = (lay),                                                                              \
		.so_min = (lo),                                                                              \
		.so_max = (hi),                                                                              \
		.desc = {.op = (uint16_t)IDENT_##ident,                                                      \
			.layer = (lay),                                                                      \
			.n_fields = sizeof((struct abi_field[]){__VA_ARGS__}) / sizeof(struct abi_field),    \
			.flags = (fl),                                                                       \
			.field = {__VA_ARGS__}}},

/* As written in ops.def: desc.op holds the identifier until symbol_at() hands the row out, see rows(). */
static const struct symbol_info raw_rows[] = {
#define SYM(ident, sym, ...) ROW(ident, sym, __VA_ARGS__)
#define SYMZ(ident, sym, lay, lo, hi, fl, ...)                                                               \
	ROW(ident, sym, lay, lo, hi, fl, __VA_ARGS__)                                                        \
	ROW(ident, sym "_ptsz", lay, lo, hi, (fl) | ABI_DESC_PER_THREAD, __VA_ARGS__)
#define SYMD(ident, sym, lay, lo, hi, fl, ...)                                                               \
	ROW(ident, sym, lay, lo, hi, fl, __VA_ARGS__)                                                        \
	ROW(ident, sym "_ptds", lay, lo, hi, (fl) | ABI_DESC_PER_THREAD, __VA_ARGS__)
#include "model/ops.def"
};

#define N_ROWS ARRAY_LEN(raw_rows)

static struct symbol_info rows[N_ROWS];
static uint16_t by_code[1 << 12]; /* op_table index + 1 */

/* Runs before main: completes what an initialiser cannot express. */
__attribute__((constructor)) static void complete_tables(void)
{
	for (size_t i = 0; i < ARRAY_LEN(op_table); i++)
		by_code[op_table[i].code] = (uint16_t)(i + 1);
	for (size_t i = 0; i < N_ROWS; i++) {
		const struct op_info *op = &op_table[raw_rows[i].desc.op];

		rows[i] = raw_rows[i];
		rows[i].op_code = op->code;
		rows[i].desc.op = op->code;
		rows[i].desc.category = (uint8_t)op->category;
		rows[i].desc.bytes_field = rows[i].desc.field[0].role == ABI_ROLE_BYTES ? 1 : 0;
	}
}

size_t op_count(void)
{
	return ARRAY_LEN(op_table);
}

const struct op_info *op_at(size_t i)
{
	return &op_table[i];
}

const struct op_info *op_by_code(unsigned code)
{
	unsigned i = code < ARRAY_LEN(by_code) ? by_code[code] : 0;

	return i ? &op_table[i - 1] : NULL;
}

size_t source_count(void)
{
	return ARRAY_LEN(source_table);
}

const struct source_info *source_at(size_t i)
{
	return &source_table[i];
}

const struct source_info *source_by_id(unsigned id)
{
	for (size_t i = 0; i < ARRAY_LEN(source_table); i++) {
		if (source_table[i].id == id)
			return &source_table[i];
	}
	return NULL;
}

size_t symbol_count(void)
{
	return N_ROWS;
}

const struct symbol_info *symbol_at(size_t i)
{
	return &rows[i];
}

const char *op_name(unsigned code, char *buf, size_t buf_size)
{
	static const char *const unknown[] = {[SOURCE_CUDA] = "unknown",
		[SOURCE_HOST] = "host_op",
		[SOURCE_DRIVER] = "driver_op",
		[SOURCE_IO] = "io_op",
		[SOURCE_TCP] = "tcp_op",
		[SOURCE_NET] = "net_op",
		[SOURCE_GRAPH] = "graph_op",
		[SOURCE_NCCL] = "nccl_op"};
	const struct op_info *op = op_by_code(code);
	unsigned source = OP_SOURCE(code);
	const char *word = source < ARRAY_LEN(unknown) && unknown[source] ? unknown[source] : "op";

	if (op)
		return op->name;
	snprintf(buf, buf_size, "%s(%u)", word, OP_ID(code));
	return buf;
}

const char *source_name(unsigned source, char *buf, size_t buf_size)
{
	const struct source_info *s = source_by_id(source);

	if (s)
		return s->name;
	snprintf(buf, buf_size, "unknown(%u)", source);
	return buf;
}

/* ---- finding ---- */

/* Length of the name without the endings that only tell variants apart. */
static size_t base_length(const char *name)
{
	static const char *const endings[] = {"_ptsz", "_ptds", "_v2", "_v3", "_v4", "v2", "v3"};
	size_t len = strlen(name);

	for (bool again = true; again;) {
		again = false;
		for (size_t i = 0; i < ARRAY_LEN(endings); i++) {
			size_t e = strlen(endings[i]);

			if (len > e + 2 && !strncasecmp(name + len - e, endings[i], e)) {
				len -= e;
				again = true;
			}
		}
	}
	return len;
}

static bool is_called(const struct op_info *op, const char *name, size_t len)
{
	if (!strcasecmp(op->name, name) || (!strncasecmp(op->name, name, len) && !op->name[len]))
		return true;
	for (size_t i = 0; i < N_ROWS; i++) {
		const char *sym = rows[i].symbol;

		if (rows[i].op_code == op->code && !(rows[i].desc.flags & ABI_DESC_NAME) &&
			base_length(sym) == len && !strncasecmp(sym, name, len))
			return true;
	}
	return false;
}

size_t op_find(const char *name, uint16_t *ret_codes, size_t max)
{
	size_t len = base_length(name), n = 0;

	for (size_t i = 0; i < ARRAY_LEN(op_table); i++) {
		if (!is_called(&op_table[i], name, len))
			continue;
		if (n < max)
			ret_codes[n] = op_table[i].code;
		n++;
	}
	return n;
}
