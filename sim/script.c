#include "sim/script.h"

#include "base/parse.h"

#include <errno.h>

#define MAX_DEPTH 32
#define MAX_WORD 4096

/* kinds of argument: n number, t duration, w word; after '?' they may be left out, '*' = any number of
 * numbers */
static const struct {
	const char *word;
	const char *args;
	bool body;
} verbs[] = {
	[VERB_CALL] = {"call", "w*", false},
	[VERB_LOOP] = {"loop", "n", true},
	[VERB_THREAD] = {"thread", "?n", true},
	[VERB_JOIN] = {"join", "", false},
	[VERB_CANCEL] = {"cancel", "", false},
	[VERB_FORK] = {"fork", "?n", true},
	[VERB_WAIT] = {"wait", "", false},
	[VERB_RUNTIME] = {"runtime", "w", false},
	[VERB_DRIVER] = {"driver", "w", false},
	[VERB_RATE] = {"rate", "n", false},
	[VERB_SLEEP] = {"sleep", "t", false},
	[VERB_SPIN] = {"spin", "t", false},
	[VERB_TOUCH] = {"touch", "w", false},
	[VERB_WAIT_FILE] = {"wait-file", "w?t", false},
	[VERB_WAIT_CALLS] = {"wait-calls", "wn?t", false},
	[VERB_READY] = {"ready", "?w", false},
	[VERB_SET] = {"set", "ww", false},
	[VERB_KERNEL] = {"kernel", "w", false},
	[VERB_GRAPH] = {"graph", "nn", false},
	[VERB_FREE_ALL] = {"free-all", "", false},
	[VERB_NAME] = {"name", "w", false},
};

struct parser {
	const char *at;
	unsigned line;
	unsigned depth;
	char word[MAX_WORD];
};

static int fail(const struct parser *p, const char *what, const char *detail)
{
	fprintf(stderr, "script line %u: %s%s%s\n", p->line, what, *detail ? ": " : "", detail);
	return -EINVAL;
}

/* ---- words ---- */

static void skip_blank(struct parser *p)
{
	while (*p->at == ' ' || *p->at == '\t' || *p->at == '\r')
		p->at++;
	if (*p->at == '#')
		p->at += strcspn(p->at, "\n");
}

static void skip_ends(struct parser *p)
{
	for (skip_blank(p); *p->at == '\n' || *p->at == ';'; skip_blank(p)) {
		p->line += *p->at == '\n';
		p->at++;
	}
}

/* The next word of the statement. Returns 1, 0 where the statement ends, or -EINVAL. */
static int next_word(struct parser *p)
{
	size_t len;

	skip_blank(p);
	if (*p->at == '"') {
		p->at++;
		len = strcspn(p->at, "\"\n");
		if (p->at[len] != '"')
			return fail(p, "missing \"", "");
	} else {
		len = strcspn(p->at, " \t\r\n;{}#");
		if (!len)
			return 0;
	}
	if (len >= sizeof(p->word))
		return fail(p, "word too long", "");
	memcpy(p->word, p->at, len);
	p->word[len] = 0;
	p->at += len + (p->at[len] == '"');
	return 1;
}

/* ---- statements ---- */

static int parse_number(const struct parser *p, char kind, const char *word, uint64_t *ret_number)
{
	if (kind == 't')
		return parse_duration(word, ret_number) ? fail(p, "not a duration", word) : 0;
	if (!parse_u64(word, ret_number) || !parse_size(word, ret_number))
		return 0;
	return fail(p, "not a number", word);
}

static int parse_args(struct parser *p, struct statement *s)
{
	const char *kinds = verbs[s->verb].args;
	bool optional = false;
	int rc;

	while ((rc = next_word(p)) > 0) {
		if (*kinds == '?') {
			optional = true;
			kinds++;
		}
		if (!*kinds || s->n_args == SCRIPT_MAX_ARGS)
			return fail(p, "too many words", p->word);
		if (*kinds != 'w') {
			rc = parse_number(p, *kinds, p->word, &s->number[s->n_args]);
			if (rc)
				return rc;
		}
		s->arg[s->n_args] = strdup(p->word);
		if (!s->arg[s->n_args++])
			return -ENOMEM;
		kinds += *kinds != '*';
	}
	if (!rc && !optional && *kinds && *kinds != '?' && *kinds != '*')
		return fail(p, "argument missing after", verbs[s->verb].word);
	return rc;
}

static int parse_block(struct parser *p, struct statement **ret_first);

static int parse_body(struct parser *p, struct statement *s)
{
	int rc;

	skip_ends(p);
	if (*p->at != '{')
		return fail(p, "{ missing after", verbs[s->verb].word);
	if (p->depth == MAX_DEPTH)
		return fail(p, "nested too deep", "");
	p->at++;
	p->depth++;
	rc = parse_block(p, &s->body);
	p->depth--;
	if (rc)
		return rc;
	if (*p->at != '}')
		return fail(p, "} missing", "");
	p->at++;
	return 0;
}

static int parse_statement(struct parser *p, struct statement *s)
{
	int rc = next_word(p);

	if (rc <= 0)
		return rc ? rc : fail(p, "statement expected", "");
	s->line = p->line;
	for (unsigned v = 0; v < ARRAY_LEN(verbs); v++) {
		if (strcmp(verbs[v].word, p->word))
			continue;
		s->verb = (enum verb)v;
		rc = parse_args(p, s);
		return rc || !verbs[v].body ? rc : parse_body(p, s);
	}
	return fail(p, "unknown statement", p->word);
}

/* Statements up to the end or a closing brace, which is left for the caller. *ret_first is the caller's to
 * free also after an error. */
static int parse_block(struct parser *p, struct statement **ret_first)
{
	struct statement **end = ret_first;

	for (skip_ends(p); *p->at && *p->at != '}'; skip_ends(p)) {
		int rc;

		*end = calloc(1, sizeof(**end));
		if (!*end)
			return -ENOMEM;
		rc = parse_statement(p, *end);
		if (rc)
			return rc;
		end = &(*end)->next;
	}
	return 0;
}

int script_parse(const char *text, struct statement **ret_first)
{
	struct parser p = {.at = text, .line = 1};
	struct statement *first = NULL;
	int rc = parse_block(&p, &first);

	if (!rc && *p.at)
		rc = fail(&p, "} without {", "");
	if (rc)
		script_free(first);
	else
		*ret_first = first;
	return rc;
}

void script_free(struct statement *first)
{
	while (first) {
		struct statement *next = first->next;

		script_free(first->body);
		for (unsigned i = 0; i < first->n_args; i++)
			free(first->arg[i]);
		free(first);
		first = next;
	}
}
