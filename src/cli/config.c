/* ingero.yaml: strict keys of the option table, nested mappings flattened with dots, lists joined by commas.
 */
#include "cli/context.h"
#include "base/log.h"
#include "discover/discover.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <yaml.h>

#define CONFIG_MAX_BYTES (1u << 20)
#define CONFIG_MAX_DEPTH 4
#define CONFIG_MAX_VALUE 8192

/* Keys of the reference's sample file that no option carries (yet): accepted, without effect, said once. */
static const char *const idle_keys[] = {"agent.max_overhead_percent", "probes.cuda.enabled",
	"probes.driver.enabled", "probes.driver.library_path", "probes.driver.ringbuf_size",
	"probes.cudagraph.enabled", "probes.cudagraph.ringbuf_size", "probes.host.enabled",
	"probes.host.ringbuf_size", "probes.host.tracepoints", "probes.blockio.enabled",
	"probes.blockio.ringbuf_size", "probes.net.enabled", "probes.net.ringbuf_size", "probes.tcp.enabled",
	"probes.tcp.ringbuf_size", "mcp.enabled", "mcp.transport", "otlp.enabled", "otlp.protocol",
	"otlp.insecure", "otlp.export_interval", "prometheus.enabled"};

struct config_file {
	struct cli_context *ctx;
	const char *path;
	char prefix[CONFIG_MAX_DEPTH][64];
	unsigned depth; /* open mappings */
	char key[64];	/* waiting for its value */
	bool have_key;
	bool in_list;
	char value[CONFIG_MAX_VALUE]; /* of a list, joined by line feeds */
	bool seen[OPT_COUNT];
	bool seen_idle[ARRAY_LEN(idle_keys)];
	unsigned ignored;
	char ignored_key[96]; /* the first one */
	char *err;
	size_t err_size;
};

static int complain(struct config_file *f, const yaml_mark_t *mark, const char *fmt, ...) PRINTF_LIKE(3, 4);
static int complain(struct config_file *f, const yaml_mark_t *mark, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	snprintf(f->err, f->err_size, "%s:%zu: %s", f->path, mark->line + 1, text);
	return -EINVAL;
}

static const char *known_key(size_t i, const void *ctx UNUSED)
{
	if (i < OPT_COUNT)
		return option_table[i].key ? option_table[i].key : "";
	return i - OPT_COUNT < ARRAY_LEN(idle_keys) ? idle_keys[i - OPT_COUNT] : NULL;
}

/* "store" has store.path below it. */
static const char *key_below(const char *key)
{
	size_t len = strlen(key);
	const char *name;

	for (size_t i = 0; (name = known_key(i, NULL)); i++) {
		if (!strncmp(name, key, len) && name[len] == '.')
			return name;
	}
	return NULL;
}

static void full_key(const struct config_file *f, char *buf, size_t size)
{
	size_t len = 0;

	buf[0] = '\0';
	for (unsigned i = 1; i < f->depth; i++) {
		int n = snprintf(buf + len, size - len, "%s.", f->prefix[i]);

		len = MIN(len + (size_t)MAX(n, 0), size - 1);
	}
	snprintf(buf + len, size - len, "%s", f->key);
}

static void note_ignored(struct config_file *f, const char *key)
{
	if (!f->ignored++)
		snprintf(f->ignored_key, sizeof(f->ignored_key), "%s", key);
}

/* Sets one option; the items of a list one by one where the option takes several. */
static int set_option(
	struct config_file *f, const yaml_mark_t *mark, enum option_id id, char *value, bool is_list)
{
	const struct option_desc *o = &option_table[id];
	char err[512];
	int r = 0;

	if (!is_list || o->kind == OPTK_PIDS) {
		for (char *c = value; is_list && *c; c++)
			*c = *c == '\n' ? ',' : *c;
		r = option_set(f->ctx, id, value, FROM_FILE, err, sizeof(err));
		return r ? complain(f, mark, "%s", err) : 0;
	}
	if (!(o->flags & OPTF_REPEAT))
		return complain(f, mark, "%s takes one value, not a list", o->key);
	for (char *save = NULL, *item = strtok_r(value, "\n", &save); item && !r;
		item = strtok_r(NULL, "\n", &save))
		r = option_set(f->ctx, id, item, FROM_FILE, err, sizeof(err));
	return r ? complain(f, mark, "%s", err) : 0;
}

static int take_value(struct config_file *f, const yaml_mark_t *mark, char *value, bool is_list)
{
	char key[320];
	const char *near;
	bool known = false;
	int r = 0;

	full_key(f, key, sizeof(key));
	f->have_key = false;
	for (size_t i = 0; i < ARRAY_LEN(idle_keys); i++) {
		if (strcmp(key, idle_keys[i]))
			continue;
		if (f->seen_idle[i])
			return complain(f, mark, "%s is given twice", key);
		f->seen_idle[i] = true;
		note_ignored(f, key);
		return 0;
	}
	for (int i = 0; i < OPT_COUNT; i++) {
		const struct option_desc *o = &option_table[i];

		if (!o->key || strcmp(o->key, key))
			continue;
		known = true;
		if (f->seen[i])
			return complain(f, mark, "%s is given twice", key);
		f->seen[i] = true;
		if (o->flags & OPTF_LATER)
			note_ignored(f, key);
		/* An earlier file has it already: first one wins. */
		else if (!r && f->ctx->values[i].source < FROM_FILE)
			r = set_option(f, mark, (enum option_id)i, value, is_list);
	}
	if (known)
		return r;
	near = key_below(key);
	if (near)
		return complain(f, mark, "%.80s holds keys, not a value: write %s", key, near);
	near = nearest_word(key, known_key, NULL);
	return complain(f, mark, "unknown key %.80s%s%s%s", key, near ? ", did you mean " : "",
		near ? near : "", near ? "?" : "");
}

static int on_scalar(struct config_file *f, const yaml_event_t *e)
{
	char *text = (char *)e->data.scalar.value;
	size_t len = e->data.scalar.length;

	if (memchr(text, '\0', len))
		return complain(f, &e->start_mark, "a NUL byte in the text");
	if (f->in_list) {
		size_t have = strlen(f->value);

		if (!len || strchr(text, '\n'))
			return complain(f, &e->start_mark, "an item of a list is one line of text");
		if (have + len + 2 > sizeof(f->value))
			return complain(f, &e->start_mark, "the list is too long");
		snprintf(f->value + have, sizeof(f->value) - have, "%s%s", have ? "\n" : "", text);
		return 0;
	}
	if (!f->depth)
		return len ? complain(f, &e->start_mark, "expected keys such as 'store:'") : 0;
	if (f->have_key)
		return take_value(f, &e->start_mark, text, false);
	if (!len || len >= sizeof(f->key))
		return complain(f, &e->start_mark, "a key of %zu bytes is not one of ours", len);
	snprintf(f->key, sizeof(f->key), "%s", text);
	f->have_key = true;
	return 0;
}

static int on_event(struct config_file *f, const yaml_event_t *e)
{
	switch (e->type) {
	case YAML_ALIAS_EVENT:
		return complain(f, &e->start_mark, "aliases are not supported; write the value out");
	case YAML_SCALAR_EVENT:
		return on_scalar(f, e);
	case YAML_SEQUENCE_START_EVENT:
		if (f->in_list || !f->have_key)
			return complain(f, &e->start_mark, "a list does not belong here");
		f->in_list = true;
		f->value[0] = '\0';
		return 0;
	case YAML_SEQUENCE_END_EVENT:
		f->in_list = false;
		return take_value(f, &e->start_mark, f->value, true);
	case YAML_MAPPING_START_EVENT:
		if (f->in_list || f->depth >= CONFIG_MAX_DEPTH || (f->depth && !f->have_key))
			return complain(f, &e->start_mark, "a mapping does not belong here");
		snprintf(f->prefix[f->depth++], sizeof(f->prefix[0]), "%s", f->have_key ? f->key : "");
		f->have_key = false;
		return 0;
	case YAML_MAPPING_END_EVENT:
		f->depth--;
		return 0;
	default:
		return 0;
	}
}

/* Bytes that are no text: the library only says how far into the file. */
static int complain_bytes(struct config_file *f, FILE *in, const yaml_parser_t *parser)
{
	yaml_mark_t mark = {0};
	int c;

	rewind(in);
	for (size_t i = 0; i < parser->problem_offset && (c = getc(in)) != EOF; i++)
		mark.line += c == '\n';
	return complain(f, &mark, "%s; only UTF-8 text is read", parser->problem);
}

static int parse_stream(struct config_file *f, FILE *in)
{
	yaml_parser_t parser;
	yaml_event_t event;
	bool done = false;
	int r = 0;

	if (!yaml_parser_initialize(&parser))
		return -ENOMEM;
	yaml_parser_set_input_file(&parser, in);
	while (!r && !done) {
		if (!yaml_parser_parse(&parser, &event)) {
			r = parser.error == YAML_READER_ERROR && parser.problem
				    ? complain_bytes(f, in, &parser)
				    : complain(f, &parser.problem_mark, "not YAML: %s",
					      parser.problem ? parser.problem : "it ends too early");
			break;
		}
		done = event.type == YAML_STREAM_END_EVENT;
		r = on_event(f, &event);
		yaml_event_delete(&event);
	}
	yaml_parser_delete(&parser);
	return r;
}

/* With rights to lose, a file that strangers can write is not listened to. */
static bool trusted(const struct stat *st)
{
	uint32_t uid = (uint32_t)-1, gid;
	char name[64];

	if (geteuid() != 0)
		return true;
	if (st->st_mode & (S_IWGRP | S_IWOTH))
		return false;
	return st->st_uid == 0 ||
	       (!discover_invoking_user(&uid, &gid, name, sizeof(name)) && st->st_uid == uid);
}

static int load_file(struct cli_context *ctx, const char *path, bool demanded, char *err, size_t err_size)
{
	struct config_file f = {.ctx = ctx, .path = path, .err = err, .err_size = err_size};
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	cleanup_file FILE *in = NULL;
	struct stat st;
	int r;

	if (fd < 0) {
		if (!demanded && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
			return 0;
		snprintf(err, err_size, "%s: %s%s", path, strerror(errno),
			demanded ? " (named by INGERO_CONFIG)" : "");
		return -EINVAL;
	}
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > CONFIG_MAX_BYTES) {
		snprintf(err, err_size, "%s: not a file of at most %u bytes", path, CONFIG_MAX_BYTES);
		return -EINVAL;
	}
	if (!trusted(&st)) {
		if (!demanded) {
			log_warn("%s is ignored: it belongs to another user or others may write it", path);
			return 0;
		}
		snprintf(err, err_size,
			"%s: belongs to another user or others may write it; fix that to use it as root",
			path);
		return -EINVAL;
	}
	in = fdopen(fd, "r");
	if (!in)
		return -errno;
	util_steal_fd(&fd);
	r = parse_stream(&f, in);
	if (!r && f.ignored)
		log_warn("%s: %s%s not supported by this version yet and %s no effect", path, f.ignored_key,
			f.ignored > 1 ? " and others are" : " is", f.ignored > 1 ? "have" : "has");
	return r;
}

static bool home_config(char *buf, size_t size)
{
	uint32_t uid, gid;
	char name[64];
	const struct passwd *pw = NULL;
	const char *home = getenv("HOME");
	int n;

	if (geteuid() == 0 && getenv("SUDO_USER") && !discover_invoking_user(&uid, &gid, name, sizeof(name)))
		pw = getpwuid(uid);
	if (pw)
		home = pw->pw_dir;
	if (!home || !*home)
		return false;
	n = snprintf(buf, size, "%s/.config/ingero/ingero.yaml", home);
	return n > 0 && (size_t)n < size;
}

int config_load(struct cli_context *ctx, char *err, size_t err_size)
{
	const char *named = getenv("INGERO_CONFIG");
	char home[PATH_MAX];
	int r = 0;

	if (named && *named)
		r = load_file(ctx, named, true, err, err_size);
	if (!r)
		r = load_file(ctx, "ingero.yaml", false, err, err_size);
	if (!r)
		r = load_file(ctx, "/etc/ingero/ingero.yaml", false, err, err_size);
	if (!r && home_config(home, sizeof(home)))
		r = load_file(ctx, home, false, err, err_size);
	return r;
}
