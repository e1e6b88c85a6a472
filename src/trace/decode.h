/* Gives the values of a call record their meaning. */
#ifndef INGERO_TRACE_DECODE_H
#define INGERO_TRACE_DECODE_H

#include "model/event.h"
#include "model/ops.h"

/* Sets arg0, arg1, stream, handle, exec, kernel, grid and block of e from the n values of a record, which are
 * in the order of sym's fields. arg0/arg1 are what the reference has per operation (spec storage §1.8),
 * except that where it keeps the address of the caller's pointer variable we keep the pointer. */
void decode_values(const struct symbol_info *sym, const uint64_t *values, size_t n, struct call_event *e);

#endif
