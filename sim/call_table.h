/* Which arguments each CUDA call takes, and how the processor's calling convention passes them. */
#ifndef SIM_CALL_TABLE_H
#define SIM_CALL_TABLE_H

#include "base/util.h"

#if defined(__aarch64__)
#define CALL_REGS 8
#else
#define CALL_REGS 6
#endif
#define CALL_STACK 8

struct call_words {
	uint64_t reg[CALL_REGS];
	uint64_t stack[CALL_STACK];
	uint64_t memory[64]; /* what structure arguments point to */
	unsigned n_reg, n_stack, n_memory;
};

/* Shape of a call (also for a _ptsz or _ptds name), or NULL: then the script's numbers are its arguments.
 * Letters: m memory, h host memory, s stream, e event, g graph, x executable graph, a array, l module, f
 * kernel, p pool: lower case = the one on top of the thread's stack, after '-' it is taken off, upper case =
 * an out argument that goes on it; the others: see call_argument(). */
const char *call_shape(const char *name);
bool call_takes_number(char letter);
/* What that number is when the script gives none. */
uint64_t call_default(char letter);
void call_word(struct call_words *words, uint64_t value);
void call_argument(struct call_words *words, char letter, uint64_t number, const char *kernel_name);
int call_words(void *fn, const struct call_words *words);

#endif
