/* What waits for the writer thread: a ring of events and a list of everything else, both bounded. One
 * producer, one consumer. Internal to src/store. */
#ifndef INGERO_STORE_QUEUE_H
#define INGERO_STORE_QUEUE_H

#include "model/event.h"
#include "store/schema.h"

#include <pthread.h>

enum item_kind {
	ITEM_PROCESS,
	ITEM_KERNEL_NAME,
	ITEM_SYSTEM,
	ITEM_COUNTERS,
	ITEM_LOSS,
	ITEM_COVERAGE,
	ITEM_CLOCK,
};

struct item {
	struct item *next;
	enum item_kind kind;
	int64_t wall_ns;
	struct proc_id proc;
	union {
		struct process_info process;
		struct system_sample system;
		struct {
			uint16_t op;
			struct counter_row row;
		} counters;	/* blob = encoded histogram */
		uint64_t value; /* handle, loss, mono_ns */
	};
	const char *name, *note; /* into blob */
	size_t size;		 /* of blob */
	char blob[];
};

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t work, done;
	struct call_event *ring;
	size_t capacity, head, n; /* head = oldest */
	struct item *first, **last;
	size_t item_bytes;
	uint64_t arrived_ns; /* CLOCK_MONOTONIC of the oldest thing that waits; 0 = nothing does */
	uint64_t queued, dropped, dropped_items;
	uint64_t flush_wanted, flush_done;
	bool stop;
};

/* What one turn of the writer works on; events stay in the ring until queue_done. */
struct batch {
	size_t head, n;
	struct item *items;
	uint64_t flush;
	bool stop;
};

int queue_init(struct queue *q, size_t capacity);
void queue_free(struct queue *q);

void queue_add_event(struct queue *q, const struct call_event *e);
/* A zeroed item with `size` bytes of blob; NULL when there is no memory. */
struct item *item_new(enum item_kind kind, size_t size);
/* Takes the item (NULL = lost for want of memory); frees it when the queue is full. */
void queue_add_item(struct queue *q, struct item *it);
void items_free(struct item *it);

/* Waits for work: a full batch, something 100 ms old, a flush, the stop, or idle_ns without anything. */
void queue_wait(struct queue *q, uint64_t idle_ns, struct batch *ret);
/* Ends a turn: removes the first n_events from the ring; items (those not written) go back to the front. */
void queue_done(struct queue *q, const struct batch *b, size_t n_events, struct item *items);
static inline const struct call_event *batch_event(const struct queue *q, const struct batch *b, size_t i)
{
	return &q->ring[(b->head + i) % q->capacity];
}

void queue_flush(struct queue *q); /* waits until the writer has been through everything queued so far */
void queue_stop(struct queue *q);
uint64_t queue_now_ns(void);

#endif
