/* Commands and options. One table (options.def) is the source of parsing, help, the configuration file, later
 * man pages and completions. Exit codes: 0 fine, 1 error, 2 usage, 3 no data or a needed check failed. */
#ifndef INGERO_CLI_CLI_H
#define INGERO_CLI_CLI_H

#include "base/util.h"

enum { EXIT_OK = 0, EXIT_ERROR = 1, EXIT_USAGE = 2, EXIT_NODATA = 3 };

enum cli_command_id {
	CMD_CHECK = 1 << 0,
	CMD_TRACE = 1 << 1,
	CMD_EXPLAIN = 1 << 2,
	CMD_QUERY = 1 << 3,
	CMD_MCP = 1 << 4,
	CMD_DASHBOARD = 1 << 5,
	CMD_MERGE = 1 << 6,
	CMD_EXPORT = 1 << 7,
	CMD_DEMO = 1 << 8,
	CMD_VERSION = 1 << 9,
	CMD_ALL = (1 << 10) - 1,
};

/* Kinds of option values. A BOOL accepts --record and --record=false, never the next word. CHOICE: the
 * metavar lists the words, separated by '|'. */
enum option_kind {
	OPTK_BOOL,
	OPTK_STRING,
	OPTK_INT,
	OPTK_UINT,
	OPTK_SIZE,
	OPTK_DURATION,
	OPTK_DOUBLE,
	OPTK_PIDS,
	OPTK_CHOICE
};

enum option_flag {
	OPTF_LATER = 1 << 0,  /* belongs to a later version: switching it on is refused with one line */
	OPTF_REPEAT = 1 << 1, /* may be given several times; a list */
	OPTF_ZERO = 1 << 2,   /* SIZE: 0 is a value too */
};

enum option_id {
#define OPTION(id, ...) OPT_##id,
#include "cli/options.def"
#undef OPTION
	OPT_COUNT
};

/* One row of options.def. */
struct option_desc {
	const char *name; /* without dashes; several rows may share one for different commands */
	char short_name;  /* 0 = none; the first row of a command with it wins */
	enum option_kind kind;
	unsigned commands; /* enum cli_command_id bits */
	unsigned flags;
	const char *default_text; /* NULL = unset */
	const char *env;	  /* environment variable or NULL */
	const char *key;	  /* key in ingero.yaml or NULL */
	const char *metavar;	  /* NULL for BOOL */
	const char *help;
};

extern const struct option_desc option_table[OPT_COUNT];

struct cli_context; /* parsed command line + environment + configuration file */

struct cli_command {
	enum cli_command_id id;
	const char *name;
	const char *summary;  /* one line for `ingero --help` */
	const char *usage;    /* "ingero query [flags] [SQL]" */
	const char *examples; /* newline-separated */
	int max_positional;
	int (*run)(struct cli_context *ctx); /* returns the exit code; NULL = belongs to a later version */
};

/* Typed access; precedence flag > environment > configuration file > default. */
bool opt_bool(const struct cli_context *ctx, enum option_id id);
const char *opt_str(
	const struct cli_context *ctx, enum option_id id); /* text of any kind but lists; NULL when unset */
uint64_t opt_u64(const struct cli_context *ctx, enum option_id id); /* UINT, SIZE (bytes), DURATION (ns) */
int64_t opt_i64(const struct cli_context *ctx, enum option_id id);  /* INT */
/* REPEAT: all values; borrowed. Returns how many. */
size_t opt_strings(const struct cli_context *ctx, enum option_id id, const char *const **ret_values);
double opt_double(const struct cli_context *ctx, enum option_id id);
/* PIDS: borrowed array. */
size_t opt_pids(const struct cli_context *ctx, enum option_id id, const uint32_t **ret_pids);
bool opt_given(const struct cli_context *ctx, enum option_id id); /* by flag, environment or file */
size_t cli_positional(const struct cli_context *ctx, const char *const **ret_args);

/* Text printed by `ingero version` and stored with sessions. */
#define INGERO_VERSION_TEXT_MAX 160
const char *cli_version(void); /* "0.1.0" */

/* The database of this command line: --db/-d, INGERO_DB, the invoking user's default. */
int cli_db_path(const struct cli_context *ctx, char *buf, size_t size);
/* Node name: --node, agent.node, host name; refuses a colon. */
int cli_node(const struct cli_context *ctx, char *buf, size_t size);

/* Flushes stdout: EXIT_OK, or EXIT_ERROR after one line. */
int cli_finish_output(void);

/* The commands, one file each. */
int cmd_trace(struct cli_context *ctx);
int cmd_query(struct cli_context *ctx);
int cmd_check(struct cli_context *ctx);
int cmd_version(struct cli_context *ctx);

#endif
