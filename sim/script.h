/* The workload's script (README.md): text into a tree of statements. */
#ifndef SIM_SCRIPT_H
#define SIM_SCRIPT_H

#include "base/util.h"

#define SCRIPT_MAX_ARGS 12

enum verb {
	VERB_CALL,
	VERB_LOOP,
	VERB_THREAD,
	VERB_JOIN,
	VERB_CANCEL,
	VERB_FORK,
	VERB_WAIT,
	VERB_RUNTIME,
	VERB_DRIVER,
	VERB_RATE,
	VERB_SLEEP,
	VERB_SPIN,
	VERB_TOUCH,
	VERB_WAIT_FILE,
	VERB_WAIT_CALLS,
	VERB_READY,
	VERB_SET,
	VERB_KERNEL,
	VERB_GRAPH,
	VERB_FREE_ALL,
	VERB_NAME,
};

struct statement {
	enum verb verb;
	unsigned line;
	unsigned n_args;
	char *arg[SCRIPT_MAX_ARGS];
	uint64_t number[SCRIPT_MAX_ARGS]; /* arg as size or duration where it is one, else 0 */
	struct target *target;		  /* VERB_CALL, found at its first run */
	struct statement *body, *next;
};

/* Parses the text. On failure prints what is wrong and returns -EINVAL (or -ENOMEM). */
int script_parse(const char *text, struct statement **ret_first);
void script_free(struct statement *first);

#endif
