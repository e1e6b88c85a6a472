/* Rows of a recording, oldest first: one column list for both kinds of files. */
#include "store/reader_internal.h"

#include <errno.h>

enum row_column {
	COL_START,
	COL_ID,
	COL_MONO,
	COL_DUR,
	COL_PID,
	COL_PROC_START,
	COL_TID,
	COL_OP,
	COL_RET,
	COL_DEPTH,
	COL_FLAGS,
	COL_REASON,
	COL_WEIGHT,
	COL_ARG0,
	COL_ARG1,
	COL_HANDLE,
	COL_STREAM,
	COL_EXEC,
	COL_KERNEL,
	COL_GRID_X,
	COL_GRID_Y,
	COL_GRID_Z,
	COL_BLOCK_X,
	COL_BLOCK_Y,
	COL_BLOCK_Z,
	COL_COMM,
	COL_NODE,
	COL_RANK,
	COL_CGROUP,
	COL_GPU,
	COL_KERNEL_NAME,
	COL_STACK,
	COL_COUNT
};

#define NOT_THERE (-1)
#define ALWAYS (-2)

/* Long names for the frames' short keys; absent keys stay absent (a merge patch drops nulls). Addresses alone
 * become frames with nothing but an ip. */
#define STACK(frames)                                                                                        \
	"(SELECT json_group_array(json_patch('{}', CASE type WHEN 'object' THEN json_object('ip', value "    \
	"->> 'i',"                                                                                           \
	" 'symbol', value ->> 's', 'file', value ->> 'f', 'line', value ->> 'l', 'py_file', value ->> 'pf'," \
	" 'py_func', value ->> 'pfn', 'py_line', value ->> 'pl') ELSE json_object('ip', value) END))"        \
	" FROM json_each(CASE WHEN json_valid(" frames ") THEN " frames " ELSE '[]' END))"

static const struct {
	const char *ours, *reference; /* reference NULL = 0 */
	int needs;		      /* enum ref_column the reference's expression needs */
} columns[COL_COUNT] = {
	[COL_START] = {"e.ts", REF_START, ALWAYS},
	[COL_ID] = {"coalesce(s.node, '') || ':' || e.ts", "e.id", ALWAYS},
	[COL_MONO] = {"e.ts - s.clock_offset + e.mono_adj", NULL, NOT_THERE},
	[COL_DUR] = {"e.dur", "e.duration", ALWAYS},
	[COL_PID] = {"p.pid", "e.pid", ALWAYS},
	[COL_PROC_START] = {"p.start_ns", NULL, NOT_THERE},
	[COL_TID] = {"p.pid + e.tid_off", "e.tid", ALWAYS},
	[COL_OP] = {"e.op", "(e.source << 8 | e.op)", ALWAYS},
	[COL_RET] = {"e.ret", "e.ret_code", REF_RET},
	[COL_DEPTH] = {"e.depth", NULL, NOT_THERE},
	[COL_FLAGS] = {"e.flags & 255", NULL, NOT_THERE},
	[COL_REASON] = {"e.reason", NULL, NOT_THERE},
	[COL_WEIGHT] = {"e.weight", "1", ALWAYS},
	[COL_ARG0] = {"CASE WHEN e.arg0 IS NOT NULL THEN e.arg0 WHEN l.kernel <> 0 THEN l.kernel"
		      " WHEN l.stream <> 0 THEN l.stream ELSE e.handle END",
		"e.arg0", REF_ARG0},
	[COL_ARG1] = {"coalesce(e.arg1, e.handle)", "e.arg1", REF_ARG1},
	[COL_HANDLE] = {"e.handle", NULL, NOT_THERE},
	[COL_STREAM] = {"l.stream", NULL, NOT_THERE},
	[COL_EXEC] = {"l.exec", NULL, NOT_THERE},
	[COL_KERNEL] = {"l.kernel", NULL, NOT_THERE},
	[COL_GRID_X] = {"l.grid_x", NULL, NOT_THERE},
	[COL_GRID_Y] = {"l.grid_y", NULL, NOT_THERE},
	[COL_GRID_Z] = {"l.grid_z", NULL, NOT_THERE},
	[COL_BLOCK_X] = {"l.block_x", NULL, NOT_THERE},
	[COL_BLOCK_Y] = {"l.block_y", NULL, NOT_THERE},
	[COL_BLOCK_Z] = {"l.block_z", NULL, NOT_THERE},
	[COL_COMM] = {"p.comm", NULL, NOT_THERE}, /* the reference: see comm_expression */
	[COL_NODE] = {"s.node", "e.node", REF_NODE},
	[COL_RANK] = {"coalesce(p.rank, -1)", "coalesce(e.rank, -1)", REF_RANK},
	[COL_CGROUP] = {"p.cgroup_id", "e.cgroup_id", REF_CGROUP},
	[COL_GPU] = {"0", "e.gpu_id", REF_GPU},
	[COL_KERNEL_NAME] = {"k.name", "''", ALWAYS},
	[COL_STACK] = {"CASE WHEN st.id THEN " STACK("st.frames") " ELSE '' END", NULL, NOT_THERE},
};

static void ref_comm(const struct reader *r, struct strbuf *sql)
{
	const char *name = r->has_names ? "pn.name" : "''";

	if (r->has[REF_COMM])
		strbuf_addf(sql, "CASE WHEN e.comm <> '' THEN e.comm ELSE %s END", name);
	else
		strbuf_adds(sql, name);
}

static void ref_stack(const struct reader *r, struct strbuf *sql)
{
	strbuf_adds(sql, "CASE");
	if (r->has_frames)
		strbuf_adds(sql, " WHEN st.frames <> '' THEN " STACK("st.frames"));
	if (r->has_stacks)
		strbuf_adds(sql, " WHEN st.ips <> '' THEN " STACK("st.ips"));
	if (r->has[REF_STACK_IPS])
		strbuf_adds(sql, " WHEN e.stack_ips <> '' THEN " STACK("e.stack_ips"));
	strbuf_adds(sql, " WHEN 1 THEN '' END");
}

static void add_columns(const struct reader *r, struct strbuf *sql)
{
	for (int i = 0; i < COL_COUNT; i++) {
		const char *ref = columns[i].reference;
		int needs = columns[i].needs;

		if (i)
			strbuf_adds(sql, ", ");
		if (r->ours)
			strbuf_adds(sql, columns[i].ours);
		else if (i == COL_COMM)
			ref_comm(r, sql);
		else if (i == COL_STACK)
			ref_stack(r, sql);
		else
			strbuf_adds(sql, ref && (needs == ALWAYS || (needs >= 0 && r->has[needs])) ? ref
					 : i == COL_RANK					   ? "-1"
												   : "0");
		if (i == COL_START)
			strbuf_adds(sql, " AS start");
	}
}

static void add_from(const struct reader *r, struct strbuf *sql)
{
	if (r->ours) {
		strbuf_adds(sql, " FROM event e LEFT JOIN proc p ON p.id = e.proc LEFT JOIN sessions s ON "
				 "s.id = p.session"
				 " LEFT JOIN launch l ON l.id = e.launch"
				 " LEFT JOIN kernel_name k ON k.proc = e.proc AND k.handle = l.kernel"
				 " LEFT JOIN stack st ON st.id = e.stack WHERE 1");
		return;
	}
	strbuf_adds(sql, " FROM events e");
	if (r->has_stacks)
		strbuf_adds(sql, " LEFT JOIN stack_traces st ON st.hash = e.stack_hash");
	if (r->has_names)
		strbuf_adds(sql, " LEFT JOIN process_names pn ON pn.pid = e.pid");
	strbuf_adds(sql, " WHERE 1");
}

static void build_sql(const struct reader *r, const struct reader_filter *f, struct strbuf *sql)
{
	const char *order = r->ours ? "e.ts" : "start";

	strbuf_adds(sql, "SELECT * FROM (SELECT ");
	add_columns(r, sql);
	add_from(r, sql);
	reader_add_filter(r, f, sql);
	if (f->limit >= 0)
		strbuf_addf(sql, " ORDER BY %s DESC, e.rowid DESC LIMIT %lld", order, (long long)f->limit);
	strbuf_adds(sql, f->limit >= 0 ? ") ORDER BY start"
			 : r->ours     ? " ORDER BY e.ts)"
				       : ") ORDER BY start");
}

static void read_row(sqlite3_stmt *st, struct reader_event *ev)
{
	static const int grid[] = {COL_GRID_X, COL_GRID_Y, COL_GRID_Z},
			 block[] = {COL_BLOCK_X, COL_BLOCK_Y, COL_BLOCK_Z};

	memset(ev, 0, sizeof(*ev));
	ev->e = (struct call_event){
		.wall_ns = sqlite3_column_int64(st, COL_START),
		.mono_ns = db_u64(st, COL_MONO),
		.dur_ns = (uint64_t)MAX(sqlite3_column_int64(st, COL_DUR), 0),
		.proc = {(uint32_t)db_u64(st, COL_PID), db_u64(st, COL_PROC_START)},
		.tid = (uint32_t)db_u64(st, COL_TID),
		.op = (uint16_t)db_u64(st, COL_OP),
		.ret = sqlite3_column_int(st, COL_RET),
		.depth = (uint8_t)sqlite3_column_int(st, COL_DEPTH),
		.flags = (uint16_t)sqlite3_column_int(st, COL_FLAGS),
		.reason = (uint32_t)db_u64(st, COL_REASON),
		.weight = (uint32_t)db_u64(st, COL_WEIGHT),
		.arg0 = db_u64(st, COL_ARG0),
		.arg1 = db_u64(st, COL_ARG1),
		.handle = db_u64(st, COL_HANDLE),
		.stream = db_u64(st, COL_STREAM),
		.exec = db_u64(st, COL_EXEC),
		.kernel = db_u64(st, COL_KERNEL),
	};
	for (int i = 0; i < 3; i++) {
		ev->e.grid[i] = (uint32_t)db_u64(st, grid[i]);
		ev->e.block[i] = (uint32_t)db_u64(st, block[i]);
	}
	snprintf(ev->id, sizeof(ev->id), "%s", db_text(st, COL_ID));
	ev->comm = db_text(st, COL_COMM);
	ev->node = sqlite3_column_type(st, COL_NODE) == SQLITE_TEXT ? db_text(st, COL_NODE) : "";
	ev->kernel_name = db_text(st, COL_KERNEL_NAME);
	ev->stack_json = db_text(st, COL_STACK);
	ev->cgroup_id = db_u64(st, COL_CGROUP);
	ev->gpu_id = sqlite3_column_int(st, COL_GPU);
	ev->rank = sqlite3_column_int(st, COL_RANK);
}

int reader_events(struct reader *r, const struct reader_filter *f, reader_event_fn fn, void *ctx)
{
	cleanup_strbuf struct strbuf sql = STRBUF_INIT(1 << 20);
	cleanup_stmt sqlite3_stmt *st = NULL;
	struct reader_event ev;
	int rc, e = reader_refresh(r);

	if (e)
		return e;
	build_sql(r, f, &sql);
	if (sql.error)
		return sql.error;
	rc = db_prepare(r->ro.db, strbuf_str(&sql), &st);
	if (rc != SQLITE_OK)
		return db_errno(rc);
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		read_row(st, &ev);
		e = fn(ctx, &ev);
		if (e)
			return e;
	}
	if (rc != SQLITE_DONE)
		return db_errno(rc);
	return ro_changed(&r->ro) ? -EAGAIN : 0;
}

int reader_exceeds_limit(struct reader *r, const struct reader_filter *f, bool *ret_more)
{
	cleanup_strbuf struct strbuf sql = STRBUF_INIT(1 << 20);
	int64_t n = 0;
	int rc, e = reader_refresh(r);

	*ret_more = false;
	if (e || f->limit < 0)
		return e;
	strbuf_adds(&sql, "SELECT count(*) FROM (SELECT 1");
	strbuf_adds(&sql, r->ours ? " FROM event e LEFT JOIN proc p ON p.id = e.proc WHERE 1"
				  : " FROM events e WHERE 1");
	reader_add_filter(r, f, &sql);
	strbuf_addf(&sql, " LIMIT %lld)", (long long)f->limit + 1);
	if (sql.error)
		return sql.error;
	rc = db_i64(r->ro.db, strbuf_str(&sql), &n);
	*ret_more = n > f->limit;
	return db_errno(rc);
}
