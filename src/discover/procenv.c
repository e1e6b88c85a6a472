/* What surrounds a process: its rank in a distributed job and its cgroup. */
#include "discover/internal.h"
#include "base/parse.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define ENVIRON_BYTES (1u << 20)
#define CGROUP_BYTES 16384
#define CGROUP2_MAGIC 0x63677270 /* linux/magic.h CGROUP2_SUPER_MAGIC */

enum { RANK, LOCAL_RANK, WORLD_SIZE, N_RANKS };

/* How launchers tell a process its place; the first scheme that gives a rank wins. */
static const char *const schemes[][N_RANKS] = {
	{"RANK", "LOCAL_RANK", "WORLD_SIZE"},
	{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"},
	{"PMIX_RANK", "PMIX_LOCAL_RANK", "PMIX_SIZE"},
	{"PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"},
	{"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"},
};

static int32_t env_number(const char *env, size_t len, const char *name)
{
	size_t name_len = strlen(name);

	for (const char *p = env; p < env + len; p += strlen(p) + 1) {
		uint64_t value;

		if (strncmp(p, name, name_len) || p[name_len] != '=')
			continue;
		return !parse_u64(p + name_len + 1, &value) && value <= INT32_MAX ? (int32_t)value : -1;
	}
	return -1;
}

void proc_read_rank(int dir, struct process_info *info)
{
	cleanup_free char *env = malloc(ENVIRON_BYTES);
	ssize_t len = env ? proc_read_file(dir, "environ", env, ENVIRON_BYTES) : -ENOMEM;

	info->rank = info->local_rank = info->world_size = -1;
	for (size_t i = 0; len > 0 && i < ARRAY_LEN(schemes) && info->rank < 0; i++) {
		info->rank = env_number(env, (size_t)len, schemes[i][RANK]);
		if (info->rank < 0)
			continue;
		info->local_rank = env_number(env, (size_t)len, schemes[i][LOCAL_RANK]);
		info->world_size = env_number(env, (size_t)len, schemes[i][WORLD_SIZE]);
	}
}

static const char *cgroup2_mount(void)
{
	static const char *const places[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		struct statfs fs;

		if (!statfs(places[i], &fs) && fs.f_type == CGROUP2_MAGIC)
			return places[i];
	}
	return NULL;
}

uint64_t proc_read_cgroup_id(int dir)
{
	char buf[CGROUP_BYTES], path[CGROUP_BYTES + 64], *line, *save = NULL;
	ssize_t n = proc_read_file(dir, "cgroup", buf, sizeof(buf));
	const char *mount = n > 0 ? cgroup2_mount() : NULL;

	for (line = mount ? strtok_r(buf, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save)) {
		struct stat st;

		/* a group above our own root has no path here */
		if (strncmp(line, "0::/", 4) || strstr(line, "/.."))
			continue;
		snprintf(path, sizeof(path), "%s%s", mount, line + 3);
		return stat(path, &st) ? 0 : st.st_ino;
	}
	return 0;
}
