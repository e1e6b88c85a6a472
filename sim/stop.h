/* Ending early and cleanly: SIGTERM, SIGINT or the time limit wake every sleeper and end every loop. */
#ifndef SIM_STOP_H
#define SIM_STOP_H

#include "base/util.h"

/* Installs the handlers; the process stops by itself after limit_s seconds. Returns 0 or negative errno. */
int stop_install(unsigned limit_s);
/* In a child: its signals must not wake the parent, and it has the same limit. */
void stop_forked(void);
bool stop_wanted(void);
/* Sleeps until CLOCK_MONOTONIC shows `ns` or a stop is wanted. */
void stop_sleep_until(uint64_t ns);
uint64_t stop_now_ns(void);

#endif
