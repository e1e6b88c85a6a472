#include "model/ops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <ctype.h>

#define MAX_FOUND 8
#define REGISTERS 6 /* x86-64: further arguments lie on the stack */

static uint16_t find_one(const char *name)
{
	uint16_t codes[MAX_FOUND] = {0};

	if (op_find(name, codes, MAX_FOUND) != 1)
		fail_msg("'%s' is not exactly one operation", name);
	return codes[0];
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), e = strlen(end);

	return n > e && !strcmp(s + n - e, end);
}

static const struct symbol_info *find_symbol(const char *name, size_t len, unsigned so)
{
	for (size_t i = 0; i < symbol_count(); i++) {
		const struct symbol_info *s = symbol_at(i);

		if (strlen(s->symbol) == len && !memcmp(s->symbol, name, len) && so >= s->so_min &&
			so <= s->so_max)
			return s;
	}
	return NULL;
}

static void operations_are_told_apart(void **state UNUSED)
{
	for (size_t i = 0; i < op_count(); i++) {
		const struct op_info *op = op_at(i);

		assert_non_null(source_by_id(OP_SOURCE(op->code)));
		assert_int_not_equal(OP_ID(op->code), 0);
		assert_ptr_equal(op_by_code(op->code), op);
		assert_true(op->name && *op->name && op->descr && *op->descr);
		for (size_t k = 0; k < i; k++) {
			assert_int_not_equal(op_at(k)->code, op->code);
			if (OP_SOURCE(op_at(k)->code) == OP_SOURCE(op->code))
				assert_string_not_equal(op_at(k)->name, op->name);
		}
	}
}

/* Other programs read these numbers and names out of databases. */
static void numbers_of_the_reference_stay(void **state UNUSED)
{
	static const struct {
		unsigned source, id;
		const char *name;
	} fixed[] = {
		{SOURCE_CUDA, 1, "cudaMalloc"},
		{SOURCE_CUDA, 2, "cudaFree"},
		{SOURCE_CUDA, 3, "cudaLaunchKernel"},
		{SOURCE_CUDA, 4, "cudaMemcpy"},
		{SOURCE_CUDA, 5, "cudaStreamSync"},
		{SOURCE_CUDA, 6, "cudaDeviceSync"},
		{SOURCE_CUDA, 7, "cudaMemcpyAsync"},
		{SOURCE_CUDA, 8, "cudaMallocManaged"},
		{SOURCE_HOST, 1, "sched_switch"},
		{SOURCE_DRIVER, 1, "cuLaunchKernel"},
		{SOURCE_DRIVER, 2, "cuMemcpy"},
		{SOURCE_DRIVER, 3, "cuMemcpyAsync"},
		{SOURCE_DRIVER, 4, "cuCtxSynchronize"},
		{SOURCE_DRIVER, 5, "cuMemAlloc"},
		{SOURCE_DRIVER, 6, "cuMemAllocManaged"},
		{SOURCE_GRAPH, 4, "graphLaunch"},
	};
	char buf[32];

	for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
		assert_string_equal(
			op_name(OP_CODE(fixed[i].source, fixed[i].id), buf, sizeof(buf)), fixed[i].name);
}

static void unknown_numbers_have_names_too(void **state UNUSED)
{
	char buf[32], tiny[4];

	assert_null(op_by_code(0));
	assert_null(op_by_code(OP_CODE(SOURCE_CUDA, 255)));
	assert_null(op_by_code(0xffff));
	assert_null(op_by_code(UINT32_MAX));
	assert_string_equal(op_name(OP_CODE(SOURCE_CUDA, 250), buf, sizeof(buf)), "unknown(250)");
	assert_string_equal(op_name(OP_CODE(SOURCE_DRIVER, 251), buf, sizeof(buf)), "driver_op(251)");
	for (unsigned code = 0; code < 0x10000; code++)
		assert_true(*op_name(code, buf, sizeof(buf)));
	op_name(OP_CODE(SOURCE_DRIVER, 251), tiny, sizeof(tiny));
	assert_true(strnlen(tiny, sizeof(tiny)) < sizeof(tiny));
	assert_null(source_by_id(0));
	assert_null(source_by_id(2));
	assert_null(source_by_id(UINT32_MAX));
	assert_string_equal(source_name(SOURCE_GRAPH, buf, sizeof(buf)), "cuda_graph");
	assert_string_equal(source_name(99, buf, sizeof(buf)), "unknown(99)");
}

static void sources_are_told_apart(void **state UNUSED)
{
	for (size_t i = 0; i < source_count(); i++) {
		const struct source_info *s = source_at(i);

		assert_ptr_equal(source_by_id(s->id), s);
		assert_true(*s->name && *s->db_name && *s->descr);
		for (size_t k = 0; k < i; k++) {
			assert_string_not_equal(source_at(k)->name, s->name);
			assert_string_not_equal(source_at(k)->db_name, s->db_name);
		}
	}
}

/* A library of one version has each symbol probed by one row: twice would count twice. */
static void every_symbol_is_unique(void **state UNUSED)
{
	assert_true(symbol_count() > 0 && symbol_count() <= ABI_MAX_DESCS);
	for (size_t i = 0; i < symbol_count(); i++) {
		const struct symbol_info *a = symbol_at(i);

		assert_true(a->so_min <= a->so_max);
		for (size_t k = 0; k < i; k++) {
			const struct symbol_info *b = symbol_at(k);

			if (!strcmp(a->symbol, b->symbol) && a->so_min <= b->so_max && b->so_min <= a->so_max)
				fail_msg("%s is there twice", a->symbol);
		}
	}
}

static void layers_have_their_own_names(void **state UNUSED)
{
	for (size_t i = 0; i < symbol_count(); i++) {
		const struct symbol_info *s = symbol_at(i);
		unsigned source = OP_SOURCE(s->op_code);
		const char *name = s->symbol + strspn(s->symbol, "_");

		assert_int_equal(s->layer, s->desc.layer);
		if (s->layer == ABI_LAYER_RUNTIME) {
			assert_memory_equal(name, "cuda", 4);
			assert_true(source == SOURCE_CUDA || source == SOURCE_GRAPH);
		} else {
			assert_int_equal(s->layer, ABI_LAYER_DRIVER);
			assert_true(!strncmp(name, "cu", 2) && isupper((unsigned char)name[2]));
			assert_int_equal(source, SOURCE_DRIVER);
		}
	}
}

static void rows_agree_with_their_operation(void **state UNUSED)
{
	for (size_t i = 0; i < symbol_count(); i++) {
		const struct symbol_info *s = symbol_at(i);
		const struct op_info *op = op_by_code(s->op_code);

		assert_non_null(op);
		assert_int_equal(s->desc.op, s->op_code);
		assert_int_equal(s->desc.category, op->category);
		assert_int_equal(!!(s->desc.flags & ABI_DESC_QUERY), op->category == OPCAT_QUERY);
		if (op->category == OPCAT_ALLOC || op->category == OPCAT_FREE)
			assert_true(s->desc.flags & ABI_DESC_KEEP);
		if (s->desc.flags & (ABI_DESC_CAPTURE_BEGIN | ABI_DESC_CAPTURE_END))
			assert_int_equal(op->category, OPCAT_GRAPH);
	}
}

/* The highest argument slot that a field reads, -1 for none. */
static int highest_slot(const struct abi_field *f)
{
	switch (f->src) {
	case ABI_SRC_CONST:
		return -1;
	case ABI_SRC_MUL:
	case ABI_SRC_SUM:
		return MAX(f->a, f->b);
	case ABI_SRC_SCALE2:
		return MAX(f->a, f->b & 15);
	default:
		return f->a;
	}
}

static void check_field(const struct symbol_info *s, const struct abi_field *f)
{
	int slot = highest_slot(f);

	if (f->role == ABI_ROLE_NONE || f->role > ABI_ROLE_BLOCK_Y)
		fail_msg("%s: role %u", s->symbol, f->role);
	if (f->src == ABI_SRC_NONE || f->src > ABI_SRC_SUM)
		fail_msg("%s: source %u", s->symbol, f->src);
	if (slot >= ABI_SLOTS)
		fail_msg("%s: slot %d", s->symbol, slot);
	if ((slot >= REGISTERS || f->src == ABI_SRC_VAL3) && !(s->desc.flags & ABI_DESC_STACK_ARGS))
		fail_msg("%s: slot %d lies on the stack, which is not read", s->symbol, slot);
	if (f->src == ABI_SRC_SCALE)
		assert_true(f->b > 0);
	if (f->src == ABI_SRC_SCALE2)
		assert_true(f->b >> 4 > 0);
}

static void fields_are_in_range(void **state UNUSED)
{
	for (size_t i = 0; i < symbol_count(); i++) {
		const struct symbol_info *s = symbol_at(i);
		unsigned seen = 0;

		assert_true(s->desc.n_fields <= ABI_MAX_FIELDS);
		for (unsigned k = 0; k < s->desc.n_fields; k++) {
			check_field(s, &s->desc.field[k]);
			if (seen & 1u << s->desc.field[k].role)
				fail_msg("%s: role %u twice", s->symbol, s->desc.field[k].role);
			seen |= 1u << s->desc.field[k].role;
		}
		for (unsigned k = s->desc.n_fields; k < ABI_MAX_FIELDS; k++)
			assert_int_equal(s->desc.field[k].role, ABI_ROLE_NONE);
		assert_int_equal(!!s->desc.bytes_field, !!(seen & 1u << ABI_ROLE_BYTES));
		if (s->desc.bytes_field) {
			assert_true(s->desc.bytes_field <= s->desc.n_fields);
			assert_int_equal(s->desc.field[s->desc.bytes_field - 1].role, ABI_ROLE_BYTES);
		}
	}
}

static void twins_are_the_same_call(void **state UNUSED)
{
	size_t n_twins = 0;

	for (size_t i = 0; i < symbol_count(); i++) {
		const struct symbol_info *s = symbol_at(i), *base;
		bool twin = ends_with(s->symbol, "_ptsz") || ends_with(s->symbol, "_ptds");

		assert_int_equal(!!(s->desc.flags & ABI_DESC_PER_THREAD), twin);
		if (!twin)
			continue;
		n_twins++;
		base = find_symbol(s->symbol, strlen(s->symbol) - 5, s->so_min);
		if (!base) {
			fail_msg("%s has no base", s->symbol);
			continue;
		}
		assert_int_equal(base->op_code, s->op_code);
		assert_int_equal(base->layer, s->layer);
		assert_int_equal(base->so_min, s->so_min);
		assert_int_equal(base->so_max, s->so_max);
		assert_int_equal(base->desc.flags | ABI_DESC_PER_THREAD, s->desc.flags);
		assert_int_equal(base->desc.n_fields, s->desc.n_fields);
		assert_memory_equal(base->desc.field, s->desc.field, sizeof(s->desc.field));
	}
	assert_true(n_twins > 50);
}

static void versions_are_the_same_operation(void **state UNUSED)
{
	size_t n_versions = 0;

	for (size_t i = 0; i < symbol_count(); i++) {
		const struct symbol_info *s = symbol_at(i);
		const char *v = strstr(s->symbol, "_v");
		char bare[96];

		if (!v || !isdigit((unsigned char)v[2]))
			continue;
		n_versions++;
		snprintf(bare, sizeof(bare), "%.*s", (int)(v - s->symbol), s->symbol);
		assert_int_equal(find_one(bare), s->op_code);
		snprintf(bare, sizeof(bare), "%.*s_v2", (int)(v - s->symbol), s->symbol);
		assert_int_equal(find_one(bare), s->op_code);
		snprintf(bare, sizeof(bare), "%.*sV2", (int)(v - s->symbol), s->symbol);
		assert_int_equal(find_one(bare), s->op_code);
	}
	assert_true(n_versions > 20);
}

static void every_name_finds_its_operation(void **state UNUSED)
{
	for (size_t i = 0; i < op_count(); i++)
		assert_int_equal(find_one(op_at(i)->name), op_at(i)->code);
	for (size_t i = 0; i < symbol_count(); i++) {
		const struct symbol_info *s = symbol_at(i);
		char upper[96], lower[96];
		size_t n = strlen(s->symbol);

		if (s->desc.flags & ABI_DESC_NAME)
			continue;
		assert_true(n < sizeof(upper));
		for (size_t k = 0; k <= n; k++) {
			upper[k] = (char)toupper((unsigned char)s->symbol[k]);
			lower[k] = (char)tolower((unsigned char)s->symbol[k]);
		}
		assert_int_equal(find_one(s->symbol), s->op_code);
		assert_int_equal(find_one(upper), s->op_code);
		assert_int_equal(find_one(lower), s->op_code);
	}
}

static void names_as_people_type_them(void **state UNUSED)
{
	assert_int_equal(find_one("cuMemAlloc_v2"), OP_CODE(SOURCE_DRIVER, 5));
	assert_int_equal(find_one("cuMemAllocV2"), OP_CODE(SOURCE_DRIVER, 5));
	assert_int_equal(find_one("CUMEMALLOC"), OP_CODE(SOURCE_DRIVER, 5));
	assert_int_equal(find_one("cudaStreamSynchronize"), OP_CODE(SOURCE_CUDA, 5));
	assert_int_equal(find_one("cudaStreamSync"), OP_CODE(SOURCE_CUDA, 5));
	assert_int_equal(find_one("cudaLaunchKernel_ptsz"), OP_CODE(SOURCE_CUDA, 3));
	assert_int_equal(find_one("cuMemcpyHtoDAsync_v2_ptsz"), find_one("cuMemcpyHtoDAsync"));
	assert_int_equal(find_one("cudaGraphLaunch"), OP_CODE(SOURCE_GRAPH, 4));
	assert_int_equal(find_one("graphlaunch"), OP_CODE(SOURCE_GRAPH, 4));
	assert_int_equal(find_one("sched_switch"), OP_CODE(SOURCE_HOST, 1));
}

static void what_is_no_operation_is_not_found(void **state UNUSED)
{
	static const char *const names[] = {"", "v2", "_v2", "_ptsz", "cuda", "cu", "cudaMal", "cudaMallocX",
		" cudaMalloc", "cudaMalloc ", "__cudaRegisterFunction", "cuModuleGetFunction",
		"cuLibraryGetKernel", "unknown(3)", "%s%n"};
	uint16_t codes[MAX_FOUND];

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (op_find(names[i], codes, MAX_FOUND))
			fail_msg("'%s' was found", names[i]);
	}
}

static void counting_needs_no_room(void **state UNUSED)
{
	uint16_t untouched = 0xabcd;

	assert_int_equal(op_find("cudaMemcpyAsync", &untouched, 0), 1);
	assert_int_equal(untouched, 0xabcd);
	assert_int_equal(op_find("cudaMemcpyAsync", NULL, 0), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(operations_are_told_apart),
		cmocka_unit_test(numbers_of_the_reference_stay),
		cmocka_unit_test(unknown_numbers_have_names_too),
		cmocka_unit_test(sources_are_told_apart),
		cmocka_unit_test(every_symbol_is_unique),
		cmocka_unit_test(layers_have_their_own_names),
		cmocka_unit_test(rows_agree_with_their_operation),
		cmocka_unit_test(fields_are_in_range),
		cmocka_unit_test(twins_are_the_same_call),
		cmocka_unit_test(versions_are_the_same_operation),
		cmocka_unit_test(every_name_finds_its_operation),
		cmocka_unit_test(names_as_people_type_them),
		cmocka_unit_test(what_is_no_operation_is_not_found),
		cmocka_unit_test(counting_needs_no_room),
	};

	return cmocka_run_group_tests_name("ops", tests, NULL, NULL);
}
