#include "base/log.h"
#include "base/table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>

#define LINE_MAX_BYTES 16384

/* The one global of this module: where messages go and which. */
static atomic_int max_level = LOG_INFO;
static atomic_int target_fd = STDERR_FILENO;

void log_set_level(enum log_level level)
{
	atomic_store(&max_level, level);
}

bool log_enabled(enum log_level level)
{
	return level <= (enum log_level)atomic_load(&max_level);
}

int log_set_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);

	if (fd < 0)
		return -errno;
	fd = atomic_exchange(&target_fd, fd);
	if (fd != STDERR_FILENO)
		close(fd);
	return 0;
}

void log_write(enum log_level level, const char *fmt, ...)
{
	static const char *const prefix[] = {"Error: ", "Warning: ", "", "debug: "};
	cleanup_strbuf struct strbuf line = STRBUF_INIT(2 * LINE_MAX_BYTES);
	cleanup_free char *text = NULL;
	va_list args;
	int n;

	if (!log_enabled(level))
		return;
	va_start(args, fmt);
	n = vasprintf(&text, fmt, args);
	va_end(args);
	if (n < 0) {
		text = NULL;
		return;
	}
	if (n > LINE_MAX_BYTES)
		text[LINE_MAX_BYTES] = '\0';
	strbuf_adds(&line, prefix[level]);
	text_add_safe(&line, text, 0);
	strbuf_addc(&line, '\n');
	if (write(atomic_load(&target_fd), strbuf_str(&line), line.len) < 0)
		return; /* nowhere left to say it */
}
