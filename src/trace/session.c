#include "trace/session.h"
#include "base/log.h"
#include "model/timefmt.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>

#define POLL_BUSY_MS 10
#define POLL_IDLE_MS 100
#define DRAIN_BUDGET 200000 /* records per turn, so that signals and the clock get their turn under load */
#define PLAIN_BLOCK_NS (5 * NSEC_PER_SEC)
#define CLOCK_ROW_NS (10 * NSEC_PER_SEC)
#define OUT_MAX_BYTES (64u << 20)
#define INITIAL_PID_NS_INODE 0xEFFFFFFCul /* include/linux/proc_ns.h, PROC_PID_INIT_INO */

#define ADAPTIVE_WINDOW_NS (5 * NSEC_PER_SEC)
#define ADAPTIVE_LOSS 1000
#define ADAPTIVE_MAX 100

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

uint64_t session_now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* Wall time minus monotonic time, from the tightest of a few pairs of readings; follows clock steps. */
static void sample_clock(struct session *s)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 3; i++) {
		uint64_t a = clock_ns(CLOCK_MONOTONIC), wall = clock_ns(CLOCK_REALTIME),
			 b = clock_ns(CLOCK_MONOTONIC);

		if (b - a >= best)
			continue;
		best = b - a;
		s->wall_offset_ns = (int64_t)wall - (int64_t)(a + (b - a) / 2);
	}
}

/* Process numbers in kernel are those of the initial namespace; elsewhere they would name the wrong
 * processes. */
static bool in_initial_pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) || st.st_ino == INITIAL_PID_NS_INODE;
}

static int check_targets(const struct trace_options *o)
{
	if (!in_initial_pid_namespace()) {
		log_error("this is not the host's PID namespace, so process numbers here are not the "
			  "kernel's: run it "
			  "there (containers: --pid=host)");
		return -EINVAL;
	}
	for (size_t i = 0; i < o->n_pids; i++) {
		struct process_info info;

		if (proc_read_info(o->pids[i], &info)) {
			log_error("no process %u", o->pids[i]);
			return -ESRCH;
		}
	}
	return 0;
}

static int open_store(struct session *s)
{
	const struct trace_options *o = s->o;
	struct store_options so = {
		.path = o->db_path,
		.max_bytes = o->max_db_bytes,
		.owner_uid = (uid_t)-1,
		.owner_gid = (gid_t)-1,
		.node = o->node,
		.version = o->version,
		.flags = o->record_all ? "record-all" : "record",
		.pid_filter = "",
	};
	cleanup_strbuf struct strbuf pids = STRBUF_INIT(16384);
	char err[512] = "", name[64];
	uint32_t uid, gid;
	int r;

	if (!o->record)
		return 0;
	for (size_t i = 0; i < o->n_pids; i++)
		strbuf_addf(&pids, "%s%u", i ? "," : "", o->pids[i]);
	so.pid_filter = strbuf_str(&pids);
	if (geteuid() == 0 && !discover_invoking_user(&uid, &gid, name, sizeof(name))) {
		so.owner_uid = uid;
		so.owner_gid = gid;
	}
	r = store_open(&so, &s->store, err, sizeof(err));
	if (r)
		log_error("%s", *err ? err : strerror(-r));
	return r;
}

static int open_probe(struct session *s)
{
	struct probe_options po = {
		.way = s->o->way,
		.ring_bytes = s->o->ring_bytes,
		.sampling_rate = s->adaptive.rate,
		/* the live table is made from the counters alone */
		.records = s->o->record || s->o->output != TRACE_TABLE,
	};
	char err[512] = "";
	int r = probe_open(&po, &s->probe, err, sizeof(err));

	if (r) {
		log_error("%s", *err ? err : strerror(-r));
		return r;
	}
	if (s->o->n_pids)
		r = probe_set_targets(s->probe, ABI_TARGET_PIDS, 0, s->o->pids, s->o->n_pids);
	else if (s->o->by_uid)
		r = probe_set_targets(s->probe, ABI_TARGET_UID, s->o->uid, NULL, 0);
	else
		r = probe_set_targets(s->probe, ABI_TARGET_ALL, 0, NULL, 0);
	if (r)
		log_error("the targets could not be set: %s", strerror(-r));
	return r;
}

/* What a user sees when there is nothing to attach to. */
static void tell_attached(struct session *s)
{
	if (!s->target_text[0] && s->o->n_pids)
		snprintf(s->target_text, sizeof(s->target_text), "%zu process%s, no CUDA library loaded yet",
			s->o->n_pids, s->o->n_pids == 1 ? "" : "es");
	else if (!s->target_text[0])
		snprintf(s->target_text, sizeof(s->target_text), "no CUDA process of user %s yet, waiting",
			s->o->user_name ? s->o->user_name : "any");
	if (!s->n_files)
		log_warn("no CUDA library found so far: name one with --cuda-lib, or start the job");
}

static int prepare(struct session *s)
{
	int err = check_targets(s->o);

	if (!err)
		err = state_init(&s->state);
	if (!err)
		err = open_probe(s);
	if (!err) /* not before: without rights no empty recording is left behind */
		err = open_store(s);
	if (err)
		return err;
	sample_clock(s);
	err = attach_scan(s, true);
	if (err < 0)
		return err;
	if (s->slow_points)
		probe_measure_entry_cost(s->probe, &s->emulated_ns, &s->stepped_ns);
	tell_attached(s);
	return 0;
}

static void adapt_sampling(struct session *s, uint64_t now_ns)
{
	struct adaptive *a = &s->adaptive;
	uint64_t lost = state_call_totals(&s->state).lost, window;

	if (!a->on || now_ns < a->next_mono_ns)
		return;
	window = lost - a->lost_before;
	a->lost_before = lost;
	a->next_mono_ns = now_ns + ADAPTIVE_WINDOW_NS;
	if (window > ADAPTIVE_LOSS) {
		a->quiet = 0;
		if (a->rate < ADAPTIVE_MAX && ++a->pressure >= 2) {
			a->rate *= 10;
			a->pressure = 0;
			probe_set_sampling(s->probe, a->rate);
		}
	} else if (!window) {
		a->pressure = 0;
		if (++a->quiet >= 6 && a->rate > 1) {
			a->rate = 1;
			probe_set_sampling(s->probe, 1);
		}
	} else {
		a->pressure = a->quiet = 0;
	}
}

static void watch_store(struct session *s)
{
	struct store_stats st;

	if (!s->store || s->store_stop_told)
		return;
	store_get_stats(s->store, &st);
	if (st.stopped) {
		s->store_stop_told = true;
		log_warn("recording to %s stopped: %s; tracing goes on", s->o->db_path, st.reason);
	}
}

static void system_tick(struct session *s, uint64_t now_ns)
{
	struct system_sample sample;

	if (system_read(&s->system, session_wall_ns(s, now_ns), &sample))
		return;
	s->last_sample = sample;
	if (s->o->output == TRACE_JSON)
		json_system(s, &sample);
	if (s->store && deadband_pass(&s->deadband, &sample))
		store_add_system(s->store, &sample);
}

/* Once a second: counters, system, newcomers, picture. */
static void tick(struct session *s, uint64_t now_ns)
{
	sample_clock(s);
	if (s->store && now_ns >= s->next_clock_mono_ns) {
		store_add_clock(s->store, now_ns, session_wall_ns(s, now_ns));
		s->next_clock_mono_ns = now_ns + CLOCK_ROW_NS;
	}
	records_counters(s);
	state_tick(&s->state);
	system_tick(s, now_ns);
	watch_store(s);
	adapt_sampling(s, now_ns);
	if (attach_scan(s, false) > 0)
		log_debug("new CUDA library attached");
	if (s->o->output == TRACE_TABLE) {
		if (s->screen.tty || (now_ns - s->start_mono_ns) % PLAIN_BLOCK_NS < NSEC_PER_SEC)
			table_draw(s, false);
	} else if (s->o->output == TRACE_JSON) {
		uint64_t lost = state_call_totals(&s->state).lost;

		if (lost != s->loss_reported)
			json_loss(s, false);
		s->loss_reported = lost;
	}
	session_flush_out(s);
}

struct waiter {
	int epoll_fd, signal_fd;
};

static int waiter_init(struct waiter *w, int wake_fd)
{
	struct epoll_event ev = {.events = EPOLLIN};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGWINCH);
	w->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (w->signal_fd < 0 || w->epoll_fd < 0)
		return -errno;
	ev.data.fd = w->signal_fd;
	if (epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, w->signal_fd, &ev))
		return -errno;
	ev.data.fd = wake_fd;
	if (wake_fd >= 0 && epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, wake_fd, &ev))
		return -errno;
	return 0;
}

static void waiter_free(struct waiter *w)
{
	if (w->signal_fd >= 0)
		close(w->signal_fd);
	if (w->epoll_fd >= 0)
		close(w->epoll_fd);
}

/* Returns true when a signal asks to stop. */
static bool wait_turn(struct session *s, struct waiter *w, int timeout_ms)
{
	struct signalfd_siginfo info;
	struct epoll_event ev[2];
	bool stop = false;

	epoll_wait(w->epoll_fd, ev, ARRAY_LEN(ev), timeout_ms);
	while (read(w->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGWINCH)
			screen_resize(&s->screen);
		else
			stop = true;
	}
	return stop;
}

static bool finished(const struct session *s, uint64_t now_ns)
{
	return s->out_broken || (s->o->duration_ns && now_ns - s->start_mono_ns >= s->o->duration_ns);
}

static int follow(struct session *s, struct waiter *w)
{
	int timeout_ms = POLL_BUSY_MS;
	bool stop = false;

	while (!stop) {
		uint64_t now_ns;
		long n;

		stop = wait_turn(s, w, timeout_ms);
		n = records_drain(s, DRAIN_BUDGET);
		if (n < 0)
			return (int)n;
		session_flush_out(s);
		now_ns = session_now_ns();
		if (now_ns >= s->next_tick_mono_ns) {
			tick(s, now_ns);
			s->next_tick_mono_ns = MAX(s->next_tick_mono_ns + NSEC_PER_SEC, now_ns);
			if (s->o->n_pids && !attach_targets_alive(s)) {
				log_info("all traced processes have ended");
				stop = true;
			}
		}
		stop |= finished(s, now_ns);
		timeout_ms = n >= DRAIN_BUDGET ? 0 : n ? POLL_BUSY_MS : POLL_IDLE_MS;
		if (s->o->duration_ns) {
			uint64_t end = s->start_mono_ns + s->o->duration_ns,
				 left = end > now_ns ? end - now_ns : 0;

			timeout_ms = (int)MIN((uint64_t)timeout_ms, left / NSEC_PER_MSEC + 1);
		}
	}
	return 0;
}

/* Ordered: probes off, rings empty, counters read, outputs, store. */
static void finish(struct session *s)
{
	struct store_stats st = {0};

	probe_detach(s->probe);
	while (records_drain(s, DRAIN_BUDGET) > 0)
		session_flush_out(s);
	records_counters(s);
	if (s->o->output == TRACE_JSON)
		json_loss(s, true);
	session_flush_out(s);
	if (s->o->output != TRACE_JSON && !s->out_broken)
		table_draw(s, true);
	text_final(s);
	if (!s->store)
		return;
	store_close(s->store, &st);
	s->store = NULL;
	if (st.dropped_queue || st.dropped_disk)
		log_warn("%llu events of %llu did not reach the database",
			(unsigned long long)(st.dropped_queue + st.dropped_disk),
			(unsigned long long)st.queued);
	log_info("Recorded %llu events in %s", (unsigned long long)st.written, s->o->db_path);
}

static void session_free(struct session *s)
{
	probe_close(s->probe);
	if (s->store)
		store_close(s->store, NULL);
	state_free(&s->state);
	strbuf_free(&s->out);
	free(s->files);
	free(s);
}

/* Signals are read from a descriptor; a reader of ours that goes away must not kill us before the probes are
 * off. */
static void block_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGWINCH);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static void start_clock(struct session *s)
{
	sample_clock(s);
	s->start_mono_ns = session_now_ns();
	s->start_wall_ns = session_wall_ns(s, s->start_mono_ns);
	s->next_tick_mono_ns = s->start_mono_ns + NSEC_PER_SEC;
	if (s->store)
		store_add_clock(s->store, s->start_mono_ns, s->start_wall_ns);
	s->next_clock_mono_ns = s->start_mono_ns + CLOCK_ROW_NS;
	system_read(&s->system, s->start_wall_ns, &s->last_sample);
}

int trace_run(const struct trace_options *options)
{
	struct session *s = calloc(1, sizeof(*s));
	struct waiter w = {-1, -1};
	int err;

	if (!s)
		return -ENOMEM;
	block_signals();
	s->o = options;
	s->out = STRBUF_INIT(OUT_MAX_BYTES);
	s->deadband =
		(struct deadband){.percent = options->deadband_pct, .heartbeat_ns = options->heartbeat_ns};
	s->adaptive = (struct adaptive){
		.on = !options->sampling_rate, .rate = options->sampling_rate ? options->sampling_rate : 1};
	screen_init(&s->screen);
	err = prepare(s);
	if (!err) {
		records_drain(s, 0); /* opens the rings */
		err = waiter_init(&w, probe_wake_fd(s->probe));
	}
	if (!err) {
		text_header(s);
		start_clock(s);
		probe_activate(s->probe);
		log_info("probes active");
		err = follow(s, &w);
		finish(s);
	}
	waiter_free(&w);
	session_free(s);
	return err;
}
