#include "store/schema.h"
#include "model/ops.h"

#define TEXT_COLUMN " TEXT NOT NULL DEFAULT ''"
#define COUNT_COLUMN " INTEGER NOT NULL DEFAULT 0"
#define POSITIVE "9223372036854775807" /* readers of the reference fail on negative values */

#define X(name) #name COUNT_COLUMN ","
#define COUNTER_TABLE(name)                                                                                  \
	"CREATE TABLE " name                                                                                 \
	"(bucket INTEGER NOT NULL, proc INTEGER NOT NULL, op INTEGER NOT NULL," SCHEMA_COUNTERS(             \
		X) "stored" COUNT_COLUMN                                                                     \
		   ", hist BLOB NOT NULL DEFAULT x'', PRIMARY KEY (bucket, proc, op)) WITHOUT ROWID;"

static const char base_tables[] =
	"CREATE TABLE sessions(id INTEGER PRIMARY KEY, started_at INTEGER NOT NULL, stopped_at" COUNT_COLUMN
	", gpu_model" TEXT_COLUMN ", gpu_driver" TEXT_COLUMN ", cpu_model" TEXT_COLUMN
	", cpu_cores" COUNT_COLUMN ", mem_total" COUNT_COLUMN ", kernel" TEXT_COLUMN
	", os_release" TEXT_COLUMN ", cuda_ver" TEXT_COLUMN ", python_ver" TEXT_COLUMN
	", ingero_ver" TEXT_COLUMN ", pid_filter" TEXT_COLUMN ", flags" TEXT_COLUMN ", node" TEXT_COLUMN
	", rank INTEGER, local_rank INTEGER, world_size INTEGER"
	", state TEXT NOT NULL DEFAULT 'running', reason" TEXT_COLUMN ", last_seen" COUNT_COLUMN
	", written" COUNT_COLUMN ", dropped_queue" COUNT_COLUMN ", dropped_disk" COUNT_COLUMN
	", pruned" COUNT_COLUMN ", clock_offset" COUNT_COLUMN ", writer_pid" COUNT_COLUMN
	", pid_namespace" COUNT_COLUMN ", boot_id" TEXT_COLUMN ");"
	"CREATE TABLE proc(id INTEGER PRIMARY KEY, session INTEGER NOT NULL, pid INTEGER NOT NULL,"
	" start_ns INTEGER NOT NULL, comm" TEXT_COLUMN ", uid INTEGER, ppid INTEGER, cgroup_id" COUNT_COLUMN
	", rank INTEGER, local_rank INTEGER, world_size INTEGER, last_seen" COUNT_COLUMN
	", UNIQUE (session, pid, start_ns));"
	"CREATE TABLE launch(id INTEGER PRIMARY KEY, created INTEGER NOT NULL, stream INTEGER, exec INTEGER,"
	" kernel INTEGER, grid_x INTEGER, grid_y INTEGER, grid_z INTEGER, block_x INTEGER, block_y INTEGER,"
	" block_z INTEGER);"
	"CREATE TABLE kernel_name(proc INTEGER NOT NULL, handle INTEGER NOT NULL, name TEXT NOT NULL,"
	" PRIMARY KEY (proc, handle)) WITHOUT ROWID;"
	"CREATE TABLE stack(id INTEGER PRIMARY KEY, hash INTEGER NOT NULL UNIQUE, ips" TEXT_COLUMN
	", frames" TEXT_COLUMN ");"
	"CREATE TABLE event(ts INTEGER PRIMARY KEY, proc INTEGER, tid_off INTEGER, op INTEGER, dur INTEGER, "
	"ret INTEGER,"
	" depth INTEGER, flags INTEGER, reason INTEGER, weight INTEGER, arg0 INTEGER, arg1 INTEGER, handle "
	"INTEGER,"
	" launch INTEGER, stack INTEGER, mono_adj INTEGER);"
	"CREATE INDEX event_slow ON event(dur) WHERE reason & 64;" COUNTER_TABLE("counter_10s")
		COUNTER_TABLE("counter_minute") "CREATE TABLE loss(bucket INTEGER NOT NULL, session INTEGER "
						"NOT NULL, name TEXT NOT NULL, count" COUNT_COLUMN
						", PRIMARY KEY (bucket, session, name)) WITHOUT ROWID;"
						"CREATE TABLE coverage(id INTEGER PRIMARY KEY, proc INTEGER "
						"NOT NULL, since INTEGER NOT NULL,"
						" library TEXT NOT NULL, note" TEXT_COLUMN ");"
						"CREATE TABLE clock_samples(wall_ns INTEGER PRIMARY KEY, "
						"mono_ns INTEGER NOT NULL, session_id INTEGER NOT NULL);"
						"CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER NOT "
						"NULL) WITHOUT ROWID;";
#undef X

/* Written as plain tables: few rows, the reference's columns first. */
static const char documented_tables[] =
	"CREATE TABLE sources(id INTEGER PRIMARY KEY, name TEXT NOT NULL, description TEXT NOT NULL);"
	"CREATE TABLE ops(source_id INTEGER NOT NULL, op_id INTEGER NOT NULL, name TEXT NOT NULL,"
	" description TEXT NOT NULL, PRIMARY KEY (source_id, op_id)) WITHOUT ROWID;"
	"CREATE TABLE schema_info(key TEXT PRIMARY KEY, value TEXT NOT NULL);"
	"CREATE TABLE system_snapshots(id INTEGER PRIMARY KEY, timestamp INTEGER NOT NULL UNIQUE,"
	" cpu_pct REAL NOT NULL, mem_pct REAL NOT NULL, mem_avail INTEGER NOT NULL, swap_mb INTEGER NOT NULL,"
	" load_avg REAL NOT NULL, mem_total" COUNT_COLUMN ", session_id INTEGER);"
	"CREATE TABLE causal_chains(id TEXT PRIMARY KEY, detected_at INTEGER NOT NULL, severity TEXT NOT "
	"NULL,"
	" summary TEXT NOT NULL, root_cause TEXT NOT NULL, explanation TEXT NOT NULL, "
	"recommendations" TEXT_COLUMN ", cuda_op" TEXT_COLUMN ", cuda_p99_us" COUNT_COLUMN
	", cuda_p50_us" COUNT_COLUMN ", tail_ratio REAL NOT NULL DEFAULT 0, timeline" TEXT_COLUMN
	", node" TEXT_COLUMN ", session_id INTEGER);"
	"CREATE TABLE cgroup_metadata(cgroup_id INTEGER PRIMARY KEY, container_id" TEXT_COLUMN
	", cgroup_path" TEXT_COLUMN ", pod_name" TEXT_COLUMN ", namespace" TEXT_COLUMN ");"
	"CREATE TABLE cgroup_schedstat(cgroup_id INTEGER NOT NULL, p99_off_cpu INTEGER NOT NULL,"
	" total_off_cpu INTEGER NOT NULL, event_count INTEGER NOT NULL, window_start" COUNT_COLUMN
	", window_end" COUNT_COLUMN ", PRIMARY KEY (cgroup_id, window_end)) WITHOUT ROWID;";

static const char views[] =
	"CREATE VIEW events AS SELECT coalesce(s.node, '') || ':' || e.ts AS id, e.ts AS timestamp, p.pid AS "
	"pid,"
	" p.pid + e.tid_off AS tid, e.op >> 8 AS source, e.op & 255 AS op, e.dur AS duration, 0 AS gpu_id,"
	" CASE WHEN e.arg0 IS NOT NULL THEN e.arg0 WHEN l.kernel <> 0 THEN l.kernel WHEN l.stream <> 0 THEN "
	"l.stream"
	" ELSE e.handle END & " POSITIVE " AS arg0, coalesce(e.arg1, e.handle) & " POSITIVE " AS arg1,"
	" e.ret AS ret_code, coalesce(st.hash, 0) AS stack_hash, coalesce(s.node, '') AS node, p.rank AS "
	"rank,"
	" p.local_rank AS local_rank, p.world_size AS world_size, coalesce(p.comm, '') AS comm, '' AS "
	"stack_ips,"
	" coalesce(p.cgroup_id, 0) & " POSITIVE " AS cgroup_id,"
	" p.session AS session_id, e.reason AS reason, e.weight AS weight, e.depth AS depth, e.flags & 1 AS "
	"nested,"
	" (e.flags >> 1) & 1 AS unfinished, (e.flags >> 2) & 1 AS anomaly, (e.flags >> 3) & 1 AS capturing,"
	" coalesce(l.stream, 0) AS stream, CASE WHEN e.flags & 256 THEN e.handle ELSE 0 END AS graph,"
	" coalesce(l.exec, 0) AS exec, CASE WHEN e.flags & 256 THEN 0 ELSE e.handle END AS handle,"
	" coalesce(l.kernel, 0) AS kernel, coalesce(k.name, '') AS kernel_name,"
	" coalesce(l.grid_x, 0) AS grid_x, coalesce(l.grid_y, 0) AS grid_y, coalesce(l.grid_z, 0) AS grid_z,"
	" coalesce(l.block_x, 0) AS block_x, coalesce(l.block_y, 0) AS block_y, coalesce(l.block_z, 0) AS "
	"block_z,"
	" e.ts - s.clock_offset + e.mono_adj AS mono_ns, p.start_ns AS process_start_ns"
	" FROM event e LEFT JOIN proc p ON p.id = e.proc LEFT JOIN sessions s ON s.id = p.session"
	" LEFT JOIN launch l ON l.id = e.launch LEFT JOIN kernel_name k ON k.proc = e.proc AND k.handle = "
	"l.kernel"
	" LEFT JOIN stack st ON st.id = e.stack;"

	"CREATE VIEW event_aggregates AS SELECT c.bucket * 1000000000 AS bucket, c.op >> 8 AS source, c.op & "
	"255 AS op,"
	" coalesce(p.pid, 0) AS pid, sum(c.count) AS count, sum(c.stored) AS stored, sum(c.sum_ns) AS "
	"sum_dur,"
	" coalesce(min(CASE WHEN c.count > 0 THEN c.min_ns END), 0) AS min_dur, max(c.max_ns) AS max_dur,"
	" sum(c.bytes) AS sum_arg0, coalesce(s.node, '') AS node, sum(c.errors) AS errors, sum(c.lost) AS "
	"lost,"
	" sum(c.sampled_out) AS sampled_out, sum(c.untimed) AS untimed, sum(c.unfinished) AS unfinished"
	" FROM counter_minute c LEFT JOIN proc p ON p.id = c.proc LEFT JOIN sessions s ON s.id = p.session"
	" GROUP BY c.bucket, c.op, p.pid, s.node;"

	"CREATE VIEW stack_traces AS SELECT hash, ips, frames FROM stack;"

	"CREATE VIEW processes AS SELECT p.id AS id, p.session AS session_id, coalesce(s.node, '') AS node, "
	"p.pid AS pid,"
	" p.start_ns AS start_ns, p.comm AS name, p.uid AS uid, p.ppid AS ppid, p.cgroup_id AS cgroup_id, "
	"p.rank AS rank,"
	" p.local_rank AS local_rank, p.world_size AS world_size, p.last_seen AS seen_at"
	" FROM proc p LEFT JOIN sessions s ON s.id = p.session;"

	/* one row per pid, the newest bearer: the bare column follows max() */
	"CREATE VIEW process_names AS SELECT pid, comm AS name, max(last_seen) AS seen_at FROM proc GROUP BY "
	"pid;"

	"CREATE VIEW losses AS SELECT bucket * 1000000000 AS bucket, session AS session_id, name, count FROM "
	"loss;";

static const char notes[] =
	"INSERT INTO schema_info(key, value) VALUES"
	"('version', '1'),"
	"('timestamp_unit', 'nanoseconds (Unix epoch), always the start'),"
	"('duration_unit', 'nanoseconds'),"
	"('arg0_note', 'Operation-specific: bytes of allocations and copies, function handle of launches, "
	"stream of"
	" synchronisation, pointer of frees'),"
	"('arg1_note', 'Operation-specific: direction of copies, device pointer of allocations, mode of "
	"graph calls'),"
	"('ret_code_note', 'CUDA return code (0 = success)'),"
	"('events_note', 'Rows are evidence, not statistics: a row stands for weight calls, reason says why "
	"it was kept."
	" Counts, rates and percentiles are in event_aggregates and counter_minute, from every call.'),"
	"('reason_note', 'Bits: 1 sample, 2 error, 4 memory, 8 synchronise, 16 graph, 32 first calls, 64 "
	"slow, 128 record-all,"
	" 256 life cycle'),"
	"('example_query', 'SELECT e.id, s.name AS source, o.name AS op, e.duration/1000 AS dur_us, e.pid "
	"FROM events e JOIN"
	" sources s ON e.source = s.id JOIN ops o ON e.source = o.source_id AND e.op = o.op_id ORDER BY "
	"e.timestamp DESC LIMIT"
	" 20'),"
	"('system_snapshots_note', 'System state, about once a second while it changes'),"
	"('sessions_note', 'One row per recording; state is running, ended, cut (ended without a clean stop) "
	"or stopped'),"
	"('process_names_note', 'Newest name of each pid; all processes with their start times are in "
	"processes'),"
	"('event_aggregates_note', 'Per minute, from every call. stored = rows kept in events'),"
	"('stack_traces_note', 'events.stack_hash = stack_traces.hash'),"
	"('cgroup_metadata_note', 'cgroup_id to container'),"
	"('node_note', 'Node of the recording session');";

int schema_create(sqlite3 *db)
{
	char numbers[96];
	int rc = db_exec(db, "PRAGMA auto_vacuum = INCREMENTAL; BEGIN IMMEDIATE");
	static const char *const parts[] = {base_tables, documented_tables, views, notes};

	for (size_t i = 0; i < ARRAY_LEN(parts) && rc == SQLITE_OK; i++)
		rc = db_exec(db, parts[i]);
	snprintf(numbers, sizeof(numbers), "PRAGMA application_id = %d; PRAGMA user_version = %d",
		SCHEMA_APPLICATION_ID, SCHEMA_VERSION);
	if (rc == SQLITE_OK)
		rc = db_exec(db, numbers);
	if (rc == SQLITE_OK)
		rc = db_exec(db, "COMMIT");
	if (rc != SQLITE_OK)
		db_exec(db, "ROLLBACK");
	return rc;
}

static int fill_sources(sqlite3 *db)
{
	cleanup_stmt sqlite3_stmt *st = NULL;
	int rc = db_prepare(db, "INSERT OR REPLACE INTO sources VALUES(?1, ?2, ?3)", &st);

	for (size_t i = 0; i < source_count() && rc == SQLITE_OK; i++) {
		const struct source_info *s = source_at(i);

		rc = db_run(st, "itt", (int64_t)s->id, s->db_name, s->descr);
	}
	return rc;
}

int schema_fill_lookups(sqlite3 *db)
{
	cleanup_stmt sqlite3_stmt *st = NULL;
	int rc = db_prepare(db, "INSERT OR REPLACE INTO ops VALUES(?1, ?2, ?3, ?4)", &st);

	if (rc == SQLITE_OK)
		rc = fill_sources(db);
	for (size_t i = 0; i < op_count() && rc == SQLITE_OK; i++) {
		const struct op_info *o = op_at(i);

		rc = db_run(
			st, "iitt", (int64_t)OP_SOURCE(o->code), (int64_t)OP_ID(o->code), o->name, o->descr);
	}
	return rc;
}
