/* Statements that wait, and those that others wait for. */
#ifndef SIM_WAITING_H
#define SIM_WAITING_H

#include "sim/script.h"

/* sleep, spin, touch, ready, wait-file, wait-calls. Returns 0 or negative errno; a wait that took too long
 * says so. */
int waiting_run(const struct statement *s);

#endif
