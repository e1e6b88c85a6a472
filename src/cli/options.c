#include "cli/context.h"
#include "base/parse.h"

#include <errno.h>
#include <ctype.h>

#define SHOWN_BYTES 64 /* of a wrong value */

const struct option_desc option_table[OPT_COUNT] = {
#define OPTION(id, ...) [OPT_##id] = OPTION_ROW(__VA_ARGS__)
#define OPTION_ROW(name, short_name, kind, commands, flags, text, env, key, metavar, help)                   \
	{name, short_name, OPTK_##kind, commands, flags, text, env, key, metavar, help},
#include "cli/options.def"
#undef OPTION_ROW
#undef OPTION
};

static void value_free(struct option_value *v)
{
	free(v->text);
	free(v->pids);
	for (size_t i = 0; i < v->n_list; i++)
		free(v->list[i]);
	free(v->list);
	*v = (struct option_value){0};
}

void cli_context_free(struct cli_context *ctx)
{
	for (size_t i = 0; i < OPT_COUNT; i++)
		value_free(&ctx->values[i]);
}

int option_find_long(enum cli_command_id command, const char *name, size_t len)
{
	for (int i = 0; i < OPT_COUNT; i++) {
		const struct option_desc *o = &option_table[i];

		if ((o->commands & command) && strlen(o->name) == len && !memcmp(o->name, name, len))
			return i;
	}
	return -1;
}

int option_find_short(enum cli_command_id command, char name)
{
	for (int i = 0; i < OPT_COUNT; i++) {
		if ((option_table[i].commands & command) && option_table[i].short_name == name)
			return i;
	}
	return -1;
}

/* Edit distance, bounded by the buffer; long words are as far as can be. */
static unsigned distance(const char *a, const char *b)
{
	size_t la = strlen(a), lb = strlen(b);
	unsigned row[64];

	if (la >= ARRAY_LEN(row) || lb >= ARRAY_LEN(row))
		return 64;
	for (size_t j = 0; j <= lb; j++)
		row[j] = (unsigned)j;
	for (size_t i = 1; i <= la; i++) {
		unsigned diagonal = row[0];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= lb; j++) {
			unsigned above = row[j];
			bool same = tolower((unsigned char)a[i - 1]) == tolower((unsigned char)b[j - 1]);

			row[j] = MIN(MIN(above, row[j - 1]) + 1, diagonal + !same);
			diagonal = above;
		}
	}
	return row[lb];
}

const char *nearest_word(const char *text, const char *(*name)(size_t i, const void *ctx), const void *ctx)
{
	const char *best = NULL, *word;
	unsigned best_distance = 3;

	for (size_t i = 0; (word = name(i, ctx)); i++) {
		unsigned d = distance(text, word);

		if (d < best_distance && d < strlen(word)) {
			best_distance = d;
			best = word;
		}
	}
	return best;
}

static int parse_bool(const char *text, bool *ret)
{
	static const struct {
		const char *word;
		bool value;
	} words[] = {{"true", true}, {"false", false}, {"1", true}, {"0", false}, {"yes", true},
		{"no", false}, {"on", true}, {"off", false}, {"t", true}, {"f", false}};

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (!strcasecmp(text, words[i].word)) {
			*ret = words[i].value;
			return 0;
		}
	}
	return -EINVAL;
}

static int parse_i64(const char *text, int64_t *ret)
{
	const char *digits = text + (*text == '-');
	uint64_t u;
	int err = parse_u64(digits, &u);

	if (err)
		return err;
	if (u > INT64_MAX)
		return -ERANGE;
	*ret = *text == '-' ? -(int64_t)u : (int64_t)u;
	return 0;
}

static bool choice_has(const char *choices, const char *text)
{
	size_t len = strlen(text);

	for (const char *p = choices; len && p; p = strchr(p, '|')) {
		p += *p == '|';
		if (!strncmp(p, text, len) && (p[len] == '|' || !p[len]))
			return true;
	}
	return false;
}

static int add_to_list(struct option_value *v, const char *text)
{
	char *copy = NULL;
	int err = UTIL_GROW(v->list, v->cap_list, v->n_list + 1, CLI_MAX_LIST);

	if (err)
		return err;
	copy = strdup(text);
	if (!copy)
		return -ENOMEM;
	v->list[v->n_list++] = copy;
	return 0;
}

static int parse_value(const struct option_desc *o, const char *text, struct option_value *v)
{
	switch (o->kind) {
	case OPTK_BOOL:
		return parse_bool(text, &v->b);
	case OPTK_STRING:
		return *text ? 0 : -EINVAL;
	case OPTK_INT:
		return parse_i64(text, &v->i);
	case OPTK_UINT:
		return parse_u64(text, &v->u);
	case OPTK_SIZE:
		if ((o->flags & OPTF_ZERO) && (!*text || !strcmp(text, "0"))) {
			v->u = 0;
			return 0;
		}
		return parse_size(text, &v->u);
	case OPTK_DURATION:
		return parse_duration(text, &v->u);
	case OPTK_DOUBLE:
		return parse_double(text, &v->d) ?: (v->d < 0 ? -ERANGE : 0);
	case OPTK_PIDS:
		return parse_pid_list(text, &v->pids, &v->n_pids);
	case OPTK_CHOICE:
		return choice_has(o->metavar, text) ? 0 : -EINVAL;
	}
	return -EINVAL;
}

static const char *expected(const struct option_desc *o)
{
	switch (o->kind) {
	case OPTK_BOOL:
		return "true or false";
	case OPTK_STRING:
		return "a text";
	case OPTK_INT:
		return "a whole number";
	case OPTK_UINT:
		return "a whole number, 0 or more";
	case OPTK_SIZE:
		return o->flags & OPTF_ZERO ? "a size such as 500m or 10g (0 = none)"
					    : "a size such as 64k or 32m";
	case OPTK_DURATION:
		return "a time such as 90s, 1h30m, 2d or 1w";
	case OPTK_DOUBLE:
		return "a number, 0 or more";
	case OPTK_PIDS:
		return "process numbers such as 1234 or 1234,5678, each once";
	case OPTK_CHOICE:
		return o->metavar;
	}
	return "";
}

/* How the user named the option. */
static void value_name(const struct option_desc *o, enum value_source source, char *buf, size_t size)
{
	if (source == FROM_ENV)
		snprintf(buf, size, "%s", o->env);
	else if (source == FROM_FILE)
		snprintf(buf, size, "%s", o->key);
	else
		snprintf(buf, size, "--%s", o->name);
}

/* Process lists given in several pieces are one list. */
static char *joined_text(const struct option_value *old, const struct option_desc *o, const char *text,
	enum value_source source)
{
	char *joined = NULL;

	if (o->kind != OPTK_PIDS || old->source != source || !old->text)
		return strdup(text);
	return asprintf(&joined, "%s,%s", old->text, text) < 0 ? NULL : joined;
}

/* However long the text is, what is wrong with it comes through. */
static void explain_value(
	const struct option_desc *o, const char *name, const char *text, int r, char *err, size_t err_size)
{
	const char *more = strlen(text) > SHOWN_BYTES ? "…" : "";

	if (r == -ENOMEM)
		snprintf(err, err_size, "out of memory");
	else if (!*text)
		snprintf(err, err_size, "%s: the value is empty; it takes %s", name, expected(o));
	else if (r == -ERANGE)
		snprintf(err, err_size, "%s: '%.*s%s' is out of range; it takes %s", name, SHOWN_BYTES, text,
			more, expected(o));
	else
		snprintf(err, err_size, "%s: '%.*s%s' is not %s%s", name, SHOWN_BYTES, text, more,
			o->kind == OPTK_CHOICE ? "one of " : "", expected(o));
}

int option_set(struct cli_context *ctx, enum option_id id, const char *text, enum value_source source,
	char *err, size_t err_size)
{
	const struct option_desc *o = &option_table[id];
	struct option_value *v = &ctx->values[id], fresh = {.source = source};
	char name[96];
	int r;

	if (source < v->source)
		return 0;
	value_name(o, source, name, sizeof(name));
	if ((o->flags & OPTF_REPEAT) && v->source == source) {
		r = *text ? add_to_list(v, text) : -EINVAL;
		if (r)
			snprintf(err, err_size,
				r == -E2BIG ? "%s: more than %d values" : "%s: the value is empty", name,
				CLI_MAX_LIST);
		return r;
	}
	fresh.text = joined_text(v, o, text, source);
	r = fresh.text ? parse_value(o, fresh.text, &fresh) : -ENOMEM;
	if (!r && (o->flags & OPTF_REPEAT))
		r = add_to_list(&fresh, text);
	if (r) {
		value_free(&fresh);
		explain_value(o, name, text, r, err, err_size);
		return r == -ENOMEM ? r : -EINVAL;
	}
	value_free(v);
	*v = fresh;
	return 0;
}

static const char *long_name(size_t i, const void *ctx)
{
	const enum cli_command_id *command = ctx;
	static const char skipped[] = "";

	if (i >= OPT_COUNT)
		return NULL;
	return option_table[i].commands & *command ? option_table[i].name : skipped;
}

static int unknown_option(
	const struct cli_context *ctx, const char *word, size_t len, char *err, size_t err_size)
{
	char name[64];
	const char *near = NULL;

	snprintf(name, sizeof(name), "%.*s", (int)MIN(len, sizeof(name) - 1),
		word + 2 * !strncmp(word, "--", 2));
	if (!strncmp(word, "--", 2)) {
		name[MIN(len - 2, sizeof(name) - 1)] = '\0';
		near = nearest_word(name, long_name, &ctx->command->id);
	}
	snprintf(err, err_size, "unknown flag %.*s%s%s%s", (int)MIN(len, 64u), word,
		near ? ", did you mean --" : "", near ? near : "", near ? "?" : "");
	return -EINVAL;
}

/* One flag at argv[*i]; moves *i over a value taken from the next word. */
static int parse_flag(struct cli_context *ctx, int argc, char **argv, int *i, char *err, size_t err_size)
{
	const char *word = argv[*i], *value = NULL;
	bool is_long = word[1] == '-';
	const char *equals = is_long ? strchr(word, '=') : NULL;
	size_t len = equals ? (size_t)(equals - word) : is_long ? strlen(word) : 2;
	int id = is_long ? option_find_long(ctx->command->id, word + 2, len - 2)
			 : option_find_short(ctx->command->id, word[1]);

	if (id < 0)
		return unknown_option(ctx, word, len, err, err_size);
	if (equals)
		value = equals + 1;
	else if (!is_long && word[2])
		value = word + 2 + (word[2] == '=');
	if (!value && option_table[id].kind == OPTK_BOOL)
		value = "true";
	if (!value) {
		if (*i + 1 >= argc) {
			snprintf(err, err_size, "--%s needs a value: %s", option_table[id].name,
				expected(&option_table[id]));
			return -EINVAL;
		}
		value = argv[++*i];
	}
	return option_set(ctx, (enum option_id)id, value, FROM_FLAG, err, err_size);
}

int options_parse(struct cli_context *ctx, int argc, char **argv, char *err, size_t err_size)
{
	bool flags_end = false;

	for (int i = 0; i < argc; i++) {
		const char *word = argv[i];

		if (!flags_end && !strcmp(word, "--")) {
			flags_end = true;
		} else if (!flags_end && word[0] == '-' && word[1]) {
			int r = parse_flag(ctx, argc, argv, &i, err, err_size);

			if (r)
				return r;
		} else if (ctx->n_positional < (size_t)ctx->command->max_positional &&
			   ctx->n_positional < ARRAY_LEN(ctx->positional)) {
			ctx->positional[ctx->n_positional++] = word;
		} else {
			snprintf(err, err_size, "'%.64s' is not understood: %s takes %s", word,
				ctx->command->name,
				ctx->command->max_positional ? "one text at most" : "flags only");
			return -EINVAL;
		}
	}
	return 0;
}

/* A flag of a later version may be given as long as it changes nothing. */
static int refuse_later(const struct cli_context *ctx, enum option_id id, char *err, size_t err_size)
{
	const struct option_desc *o = &option_table[id];
	const struct option_value *v = &ctx->values[id];
	bool off;

	if (!(o->flags & OPTF_LATER) || v->source != FROM_FLAG || !ctx->command->run)
		return 0;
	if (o->default_text && !strcmp(v->text, o->default_text))
		return 0;
	/* there are many words for "false" */
	if (o->default_text && o->kind == OPTK_BOOL && !parse_bool(o->default_text, &off) && off == v->b)
		return 0;
	snprintf(err, err_size, "--%s is not supported by this version yet; leave it out", o->name);
	return -EINVAL;
}

int options_complete(struct cli_context *ctx, char *err, size_t err_size)
{
	for (int i = 0; i < OPT_COUNT; i++) {
		const struct option_desc *o = &option_table[i];
		const char *env = o->env ? getenv(o->env) : NULL;
		int r = refuse_later(ctx, (enum option_id)i, err, err_size);

		if (!r && env && *env && ctx->values[i].source < FROM_ENV)
			r = option_set(ctx, (enum option_id)i, env, FROM_ENV, err, err_size);
		if (!r && o->default_text && ctx->values[i].source == FROM_NOWHERE)
			r = option_set(ctx, (enum option_id)i, o->default_text, FROM_DEFAULT, err, err_size);
		if (r)
			return r;
	}
	return 0;
}

bool opt_bool(const struct cli_context *ctx, enum option_id id)
{
	return ctx->values[id].b;
}

const char *opt_str(const struct cli_context *ctx, enum option_id id)
{
	return ctx->values[id].text;
}

uint64_t opt_u64(const struct cli_context *ctx, enum option_id id)
{
	return ctx->values[id].u;
}

int64_t opt_i64(const struct cli_context *ctx, enum option_id id)
{
	return ctx->values[id].i;
}

double opt_double(const struct cli_context *ctx, enum option_id id)
{
	return ctx->values[id].d;
}

size_t opt_pids(const struct cli_context *ctx, enum option_id id, const uint32_t **ret_pids)
{
	*ret_pids = ctx->values[id].pids;
	return ctx->values[id].n_pids;
}

size_t opt_strings(const struct cli_context *ctx, enum option_id id, const char *const **ret_values)
{
	*ret_values = (const char *const *)ctx->values[id].list;
	return ctx->values[id].n_list;
}

bool opt_given(const struct cli_context *ctx, enum option_id id)
{
	return ctx->values[id].source > FROM_DEFAULT;
}

size_t cli_positional(const struct cli_context *ctx, const char *const **ret_args)
{
	*ret_args = ctx->positional;
	return ctx->n_positional;
}
