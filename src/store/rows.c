/* From queue to tables: events and what they refer to. Writer thread only. */
#include "store/internal.h"
#include "model/ops.h"

#define MINUTE_NS (60 * (int64_t)NSEC_PER_SEC)

/* ---- processes ---- */

static struct idmap_key proc_key(struct proc_id id)
{
	return (struct idmap_key){id.pid, id.start_ns};
}

static void free_procs(struct store *s)
{
	size_t pos = 0;
	void *p;

	while ((p = idmap_next(&s->procs, &pos)))
		free(p);
	idmap_free(&s->procs);
}

static struct proc_entry *proc_entry(struct store *s, struct proc_id id)
{
	struct proc_entry *p = idmap_get(&s->procs, proc_key(id));

	if (p)
		return p;
	if (s->procs.n >= PROC_MAX) {
		rows_flush_seen(s);
		free_procs(s); /* rows stay; entries come back from them */
	}
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->info.id = id;
	p->info.rank = p->info.local_rank = p->info.world_size = -1;
	if (idmap_put(&s->procs, proc_key(id), p)) {
		free(p);
		return NULL;
	}
	return p;
}

static void bind_or_null(sqlite3_stmt *st, int i, int32_t v)
{
	if (v < 0)
		sqlite3_bind_null(st, i);
	else
		sqlite3_bind_int(st, i, v);
}

/* Brings the row up to what is known. */
static int proc_write_info(struct store *s, const struct proc_entry *p)
{
	sqlite3_stmt *st = s->stmt[W_PROC_INFO];
	const struct process_info *info = &p->info;

	sqlite3_bind_int64(st, 1, p->row);
	sqlite3_bind_text(st, 2, info->comm, (int)strnlen(info->comm, COMM_LEN), SQLITE_STATIC);
	sqlite3_bind_int64(st, 3, info->uid);
	sqlite3_bind_int64(st, 4, info->ppid);
	sqlite3_bind_int64(st, 5, (int64_t)info->cgroup_id);
	bind_or_null(st, 6, info->rank);
	bind_or_null(st, 7, info->local_rank);
	bind_or_null(st, 8, info->world_size);
	return writer_step(s, W_PROC_INFO);
}

/* The row of a process, made when there is none. */
static int proc_row(struct store *s, struct proc_id id, int64_t wall_ns, struct proc_entry **ret)
{
	struct proc_entry *p = proc_entry(s, id);
	sqlite3_stmt *find = s->stmt[W_PROC_FIND];
	int rc = SQLITE_OK;

	if (!p)
		return SQLITE_NOMEM;
	if (!p->row) {
		sqlite3_bind_int64(find, 1, s->session);
		sqlite3_bind_int64(find, 2, id.pid);
		sqlite3_bind_int64(find, 3, (int64_t)id.start_ns);
		p->row = writer_i64(s, W_PROC_FIND, 0);
	}
	if (!p->row) {
		rc = db_run(s->stmt[W_PROC_ADD], "iiui", s->session, (int64_t)id.pid, id.start_ns, wall_ns);
		if (rc == SQLITE_OK) {
			p->row = sqlite3_last_insert_rowid(s->db);
			rc = proc_write_info(s, p);
		}
	}
	if (wall_ns > p->last_seen_ns) {
		p->last_seen_ns = wall_ns;
		p->seen_dirty = true;
	}
	s->newest_ns = MAX(s->newest_ns, wall_ns);
	*ret = p;
	return rc;
}

int rows_flush_seen(struct store *s)
{
	size_t pos = 0;
	struct proc_entry *p;
	int rc = SQLITE_OK;

	while (rc == SQLITE_OK && (p = idmap_next(&s->procs, &pos))) {
		if (!p->seen_dirty || !p->row)
			continue;
		rc = db_run(s->stmt[W_PROC_SEEN], "ii", p->row, p->last_seen_ns);
		p->seen_dirty = rc != SQLITE_OK;
	}
	return rc;
}

/* ---- streams, handles, geometry ---- */

static bool launch_empty(const struct launch_key *k)
{
	static const struct launch_key none;

	return !memcmp(k, &none, sizeof(none));
}

static size_t launch_set(const struct launch_key *k)
{
	uint64_t word, h = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < sizeof(*k); i += sizeof(word)) {
		memcpy(&word, (const char *)k + i, sizeof(word));
		h = (h ^ word) * 0x9e3779b97f4a7c15ull;
		h ^= h >> 29;
	}
	return h % (LAUNCH_SLOTS / LAUNCH_WAYS) * LAUNCH_WAYS;
}

/* The entry of these values, or the one that makes room for them. */
static struct launch_entry *launch_entry(struct store *s, const struct launch_key *k)
{
	struct launch_entry *set = &s->launches[launch_set(k)];

	for (size_t i = 0; i < LAUNCH_WAYS; i++) {
		if (!set[i].row || !memcmp(&set[i].key, k, sizeof(*k)))
			return &set[i];
	}
	return &set[s->launch_victim++ % LAUNCH_WAYS];
}

static int launch_row(struct store *s, const struct call_event *e, int64_t *ret_row)
{
	struct launch_key k = {.stream = e->stream, .exec = e->exec, .kernel = e->kernel};
	struct launch_entry *l;
	int rc;

	memcpy(k.grid, e->grid, sizeof(k.grid));
	memcpy(k.block, e->block, sizeof(k.block));
	*ret_row = 0;
	if (launch_empty(&k))
		return SQLITE_OK;
	l = launch_entry(s, &k);
	if (!l->row || memcmp(&l->key, &k, sizeof(k)) || e->wall_ns >= l->created_ns + s->launch_reuse_ns) {
		rc = db_run(s->stmt[W_LAUNCH], "iuuuiiiiii", e->wall_ns, k.stream, k.exec, k.kernel,
			(int64_t)k.grid[0], (int64_t)k.grid[1], (int64_t)k.grid[2], (int64_t)k.block[0],
			(int64_t)k.block[1], (int64_t)k.block[2]);
		if (rc != SQLITE_OK)
			return rc;
		*l = (struct launch_entry){k, sqlite3_last_insert_rowid(s->db), e->wall_ns};
	}
	*ret_row = l->row;
	return SQLITE_OK;
}

/* ---- events ---- */

/* An operation of no table gets a name of its own, so that joins with ops lose no row. */
static int op_known(struct store *s, uint16_t op)
{
	char name[48], source[96];
	int rc;

	if (s->known_ops[op / 64] >> (op % 64) & 1)
		return SQLITE_OK;
	s->known_ops[op / 64] |= 1ull << (op % 64);
	if (op_by_code(op))
		return SQLITE_OK;
	rc = db_run(s->stmt[W_OP_UNKNOWN], "iitt", (int64_t)OP_SOURCE(op), (int64_t)OP_ID(op),
		op_name(op, name, sizeof(name)), "operation this version does not know");
	if (rc != SQLITE_OK || source_by_id(OP_SOURCE(op)))
		return rc;
	snprintf(source, sizeof(source), "INSERT OR IGNORE INTO sources VALUES(%u, 'SRC_%u', '')",
		(unsigned)OP_SOURCE(op), (unsigned)OP_SOURCE(op));
	return db_exec(s->db, source);
}

/* One row was kept for this minute. */
static int count_stored(struct store *s, int64_t bucket, int64_t proc, uint16_t op)
{
	for (size_t i = s->n_stored; i-- > 0;) {
		struct stored_slot *slot = &s->stored[i];

		if (slot->op == op && slot->proc == proc && slot->bucket == bucket) {
			slot->n++;
			return SQLITE_OK;
		}
		if (s->n_stored - i > 64)
			break; /* far back: a second entry does no harm */
	}
	if (s->n_stored == STORED_SLOTS) {
		int rc = rows_flush_stored(s);

		if (rc != SQLITE_OK)
			return rc;
	}
	s->stored[s->n_stored++] = (struct stored_slot){bucket, proc, op, 1};
	return SQLITE_OK;
}

int rows_flush_stored(struct store *s)
{
	int rc = SQLITE_OK;

	for (size_t i = 0; i < s->n_stored && rc == SQLITE_OK; i++) {
		const struct stored_slot *slot = &s->stored[i];

		rc = db_run(s->stmt[W_STORED], "iiii", slot->bucket, slot->proc, (int64_t)slot->op,
			(int64_t)slot->n);
	}
	if (rc == SQLITE_OK)
		s->n_stored = 0;
	return rc;
}

static bool is_graph(uint16_t op)
{
	const struct op_info *info = op_by_code(op);

	return OP_SOURCE(op) == SOURCE_GRAPH || (info && info->category == OPCAT_GRAPH);
}

/* Arguments that only repeat the kernel, stream or handle are left out: the views put them back. */
static void bind_arguments(sqlite3_stmt *st, const struct call_event *e)
{
	uint64_t same = e->kernel ? e->kernel : e->stream ? e->stream : e->handle;

	if (same && e->arg0 == same)
		sqlite3_bind_null(st, 11);
	else
		sqlite3_bind_int64(st, 11, (int64_t)e->arg0);
	if (e->handle && e->arg1 == e->handle)
		sqlite3_bind_null(st, 12);
	else
		sqlite3_bind_int64(st, 12, (int64_t)e->arg1);
	sqlite3_bind_int64(st, 13, (int64_t)e->handle);
}

static void bind_event(
	struct store *s, const struct call_event *e, const struct proc_entry *p, int64_t launch)
{
	sqlite3_stmt *st = s->stmt[W_EVENT];

	sqlite3_bind_int64(st, 2, p->row);
	sqlite3_bind_int64(st, 3, (int64_t)e->tid - (int64_t)e->proc.pid);
	sqlite3_bind_int(st, 4, e->op);
	sqlite3_bind_int64(st, 5, (int64_t)e->dur_ns);
	sqlite3_bind_int(st, 6, e->ret);
	sqlite3_bind_int(st, 7, e->depth);
	sqlite3_bind_int(st, 8, e->flags | (is_graph(e->op) ? EVENT_FLAG_GRAPH : 0));
	sqlite3_bind_int64(st, 9, e->reason);
	sqlite3_bind_int64(st, 10, e->weight);
	bind_arguments(st, e);
	sqlite3_bind_int64(st, 14, launch);
	sqlite3_bind_int(st, 15, 0);
}

/* Where to look next for a free nanosecond: the neighbours, then (a coarse clock) ever further off. */
static int64_t next_ts(const struct store *s, int64_t wanted, int tries)
{
	uint64_t x = ((uint64_t)s->event_rows + s->written_now) * 0x9e3779b97f4a7c15ull + (uint64_t)tries;

	if (tries < 8)
		return wanted + tries + 1;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	return wanted + (int64_t)((x ^ x >> 27) & ((1ull << MIN(tries, 24)) - 1));
}

/* The key is the start time. Calls that start in the same nanosecond move a little. */
static int insert_event(struct store *s, const struct call_event *e)
{
	sqlite3_stmt *st = s->stmt[W_EVENT];
	int64_t wanted = MIN(e->wall_ns, INT64_MAX - (1 << 25)), ts = wanted;
	int rc = SQLITE_CONSTRAINT;

	for (int tries = 0; tries < 64 && (rc & 0xff) == SQLITE_CONSTRAINT; tries++) {
		sqlite3_bind_int64(st, 1, ts);
		if (e->mono_ns)
			sqlite3_bind_int64(
				st, 16, (int64_t)(e->mono_ns - (uint64_t)ts + (uint64_t)s->clock_offset_ns));
		else
			sqlite3_bind_null(st, 16);
		rc = writer_step(s, W_EVENT);
		ts = next_ts(s, wanted, tries);
	}
	return rc;
}

int rows_event(struct store *s, const struct call_event *e)
{
	struct proc_entry *p;
	int64_t launch;
	int rc = proc_row(s, e->proc, e->wall_ns, &p);

	if (rc == SQLITE_OK)
		rc = launch_row(s, e, &launch);
	if (rc == SQLITE_OK)
		rc = op_known(s, e->op);
	if (rc != SQLITE_OK)
		return rc;
	bind_event(s, e, p, launch);
	rc = insert_event(s, e);
	if (rc == SQLITE_OK) {
		s->written_now++;
		rc = count_stored(s, e->wall_ns / MINUTE_NS * 60, p->row, e->op);
	}
	return rc;
}

/* ---- the rest ---- */

static int process_item(struct store *s, const struct item *it)
{
	struct proc_entry *p = proc_entry(s, it->process.id);

	if (!p)
		return SQLITE_NOMEM;
	p->info = it->process;
	if (p->row)
		return proc_write_info(s, p);
	return proc_row(s, it->process.id, it->wall_ns, &p);
}

int rows_item(struct store *s, const struct item *it)
{
	struct proc_entry *p = NULL;
	int rc = SQLITE_OK;

	if (it->kind == ITEM_KERNEL_NAME || it->kind == ITEM_COUNTERS || it->kind == ITEM_COVERAGE)
		rc = proc_row(s, it->proc, it->wall_ns, &p);
	if (rc != SQLITE_OK)
		return rc;
	switch (it->kind) {
	case ITEM_PROCESS:
		return process_item(s, it);
	case ITEM_KERNEL_NAME:
		return db_run(s->stmt[W_KERNEL_NAME], "iut", p->row, it->value, it->name);
	case ITEM_COUNTERS:
		rc = op_known(s, it->counters.op);
		return rc == SQLITE_OK ? counters_add(s, it->wall_ns, p->row, it->counters.op, it) : rc;
	case ITEM_LOSS:
		return db_run(s->stmt[W_LOSS], "iitu", it->wall_ns / MINUTE_NS * 60, s->session, it->name,
			it->value);
	case ITEM_SYSTEM:
		return db_run(s->stmt[W_SYSTEM], "iddiidii", it->system.wall_ns, it->system.cpu_pct,
			it->system.mem_pct, (int64_t)it->system.mem_avail_mb, (int64_t)it->system.swap_mb,
			it->system.load1, (int64_t)it->system.mem_total_mb, s->session);
	case ITEM_COVERAGE:
		return db_run(s->stmt[W_COVERAGE], "iitt", p->row, it->wall_ns, it->name, it->note);
	case ITEM_CLOCK:
		return db_run(s->stmt[W_CLOCK], "iui", it->wall_ns, it->value, s->session);
	}
	return SQLITE_OK;
}

void rows_forget(struct store *s)
{
	size_t pos = 0;
	struct proc_entry *p;

	while ((p = idmap_next(&s->procs, &pos)))
		p->row = 0;
	memset(s->launches, 0, LAUNCH_SLOTS * sizeof(*s->launches));
	memset(s->known_ops, 0, sizeof(s->known_ops));
}

void rows_free(struct store *s)
{
	free_procs(s);
	free(s->launches);
	free(s->stored);
	s->launches = NULL;
	s->stored = NULL;
}
