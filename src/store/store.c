#include "store/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>

#define QUEUE_DEFAULT 65536
#define MAX_BYTES_MIN (2ull << 20)
#define LARGE_FILE_BYTES (1ull << 30)

static int64_t wall_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * (int64_t)NSEC_PER_SEC + ts.tv_nsec;
}

/* ---- opening ---- */

/* Refuses what is not ours before anything is changed. */
static int check_header(const struct store *s, char *err, size_t err_size)
{
	struct dbfile_header h;
	int r = dbfile_read_header(s->file.fd, &h);

	if (r) {
		snprintf(err, err_size, "cannot read %s: %s", s->file.path, strerror(-r));
		return r;
	}
	if (h.empty)
		return 0;
	if (!h.is_sqlite) {
		snprintf(err, err_size, "%s is not a database; choose another file with --db", s->file.path);
		return -EMEDIUMTYPE;
	}
	if (h.application_id != SCHEMA_APPLICATION_ID) {
		snprintf(err, err_size,
			"%s was not made by this program and is left as it is; record into a new file with "
			"--db "
			"(query and explain read recordings of older versions)",
			s->file.path);
		return -EMEDIUMTYPE;
	}
	if (h.user_version > SCHEMA_VERSION) {
		snprintf(err, err_size,
			"%s was made by a newer version (schema %u, this one writes %d); record into a new "
			"file with --db",
			s->file.path, h.user_version, SCHEMA_VERSION);
		return -EMEDIUMTYPE;
	}
	return 0;
}

static int fail(struct store *s, const char *what, int rc, char *err, size_t err_size)
{
	int r = db_errno(rc);

	snprintf(err, err_size, "%s %s: %s", what, s->file.path,
		s->db ? sqlite3_errmsg(s->db) : sqlite3_errstr(rc));
	return r ? r : -EIO;
}

static int open_connection(struct store *s, char *err, size_t err_size)
{
	const int flags =
		SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_PRIVATECACHE;
	/* the file may be its user's, this process root: nothing in it may run code of its own */
	static const int off[] = {SQLITE_DBCONFIG_TRUSTED_SCHEMA, SQLITE_DBCONFIG_ENABLE_TRIGGER};
	struct stat st, again;
	int rc = sqlite3_open_v2(s->file.path, &s->db, flags, NULL);

	if (rc != SQLITE_OK)
		return fail(s, "cannot open", rc, err, err_size);
	sqlite3_extended_result_codes(s->db, 1);
	for (size_t i = 0; i < ARRAY_LEN(off); i++)
		sqlite3_db_config(s->db, off[i], 0, NULL);
	sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_busy_timeout(s->db, 5000);
	if (fstat(s->file.fd, &st) || lstat(s->file.path, &again) || st.st_ino != again.st_ino ||
		st.st_dev != again.st_dev) {
		snprintf(err, err_size, "%s was replaced while it was opened", s->file.path);
		return -ESTALE;
	}
	return 0;
}

static int prepare_file(struct store *s, char *err, size_t err_size)
{
	cleanup_stmt sqlite3_stmt *st = NULL;
	int64_t tables = 0;
	int rc = db_i64(s->db, "SELECT count(*) FROM sqlite_master", &tables);

	if (rc == SQLITE_OK && !tables)
		rc = schema_create(s->db);
	if (rc != SQLITE_OK)
		return fail(s, "cannot set up", rc, err, err_size);
	rc = db_prepare(s->db, "PRAGMA journal_mode = WAL", &st);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(st);
	if (rc == SQLITE_ROW && strcmp(db_text(st, 0), "wal")) {
		snprintf(err, err_size,
			"the file system of %s cannot hold a recording (no write-ahead log); use a local one",
			s->file.path);
		return -EOPNOTSUPP;
	}
	sqlite3_reset(st);
	if (rc == SQLITE_ROW)
		rc = db_exec(s->db,
			"PRAGMA synchronous = NORMAL; PRAGMA secure_delete = OFF; PRAGMA cache_size = -8192;"
			"PRAGMA temp_store = MEMORY");
	if (rc == SQLITE_OK)
		rc = counters_register(s->db);
	if (rc == SQLITE_OK)
		rc = writer_prepare(s);
	return rc == SQLITE_OK ? 0 : fail(s, "cannot set up", rc, err, err_size);
}

static int add_session(struct store *s)
{
	cleanup_stmt sqlite3_stmt *st = NULL;
	const struct store_options *o = &s->options;
	struct host_info host;
	int64_t now_ns = wall_now_ns();
	int rc = db_prepare(s->db,
		"INSERT INTO sessions(started_at, last_seen, node, ingero_ver, flags, pid_filter, cpu_model, "
		"kernel,"
		" os_release, boot_id, cpu_cores, mem_total, pid_namespace, writer_pid, clock_offset)"
		" VALUES(?1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
		&st);

	host_read(&host);
	s->clock_offset_ns = now_ns - (int64_t)queue_now_ns();
	if (rc == SQLITE_OK)
		rc = db_run(st, "ittttttttiiiii", now_ns, o->node, o->version, o->flags, o->pid_filter,
			host.cpu_model, host.kernel, host.os_release, host.boot_id, host.cpu_cores,
			host.mem_total_mb, host.pid_namespace, (int64_t)getpid(), s->clock_offset_ns);
	s->session = sqlite3_last_insert_rowid(s->db);
	return rc;
}

static int begin_session(struct store *s, char *err, size_t err_size)
{
	int rc = writer_step(s, W_BEGIN);

	if (rc == SQLITE_OK)
		rc = schema_fill_lookups(s->db);
	if (rc == SQLITE_OK)
		rc = db_exec(s->db,
			"UPDATE sessions SET state = 'cut', stopped_at = last_seen WHERE state = 'running'");
	if (rc == SQLITE_OK)
		rc = add_session(s);
	if (rc == SQLITE_OK)
		rc = writer_step(s, W_COMMIT);
	if (rc != SQLITE_OK) {
		int r = fail(s, "cannot write", rc, err, err_size);

		writer_step(s, W_ROLLBACK);
		return r;
	}
	if (db_i64(s->db, "SELECT value FROM meta WHERE key = 'event_rows'", &s->event_rows) != SQLITE_OK)
		s->event_rows = 0;
	return 0;
}

/* One allocation for the strings that must outlive the caller's. */
static int copy_options(struct store *s, const struct store_options *o)
{
	const char *const in[] = {o->path, o->node, o->version, o->flags, o->pid_filter};
	const char **out[] = {&s->options.path, &s->options.node, &s->options.version, &s->options.flags,
		&s->options.pid_filter};
	size_t size = 0, at = 0;

	s->options = *o;
	for (size_t i = 0; i < ARRAY_LEN(in); i++)
		size += strlen(in[i] ? in[i] : "") + 1;
	s->text = malloc(size);
	if (!s->text)
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_LEN(in); i++) {
		size_t n = strlen(in[i] ? in[i] : "") + 1;

		memcpy(s->text + at, in[i] ? in[i] : "", n);
		*out[i] = s->text + at;
		at += n;
	}
	return 0;
}

static int allocate(struct store *s, const struct store_options *o)
{
	int r = copy_options(s, o);

	s->file = DBFILE_INIT;
	s->procs = IDMAP_INIT(PROC_MAX);
	s->launch_reuse_ns = !o->max_bytes || o->max_bytes >= LARGE_FILE_BYTES ? 600 * (int64_t)NSEC_PER_SEC
									       : 30 * (int64_t)NSEC_PER_SEC;
	s->launches = calloc(LAUNCH_SLOTS, sizeof(*s->launches));
	s->stored = calloc(STORED_SLOTS, sizeof(*s->stored));
	if (!r && (!s->launches || !s->stored))
		r = -ENOMEM;
	return r ? r : queue_init(&s->queue, o->queue_events ? o->queue_events : QUEUE_DEFAULT);
}

/* Signals are for the main thread; too large a file must be an error here, not the end of the program. */
static int start_thread(struct store *s)
{
	sigset_t all, old;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = -pthread_create(&s->thread, NULL, writer_main, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	s->thread_runs = !r;
	return r;
}

static void free_store(struct store *s)
{
	for (size_t i = 0; i < W_COUNT; i++)
		sqlite3_finalize(s->stmt[i]);
	sqlite3_close(s->db);
	dbfile_close(&s->file); /* after SQLite: see dbfile.h */
	rows_free(s);
	queue_free(&s->queue);
	free(s->text);
	free(s);
}

int store_open(const struct store_options *options, struct store **ret_store, char *err, size_t err_size)
{
	struct store *s;
	int r;

	snprintf(err, err_size, "out of memory");
	if (options->max_bytes && options->max_bytes < MAX_BYTES_MIN) {
		snprintf(err, err_size, "the size limit of a recording must be at least 2m");
		return -EINVAL;
	}
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	r = allocate(s, options);
	if (!r)
		r = dbfile_open(
			options->path, options->owner_uid, options->owner_gid, &s->file, err, err_size);
	if (!r)
		r = check_header(s, err, err_size);
	if (!r)
		r = open_connection(s, err, err_size);
	if (!r)
		r = prepare_file(s, err, err_size);
	if (!r)
		r = begin_session(s, err, err_size);
	if (!r) {
		size_init(s);
		sqlite3_busy_timeout(s->db, 1000);
		r = start_thread(s);
	}
	if (r) {
		if (s->file.created && !s->session)
			unlink(s->file.path);
		free_store(s);
		return r;
	}
	*ret_store = s;
	return 0;
}

/* ---- closing ---- */

static void end_session(struct store *s)
{
	cleanup_stmt sqlite3_stmt *st = NULL;
	struct store_stats stats;

	store_get_stats(s, &stats);
	sqlite3_busy_timeout(s->db, 2000);
	if (db_prepare(s->db,
		    "UPDATE sessions SET state = ?2, reason = ?3, stopped_at = ?4, last_seen = ?4, written = "
		    "?5,"
		    " dropped_queue = ?6, dropped_disk = ?7, pruned = ?8 WHERE id = ?1",
		    &st) == SQLITE_OK)
		db_run(st, "ittiuuuu", s->session, stats.stopped ? "stopped" : "ended", stats.reason,
			wall_now_ns(), stats.written, stats.dropped_queue, stats.dropped_disk, stats.pruned);
	sqlite3_busy_timeout(s->db, 0); /* a reader may stay: the write-ahead file then stays too */
	sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
}

void store_close(struct store *s, struct store_stats *ret_stats)
{
	if (!s)
		return;
	if (s->thread_runs) {
		queue_stop(&s->queue);
		pthread_join(s->thread, NULL);
	}
	end_session(s);
	if (ret_stats)
		store_get_stats(s, ret_stats);
	free_store(s);
}

void store_get_stats(struct store *s, struct store_stats *ret)
{
	pthread_mutex_lock(&s->queue.lock);
	*ret = s->stats;
	ret->queued = s->queue.queued;
	ret->dropped_queue = s->queue.dropped;
	pthread_mutex_unlock(&s->queue.lock);
}

void store_flush(struct store *s)
{
	queue_flush(&s->queue);
}

/* ---- what is recorded ---- */

void store_add_event(struct store *s, const struct call_event *e)
{
	queue_add_event(&s->queue, e);
}

/* An item with one or two strings in its blob. */
static struct item *text_item(enum item_kind kind, const char *name, const char *note)
{
	size_t n = strlen(name) + 1, m = strlen(note) + 1;
	struct item *it = item_new(kind, n + m);

	if (!it)
		return NULL;
	memcpy(it->blob, name, n);
	memcpy(it->blob + n, note, m);
	it->name = it->blob;
	it->note = it->blob + n;
	return it;
}

void store_add_process(struct store *s, const struct process_info *p)
{
	struct item *it = item_new(ITEM_PROCESS, 0);

	if (it) {
		it->wall_ns = wall_now_ns();
		it->process = *p;
	}
	queue_add_item(&s->queue, it);
}

void store_add_kernel_name(struct store *s, struct proc_id proc, uint64_t handle, const char *name)
{
	struct item *it = text_item(ITEM_KERNEL_NAME, name, "");

	if (it) {
		it->wall_ns = wall_now_ns();
		it->proc = proc;
		it->value = handle;
	}
	queue_add_item(&s->queue, it);
}

void store_add_system(struct store *s, const struct system_sample *sample)
{
	struct item *it = item_new(ITEM_SYSTEM, 0);

	if (it)
		it->system = *sample;
	queue_add_item(&s->queue, it);
}

void store_add_counters(
	struct store *s, int64_t wall_ns, struct proc_id proc, uint16_t op, const struct op_counters *delta)
{
	cleanup_strbuf struct strbuf hist = STRBUF_INIT(32768);
	struct item *it;

	hist_encode(&delta->hist, &hist);
	it = hist.error ? NULL : item_new(ITEM_COUNTERS, hist.len);
	if (it) {
		it->wall_ns = wall_ns;
		it->proc = proc;
		it->counters.op = op;
		counters_from_delta(delta, &it->counters.row);
		if (hist.len)
			memcpy(it->blob, hist.data, hist.len);
	}
	queue_add_item(&s->queue, it);
}

void store_add_loss(struct store *s, int64_t wall_ns, const char *name, uint64_t delta)
{
	struct item *it = text_item(ITEM_LOSS, name, "");

	if (it) {
		it->wall_ns = wall_ns;
		it->value = delta;
	}
	queue_add_item(&s->queue, it);
}

void store_add_coverage(
	struct store *s, int64_t wall_ns, struct proc_id proc, const char *library, const char *note)
{
	struct item *it = text_item(ITEM_COVERAGE, library, note ? note : "");

	if (it) {
		it->wall_ns = wall_ns;
		it->proc = proc;
	}
	queue_add_item(&s->queue, it);
}

void store_add_clock(struct store *s, uint64_t mono_ns, int64_t wall_ns)
{
	struct item *it = item_new(ITEM_CLOCK, 0);

	if (it) {
		it->wall_ns = wall_ns;
		it->value = mono_ns;
	}
	queue_add_item(&s->queue, it);
}
