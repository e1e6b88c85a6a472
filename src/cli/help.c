/* Help texts, made from the tables. */
#include "cli/context.h"
#include "base/table.h"

#define HELP_INDENT 34

void help_program(FILE *out, const struct cli_command *commands, size_t n)
{
	fprintf(out, "ingero tells why a GPU job is slow.\n\nUsage: ingero COMMAND [flags]\n\nCommands:\n");
	for (size_t i = 0; i < n; i++)
		fprintf(out, "  %-12s %s%s\n", commands[i].name, commands[i].summary,
			commands[i].run ? "" : " (not in this version yet)");
	fprintf(out, "\n`ingero COMMAND --help` lists the flags of a command. Exit codes: 0 fine, 1 error, 2 "
		     "usage,\n"
		     "3 no data or a needed check failed.\n"
		     "Settings: flags, then the environment (INGERO_DB, INGERO_CONFIG), then ingero.yaml, "
		     "then defaults.\n");
}

/* Options that this version has come first; those it only knows by name are listed behind. */
static void help_option(FILE *out, const struct cli_command *command, int id)
{
	const struct option_desc *o = &option_table[id];
	bool short_mine = o->short_name && option_find_short(command->id, o->short_name) == id;
	char left[96];
	int width;

	snprintf(left, sizeof(left), "  %c%c%s --%s%s%s", short_mine ? '-' : ' ',
		short_mine ? o->short_name : ' ', short_mine ? "," : " ", o->name, o->metavar ? " " : "",
		o->metavar ? o->metavar : "");
	width = text_width(left);
	fputs(left, out);
	if (width >= HELP_INDENT) {
		fputc('\n', out);
		width = 0;
	}
	fprintf(out, "%*s%s", HELP_INDENT - width, "", o->help);
	if (o->default_text && o->kind != OPTK_BOOL && strcmp(o->default_text, "0"))
		fprintf(out, " (default %s)", o->default_text);
	else if (o->kind == OPTK_BOOL && o->default_text && !strcmp(o->default_text, "true"))
		fprintf(out, " (on by default)");
	if (o->env)
		fprintf(out, " [%s]", o->env);
	if (o->key)
		fprintf(out, " [file: %s]", o->key);
	fputc('\n', out);
}

void help_command(FILE *out, const struct cli_command *command)
{
	bool any_later = false;

	fprintf(out, "%s\n\nUsage: %s\n", command->summary, command->usage);
	if (!command->run)
		fprintf(out, "\nThis command is not in this version yet.\n");
	fprintf(out, "\nFlags:\n");
	for (int i = 0; i < OPT_COUNT; i++) {
		if (!(option_table[i].commands & command->id))
			continue;
		if (option_table[i].flags & OPTF_LATER)
			any_later = true;
		else
			help_option(out, command, i);
	}
	if (any_later) {
		fprintf(out, "\nFlags that this version does not support yet:\n");
		for (int i = 0; i < OPT_COUNT; i++) {
			if ((option_table[i].commands & command->id) && (option_table[i].flags & OPTF_LATER))
				help_option(out, command, i);
		}
	}
	if (command->examples)
		fprintf(out, "\nExamples:\n%s\n", command->examples);
}
