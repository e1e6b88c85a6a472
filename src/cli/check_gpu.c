#include "cli/check_gpu.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>

#define TOOL_TIMEOUT_MS 5000

/* The first word made of digits and dots with at least one dot. */
static bool find_version(const char *text, char *buf, size_t size)
{
	for (const char *p = text; *p; p++) {
		size_t len = strspn(p, "0123456789.");

		if (len && strcspn(p, ".") < len && (p == text || p[-1] == ' ') &&
			(!p[len] || strchr(" \t\n", p[len]))) {
			snprintf(buf, size, "%.*s", (int)len, p);
			return true;
		}
		p += len ? len - 1 : 0;
	}
	return false;
}

int gpu_driver_version(char *buf, size_t size, bool *ret_open_modules)
{
	static const char *const paths[] = {"/proc/driver/nvidia/version", "/sys/module/nvidia/version"};
	char line[256];

	*ret_open_modules = false;
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		cleanup_file FILE *in = fopen(paths[i], "re");

		if (in && fgets(line, sizeof(line), in) && find_version(line, buf, size)) {
			*ret_open_modules = strstr(line, "Open Kernel") != NULL;
			return 0;
		}
	}
	return -ENOENT;
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Reads until end of file, the buffer is full, or the time is over (-ETIME). */
static int read_bounded(int fd, char *buf, size_t size)
{
	int64_t end = now_ms() + TOOL_TIMEOUT_MS;
	size_t len = 0;

	while (len + 1 < size) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int64_t left = end - now_ms();
		ssize_t n;

		if (left <= 0 || poll(&p, 1, (int)left) <= 0)
			return -ETIME;
		n = read(fd, buf + len, size - 1 - len);
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	buf[len] = '\0';
	return 0;
}

/* Runs a program of a fixed path; what it prints is bounded in size and time. */
static int run_tool(const char *path, char *const argv[], char *buf, size_t size)
{
	static char *const environment[] = {NULL};
	posix_spawn_file_actions_t actions;
	int pipe_fds[2], status, err;
	pid_t pid;

	if (access(path, X_OK) || pipe2(pipe_fds, O_CLOEXEC))
		return -errno;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], 1);
	posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
	err = -posix_spawn(&pid, path, &actions, NULL, argv, environment);
	posix_spawn_file_actions_destroy(&actions);
	close(pipe_fds[1]);
	if (!err) {
		err = read_bounded(pipe_fds[0], buf, size);
		if (err)
			kill(pid, SIGKILL);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		if (!err && (!WIFEXITED(status) || WEXITSTATUS(status)))
			err = -EIO;
	}
	close(pipe_fds[0]);
	return err;
}

static int models_from_tool(char *buf, size_t size)
{
	static char name[] = "nvidia-smi", query[] = "--query-gpu=name,memory.total",
		    format[] = "--format=csv,noheader";
	static const char *const paths[] = {
		"/usr/bin/nvidia-smi", "/usr/local/nvidia/bin/nvidia-smi", "/usr/lib/wsl/lib/nvidia-smi"};
	char *const argv[] = {name, query, format, NULL};
	char text[2048];
	size_t len = 0;

	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		char *save = NULL;

		if (run_tool(paths[i], argv, text, sizeof(text)))
			continue;
		for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
			int n = snprintf(buf + len, size - len, "%s%s", len ? "; " : "", line);

			len = MIN(len + (size_t)MAX(n, 0), size - 1);
		}
		return len ? 0 : -ENOENT;
	}
	return -ENOENT;
}

static int models_from_proc(char *buf, size_t size)
{
	static const char folder[] = "/proc/driver/nvidia/gpus";
	DIR *dir = opendir(folder);
	const struct dirent *entry;
	size_t len = 0;

	while (dir && (entry = readdir(dir))) {
		char path[sizeof(folder) + sizeof(entry->d_name) + 16], line[256];
		cleanup_file FILE *in = NULL;

		snprintf(path, sizeof(path), "%s/%s/information", folder, entry->d_name);
		in = fopen(path, "re");
		while (in && fgets(line, sizeof(line), in)) {
			int n;

			if (strncmp(line, "Model:", 6))
				continue;
			line[strcspn(line, "\n")] = '\0';
			n = snprintf(buf + len, size - len, "%s%s", len ? "; " : "",
				line + 6 + strspn(line + 6, " \t"));
			len = MIN(len + (size_t)MAX(n, 0), size - 1);
		}
	}
	if (dir)
		closedir(dir);
	return len ? 0 : -ENOENT;
}

int gpu_models(char *buf, size_t size)
{
	return models_from_tool(buf, size) ? models_from_proc(buf, size) : 0;
}
