/* Handles (a fixed array, so that any pointer can be checked without reading it) and the table of
 * allocations. */
#include "sim/driver.h"

#include <sys/mman.h>

#define MAX_OBJECTS 65536
#define DEVICE_BASE 0x0d0000000000ull /* away from where Linux puts programs, libraries and stacks */
#define DEVICE_ALIGN 512ull
#define MIN_SLOTS 1024ull

struct slot {
	CUdeviceptr ptr; /* 0 = empty */
	uint64_t bytes;
	int kind;
};

static struct obj objects[MAX_OBJECTS];
static struct obj *free_objects;
static unsigned n_objects; /* ever used */

static struct slot *slots;
static uint64_t n_slots, n_used;
static uint64_t next_ptr = DEVICE_BASE;
static uint64_t bytes_used, bytes_total = 16ull << 30;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void mem_fork(enum sim_fork when)
{
	sim_fork_lock(&lock, when);
}

/* ---- handles ---- */

int obj_new(enum obj_kind kind, const char *name, void **ret_handle)
{
	char *copy = name ? strdup(name) : NULL;
	struct obj *o;

	if (!ret_handle || (name && !copy)) {
		free(copy);
		return ret_handle ? CU_OUT_OF_MEMORY : CU_INVALID_VALUE;
	}
	pthread_mutex_lock(&lock);
	o = free_objects;
	if (o)
		free_objects = o->link;
	else if (n_objects < MAX_OBJECTS)
		o = &objects[n_objects++];
	pthread_mutex_unlock(&lock);
	if (!o) {
		free(copy);
		return CU_OUT_OF_MEMORY;
	}
	o->n_nodes = 0;
	o->ready_ns = 0;
	o->link = NULL;
	o->name = copy;
	atomic_store_explicit(&o->kind, (int)kind, memory_order_release);
	*ret_handle = o;
	return 0;
}

struct obj *obj_get(const void *handle, enum obj_kind kind)
{
	uintptr_t offset = (uintptr_t)handle - (uintptr_t)objects;
	struct obj *o;

	if (offset >= sizeof(objects) || offset % sizeof(*o))
		return NULL;
	o = &objects[offset / sizeof(*o)];
	return atomic_load_explicit(&o->kind, memory_order_acquire) == (int)kind ? o : NULL;
}

int obj_delete(const void *handle, enum obj_kind kind)
{
	struct obj *o = obj_get(handle, kind);
	int expected = (int)kind;

	if (!o || !atomic_compare_exchange_strong(&o->kind, &expected, OBJ_FREE))
		return CU_INVALID_HANDLE;
	free(o->name);
	o->name = NULL;
	pthread_mutex_lock(&lock);
	o->link = free_objects;
	free_objects = o;
	pthread_mutex_unlock(&lock);
	return 0;
}

/* ---- memory ---- */

static uint64_t home(CUdeviceptr ptr)
{
	return (ptr * 0x9e3779b97f4a7c15ull >> 20) & (n_slots - 1);
}

static void place(struct slot s)
{
	uint64_t i = home(s.ptr);

	while (slots[i].ptr)
		i = (i + 1) & (n_slots - 1);
	slots[i] = s;
}

static struct slot *find(CUdeviceptr ptr)
{
	for (uint64_t i = n_slots ? home(ptr) : 0; n_slots && slots[i].ptr; i = (i + 1) & (n_slots - 1)) {
		if (slots[i].ptr == ptr)
			return &slots[i];
	}
	return NULL;
}

static int reserve(void)
{
	struct slot *old = slots;
	uint64_t n_old = n_slots;

	if (n_used * 2 < n_slots)
		return 0;
	slots = calloc(n_old ? n_old * 2 : MIN_SLOTS, sizeof(*slots));
	if (!slots) {
		slots = old;
		return CU_OUT_OF_MEMORY;
	}
	n_slots = n_old ? n_old * 2 : MIN_SLOTS;
	for (uint64_t i = 0; i < n_old; i++) {
		if (old[i].ptr)
			place(old[i]);
	}
	free(old);
	return 0;
}

/* Open addressing without tombstones: whatever could have stood in the hole moves into it. */
static void remove_slot(struct slot *s)
{
	uint64_t hole = (uint64_t)(s - slots);

	for (uint64_t i = (hole + 1) & (n_slots - 1); slots[i].ptr; i = (i + 1) & (n_slots - 1)) {
		uint64_t from_home = (i - home(slots[i].ptr)) & (n_slots - 1);

		if (from_home >= ((i - hole) & (n_slots - 1))) {
			slots[hole] = slots[i];
			hole = i;
		}
	}
	slots[hole].ptr = 0;
	n_used--;
}

static int insert(struct slot s)
{
	int rc = reserve();

	if (rc)
		return rc;
	if (find(s.ptr))
		return CU_INVALID_VALUE;
	place(s);
	n_used++;
	return 0;
}

static int alloc_device(size_t bytes, int kind, CUdeviceptr *ret_ptr)
{
	int rc = CU_OUT_OF_MEMORY;

	pthread_mutex_lock(&lock);
	if (kind == MEM_RANGE || bytes <= bytes_total - bytes_used) {
		rc = insert((struct slot){next_ptr, bytes, kind});
		if (!rc) {
			*ret_ptr = next_ptr;
			next_ptr += (bytes + DEVICE_ALIGN - 1) & ~(DEVICE_ALIGN - 1);
			bytes_used += kind == MEM_DEVICE ? bytes : 0;
		}
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

static int remember(CUdeviceptr ptr, size_t bytes, int kind)
{
	int rc;

	pthread_mutex_lock(&lock);
	rc = insert((struct slot){ptr, bytes, kind});
	pthread_mutex_unlock(&lock);
	return rc;
}

int mem_alloc(enum mem_kind kind, size_t bytes, CUdeviceptr *ret_ptr)
{
	void *p;
	int rc;

	if (!ret_ptr || !bytes || bytes > 1ull << 46)
		return ret_ptr && bytes ? CU_OUT_OF_MEMORY : CU_INVALID_VALUE;
	if (kind != MEM_HOST)
		return alloc_device(bytes, (int)kind, ret_ptr);
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return CU_OUT_OF_MEMORY;
	rc = remember((uintptr_t)p, bytes, MEM_HOST);
	if (rc) {
		munmap(p, bytes);
		return rc;
	}
	*ret_ptr = (uintptr_t)p;
	return 0;
}

int mem_register(const void *ptr, size_t bytes)
{
	return ptr && bytes ? remember((uintptr_t)ptr, bytes, MEM_REGISTERED) : CU_INVALID_VALUE;
}

int mem_free(enum mem_kind kind, CUdeviceptr ptr)
{
	struct slot gone = {.ptr = 0};
	struct slot *s;

	if (!ptr)
		return 0;
	pthread_mutex_lock(&lock);
	s = find(ptr);
	if (s && (s->kind == (int)kind || (kind == MEM_DEVICE && s->kind == MEM_HOST))) {
		gone = *s;
		bytes_used -= s->kind == MEM_DEVICE ? s->bytes : 0;
		remove_slot(s);
	}
	pthread_mutex_unlock(&lock);
	if (!gone.ptr)
		return CU_INVALID_VALUE;
	if (gone.kind == MEM_HOST)
		munmap((void *)(uintptr_t)gone.ptr, gone.bytes);
	return 0;
}

int mem_size(CUdeviceptr ptr, size_t *ret_bytes)
{
	struct slot *s;
	int rc = CU_INVALID_VALUE;

	pthread_mutex_lock(&lock);
	s = find(ptr);
	if (s) {
		*ret_bytes = s->bytes;
		rc = 0;
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

void mem_info(size_t *ret_free, size_t *ret_total)
{
	pthread_mutex_lock(&lock);
	if (ret_free)
		*ret_free = bytes_total - bytes_used;
	if (ret_total)
		*ret_total = bytes_total;
	pthread_mutex_unlock(&lock);
}

void mem_set_total(uint64_t bytes)
{
	pthread_mutex_lock(&lock);
	bytes_total = MAX(bytes, bytes_used);
	pthread_mutex_unlock(&lock);
}
