#include "store/internal.h"

#include <sys/stat.h>
#include <sys/utsname.h>

/* First line of `file` that begins with `key`; what follows it without quotes and blanks. */
static void read_value(const char *file, const char *key, const char *separators, char *buf, size_t size)
{
	cleanup_file FILE *in = fopen(file, "re");
	char line[512];

	while (in && fgets(line, sizeof(line), in)) {
		char *v = line + strlen(key);

		if (strncmp(line, key, strlen(key)))
			continue;
		v += strspn(v, separators);
		v[strcspn(v, "\"\n")] = '\0';
		snprintf(buf, size, "%s", v);
		return;
	}
}

int64_t host_pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) ? 0 : (int64_t)st.st_ino;
}

void host_read(struct host_info *ret)
{
	struct utsname uts;
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

	memset(ret, 0, sizeof(*ret));
	if (!uname(&uts))
		snprintf(ret->kernel, sizeof(ret->kernel), "%s", uts.release);
	read_value("/proc/cpuinfo", "model name", " \t:", ret->cpu_model, sizeof(ret->cpu_model));
	read_value("/etc/os-release", "PRETTY_NAME=", "\"", ret->os_release, sizeof(ret->os_release));
	read_value("/proc/sys/kernel/random/boot_id", "", "", ret->boot_id, sizeof(ret->boot_id));
	ret->cpu_cores = sysconf(_SC_NPROCESSORS_ONLN);
	if (pages > 0 && page > 0)
		ret->mem_total_mb = (int64_t)pages * page >> 20;
	ret->pid_namespace = host_pid_namespace();
}
