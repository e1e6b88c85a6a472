/* Messages for people: one line each, on stderr (or the file of --log). Never on stdout.
 * Lines are written with one write(2), control characters and invalid UTF-8 in them are escaped.
 * Safe from any thread. */
#ifndef INGERO_BASE_LOG_H
#define INGERO_BASE_LOG_H

#include "base/util.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Messages above `level` are dropped (default LOG_INFO). */
void log_set_level(enum log_level level);
bool log_enabled(enum log_level level);

/* Appends messages to `path` as well as... only to it. Returns 0 or negative errno; the old target stays on
 * error. */
int log_set_file(const char *path);

/* LOG_ERROR prints "Error: …", LOG_WARN "Warning: …", LOG_DEBUG "debug: …", LOG_INFO the bare text. */
void log_write(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);

#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_write(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...)                                                                                       \
	do {                                                                                                 \
		if (log_enabled(LOG_DEBUG))                                                                  \
			log_write(LOG_DEBUG, __VA_ARGS__);                                                   \
	} while (0)

#endif
