/* What the NVIDIA driver says about itself, for `check`. */
#ifndef INGERO_CLI_CHECK_GPU_H
#define INGERO_CLI_CHECK_GPU_H

#include "base/util.h"

/* "580.126.09" from the kernel module. -ENOENT when none is loaded. */
int gpu_driver_version(char *buf, size_t size, bool *ret_open_modules);
/* "NAME, MEMORY MiB" of each GPU, separated by "; ". Asks the driver's own tool (5 s at most), else /proc.
 * -ENOENT when there is none. */
int gpu_models(char *buf, size_t size);

#endif
