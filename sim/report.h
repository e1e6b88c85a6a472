/* One line to standard output by one write, so that lines of several processes never mix. */
#ifndef SIM_REPORT_H
#define SIM_REPORT_H

#include "base/strbuf.h"

#define REPORT_MAX (1u << 20)

static inline int report_write(const struct strbuf *line)
{
	if (line->error)
		return line->error;
	return write(STDOUT_FILENO, strbuf_str(line), line->len) == (ssize_t)line->len ? 0 : -1;
}

#endif
