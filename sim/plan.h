/* Injected errors and delays: what "error", "delay" and "first" (README.md) mean for the calls of one
 * library. */
#ifndef SIM_PLAN_H
#define SIM_PLAN_H

#include "sim/core.h"

/* value is a list "NAME=…,NAME=…"; NAME may be a shell pattern. Returns how many calls took it, -ENOENT for
 * another key, -EINVAL. */
int sim_plan_set(struct sim_fn **fns, size_t n_fns, const char *key, const char *value);

#endif
