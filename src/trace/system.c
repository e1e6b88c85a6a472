#include "trace/system.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>

/* Reads a small /proc file. 0 or negative errno; always NUL-terminated. */
static int read_file(const char *path, char *buf, size_t size)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, buf, size - 1);
	if (n < 0)
		return -errno;
	buf[n] = '\0';
	return 0;
}

/* First line of /proc/stat: user nice system idle iowait irq softirq steal. */
static int read_cpu(uint64_t *ret_total, uint64_t *ret_idle)
{
	char buf[512];
	unsigned long long v[8] = {0};
	uint64_t total = 0;
	int err = read_file("/proc/stat", buf, sizeof(buf));

	if (err)
		return err;
	if (sscanf(buf, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2], &v[3], &v[4],
		    &v[5], &v[6], &v[7]) < 4)
		return -EINVAL;
	for (size_t i = 0; i < ARRAY_LEN(v); i++)
		total += v[i];
	*ret_total = total;
	*ret_idle = v[3] + v[4];
	return 0;
}

static uint64_t meminfo_kb(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

static int read_memory(struct system_sample *s)
{
	char buf[4096];
	uint64_t total, avail, swap_total, swap_free;
	int err = read_file("/proc/meminfo", buf, sizeof(buf));

	if (err)
		return err;
	total = meminfo_kb(buf, "MemTotal:");
	avail = meminfo_kb(buf, "MemAvailable:");
	swap_total = meminfo_kb(buf, "SwapTotal:");
	swap_free = meminfo_kb(buf, "SwapFree:");
	s->mem_total_mb = total / 1024;
	s->mem_avail_mb = avail / 1024;
	s->mem_pct = total > avail ? (double)(total - avail) * 100 / (double)total : 0;
	s->swap_mb = swap_total > swap_free ? (swap_total - swap_free) / 1024 : 0;
	return 0;
}

int system_read(struct system_reader *r, int64_t wall_ns, struct system_sample *ret)
{
	struct system_sample s = {.wall_ns = wall_ns};
	uint64_t total = 0, idle = 0;
	char load[128];
	int err = read_cpu(&total, &idle);

	if (!err)
		err = read_memory(&s);
	if (!err)
		err = read_file("/proc/loadavg", load, sizeof(load));
	if (err)
		return err;
	s.load1 = strtod(load, NULL);
	if (r->primed && total > r->cpu_total) {
		uint64_t span = total - r->cpu_total, rest = idle > r->cpu_idle ? idle - r->cpu_idle : 0;

		s.cpu_pct = rest < span ? (double)(span - rest) * 100 / (double)span : 0;
	}
	r->cpu_total = total;
	r->cpu_idle = idle;
	r->primed = true;
	*ret = s;
	return 0;
}

static bool moved(double old, double now, double percent)
{
	return fabs(now - old) > fmax(fabs(old), 1.0) * percent / 100;
}

bool deadband_pass(struct deadband *d, const struct system_sample *s)
{
	const struct system_sample *l = &d->last;
	bool pass = d->percent <= 0 || !d->primed ||
		    (d->heartbeat_ns && s->wall_ns - l->wall_ns >= (int64_t)d->heartbeat_ns) ||
		    moved(l->cpu_pct, s->cpu_pct, d->percent) || moved(l->mem_pct, s->mem_pct, d->percent) ||
		    moved((double)l->mem_avail_mb, (double)s->mem_avail_mb, d->percent) ||
		    moved((double)l->swap_mb, (double)s->swap_mb, d->percent) ||
		    moved(l->load1, s->load1, d->percent);

	if (pass) {
		d->last = *s;
		d->primed = true;
	}
	return pass;
}
