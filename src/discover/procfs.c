/* Identity of processes from /proc. */
#include "discover/internal.h"
#include "base/parse.h"

#include <errno.h>
#include <fcntl.h>

#define STAT_BYTES 2048
#define STATUS_BYTES 4096

int proc_open(uint32_t pid)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%u", pid);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	return errno == ENOENT ? -ESRCH : -errno;
}

ssize_t proc_read_file(int dir, const char *name, char *buf, size_t size)
{
	cleanup_fd int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	size_t n = 0;

	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	while (n + 1 < size) {
		ssize_t r = read(fd, buf + n, size - 1 - n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (!r)
			break;
		n += (size_t)r;
	}
	buf[n] = '\0';
	return (ssize_t)n;
}

uint64_t proc_ticks_to_ns(uint64_t ticks)
{
	long per_second = sysconf(_SC_CLK_TCK);
	uint64_t hz = per_second > 0 ? (uint64_t)per_second : 100;

	return ticks / hz * NSEC_PER_SEC + ticks % hz * NSEC_PER_SEC / hz;
}

/* The fields behind the name, counted as proc(5) does from 3 = state. */
enum stat_field { FIELD_STATE = 3, FIELD_PPID = 4, FIELD_THREADS = 20, FIELD_START = 22 };

int proc_parse_stat(const char *text, size_t len, struct proc_stat *ret)
{
	const char *open = memchr(text, '(', len), *close = memrchr(text, ')', len);
	struct proc_stat st = {0};
	char rest[STAT_BYTES], *save = NULL, *word;
	size_t n;
	int field = FIELD_STATE;

	if (!open || !close || close < open || (size_t)(text + len - close) > sizeof(rest))
		return -EINVAL;
	n = MIN((size_t)(close - open - 1), sizeof(st.comm) - 1);
	memcpy(st.comm, open + 1, n);
	n = (size_t)(text + len - close - 1);
	memcpy(rest, close + 1, n);
	rest[n] = '\0';
	for (word = strtok_r(rest, " \n", &save); word; word = strtok_r(NULL, " \n", &save), field++) {
		uint64_t value;

		if (field == FIELD_STATE)
			st.state = word[0];
		else if (field == FIELD_PPID && !parse_u64(word, &value))
			st.ppid = (uint32_t)value;
		else if (field == FIELD_THREADS && !parse_u64(word, &value))
			st.n_threads = (uint32_t)value;
		else if (field == FIELD_START) {
			if (parse_u64(word, &st.start_ticks))
				return -EINVAL;
			*ret = st;
			return 0;
		}
	}
	return -EINVAL;
}

int proc_read_stat(int dir, struct proc_stat *ret)
{
	char buf[STAT_BYTES];
	ssize_t n = proc_read_file(dir, "stat", buf, sizeof(buf));

	return n < 0 ? (int)n : proc_parse_stat(buf, (size_t)n, ret);
}

bool proc_is_dead(const struct proc_stat *st)
{
	/* a first thread that ended leaves a zombie behind while the others run on */
	return strchr("ZXx", st->state) && st->n_threads <= 1;
}

int proc_read_uid(int dir, uint32_t *ret_uid)
{
	char buf[STATUS_BYTES], *line, *save = NULL;
	ssize_t n = proc_read_file(dir, "status", buf, sizeof(buf));

	if (n < 0)
		return (int)n;
	/* the name on the first line is escaped, so no line of it can pass for another */
	for (line = strtok_r(buf, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *end;
		unsigned long uid;

		if (strncmp(line, "Uid:", 4))
			continue;
		errno = 0;
		uid = strtoul(line + 4, &end, 10);
		if (errno || end == line + 4 || uid > UINT32_MAX)
			return -EINVAL;
		*ret_uid = (uint32_t)uid;
		return 0;
	}
	return -EINVAL;
}

int proc_read_info(uint32_t pid, struct process_info *ret)
{
	cleanup_fd int dir = proc_open(pid);
	struct process_info info = {.rank = -1, .local_rank = -1, .world_size = -1};
	struct proc_stat st;
	int err;

	if (dir < 0)
		return dir;
	err = proc_read_stat(dir, &st);
	if (!err)
		err = proc_read_uid(dir, &info.uid);
	if (err)
		return err;
	if (proc_is_dead(&st))
		return -ESRCH;
	info.id = (struct proc_id){.pid = pid, .start_ns = proc_ticks_to_ns(st.start_ticks)};
	info.ppid = st.ppid;
	memcpy(info.comm, st.comm, sizeof(info.comm));
	info.cgroup_id = proc_read_cgroup_id(dir);
	proc_read_rank(dir, &info);
	*ret = info;
	return 0;
}

bool proc_alive(struct proc_id id)
{
	cleanup_fd int dir = proc_open(id.pid);
	uint64_t tick_ns = proc_ticks_to_ns(1), start_ns;
	struct proc_stat st;

	if (dir < 0 || proc_read_stat(dir, &st) || proc_is_dead(&st))
		return false;
	if (!id.start_ns)
		return true;
	start_ns = proc_ticks_to_ns(st.start_ticks);
	/* the kernel side has the exact time, this one is cut to ticks */
	return (start_ns > id.start_ns ? start_ns - id.start_ns : id.start_ns - start_ns) <= tick_ns;
}
