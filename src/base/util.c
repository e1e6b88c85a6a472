#include "base/util.h"

#include <errno.h>

int util_grow(void **array, size_t *capacity, size_t need, size_t size, size_t max)
{
	size_t n = *capacity ? *capacity : 8;
	void *p;

	if (need > max || !size || max > SIZE_MAX / 2 / size)
		return -E2BIG;
	if (need <= *capacity)
		return 0;
	while (n < need)
		n *= 2;
	n = MIN(n, max);
	p = realloc(*array, n * size);
	if (!p)
		return -ENOMEM;
	*array = p;
	*capacity = n;
	return 0;
}
