/* First instructions of functions: which ones the kernel's uprobe code emulates, and which it must
 * single-step. */
#include "discover/internal.h"

/* Lengths of what matters here; the kernel's own decoder does the rest. */
static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};

/* `push` of any of the 16 registers. */
static bool x86_is_push(const uint8_t *c, size_t n)
{
	if (n >= 1 && (c[0] & 0xf8) == 0x50)
		return true;
	return n >= 2 && c[0] == 0x41 && (c[1] & 0xf8) == 0x50;
}

/* One-byte nop, also with operand-size prefixes, and the five-byte one that compilers leave for patching. */
static bool x86_is_nop(const uint8_t *c, size_t n)
{
	static const uint8_t nop5[] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
	size_t i = 0;

	while (i < n && i < 4 && c[i] == 0x66)
		i++;
	if (i < n && c[i] == 0x90)
		return true;
	return n >= sizeof(nop5) && !memcmp(c, nop5, sizeof(nop5));
}

/* call, jmp and conditional jumps with a relative target; a prefix makes them somebody else's business. */
static bool x86_is_branch(const uint8_t *c, size_t n)
{
	if (n < 2)
		return false;
	if (c[0] == 0xe8 || c[0] == 0xe9 || c[0] == 0xeb || (c[0] & 0xf0) == 0x70)
		return true;
	return c[0] == 0x0f && (c[1] & 0xf0) == 0x80;
}

static bool x86_is_emulated(const uint8_t *c, size_t n)
{
	return x86_is_push(c, n) || x86_is_nop(c, n) || x86_is_branch(c, n);
}

static void x86_choose(const uint8_t *code, size_t n, uint64_t *ret_skip, bool *ret_single_step)
{
	*ret_skip = 0;
	*ret_single_step = !x86_is_emulated(code, n);
	if (n <= sizeof(endbr64) || memcmp(code, endbr64, sizeof(endbr64)))
		return;
	/* nothing but the landing pad lies before: stack pointer and arguments are as at the entry */
	if (x86_is_emulated(code + sizeof(endbr64), n - sizeof(endbr64))) {
		*ret_skip = sizeof(endbr64);
		*ret_single_step = false;
	}
}

/* Plain nop, b and bl are simulated; bti, paciasp and the other hints change state and are stepped. */
static bool arm64_is_simulated(const uint8_t *c, size_t n)
{
	uint32_t insn;

	if (n < 4)
		return false;
	insn = (uint32_t)c[0] | (uint32_t)c[1] << 8 | (uint32_t)c[2] << 16 | (uint32_t)c[3] << 24;
	return insn == 0xd503201f || (insn & 0x7c000000) == 0x14000000;
}

void insn_choose(const uint8_t *code, size_t n, uint16_t machine, uint64_t *ret_skip, bool *ret_single_step)
{
	if (machine == EM_X86_64) {
		x86_choose(code, n, ret_skip, ret_single_step);
		return;
	}
	*ret_skip = 0;
	*ret_single_step = !(machine == EM_AARCH64 && arm64_is_simulated(code, n));
}
