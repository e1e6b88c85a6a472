#include "store/queue.h"

#include <errno.h>
#include <time.h>

#define BATCH_EVENTS 4096
#define BATCH_MAX_EVENTS 16384
#define BATCH_AGE_NS (100 * NSEC_PER_MSEC)
#define ITEMS_MAX_BYTES (32u << 20)

uint64_t queue_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

int queue_init(struct queue *q, size_t capacity)
{
	pthread_condattr_t attr;

	memset(q, 0, sizeof(*q));
	q->capacity = capacity;
	q->ring = calloc(capacity, sizeof(*q->ring));
	if (!q->ring)
		return -ENOMEM;
	q->last = &q->first;
	pthread_mutex_init(&q->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&q->work, &attr);
	pthread_cond_init(&q->done, &attr);
	pthread_condattr_destroy(&attr);
	return 0;
}

void queue_free(struct queue *q)
{
	if (!q->ring)
		return;
	items_free(q->first);
	free(q->ring);
	q->ring = NULL;
	pthread_cond_destroy(&q->work);
	pthread_cond_destroy(&q->done);
	pthread_mutex_destroy(&q->lock);
}

/* Locked. Wakes the writer when it has nothing yet, or when a batch is full. */
static void arrived(struct queue *q)
{
	if (!q->arrived_ns) {
		q->arrived_ns = queue_now_ns();
		pthread_cond_signal(&q->work);
	} else if (q->n == BATCH_EVENTS) {
		pthread_cond_signal(&q->work);
	}
}

void queue_add_event(struct queue *q, const struct call_event *e)
{
	pthread_mutex_lock(&q->lock);
	if (q->n == q->capacity) {
		q->dropped++;
	} else {
		q->ring[(q->head + q->n++) % q->capacity] = *e;
		q->queued++;
		arrived(q);
	}
	pthread_mutex_unlock(&q->lock);
}

struct item *item_new(enum item_kind kind, size_t size)
{
	struct item *it = calloc(1, sizeof(*it) + size);

	if (it) {
		it->kind = kind;
		it->size = size;
	}
	return it;
}

void items_free(struct item *it)
{
	while (it) {
		struct item *next = it->next;

		free(it);
		it = next;
	}
}

static size_t item_bytes(const struct item *it)
{
	return sizeof(*it) + it->size;
}

void queue_add_item(struct queue *q, struct item *it)
{
	bool full;

	pthread_mutex_lock(&q->lock);
	full = !it || q->item_bytes + item_bytes(it) > ITEMS_MAX_BYTES;
	if (full) {
		q->dropped_items++;
	} else {
		q->item_bytes += item_bytes(it);
		*q->last = it;
		q->last = &it->next;
		arrived(q);
	}
	pthread_mutex_unlock(&q->lock);
	if (full)
		free(it);
}

static void wait_until(struct queue *q, uint64_t deadline_ns)
{
	struct timespec ts = {(time_t)(deadline_ns / NSEC_PER_SEC), (long)(deadline_ns % NSEC_PER_SEC)};

	pthread_cond_timedwait(&q->work, &q->lock, &ts);
}

static bool urgent(const struct queue *q)
{
	return q->stop || q->flush_wanted != q->flush_done || q->n >= BATCH_EVENTS;
}

void queue_wait(struct queue *q, uint64_t idle_ns, struct batch *ret)
{
	uint64_t start_ns = queue_now_ns();

	pthread_mutex_lock(&q->lock);
	while (!urgent(q)) {
		uint64_t deadline_ns = q->arrived_ns ? q->arrived_ns + BATCH_AGE_NS : start_ns + idle_ns;

		if (queue_now_ns() >= deadline_ns)
			break;
		wait_until(q, deadline_ns);
	}
	*ret = (struct batch){
		.head = q->head,
		.n = MIN(q->n, (size_t)BATCH_MAX_EVENTS),
		.items = q->first,
		.flush = q->flush_wanted,
		.stop = q->stop,
	};
	q->first = NULL;
	q->last = &q->first;
	q->item_bytes = 0;
	if (ret->n == q->n)
		q->arrived_ns = 0;
	pthread_mutex_unlock(&q->lock);
}

static void put_back(struct queue *q, struct item *items)
{
	struct item **end = &items;

	while (*end) {
		q->item_bytes += item_bytes(*end);
		end = &(*end)->next;
	}
	*end = q->first;
	if (!q->first)
		q->last = end;
	q->first = items;
}

void queue_done(struct queue *q, const struct batch *b, size_t n_events, struct item *items)
{
	pthread_mutex_lock(&q->lock);
	q->head = (q->head + n_events) % q->capacity;
	q->n -= n_events;
	if (items)
		put_back(q, items);
	if ((q->n || q->first) && !q->arrived_ns)
		q->arrived_ns = queue_now_ns();
	/* a flush is done when nothing of before it is left, or when what is left cannot be written now */
	if (n_events == b->n && (b->n < BATCH_MAX_EVENTS || !q->n)) {
		q->flush_done = b->flush;
		pthread_cond_broadcast(&q->done);
	}
	pthread_mutex_unlock(&q->lock);
}

void queue_flush(struct queue *q)
{
	uint64_t wanted;

	pthread_mutex_lock(&q->lock);
	wanted = ++q->flush_wanted;
	pthread_cond_signal(&q->work);
	while (q->flush_done < wanted && !q->stop)
		pthread_cond_wait(&q->done, &q->lock);
	pthread_mutex_unlock(&q->lock);
}

void queue_stop(struct queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->stop = true;
	pthread_cond_signal(&q->work);
	pthread_cond_broadcast(&q->done);
	pthread_mutex_unlock(&q->lock);
}
