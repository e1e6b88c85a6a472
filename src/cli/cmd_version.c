#include "cli/cli.h"
#include "version.h"

#include "base/jsonw.h"

const char *cli_version(void)
{
	return INGERO_VERSION;
}

int cmd_version(struct cli_context *ctx UNUSED)
{
	printf("ingero v%s (%s)\n", INGERO_VERSION, INGERO_BUILD_TEXT);
	return cli_finish_output();
}
