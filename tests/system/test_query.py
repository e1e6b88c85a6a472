"""`ingero query` on recordings made at known instants, on broken files, on the reference's databases."""

import hashlib
import json
import math
import os
import random
import shutil
import sqlite3
import subprocess
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

import pytest

from conftest import BUILD, ROOT, wait_for

REFERENCE = ROOT.parent / "shared/data/reference-dbs"
T0 = 1_700_000_000  # 2023-11-14 22:13:20 UTC
S = 1_000_000_000
ZONE = "TST-2"  # two hours east, without a time zone database
CONTROLS = {c for c in range(0x20) if c != 0x0A} | set(range(0x7F, 0xA0))


def call(ns, op, dur, pid=100, ret=0, size=0, name="train", tid=None):
    return f"{ns} {pid} {tid or pid} {op} {dur} {ret} {size} ".encode() + (
        name if isinstance(name, bytes) else name.encode()) + b"\n"


def make(path, calls):
    done = subprocess.run([BUILD / "tests/system/make-recording", path], input=b"".join(calls), capture_output=True,
                          timeout=60)
    assert done.returncode == 0, done.stderr
    return path


def environment(home, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("INGERO_", "SUDO_"))}
    return dict(env, HOME=str(home), TZ=ZONE, **more)


@pytest.fixture
def query(ingero, tmp_path):
    """query(db, *flags): the finished program; text is decoded, raw bytes are in .raw."""
    def run(db, *flags, code=0, prefix=(), **env):
        args = [*prefix, ingero, "query", *(["--db", db] if db else []), *flags]
        done = subprocess.run(args, capture_output=True, timeout=100, cwd=tmp_path, env=environment(tmp_path, **env))
        done.raw = done.stdout + done.stderr
        done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
        assert done.returncode == code, (args, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
        return done

    return run


def strict(text):
    """JSON without Python's extras and without keys that are there twice."""
    def no_constant(word):
        raise ValueError(word)

    def pairs(items):
        assert len(dict(items)) == len(items), items
        return dict(items)

    return json.loads(text, parse_constant=no_constant, object_pairs_hook=pairs)


def one_line(done, *parts, stdout=""):
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("Error: "), done.stderr
    for part in parts:
        assert part in lines[0], (part, lines[0])
    if stdout is not None:
        assert done.stdout == stdout
    return lines[0]


def cells(line):
    return [c.strip() for c in line.strip().strip("│").split("│")]


def tables(text):
    """{section: {operation: {column: text}}}"""
    found, title, names = {}, None, None
    for line in text.splitlines():
        if "│" in line:
            row = cells(line)
            if names is None:
                names = row
                found[title] = {}
            else:
                assert row[0] not in found[title], f"{row[0]} twice"
                found[title][row[0]] = dict(zip(names, row))
        elif "┌" in line:
            names = None
        elif line.strip() and line.startswith("  ") and not set(line) & set("├└"):
            title = line.strip()
    return found


def text_rows(text):
    """The rows of one table."""
    rows = [cells(line) for line in text.splitlines() if "│" in line]
    return rows[0], rows[1:]


UNITS = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}


def nanoseconds(text):
    """(value, half of the last digit shown)"""
    if text == "0":
        return 0, 0
    number = text.rstrip("nµms")
    unit = UNITS[text[len(number):]]
    return float(number) * unit, unit * (0.05 if "." in number else 0.5)


def nearest_rank(values, p):
    return sorted(values)[max(0, math.ceil(p * len(values)) - 1)]


def shown(ns):
    """A duration as the program writes it."""
    def unit(v, name):
        return f"{v:.1f}{name}" if v < 9.95 and v != int(v) else f"{v:.0f}{name}"

    if ns < 1000:
        return f"{ns}ns" if ns else "0"
    if ns < 999500:
        return unit(ns / 1e3, "µs")
    if ns < 999500000:
        return unit(ns / 1e6, "ms")
    if ns < 59.5e9:
        return unit(ns / 1e9, "s")
    s = ns // S
    return f"{s // 60}m{s % 60:02}s" if s < 3600 else f"{s // 3600}h{s // 60 % 60:02}m"


def digest(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def folder(path):
    return sorted((p.name, p.stat().st_size, p.stat().st_mtime_ns) for p in Path(path).iterdir())


# ---- tables ----

SECTIONS = {
    "CUDA Runtime API": ["cudaMalloc", "cudaMemcpy"],
    "CUDA Driver API": ["cuLaunchKernel", "cuMemAlloc"],
    "CUDA Graph": ["graphLaunch"],
    "Host Context": ["sched_switch"],
    "I/O and Network": ["block_read", "net_send", "tcp_retransmit"],
}


def durations(seed, n=1237, low=100_000, high=900_000):
    rng = random.Random(seed)
    return [rng.randrange(low, high) for _ in range(n)]


def test_tables_hold_exact_counts_and_close_percentiles(query, tmp_path):
    calls, expected, at = [], {}, T0 * S
    for ops in SECTIONS.values():
        for i, op in enumerate(ops):
            expected[op] = durations(op, 1237 + 100 * i)
            for dur in expected[op]:
                at += 1_000_001
                calls.append(call(at, op, dur, size=3))
    out = query(make(tmp_path / "a.db", calls), "--since", "0").stdout
    found = tables(out)
    assert {k: set(v) for k, v in found.items()} == {k: set(v) for k, v in SECTIONS.items()}
    assert out.splitlines()[0] == f"  Query: everything | {len(calls):,} events"
    for section, ops in SECTIONS.items():
        for op in ops:
            row, values = found[section][op], expected[op]
            assert row["COUNT"] == f"{len(values):,}"
            assert row["MAX"] == shown(max(values)) and row["ERRORS"] == ""
            for column, p in (("P50", .5), ("P95", .95), ("P99", .99)):
                got, rounding = nanoseconds(row[column])
                exact = nearest_rank(values, p)
                assert abs(got - exact) <= .03 * exact + rounding, (op, column, row[column], exact)
    for row in (found["CUDA Runtime API"]["cudaMalloc"], found["CUDA Driver API"]["cuMemAlloc"]):
        assert row["BYTES"] == f"{int(row['COUNT'].replace(',', '')) * 3 / 1024:.1f} KB"
    assert "Lost:" not in out and "cut off" not in out and "writing" not in out


def test_errors_spikes_and_order(query, tmp_path):
    calls = [call(T0 * S + i * 1000, "cudaMalloc", 200_000 if i != 50 else 5_000_000, ret=2 * (i % 10 == 3), size=1024)
             for i in range(100)]
    calls += [call(T0 * S + S + i, "cudaFree", 400_000) for i in range(100)]
    out = query(make(tmp_path / "a.db", calls), "--since", "0").stdout
    rows = tables(out)["CUDA Runtime API"]
    assert list(rows) == ["cudaFree", "cudaMalloc"]  # 40 ms of the one, 24.8 ms of the other
    assert rows["cudaMalloc"]["ERRORS"] == "10" and rows["cudaFree"]["ERRORS"] == ""
    assert rows["cudaMalloc"]["SPIKES"] == "1!" and rows["cudaFree"]["SPIKES"] == "0"
    assert rows["cudaMalloc"]["MAX"] == "5ms"
    assert rows["cudaMalloc"]["BYTES"] == "90.0 KB"  # what failed allocated nothing


# ---- windows ----

AGES = {"30s": 30, "30m": 1800, "12h": 43200, "3d": 3 * 86400, "10d": 10 * 86400}


@pytest.fixture
def aged(tmp_path):
    now = time.time_ns()
    return make(tmp_path / "aged.db", [call(now - age * S, "cudaMalloc", 1000 + i)
                                       for i, age in reversed(list(enumerate(AGES.values())))])


@pytest.mark.parametrize("since, n", [("90s", 1), ("20m", 1), ("1h", 2), ("90m", 2), ("1h30m", 2), ("1d", 3), ("5d", 4),
                                      ("1w", 4), ("1w2d", 4), ("2w", 5), ("1.5w", 5), ("0", 5), (None, 2)])
def test_since(query, aged, since, n):
    flags = ["--since", since] if since else []
    assert len(strict(query(aged, "--json", *flags).stdout)) == n
    row = tables(query(aged, *flags).stdout)["CUDA Runtime API"]["cudaMalloc"]
    assert row["COUNT"] == str(n)


@pytest.mark.parametrize("since", ["1x", "h", "-1h", "1h-", "", "1 h 3", "nan", "1e3s"])
def test_wrong_since(query, aged, since):
    one_line(query(aged, f"--since={since}", code=2), "--since")


@pytest.fixture(scope="module")
def minutes(tmp_path_factory):
    """One call a minute for ten minutes: 22:13:20 … 22:22:20 UTC, 00:13:20 … 00:22:20 of the next day here."""
    return make(tmp_path_factory.mktemp("minutes") / "m.db",
                [call((T0 + 60 * i) * S, "cudaMalloc" if i % 2 else "cuLaunchKernel", 5000, pid=100 + i % 3)
                 for i in range(10)])


@pytest.mark.parametrize("flags, first, n", [
    (["--from", "2023-11-15 00:15"], 2, 8),
    (["--from", "2023-11-15 00:15", "--to", "2023-11-15 00:17:30"], 2, 3),
    (["--from", "2023-11-15T00:15:20", "--to", "2023-11-15T00:17:20"], 2, 2),  # the end is not in it
    (["--from", "2023-11-14T22:15:00Z", "--to", "2023-11-14T22:17:30Z"], 2, 3),
    (["--from", "2023-11-14T17:15:00-05:00", "--to", "2023-11-15T00:17:30+02:00"], 2, 3),
    (["--from", f"@{T0 + 120}", "--to", f"@{T0 + 121}"], 2, 1),
    (["--to", "2023-11-15 00:14"], 0, 1),
    (["--from", "2023-11-14T22:13:20.000000001Z"], 1, 9),
    (["--since", "1h", "--from", "2023-11-14 22:13Z"], 0, 10)])
def test_from_and_to(query, minutes, flags, first, n):
    rows = strict(query(minutes, "--json", *flags).stdout)
    assert len(rows) == n
    stamps = [datetime.fromisoformat(r["timestamp"][:26] + r["timestamp"][29:]) for r in rows]
    start = datetime.fromtimestamp(T0, timezone.utc)
    assert [(s - start).total_seconds() for s in stamps] == [60 * (first + i) for i in range(n)]
    assert all(r["timestamp"].endswith("+02:00") for r in rows)
    total = sum(int(r["COUNT"]) for t in tables(query(minutes, *flags).stdout).values() for r in t.values())
    assert total >= n  # counters are exact to ten seconds
    assert total <= n + 1


def test_times_of_day_are_todays_and_local(query, tmp_path):
    day = datetime.now(timezone.utc).timestamp() + 7200
    midnight = (int(day) // 86400) * 86400 - 7200
    db = make(tmp_path / "today.db", [call((midnight + s) * S, "cudaMalloc", 5000 + s) for s in (3600, 7200, 10800)])
    rows = strict(query(db, "--json", "--from", "02:00", "--to", "02:30:10").stdout)
    assert [r["duration_ns"] for r in rows] == [5000 + 7200]


@pytest.mark.parametrize("flags, part", [
    (["--from", "25:00"], "--from"), (["--to", "yesterday"], "--to"), (["--from", "2023-02-29 10:00"], "--from"),
    (["--from", "2023-11-15 00:15 CET"], "--from"), (["--from", ""], "--from"),
    (["--from", "2023-11-15 00:15", "--to", "2023-11-15 00:14"], "before it begins")])
def test_wrong_from_and_to(query, minutes, flags, part):
    one_line(query(minutes, *flags, code=2), part)


# ---- filters ----

def test_pid(query, minutes):
    for pids, ids in (("100", {100}), ("100,102", {100, 102})):
        rows = strict(query(minutes, "--json", "--since", "0", "--pid", pids).stdout)
        assert {r["pid"] for r in rows} == ids
        assert len(rows) == sum(100 + i % 3 in ids for i in range(10))
        text = query(minutes, "--since", "0", "-p", pids).stdout
        assert sum(int(r["COUNT"]) for t in tables(text).values() for r in t.values()) == len(rows)
        assert f"PID{'s' * (len(ids) > 1)} {pids} " in text.splitlines()[0]
    twice = query(minutes, "--json", "--since", "0", "--pid", "100", "--pid", "102").stdout
    assert strict(twice) == rows
    assert strict(query(minutes, "--json", "--since", "0", "--pid", "999", code=3).stdout) == []
    for bad in ("0", "x", "1,,2", "-5", "99999999999999999999", "1,1"):
        one_line(query(minutes, f"--pid={bad}", code=2), "--pid")


@pytest.fixture(scope="module")
def operations(tmp_path_factory):
    ops = ["cudaMalloc", "cudaStreamSynchronize", "cudaDeviceSynchronize", "cuMemAlloc_v2", "cudaGraphLaunch",
           "cuLaunchKernel", "process_exit"]
    return make(tmp_path_factory.mktemp("ops") / "o.db", [call(T0 * S + i, op, 5000) for i, op in enumerate(ops)])


@pytest.mark.parametrize("name, printed", [
    ("cudaMalloc", "cudaMalloc"), ("CUDAMALLOC", "cudaMalloc"), ("cudaStreamSync", "cudaStreamSync"),
    ("cudaStreamSynchronize", "cudaStreamSync"), ("cudastreamsynchronize_ptsz", "cudaStreamSync"),
    ("CudaDeviceSynchronize", "cudaDeviceSync"), ("cuMemAlloc", "cuMemAlloc"), ("cuMemAlloc_v2", "cuMemAlloc"),
    ("cuMemAllocv2", "cuMemAlloc"), ("graphLaunch", "graphLaunch"), ("cudaGraphLaunch", "graphLaunch"),
    ("PROCESS_EXIT", "process_exit"), ("culaunchkernel", "cuLaunchKernel")])
def test_op_names(query, operations, name, printed):
    rows = strict(query(operations, "--json", "--since", "0", "--op", name).stdout)
    assert [r["op"] for r in rows] == [printed]
    found = tables(query(operations, "--since", "0", f"--op={name}").stdout)
    assert [list(t) for t in found.values()] == [[printed]]


@pytest.mark.parametrize("name", ["cudaMallocc", "x", "%", "cuda", "1' OR '1", "m" * 100_000])
def test_unknown_op(query, operations, name):
    line = one_line(query(operations, "--op", name, code=2), "--op", "cudaMalloc")
    assert len(line) < 300


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    return make(tmp_path_factory.mktemp("many") / "many.db",
                [call((T0 * S) + i * 1000, "cudaMalloc", 1000 + i) for i in range(10_005)])


def test_limit(query, many):
    for flags, n in (([], 10_000), (["--limit", "0"], 10_000), (["--limit=-1"], 10_005), (["--limit", "-1"], 10_005),
                     (["--limit", "3"], 3), (["--limit", "10000"], 10_000), (["--limit", "20000"], 10_005)):
        done = query(many, "--json", "--since", "0", *flags)
        rows = strict(done.stdout)
        # the newest, oldest first
        assert [r["duration_ns"] for r in rows] == list(range(1000 + 10_005 - n, 1000 + 10_005)), flags
        # only the bound nobody asked for is said
        assert ("only the newest" in done.stderr) == (not flags), (flags, done.stderr)
    for bad in ("-2", "x", "1.5", "", "99999999999999999999"):
        one_line(query(many, f"--limit={bad}", code=2), "--limit")
    row = tables(query(many, "--since", "0", "--limit", "5").stdout)["CUDA Runtime API"]["cudaMalloc"]
    assert row["COUNT"] == "10,005"


# ---- JSON ----

def test_json_holds_what_was_recorded(query, tmp_path):
    db = make(tmp_path / "j.db", [call(T0 * S + 123_456_789, "cudaMalloc", 5_250_000, pid=41, tid=43, size=2**40,
                                       name='a"b\\c'),
                                  call(T0 * S + 2 * S, "cudaMemcpy", 900, pid=41, ret=700, size=77,
                                       name='a"b\\c')])
    first, second = strict(query(db, "--json", "--since", "0").stdout)
    assert first["timestamp"] == "2023-11-15T00:13:20.123456789+02:00"
    assert (first["pid"], first["tid"], first["comm"], first["source"], first["op"]) == \
        (41, 43, 'a"b\\c', "cuda", "cudaMalloc")
    assert first["duration_ns"] == 5_250_000 and first["duration"] == shown(5_250_000)
    assert first["args"][0] == 2**40 and first["node"] == "test-node" and first["reason"] == ["all"]
    assert "return_code" not in first and second["return_code"] == 700
    assert first["id"] != second["id"] and first["id"].startswith("test-node:")


def test_no_rows_is_3(query, minutes):
    done = query(minutes, code=3)
    assert done.stderr == ""
    assert done.stdout.splitlines()[:3] == ["  No events found.", f"  Database: {minutes}", "  Time range: last 1h0m0s"]
    assert "2023-11-15 00:13:20 TST" in done.stdout  # what it does hold
    done = query(minutes, "--json", code=3)
    assert strict(done.stdout) == [] and done.stderr == ""


def test_recording_without_calls(query, tmp_path):
    db = make(tmp_path / "none.db", [])
    assert "No events found" in query(db, "--since", "0", code=3).stdout
    assert strict(query(db, "--json", "--since", "0", code=3).stdout) == []


# ---- files that are none ----

MODES = [[], ["--json"], ["SELECT 1"], ["--json", "SELECT 1"]]


@pytest.mark.parametrize("flags", MODES)
def test_missing_file(query, tmp_path, flags):
    path = tmp_path / "no" / "such.db"
    before = folder(tmp_path)
    one_line(query(path, *flags, code=1), str(path), "ingero trace")
    one_line(query(tmp_path / "such.db", *flags, code=1), str(tmp_path / "such.db"), "ingero trace")
    one_line(query(None, *flags, code=1), str(tmp_path / ".ingero/ingero.db"), "ingero trace")
    assert folder(tmp_path) == before


@pytest.mark.parametrize("flags", MODES)
def test_files_that_are_no_recordings(query, tmp_path, flags):
    empty, text, other, short = (tmp_path / n for n in ("empty.db", "text.db", "other.db", "short.db"))
    empty.touch()
    text.write_text("hello, this is no database\n" * 1000)
    short.write_bytes(b"SQLite format 3\0")
    db = sqlite3.connect(other)
    db.execute("CREATE TABLE things(a)")
    db.commit()
    db.close()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "nowhere")
    before = sorted(p.name for p in tmp_path.iterdir())
    one_line(query(empty, *flags, code=1), str(empty), "is empty")
    one_line(query(tmp_path, *flags, code=1), str(tmp_path), "folder")
    one_line(query(text, *flags, code=1), str(text), "not a recording")
    one_line(query(short, *flags, code=1), str(short))
    one_line(query(fifo, *flags, code=1), str(fifo), "not a regular file")
    one_line(query("/dev/null", *flags, code=1), "/dev/null")
    one_line(query(dangling, *flags, code=1), str(dangling))
    if "SELECT 1" not in flags:
        one_line(query(other, *flags, code=1), str(other), "not a recording")
    assert sorted(p.name for p in tmp_path.iterdir()) == before and empty.stat().st_size == 0


EVENTS_SQL = "SELECT count(*), sum(duration) FROM events"


@pytest.mark.parametrize("share", [.1, .3, .5, .8, .95])
def test_truncated(query, many, tmp_path, share):
    data = many.read_bytes()
    cut = tmp_path / "cut.db"
    cut.write_bytes(data[:int(len(data) * share)])
    before = digest(cut)
    for flags in (["--since", "0", "--limit=-1"], ["--since", "0", "--json", "--limit=-1"], [EVENTS_SQL]):
        done = query(cut, *flags, code=1)
        errors = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
        assert len(errors) == 1 and str(cut) in errors[0] and "damaged" in errors[0], done.stderr
    assert digest(cut) == before and [p.name for p in tmp_path.iterdir()] == ["cut.db"]


@pytest.mark.parametrize("seed", range(8))
def test_corrupted_pages(query, many, tmp_path, seed):
    """Any answer but a wrong ending: damage that was met is one line and 1, damage elsewhere changes nothing."""
    rng = random.Random(seed)
    data = bytearray(many.read_bytes())
    for _ in range(1 + seed):
        at = rng.randrange(4096, len(data) - 4096)
        data[at:at + 1024] = rng.randbytes(1024)
    bad = tmp_path / "bad.db"
    bad.write_bytes(data)
    for flags in (["--since", "0"], ["--since", "0", "--json", "--limit=-1"], [EVENTS_SQL], ["--json", EVENTS_SQL]):
        done = subprocess.run([BUILD / "src/cli/ingero", "query", "--db", bad, *flags], capture_output=True, timeout=60,
                              env=environment(tmp_path))
        err = done.stderr.decode()
        assert done.returncode in (0, 1), (flags, done.returncode, err)
        assert (done.returncode == 1) == err.startswith("Error: ") and err.count("\n") == done.returncode, err
        if not done.returncode and "--json" in flags:
            strict(done.stdout.decode())
    assert bad.read_bytes() == data


def test_all_pages_but_the_first_corrupted(query, many, tmp_path):
    data = many.read_bytes()
    bad = tmp_path / "bad.db"
    bad.write_bytes(data[:4096] + random.Random(1).randbytes(len(data) - 4096))
    for flags in (["--since", "0"], ["--since", "0", "--json"], [EVENTS_SQL], ["--json", EVENTS_SQL]):
        one_line(query(bad, *flags, code=1), str(bad), "damaged")


# ---- SQL ----

def test_sql(query, minutes):
    sql = "SELECT pid, count(*) AS n, avg(duration) AS d, NULL AS none FROM events GROUP BY pid ORDER BY pid"
    names, rows = text_rows(query(minutes, sql).stdout)
    assert names == ["pid", "n", "d", "none"]
    assert rows == [["100", "4", "5000", "NULL"], ["101", "3", "5000", "NULL"], ["102", "3", "5000", "NULL"]]
    assert strict(query(minutes, "--json", sql).stdout) == [
        {"pid": 100 + i, "n": 4 if not i else 3, "d": 5000.0, "none": None} for i in range(3)]
    assert strict(query(minutes, "--json", "SELECT 1 WHERE 0").stdout) == []
    big = strict(query(minutes, "--json", "SELECT 9223372036854775807 AS i, -9223372036854775808 AS j, 1e999 AS k, "
                                          "'ü' AS t, char(0) AS z").stdout)
    assert (big[0]["i"], big[0]["j"], big[0]["t"]) == (2**63 - 1, -2**63, "ü")
    assert "k" in big[0] and "z" in big[0]
    for good in ("  \n-- a comment\nSELECT 1;  -- behind", "WITH x AS (SELECT 1) SELECT * FROM x;;", "VALUES (1)",
                 "select*from(select 1)", "SELECT 'DROP TABLE event; DELETE FROM event'"):
        assert len(text_rows(query(minutes, good).stdout)[1]) == 1, good


@pytest.mark.parametrize("sql", [
    "DELETE FROM event", "INSERT INTO meta VALUES ('a', 1)", "UPDATE event SET dur = 0", "DROP TABLE event",
    "DROP VIEW events", "CREATE TABLE x(a)", "CREATE TEMP TABLE x(a)", "ALTER TABLE event RENAME TO x",
    "PRAGMA user_version = 7", "PRAGMA journal_mode = DELETE", "PRAGMA writable_schema = 1", "VACUUM",
    "VACUUM INTO 'copy.db'", "ATTACH 'other.db' AS o", "ATTACH '/etc/passwd' AS o", "DETACH main", "BEGIN IMMEDIATE",
    "COMMIT", "SAVEPOINT x", "REINDEX", "ANALYZE", "REPLACE INTO meta VALUES ('fine_from', 1)",
    "WITH x AS (SELECT 1) DELETE FROM event", "SELECT 1; DELETE FROM event", "SELECT load_extension('x')",
    "SELECT readfile('/etc/passwd')", "SELECT writefile('w', 'x')", "SELECT randomblob(100000000)",
    "SELECT zeroblob(1000000000)", "EXPLAIN DELETE FROM event", "INSERT INTO event DEFAULT VALUES RETURNING *",
    "SELECT * FROM pragma_journal_mode('delete')", "SELECT edit('x')", "SELECT fts3_tokenizer('x')"])
def test_sql_that_does_more_than_read_is_refused(query, minutes, tmp_path, sql):
    db = tmp_path / "r.db"
    shutil.copyfile(minutes, db)
    db.chmod(0o600)
    before = digest(db), folder(tmp_path)
    one_line(query(db, sql, code=2))
    one_line(query(db, "--json", sql, code=2))
    assert (digest(db), folder(tmp_path)) == before


@pytest.mark.parametrize("sql", ["", "   ", "-- nothing", "SELEC 1", "SELECT nope FROM events", "SELECT * FROM nope",
                                 "SELECT '", "SELECT 1 FROM", "\udcff", "SELECT " + "(" * 5000 + "1" + ")" * 5000,
                                 "SELECT " + "1," * 60_000 + "1"])
def test_wrong_sql(query, minutes, sql):
    line = one_line(query(minutes, sql, code=2))
    assert len(line) < 1000


@pytest.mark.parametrize("flag", [["--since", "1h"], ["--limit", "5"], ["--pid", "1"], ["--op", "cudaMalloc"],
                                  ["--from", "10:00"], ["--to", "10:00"]])
def test_filters_do_not_apply_to_sql(query, minutes, flag):
    one_line(query(minutes, *flag, "SELECT 1", code=2), flag[0])


ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "


def test_endless_sql_that_gives_nothing_is_stopped(ingero, minutes, tmp_path):
    before = digest(minutes)
    started = time.monotonic()
    both = [subprocess.Popen([ingero, "query", "--db", minutes, *flags, ENDLESS + "SELECT count(*) FROM c"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(tmp_path))
            for flags in ([], ["--json"])]
    try:
        for p in both:
            out, err = p.communicate(timeout=100)
            assert p.returncode == 1 and out == ""
            assert err.startswith("Error: ") and err.count("\n") == 1 and "stopped" in err, err
    finally:
        for p in both:
            p.kill()
            p.wait(30)
    assert time.monotonic() - started < 90
    assert digest(minutes) == before


def test_endless_rows_are_cut_and_it_is_said(query, minutes):
    done = query(minutes, "--json", ENDLESS + "SELECT x FROM c")
    assert [r["x"] for r in strict(done.stdout)] == list(range(1, 10_001))
    assert done.stderr.count("\n") == 1 and "first" in done.stderr
    done = query(minutes, ENDLESS + "SELECT x FROM c")
    assert "first" in done.stderr and "row" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize("sql", [
    ENDLESS + "SELECT json_group_array(x) FROM c", ENDLESS + "SELECT x FROM c ORDER BY -x",
    "WITH RECURSIVE c(s) AS (SELECT 'aaaaaaaaaaaaaaaa' UNION ALL SELECT replace(s, 'a', 'aa') FROM c) "
    "SELECT length(s) FROM c"])
def test_sql_that_eats_memory_is_stopped(ingero, minutes, tmp_path, sql):
    def limit():
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))

    if b"asan" in (BUILD / "src/cli/ingero").read_bytes():
        limit = None  # its shadow takes terabytes of addresses
    done = subprocess.run([ingero, "query", "--db", minutes, "--json", sql], capture_output=True, text=True,
                          timeout=100, env=environment(tmp_path), preexec_fn=limit)
    assert done.returncode in (1, 2), (done.returncode, done.stderr)
    assert done.stdout == "" and done.stderr.startswith("Error: ") and done.stderr.count("\n") == 1, done.stderr


def test_one_function_cannot_work_for_long(ingero, minutes, tmp_path):
    sql = "SELECT " + ", ".join(f"printf('%.*c', {2_000_000_000 + i}, 'x')" for i in range(6))
    done = subprocess.run([ingero, "query", "--db", minutes, "--json", sql], capture_output=True, text=True, timeout=5,
                          env=environment(tmp_path))
    assert done.returncode in (1, 2) and done.stderr.startswith("Error: ")


def test_many_columns(query, minutes):
    one_line(query(minutes, "SELECT * FROM events", code=1), "16", "--json")
    rows = strict(query(minutes, "--json", "SELECT * FROM events").stdout)
    assert len(rows) == 10 and {r["duration"] for r in rows} == {5000}


# ---- where files lie, and who reads them ----

def test_symlink(query, minutes, tmp_path):
    link = tmp_path / "link.db"
    link.symlink_to(minutes)
    assert len(strict(query(link, "--json", "--since", "0").stdout)) == 10
    assert [p.name for p in tmp_path.iterdir()] == ["link.db"]


def test_odd_paths(query, minutes, tmp_path):
    for name in ("a b.db", "q?mode=rwc&x#y%20.db", "ü'\".db", "-x.db"):
        path = tmp_path / name
        shutil.copyfile(minutes, path)
        assert len(strict(query(path, "--json", "--since", "0").stdout)) == 10, name
    done = query(tmp_path / "\x1b[31m\n.db", code=1)
    assert b"\x1b" not in done.raw and done.stderr.count("\n") == 1


@pytest.fixture
def public():
    """A folder that every user can look into."""
    path = Path(tempfile.mkdtemp(prefix="ingero-test-"))
    path.chmod(0o755)
    yield path
    path.chmod(0o755)
    shutil.rmtree(path)


NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]


def test_read_only_file_of_another_user(query, minutes, public):
    db = public / "ro.db"
    shutil.copyfile(minutes, db)
    db.chmod(0o444)
    public.chmod(0o555)
    before = digest(db), folder(public)
    prefix = NOBODY if os.geteuid() == 0 else []
    assert len(strict(query(db, "--json", "--since", "0", prefix=prefix).stdout)) == 10
    assert "cudaMalloc" in query(db, "--since", "0", prefix=prefix).stdout
    assert strict(query(db, "--json", "SELECT count(*) AS n FROM events", prefix=prefix).stdout) == [{"n": 10}]
    assert (digest(db), folder(public)) == before


def test_file_without_permission(query, minutes, public):
    if os.geteuid() != 0:
        pytest.skip("needs root to make a file of another user")
    db = public / "mine.db"
    shutil.copyfile(minutes, db)
    db.chmod(0o600)
    for flags in MODES:
        one_line(query(db, *flags, code=1, prefix=NOBODY), str(db), "permission")


# ---- while it is written ----

def test_committed_rows_in_the_wal_are_read_and_no_others(query, minutes, tmp_path):
    db = tmp_path / "w.db"
    shutil.copyfile(minutes, db)
    db.chmod(0o600)
    writer = sqlite3.connect(db, isolation_level=None)
    assert writer.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
    writer.execute("PRAGMA wal_autocheckpoint = 0")
    writer.execute(f"DELETE FROM event WHERE ts < {(T0 + 240) * S}")  # four of ten, committed
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("DELETE FROM event")
    try:
        assert len(strict(query(db, "--json", "--since", "0").stdout)) == 6
        assert strict(query(db, "--json", "SELECT count(*) AS n FROM events").stdout) == [{"n": 6}]
        # what a crash leaves behind: the file and its -wal, no index
        left = tmp_path / "left"
        left.mkdir()
        for end in ("", "-wal"):
            shutil.copyfile(f"{db}{end}", left / f"w.db{end}")
        before = digest(left / "w.db"), digest(left / "w.db-wal")
        assert len(strict(query(left / "w.db", "--json", "--since", "0").stdout)) == 6
        assert (digest(left / "w.db"), digest(left / "w.db-wal")) == before
    finally:
        writer.execute("ROLLBACK")
        writer.close()


@pytest.fixture
def recorder(tmp_path):
    p = subprocess.Popen([BUILD / "tests/system/make-recording", tmp_path / "live.db"], stdin=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    yield p
    p.kill()
    p.stdin.close()
    p.wait(30)


def feed(ingero, recorder, db):
    """1000 calls, which are then in the file."""
    recorder.stdin.write(b"".join(call(T0 * S + i * 1000, "cudaMalloc", 5000) for i in range(1000)))
    recorder.stdin.flush()

    def rows():
        done = subprocess.run([ingero, "query", "--db", db, "--json", "--since", "0"], capture_output=True, timeout=60)
        assert done.returncode in (0, 1, 3), done.stderr
        return done.returncode == 0 and len(strict(done.stdout.decode())) == 1000

    wait_for(rows, "the rows to be in the file", 30)


def test_live_recorder(ingero, query, recorder, tmp_path):
    db = tmp_path / "live.db"
    feed(ingero, recorder, db)
    out = query(db, "--since", "0").stdout
    assert "A tracer is writing to this database now" in out and "cut off" not in out
    recorder.stdin.close()
    assert recorder.wait(30) == 0
    out = query(db, "--since", "0").stdout
    assert "writing" not in out and "cut off" not in out
    assert tables(out)["CUDA Runtime API"]["cudaMalloc"]["COUNT"] == "1,000"


def test_killed_recorder(ingero, query, recorder, tmp_path):
    db = tmp_path / "live.db"
    feed(ingero, recorder, db)
    recorder.kill()
    recorder.wait(30)
    out = query(db, "--since", "0").stdout
    assert "cut off" in out and "writing" not in out
    assert tables(out)["CUDA Runtime API"]["cudaMalloc"]["COUNT"] == "1,000"


# ---- strange names ----

NAMES = [b"\x1b[31mred", b"\x1b]0;title\x07", b"\xff\xfe\x80", b"tab\there", b"del\x7f", b"\xc2\x9b31m", b"\x0d\x08cr",
         b"\xe2\x80\xaertl", "näme".encode(), b"\xed\xa0\x80", b"cut\xe2\x82"]


def test_strange_process_names_do_not_reach_the_terminal(query, tmp_path):
    db = make(tmp_path / "n.db", [call(T0 * S + i, "cudaMalloc", 5000, pid=100 + i, name=n)
                                  for i, n in enumerate(NAMES)])
    runs = [query(db, "--since", "0", "--json"), query(db, "--since", "0"),
            query(db, "SELECT pid, comm FROM events ORDER BY pid"), query(db, "--json", "SELECT comm FROM events"),
            query(db, "SELECT 1 AS \"\x1b[31m\", char(27, 91, 51, 49, 109, 155, 7) AS x, comm FROM events")]
    for done in runs:
        text = done.raw.decode()  # valid UTF-8
        assert not CONTROLS & set(map(ord, text)), done.raw
    rows = strict(runs[0].stdout)
    assert len(rows) == len(NAMES)
    # JSON keeps what is text
    by_pid = {r["pid"]: r["comm"] for r in rows}
    assert by_pid[100] == "\x1b[31mred" and by_pid[108] == "näme" and by_pid[103] == "tab\there"
    assert "\ufffd" in by_pid[102] and "\ufffd" in by_pid[109]
    assert len(text_rows(runs[2].stdout)[1]) == len(NAMES)


# ---- the reference's databases ----

REFERENCE_FILES = sorted(REFERENCE.glob("*.db"))


@pytest.fixture(params=[p.name for p in REFERENCE_FILES] or [None])
def reference(request):
    if request.param is None:
        pytest.skip(f"{REFERENCE} is not here")
    path = REFERENCE / request.param
    before = digest(path), folder(REFERENCE)
    yield path
    assert (digest(path), folder(REFERENCE)) == before


# operations that the reference's own table of names lacks
LATER_NAMES = {(3, 20): "mm_page_alloc_summary", (3, 21): "sched_switch_summary", (8, 1): "graphBeginCapture",
               (8, 2): "graphEndCapture", (8, 3): "graphInstantiate", (8, 4): "graphLaunch"}


def facts(path):
    db = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    rows = {}
    for source, op, dur in db.execute("SELECT source, op, duration FROM events"):
        rows.setdefault((source, op), []).append(dur)
    counted = {}
    if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'event_aggregates'").fetchone():
        for source, op, n in db.execute("SELECT source, op, sum(count) FROM event_aggregates GROUP BY 1, 2"):
            counted[source, op] = n
    names = {(s, o): n for s, o, n in db.execute("SELECT source_id, op_id, name FROM ops")}
    db.close()
    return rows, counted, names


def test_reference_tables(query, reference):
    rows, counted, names = facts(reference)
    out = query(reference, "--since", "0").stdout
    found = {op: row for t in tables(out).values() for op, row in t.items()}
    stored = sum(map(len, rows.values()))
    total = sum(max(len(rows.get(k, [])), counted.get(k, 0)) for k in rows.keys() | counted.keys())
    header = out.splitlines()[0]
    assert f"| {stored:,} events" in header
    assert (f"({total:,} total, selective storage)" in header) == (total > stored), header
    for key, values in rows.items():
        row = found[names.get(key) or LATER_NAMES[key]]
        assert row["COUNT"] == f"{len(values):,}"
        assert row["MAX"] == shown(max(values)), (key, row)
        for column, p in (("P50", .5), ("P95", .95), ("P99", .99)):
            assert row[column] == shown(nearest_rank(values, p)), (key, column)
    assert len(found) == len(rows.keys() | counted.keys())


def test_reference_json(query, reference):
    rows, _, names = facts(reference)
    listed = strict(query(reference, "--json", "--since", "0", "--limit", "-1").stdout)
    total = sum(map(len, rows.values()))
    assert len(listed) == total
    for key, values in rows.items():
        if key in names:
            assert sorted(r["duration_ns"] for r in listed if r["op"] == names[key]) == sorted(values), names[key]
    stamps = [datetime.fromisoformat(r["timestamp"][:26] + r["timestamp"][29:]) for r in listed]
    assert stamps == sorted(stamps)
    newest = strict(query(reference, "--json", "--since", "0", "--limit", "10").stdout)
    assert newest == listed[-10:]
    assert strict(query(reference, "--json", code=3).stdout) == []  # nothing of the last hour
    query(reference, code=3)


def test_reference_sql(query, reference):
    rows, _, _ = facts(reference)
    sql = "SELECT source, op, count(*) AS n FROM events GROUP BY 1, 2"
    got = {(r["source"], r["op"]): r["n"] for r in strict(query(reference, "--json", sql).stdout)}
    assert got == {k: len(v) for k, v in rows.items()}
