"""Calls of real processes through real probes: nothing is invented, nothing is lost in silence."""

import json
import signal
import sqlite3
import subprocess

import pytest

from conftest import Tracer, end, our_bpf, wait_bpf_gone

WAYS = ["session", "multi", "single"]
# printed names that are not the symbol's own
PRINTED = {"cudaStreamSynchronize": "cudaStreamSync", "cudaDeviceSynchronize": "cudaDeviceSync"}


def printed(symbol):
    base = symbol.removesuffix("_v2")
    return PRINTED.get(base, base)


def made_by_op(loss):
    total = {}
    for row in loss["operations"]:
        layer = "driver" if row["source"] == "driver" else "runtime"
        total[layer, row["op"]] = total.get((layer, row["op"]), 0) + row["made"]
    return total


def assert_account(loss):
    for row in [loss] + loss["operations"]:
        assert row["made"] == row["delivered"] + row["sampled_out"] + row["lost"], row


def assert_same_counts(job, loss, names):
    counts, made = job.counts(), made_by_op(loss)
    for layer, name in names:
        assert made.get((layer, printed(name)), 0) == counts[layer, name], (layer, name, made)


THREADS_SCRIPT = """
thread 8 { loop 5000 { call cudaLaunchKernel; call cudaMemcpyAsync 100; call cudaMalloc 64; call cudaFree } }
join
"""
THREADS_NAMES = [("runtime", "cudaLaunchKernel"), ("runtime", "cudaMemcpyAsync"), ("runtime", "cudaMalloc"),
                 ("runtime", "cudaFree"), ("driver", "cuLaunchKernel"), ("driver", "cuMemAlloc_v2"),
                 ("driver", "cuMemFree_v2")]


@pytest.mark.parametrize("way", WAYS)
def test_every_call_is_counted_in_each_way(bpf, job, trace, way):
    j = job("loop 200 { call cudaLaunchKernel; call cudaMalloc 64; call cudaFree }")
    t = trace(j.pid, "--probe-mode", way)
    assert f"Attached by: {way}" in t.err.text()
    j.go()
    assert j.finish() == 0
    assert t.finish() == 0, t.err.text()
    loss = t.loss()
    assert_account(loss)
    assert loss["lost"] == 0
    assert_same_counts(j, loss, [("runtime", "cudaLaunchKernel"), ("runtime", "cudaMalloc")])
    assert len(t.events(op="cudaLaunchKernel", source="cuda")) == 200


@pytest.mark.parametrize("ring", ["4096", "8m"])
def test_conservation_with_eight_threads(bpf, job, trace, ring, tmp_path):
    """With the smallest ring most records are lost: each of them must be accounted for, and no count may suffer."""
    j = job(THREADS_SCRIPT)
    t = trace(j.pid, "--ringbuf-size", ring)
    j.go()
    assert j.finish() == 0
    assert t.finish() == 0, t.err.text()
    loss = t.loss()
    assert_account(loss)
    assert_same_counts(j, loss, THREADS_NAMES)
    events = t.events()
    assert loss["delivered"] == len(events)
    if ring == "4096":
        assert loss["lost"] > 0
        assert any(json.loads(line)["type"] == "loss" and not json.loads(line)["final"] for line in t.out.lines) or \
            loss["lost"] == loss["made"] - len(events)
    db = sqlite3.connect(f"file:{tmp_path}/t.db?mode=ro", uri=True)
    in_db = db.execute("SELECT sum(count) FROM event_aggregates").fetchone()[0]
    assert in_db == loss["made"]


def test_layers_nest_and_never_count_twice(bpf, job, trace):
    j = job("loop 50 { call cudaMalloc 1000 }")
    t = trace(j.pid)
    j.go()
    j.finish()
    assert t.finish() == 0
    runtime, driver = t.events(op="cudaMalloc"), t.events(op="cuMemAlloc")
    assert len(runtime) == len(driver) == 50
    assert all(e["depth"] == 1 and e["nested"] for e in driver)
    assert all(e["depth"] == 0 and not e["nested"] for e in runtime)
    for outer, inner in zip(runtime, driver):
        assert inner["duration_ns"] <= outer["duration_ns"]
    assert {e["args"][0] for e in runtime} == {1000}
    rows = {r["op"]: r for r in t.loss()["operations"]}
    assert rows["cuMemAlloc"]["nested"] == 50
    assert rows["cuMemAlloc"]["nested_ns"] == rows["cuMemAlloc"]["sum_ns"]
    assert rows["cudaMalloc"]["nested"] == 0
    assert rows["cudaMalloc"]["bytes"] == 50_000


def test_errors_and_values(bpf, job, trace):
    j = job("set error cudaMalloc=2/2\nloop 10 { call cudaMalloc 4096 }")
    t = trace(j.pid)
    j.go()
    j.finish()
    assert t.finish() == 0
    events = t.events(op="cudaMalloc")
    assert sorted(e["return_code"] for e in events) == [0] * 5 + [2] * 5
    row = next(r for r in t.loss()["operations"] if r["op"] == "cudaMalloc")
    assert row["errors"] == 5
    assert row["bytes"] == 5 * 4096
    assert len({e["handle"] for e in events if not e["return_code"]}) == 5


def test_graphs_have_handles_and_spans(bpf, job, trace):
    j = job("graph 5 3")
    t = trace(j.pid)
    j.go()
    j.finish()
    assert t.finish() == 0
    by_op = {}
    for e in t.events(source="cuda_graph"):
        by_op.setdefault(e["op"], []).append(e)
    assert len(by_op["graphLaunch"]) == 3
    assert len(by_op["graphBeginCapture"]) == len(by_op["graphEndCapture"]) == len(by_op["graphInstantiate"]) == 1
    exec_handle = by_op["graphInstantiate"][0]["exec"]
    assert {e["exec"] for e in by_op["graphLaunch"]} == {exec_handle}
    assert by_op["graphEndCapture"][0]["graph"] == by_op["graphInstantiate"][0]["graph"]
    assert by_op["graphEndCapture"][0]["capture_ns"] > 0
    assert sum(1 for e in t.events(op="cudaLaunchKernel") if e.get("capturing")) == 5


@pytest.mark.parametrize("runtime", ["11", "12", "13"])
def test_each_runtime_major(bpf, job, trace, runtime):
    j = job("loop 30 { call cudaMemcpyAsync 512; call cudaLaunchKernel }",
            first=f"runtime {runtime}\ncall cudaDeviceSynchronize")
    t = trace(j.pid)
    j.go()
    j.finish()
    assert t.finish() == 0
    assert_same_counts(j, t.loss(), [("runtime", "cudaMemcpyAsync"), ("runtime", "cudaLaunchKernel")])
    assert {e["args"][0] for e in t.events(op="cudaMemcpyAsync")} == {512}


@pytest.mark.parametrize("program", ["sim-static", "sim-static-stripped", "sim-workload-linked", "fp/sim-workload",
                                     "cet/sim-workload"])
def test_other_builds_of_the_runtime(bpf, job, trace, program):
    j = job("loop 30 { call cudaLaunchKernel; call cudaMalloc 100 }", program=program)
    t = trace(j.pid)
    j.go()
    j.finish()
    assert t.finish() == 0
    names = [("driver", "cuLaunchKernel"), ("driver", "cuMemAlloc_v2")]
    if program == "sim-static-stripped":
        assert "linked in and stripped" in t.err.text()
        assert not t.events(source="cuda")
    else:
        names += [("runtime", "cudaLaunchKernel"), ("runtime", "cudaMalloc")]
    assert_same_counts(j, t.loss(), names)


def test_children_belong_to_the_target(bpf, job, trace):
    j = job("fork 2 { loop 20 { call cudaMalloc 64 } }\nwait\nloop 20 { call cudaMalloc 64 }")
    t = trace(j.pid)
    j.go()
    j.finish()
    assert t.finish() == 0
    assert len({e["pid"] for e in t.events(op="cudaMalloc")}) == 3
    assert_same_counts(j, t.loss(), [("runtime", "cudaMalloc")])


def test_only_the_named_process(bpf, job, trace):
    mine, other = job("loop 20 { call cudaMalloc 64 }"), job("loop 20 { call cudaMalloc 64 }")
    t = trace(mine.pid)
    other.go()
    other.finish()
    mine.go()
    mine.finish()
    assert t.finish() == 0
    assert {e["pid"] for e in t.events()} == {mine.pid}


def test_sampling_counts_everything_and_weighs_rows(bpf, job, trace):
    j = job("loop 1000 { call cudaLaunchKernel }\nloop 50 { call cudaMalloc 64; call cudaFree }")
    t = trace(j.pid, "--sampling-rate", "10")
    j.go()
    j.finish()
    assert t.finish() == 0
    loss = t.loss()
    assert_account(loss)
    assert_same_counts(j, loss, [("runtime", "cudaLaunchKernel"), ("runtime", "cudaMalloc"), ("runtime", "cudaFree")])
    launches = t.events(op="cudaLaunchKernel", source="cuda")
    assert len(launches) == 100
    assert {e["weight"] for e in launches} == {10}
    assert len(t.events(op="cudaMalloc")) == len(t.events(op="cudaFree")) == 50


def test_record_all_makes_every_call_a_row(bpf, job, trace, tmp_path):
    j = job("loop 500 { call cudaLaunchKernel }")
    t = trace(j.pid, "--record-all")
    j.go()
    j.finish()
    assert t.finish() == 0
    db = sqlite3.connect(f"file:{tmp_path}/t.db?mode=ro", uri=True)
    assert db.execute("SELECT count(*) FROM events").fetchone()[0] == t.loss()["made"]
    assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


def test_selected_rows_carry_reason_and_weight(bpf, job, trace, tmp_path):
    j = job("loop 2010 { call cudaLaunchKernel }\ncall cudaDeviceSynchronize\nset error cudaMalloc=2/1\n"
            "call cudaMalloc 64")
    t = trace(j.pid)
    j.go()
    j.finish()
    assert t.finish() == 0
    db = sqlite3.connect(f"file:{tmp_path}/t.db?mode=ro", uri=True)
    n, weight = db.execute("SELECT count(*), sum(weight) FROM events WHERE source = 1 AND op = 3").fetchone()
    assert n < 1000
    assert weight <= 2010
    assert db.execute("SELECT count(*) FROM events WHERE source = 1 AND op = 6").fetchone()[0] == 1
    assert db.execute("SELECT count(*) FROM events WHERE source = 1 AND ret_code = 2").fetchone()[0] == 1


@pytest.mark.parametrize("mode", ["throw", "longjmp", "cancel", "recursion"])
@pytest.mark.parametrize("way", ["session", "multi"])
def test_leaving_a_call_sideways_hurts_nobody(bpf, start, sim, trace, mode, way):
    from conftest import Job
    if not (sim / "sim-throw").exists():
        pytest.fail("sim-throw is not built: no C++ compiler")
    j = start(Job, [sim / "sim-throw", "--wait-key", mode])
    j.out.wait("ready", j.process)
    t = trace(j.pid, "--probe-mode", way)
    j.send()
    assert j.finish() == 0, j.err.text()
    assert t.finish() == 0, t.err.text()
    assert "could not be guarded" not in t.err.text()
    loss = t.loss()
    assert_account(loss)
    assert loss["made"] > 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("way", WAYS)
def test_signals_end_in_order(bpf, job, trace, number, way, tmp_path):
    j = job("loop 0 { call cudaLaunchKernel; call cudaMalloc 64; call cudaFree; sleep 100us }")
    t = trace(j.pid, "--probe-mode", way)
    j.go()
    t.out.wait('"cudaMalloc"', t.process)
    end(t, number)
    assert not our_bpf()
    assert j.process.poll() is None
    j.signal(signal.SIGTERM)
    assert j.finish() == 0
    db = sqlite3.connect(f"file:{tmp_path}/t.db?mode=ro", uri=True)
    assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    assert db.execute("SELECT count(*) FROM sessions WHERE stopped_at IS NULL OR stopped_at = 0").fetchone()[0] == 0


def test_kill_leaves_no_probe_and_a_whole_database(bpf, ingero, job, trace, tmp_path):
    j = job("loop 0 { call cudaMalloc 64; call cudaFree; sleep 1ms }")
    t = trace(j.pid)
    j.go()

    def rows():
        with sqlite3.connect(f"file:{tmp_path}/t.db?mode=ro", uri=True) as db:
            return db.execute("SELECT count(*) FROM events").fetchone()[0]

    from conftest import wait_for
    wait_for(lambda: rows() > 100, "rows in the database")
    t.signal(signal.SIGKILL)
    t.finish()
    wait_bpf_gone()
    j.signal(signal.SIGTERM)
    assert j.finish() == 0
    out = subprocess.run([ingero, "query", "--db", tmp_path / "t.db"], capture_output=True, text=True, timeout=60)
    assert out.returncode == 0
    assert "cut off" in out.stdout
    assert "cudaMalloc" in out.stdout
    t2 = trace(None, "--duration", "1s", wait=False)
    assert t2.finish() == 0, t2.err.text()


def test_second_tracer_of_one_database_is_named(bpf, ingero, job, trace, tmp_path):
    j = job("sleep 1ms")
    first = trace(j.pid)
    second = trace(j.pid, wait=False)
    assert second.finish() == 1
    assert len(second.err.lines) == 1, second.err.text()
    assert str(first.pid) in second.err.text()
    third = trace(j.pid, db=tmp_path / "other.db")
    end(third)
    end(first)


def test_without_rights_there_is_one_clear_line(bpf, ingero, tmp_path):
    out = subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", ingero, "trace",
                          "--record=false"], capture_output=True, text=True, timeout=60,
                         env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    assert out.returncode == 1
    assert out.stdout == ""
    assert len(out.stderr.strip().splitlines()) == 1, out.stderr
    assert "sudo" in out.stderr


def test_default_target_is_the_invoking_users(bpf, job, trace):
    j = job("loop 20 { call cudaMalloc 64 }")
    t = trace(None, "--user", "nobody", "--cuda-lib", str(j_lib()))
    j.go()
    j.finish()
    end(t)
    assert not t.events()


def j_lib():
    from conftest import SIM
    return SIM / "libcudart.so.12"


def test_reader_of_stdout_goes_away(bpf, job, ingero, tmp_path):
    j = job("loop 0 { call cudaMalloc 64; call cudaFree; sleep 100us }")
    j.go()
    out = subprocess.run(["bash", "-c", f"{ingero} trace --record=false --json --pid {j.pid} | head -5"],
                         capture_output=True, text=True, timeout=60)
    assert len(out.stdout.splitlines()) == 5
    wait_bpf_gone()
    j.signal(signal.SIGTERM)
    assert j.finish() == 0


def test_disk_full_stops_recording_not_tracing(bpf, job, trace, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", small], check=True)
    try:
        j = job("loop 30000 { call cudaMalloc 64; call cudaFree }")
        t = trace(j.pid, "--record-all", db=small / "full.db")
        j.go()
        assert j.finish() == 0
        assert t.finish() == 0, t.err.text()
        loss = t.loss()
        assert_account(loss)
        assert len(t.events()) == loss["delivered"]
        assert "did not reach the database" in t.err.text()
        assert "recording" in t.err.text().lower()
        db = sqlite3.connect(f"file:{small}/full.db?mode=ro", uri=True)
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        db.close()
    finally:
        subprocess.run(["umount", "-l", small], check=True)
