/* Puts empty probe pairs on every CUDA function that a trace would probe in the given libraries, then waits
 * for the end of its input. usage: empty_pair session|multi OBJECT FILE... */
#include "discover/discover.h"
#include "probe/internal.h"

#include <errno.h>

static int load(const char *object_path, enum probe_way way, struct bpf_program **ret)
{
	const char *name = way == PROBE_WAY_SESSION ? "empty_session" : "empty_multi";
	struct bpf_object *object = bpf_object__open_file(object_path, NULL);
	struct bpf_program *p;

	if (!object)
		return -errno;
	bpf_object__for_each_program(p, object)
	{
		bool wanted = !strcmp(bpf_program__name(p), name);

		bpf_program__set_autoload(p, wanted);
		bpf_program__set_expected_attach_type(p, way_attach_type(way));
		bpf_program__set_type(p, BPF_PROG_TYPE_KPROBE);
		if (wanted)
			*ret = p;
	}
	return bpf_object__load(object);
}

static long attach(int prog_fd, enum probe_way way, const char *path)
{
	static const int kinds[] = {LIB_CUDART, LIB_CUDA};
	cleanup_free struct probe_point *points = NULL;
	cleanup_free uint64_t *offsets = NULL;
	size_t n = 0, k = 0;
	int err = discover_points(path, kinds[!!strstr(path, "libcuda.so")], 12, &points, &n);

	if (err)
		return err;
	offsets = calloc(n + 1, sizeof(*offsets));
	for (size_t i = 0; offsets && i < n; i++)
		offsets[k++] = points[i].file_offset;
	if (way == PROBE_WAY_MULTI) {
		err = link_multi(prog_fd, way_attach_type(way), path, offsets, offsets, k, true);
		if (err < 0)
			return err;
	}
	err = link_multi(prog_fd, way_attach_type(way), path, offsets, offsets, k, false);
	return err < 0 ? err : (long)k;
}

int main(int argc, char **argv)
{
	struct bpf_program *prog = NULL;
	enum probe_way way = argc > 1 && !strcmp(argv[1], "multi") ? PROBE_WAY_MULTI : PROBE_WAY_SESSION;
	char byte;
	int err;

	if (argc < 4)
		return 2;
	err = load(argv[2], way, &prog);
	if (err || !prog) {
		fprintf(stderr, "empty_pair: %s: %s\n", argv[2], strerror(-err));
		return 1;
	}
	for (int i = 3; i < argc; i++) {
		long n = attach(bpf_program__fd(prog), way, argv[i]);

		if (n < 0) {
			fprintf(stderr, "empty_pair: %s: %s\n", argv[i], strerror((int)-n));
			return 1;
		}
	}
	puts("active");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}
