/* Opening one of the simulated libraries: the one in the process already, else the one beside the caller's
 * file. The run path alone does not do: under AddressSanitizer dlopen() has another caller. */
#ifndef SIM_BESIDE_H
#define SIM_BESIDE_H

#include "base/util.h"

#include <dlfcn.h>
#include <limits.h>

static inline void *beside_try(const char *file, size_t len, const char *name)
{
	char path[PATH_MAX];

	while (len && file[len - 1] != '/')
		len--;
	if (!len || snprintf(path, sizeof(path), "%.*s%s", (int)len, file, name) >= (int)sizeof(path))
		return NULL;
	return dlopen(path, RTLD_NOW);
}

/* Returns NULL after failure, as dlopen() does. */
static inline void *beside_open(const char *name)
{
	char exe[PATH_MAX];
	void *lib = strchr(name, '/') ? NULL : dlopen(name, RTLD_NOW | RTLD_NOLOAD);
	Dl_info self;
	ssize_t n;

	if (!lib && !strchr(name, '/') && dladdr((void *)beside_open, &self) && self.dli_fname)
		lib = beside_try(self.dli_fname, strlen(self.dli_fname), name);
	n = lib || strchr(name, '/') ? 0 : readlink("/proc/self/exe", exe, sizeof(exe));
	if (n > 0)
		lib = beside_try(exe, (size_t)n, name);
	return lib ? lib : dlopen(name, RTLD_NOW);
}

#endif
