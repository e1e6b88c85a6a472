/* The parsed command line; internal to src/cli. */
#ifndef INGERO_CLI_CONTEXT_H
#define INGERO_CLI_CONTEXT_H

#include "cli/cli.h"

#define CLI_MAX_LIST 256 /* values of a repeatable option */

enum value_source { FROM_NOWHERE, FROM_DEFAULT, FROM_FILE, FROM_ENV, FROM_FLAG };

struct option_value {
	enum value_source source;
	char *text; /* as given, lists joined by commas */
	bool b;
	uint64_t u;
	int64_t i;
	double d;
	uint32_t *pids;
	size_t n_pids;
	char **list;
	size_t n_list, cap_list;
};

struct cli_context {
	const struct cli_command *command;
	struct option_value values[OPT_COUNT];
	const char *positional[1];
	size_t n_positional;
};

void cli_context_free(struct cli_context *ctx);

/* Takes over a value if `source` ranks at least as high as what is there. The sentence in err says what is
 * wrong. 0 or -EINVAL, -ENOMEM, -E2BIG. */
int option_set(struct cli_context *ctx, enum option_id id, const char *text, enum value_source source,
	char *err, size_t err_size);

/* Rows valid for a command, or -1. */
int option_find_long(enum cli_command_id command, const char *name, size_t len);
int option_find_short(enum cli_command_id command, char name);

/* Parses argv[0..argc) (behind the command's name). 0, or -EINVAL with a sentence in err. */
int options_parse(struct cli_context *ctx, int argc, char **argv, char *err, size_t err_size);
/* Environment, then defaults. */
int options_complete(struct cli_context *ctx, char *err, size_t err_size);

/* ingero.yaml, all places of the search order; problems that must stop are returned with a sentence in err,
 * others are logged. */
int config_load(struct cli_context *ctx, char *err, size_t err_size);

void help_program(FILE *out, const struct cli_command *commands, size_t n);
void help_command(FILE *out, const struct cli_command *command);

/* The word nearest to `text`, or NULL when none is near. `name(i, ctx)` gives the i-th word or NULL at the
 * end. */
const char *nearest_word(const char *text, const char *(*name)(size_t i, const void *ctx), const void *ctx);

#endif
