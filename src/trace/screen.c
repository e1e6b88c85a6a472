#include "trace/session.h"

#include <errno.h>
#include <sys/ioctl.h>

#define FALLBACK_COLUMNS 110
#define ESC "\033"

int write_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

void screen_init(struct screen *sc)
{
	const char *no_colour = getenv("NO_COLOR"), *term = getenv("TERM");

	*sc = (struct screen){.tty = isatty(STDOUT_FILENO), .columns = FALLBACK_COLUMNS};
	if (term && !strcmp(term, "dumb"))
		sc->tty = false;
	sc->colour = sc->tty && !(no_colour && *no_colour);
	screen_resize(sc);
	sc->drawn_lines = 0;
}

/* After a change of size old lines may have been wrapped anew: forget them and start on a clear screen. */
void screen_resize(struct screen *sc)
{
	struct winsize size;

	if (!sc->tty)
		return;
	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col) {
		sc->columns = size.ws_col;
		sc->rows = size.ws_row;
	}
	if (sc->drawn_lines) {
		write_all(STDOUT_FILENO, ESC "[2J" ESC "[H", 7);
		sc->drawn_lines = 0;
	}
}

/* Appends `text` line by line, at most rows - 1 lines, each ended by erase-to-end-of-line. */
static int add_lines(const struct screen *sc, struct strbuf *out, const char *text)
{
	int lines = 0, limit = sc->rows > 2 ? sc->rows - 1 : INT32_MAX;

	while (*text && lines < limit) {
		size_t len = strcspn(text, "\n");

		strbuf_add(out, text, len);
		strbuf_adds(out, ESC "[K\n");
		text += len + (text[len] == '\n');
		lines++;
	}
	return lines;
}

int screen_show(struct screen *sc, const struct strbuf *text)
{
	cleanup_strbuf struct strbuf out = STRBUF_INIT(1 << 20);
	int lines;

	if (!sc->tty)
		return write_all(STDOUT_FILENO, strbuf_str(text), text->len);
	if (sc->drawn_lines)
		strbuf_addf(&out, ESC "[%dA\r", sc->drawn_lines);
	lines = add_lines(sc, &out, strbuf_str(text));
	strbuf_adds(&out, ESC "[J"); /* what is left of a longer block before */
	if (out.error)
		return out.error;
	sc->drawn_lines = lines;
	return write_all(STDOUT_FILENO, out.data, out.len);
}

void session_flush_out(struct session *s)
{
	int err;

	if (!s->out.len)
		return;
	err = write_all(STDOUT_FILENO, s->out.data, s->out.len);
	if (err)
		s->out_broken = true;
	strbuf_reset(&s->out);
}
