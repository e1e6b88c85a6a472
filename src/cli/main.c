#include "cli/context.h"
#include "base/log.h"
#include "store/store.h"

#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <time.h>

static const struct cli_command commands[] = {
	{CMD_CHECK, "check", "Is this machine ready for tracing?", "ingero check [flags]",
		"  ingero check\n  sudo ingero check --json", 0, cmd_check},
	{CMD_TRACE, "trace", "Watch CUDA calls live and record them (needs root)",
		"sudo ingero trace [flags]",
		"  sudo ingero trace\n  sudo ingero trace --pid 4821,5032 --duration 60s\n"
		"  sudo ingero trace --json | jq .\n  sudo ingero trace --max-db 500m --deadband 5 "
		"--heartbeat 30s",
		0, cmd_trace},
	{CMD_EXPLAIN, "explain", "Say what was slow and why", "ingero explain [flags]", NULL, 0, NULL},
	{CMD_QUERY, "query", "Show recorded calls, or run read-only SQL on them",
		"ingero query [flags] [SQL]",
		"  ingero query --since 1h --pid 4821\n  ingero query --since 30m --op cudaMemcpy --json\n"
		"  ingero query \"SELECT source, count(*) FROM events GROUP BY source\"",
		1, cmd_query},
	{CMD_MCP, "mcp", "Serve AI assistants", "ingero mcp [flags]", NULL, 0, NULL},
	{CMD_DASHBOARD, "dashboard", "Serve the dashboard for browsers", "ingero dashboard [flags]", NULL, 0,
		NULL},
	{CMD_MERGE, "merge", "Make one database of several", "ingero merge DB… -o OUT [flags]", NULL, 1,
		NULL},
	{CMD_EXPORT, "export", "Write events in other formats", "ingero export --format NAME -o FILE [flags]",
		NULL, 0, NULL},
	{CMD_DEMO, "demo", "Show incidents on simulated jobs", "ingero demo [SCENARIO] [flags]", NULL, 1,
		NULL},
	{CMD_VERSION, "version", "Print the version", "ingero version", NULL, 0, cmd_version},
};

static const struct cli_command *find_command(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	}
	return NULL;
}

static const char *command_name(size_t i, const void *ctx UNUSED)
{
	return i < ARRAY_LEN(commands) ? commands[i].name : NULL;
}

int cli_db_path(const struct cli_context *ctx, char *buf, size_t size)
{
	const char *given = opt_str(ctx, OPT_DB);
	int n, err;

	if (given) {
		n = snprintf(buf, size, "%s", given);
		if (n >= 0 && (size_t)n < size)
			return 0;
		log_error("--db: the path is longer than %zu bytes; name a shorter one", size - 1);
		return -ENAMETOOLONG;
	}
	err = store_default_path(buf, size);
	if (err)
		log_error(
			"the database's path cannot be determined (%s): name one with --db", strerror(-err));
	return err;
}

int cli_node(const struct cli_context *ctx, char *buf, size_t size)
{
	const char *given = opt_str(ctx, OPT_NODE);
	size_t len;

	if (given)
		snprintf(buf, size, "%s", given);
	else if (gethostname(buf, size))
		snprintf(buf, size, "localhost");
	buf[size - 1] = '\0';
	len = strlen(buf);
	if (given && (strchr(given, ':') || !*given || strlen(given) >= size || strlen(given) > 63)) {
		log_error("--node: '%.64s' must have 1 to 63 bytes and no colon (it separates node and "
			  "number in event ids)",
			given);
		return -EINVAL;
	}
	for (size_t i = 0; i < len; i++) {
		if (buf[i] == ':' || (unsigned char)buf[i] < 0x20 || buf[i] == 0x7f)
			buf[i] = '_';
	}
	if (len > 63)
		buf[63] = '\0';
	return 0;
}

static int usage_error(const struct cli_command *command, const char *text)
{
	size_t len = strlen(text);

	log_error("%s%s See: ingero%s%s --help", text, len && text[len - 1] == '?' ? "" : ".",
		command ? " " : "", command ? command->name : "");
	return EXIT_USAGE;
}

static int setup_log(const struct cli_context *ctx)
{
	static const struct {
		const char *name;
		enum log_level level;
	} levels[] = {{"error", LOG_ERROR}, {"warn", LOG_WARN}, {"info", LOG_INFO}, {"debug", LOG_DEBUG}};
	const char *path = opt_str(ctx, OPT_LOG);
	int err;

	for (size_t i = 0; i < ARRAY_LEN(levels); i++) {
		if (!strcmp(opt_str(ctx, OPT_LOG_LEVEL), levels[i].name))
			log_set_level(levels[i].level);
	}
	if (opt_bool(ctx, OPT_DEBUG))
		log_set_level(LOG_DEBUG);
	err = path ? log_set_file(path) : 0;
	if (err)
		log_error("--log: %s cannot be written: %s", path, strerror(-err));
	return err;
}

int cli_finish_output(void)
{
	if (!fflush(stdout) && !ferror(stdout))
		return EXIT_OK;
	log_error("the output cannot be written: %s", strerror(errno));
	return EXIT_ERROR;
}

static int run_command(const struct cli_command *command, int argc, char **argv)
{
	struct cli_context ctx = {.command = command};
	char err[1024] = "";
	int rc;

	rc = options_parse(&ctx, argc, argv, err, sizeof(err));
	if (!rc && opt_bool(&ctx, OPT_HELP)) {
		help_command(stdout, command);
		rc = cli_finish_output();
	} else if (!command->run) { /* whatever else was written behind it */
		log_error("%s is not in this version yet", command->name);
		rc = EXIT_USAGE;
	} else if (rc) {
		rc = usage_error(command, err);
	} else if (config_load(&ctx, err, sizeof(err)) || options_complete(&ctx, err, sizeof(err))) {
		rc = usage_error(command, err);
	} else if (setup_log(&ctx)) {
		rc = EXIT_ERROR;
	} else {
		rc = command->run(&ctx);
	}
	cli_context_free(&ctx);
	return rc;
}

static int unknown_command(const char *word)
{
	const char *near = nearest_word(word, command_name, NULL);
	char text[160];

	snprintf(text, sizeof(text), "unknown command '%.64s'%s%s%s", word, near ? ", did you mean " : "",
		near ? near : "", near ? "?" : "");
	return usage_error(NULL, text);
}

/* `ingero help [COMMAND]`, `ingero --help`. */
static int help(const char *about)
{
	const struct cli_command *command = about ? find_command(about) : NULL;

	if (about && !command)
		return unknown_command(about);
	if (command)
		help_command(stdout, command);
	else
		help_program(stdout, commands, ARRAY_LEN(commands));
	return cli_finish_output();
}

int main(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : NULL;
	const struct cli_command *command;

	setlocale(LC_CTYPE, "C.UTF-8");
	tzset();
	signal(SIGPIPE, SIG_IGN);
	if (word && !strcmp(word, "--version"))
		return cmd_version(NULL);
	if (!word) {
		help_program(stderr, commands, ARRAY_LEN(commands));
		return EXIT_USAGE;
	}
	if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help"))
		return help(argc > 2 ? argv[2] : NULL);
	command = find_command(word);
	return command ? run_command(command, argc - 2, argv + 2) : unknown_command(word);
}
