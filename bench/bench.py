#!/usr/bin/python3
"""What tracing costs, as medians of interleaved runs. The caller has CPU 0, the tracer the last CPU."""

import argparse
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

LAST_CPU = max(os.sched_getaffinity(0))
WAIT_S = 60


class Bench:
    def __init__(self, build, quick, work):
        self.build, self.quick, self.work = Path(build).resolve(), quick, Path(work)
        self.sim = self.build / "sim"
        self.ingero = self.build / "src/cli/ingero"
        self.rounds = 3 if quick else 9
        self.seconds = 1 if quick else 2

    def libs(self):
        return [self.sim / "libcudart.so.12", self.sim / "libcuda.so.1"]

    def spin(self, *args, cpu="0", seconds=None):
        """Starts the load generator, waiting for a key so that probes can be placed first."""
        args = ["taskset", "-c", cpu, self.sim / "sim-spin", "--wait-key", "--seconds",
                str(seconds or self.seconds), *map(str, args)]
        p = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        p.pid_line = p.stdout.readline()
        return p

    def trace(self, pid, *args, db=None, cpu=str(LAST_CPU), out=subprocess.DEVNULL):
        record = ["--db", db] if db else ["--record=false"]
        args = ["taskset", "-c", cpu, self.ingero, "trace", "--pid", pid, *record, *args]
        for lib in self.libs():
            args += ["--cuda-lib", lib]
        t = subprocess.Popen([str(a) for a in args], stdout=out, stderr=subprocess.PIPE, text=True)
        t.early = []
        for line in t.stderr:
            t.early.append(line)
            if "probes active" in line:
                return t
        raise SystemExit("trace did not start:\n" + "".join(t.early))


def finish(p, key="\n"):
    out, err = p.communicate(key, timeout=600)
    return out, err


def stop(tracer):
    tracer.send_signal(signal.SIGINT)
    _, err = tracer.communicate(timeout=120)
    return err


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid, key):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) / 1024
    raise KeyError(key)


def result(section, name, **values):
    print(json.dumps({"section": section, "name": name, **values}), flush=True)


def median(values, digits=1):
    return round(statistics.median(values), digits)


# ---- cost of one call ----

def spin_ns(bench, around):
    """CPU ns per user call of the load generator under `around` (a context that places probes, given the pid)."""
    p = bench.spin("--op", "cudaLaunchKernel")
    pid = int(p.pid_line.split()[1])
    end = around(pid)
    out, _ = finish(p)
    end()
    r = json.loads(out)
    return r["cpu_s"] / r["calls"] * 1e9, r["calls_per_s"]


def no_probe(_):
    return lambda: None


def empty_pair(bench, way):
    def place(_):
        p = subprocess.Popen([bench.build / "bench/empty_pair", way, bench.build / "bench/empty.bpf.o", *bench.libs()],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert p.stdout.readline() == "active\n"
        return lambda: p.communicate("", timeout=60)
    return place


def traced(bench, *args):
    def place(pid):
        t = bench.trace(pid, *args)
        return lambda: stop(t)
    return place


def section_call(bench):
    """ns added to one user call (a runtime call and the driver call in it: two probe pairs)"""
    counters = ["--sampling-rate", "4294967295"]
    variants = {
        "none": no_probe,
        "empty session pair": empty_pair(bench, "session"),
        "empty multi pair": empty_pair(bench, "multi"),
        "counters only (session)": traced(bench, "--probe-mode", "session", *counters),
        "records (session)": traced(bench, "--probe-mode", "session"),
        "counters only (multi)": traced(bench, "--probe-mode", "multi", *counters),
        "records (multi)": traced(bench, "--probe-mode", "multi"),
        "records (single)": traced(bench, "--probe-mode", "single"),
    }
    cost = {name: [] for name in variants}
    for _ in range(bench.rounds):
        for name, around in variants.items():
            cost[name].append(spin_ns(bench, around))
    base = statistics.median(ns for ns, _ in cost["none"])
    floor = statistics.median(ns for ns, _ in cost["empty session pair"]) - base
    result("call", "load generator alone", calls_per_s=median([r for _, r in cost["none"]], 0), ns=round(base, 1))
    for name, runs in cost.items():
        if name != "none":
            added = statistics.median(ns for ns, _ in runs) - base
            result("call", name, added_ns=round(added, 1), ratio_to_empty_session=round(added / floor, 2))


# ---- the tracer's own CPU ----

def consumer_share(bench, rate, *args, db=None):
    """CPU of the tracer in percent of one core while the job makes `rate` calls/s, and what was lost."""
    seconds = 5 if bench.quick else 15
    p = bench.spin("--op", "cudaLaunchKernel", "--rate", rate, seconds=seconds)
    pid = int(p.pid_line.split()[1])
    t = bench.trace(pid, *args, db=db)
    before, began = cpu_seconds(t.pid), time.monotonic()
    p.stdin.write("\n")
    p.stdin.flush()
    p.wait()
    share = 100 * (cpu_seconds(t.pid) - before) / (time.monotonic() - began)
    out = p.stdout.read()
    stop(t)
    return share, json.loads(out)["calls_per_s"]


def section_consumer(bench):
    """CPU of the tracer in percent of one core at 5, 20 and 100 thousand user calls/s (each gives two records)"""
    rounds = 1 if bench.quick else 3
    for rate in (5000, 20000, 100000):
        for name, recording in (("table only", False), ("recording", True)):
            shares = []
            for i in range(rounds):
                db = bench.work / f"consumer-{rate}-{i}.db" if recording else None
                share, real = consumer_share(bench, rate, db=db)
                shares.append(share)
            result("consumer", f"{name}, {rate} calls/s", percent_of_core=median(shares, 2), calls_per_s=real)


# ---- loss ----

def loss_at(bench, rate, seconds, *args):
    p = bench.spin("--op", "cudaLaunchKernel", "--rate", rate, seconds=seconds)
    pid = int(p.pid_line.split()[1])
    with open(bench.work / "loss.json", "w+") as out:
        t = bench.trace(pid, "--json", *args, out=out)
        spin, _ = finish(p)
        stop(t)
        size = out.seek(0, os.SEEK_END)
        out.seek(max(0, size - 1_000_000))
        last = json.loads(out.read().splitlines()[-1])
    real = json.loads(spin)["calls_per_s"]
    assert last["made"] == last["delivered"] + last["sampled_out"] + last["lost"], last
    return real, last


def section_loss(bench):
    """calls/s at which the first record is lost; JSON lines to a file, no database"""
    seconds = 2 if bench.quick else 5
    for rate in (50000, 100000, 150000, 200000, 300000, 400000):
        real, last = loss_at(bench, rate, seconds)
        result("loss", f"{rate} user calls/s asked", user_calls_per_s=real, records_per_s=round(last["made"] / seconds),
               made=last["made"], lost=last["lost"])
    seconds = 5 if bench.quick else 30
    p = bench.spin("--op", "cudaLaunchKernel", "--rate", 150000, seconds=seconds)
    t = bench.trace(int(p.pid_line.split()[1]))
    spin, _ = finish(p)
    err = stop(t)
    line = [text for text in err.splitlines() if text.startswith("Calls:")]
    result("loss", f"table only, 300 k traced calls/s for {seconds} s", user_calls_per_s=json.loads(spin)["calls_per_s"],
           account=line[0] if line else "none")


# ---- store ----

def section_store(bench):
    """µs and bytes per stored row"""
    rows = ["1000000"] if bench.quick else ["1000000", "10000000"]
    out = subprocess.run([bench.build / "bench/store_bench", bench.work / "store.db", *rows], capture_output=True,
                         text=True, check=True)
    for line in out.stdout.splitlines():
        result("store", line.strip())


# ---- memory ----

def section_memory(bench):
    """resident memory of the tracer at rest and after 10 million events"""
    calls = 500_000 if bench.quick else 5_000_000
    p = bench.spin("--op", "cudaLaunchKernel", "--rate", 150000, seconds=max(2, calls // 150000))
    t = bench.trace(int(p.pid_line.split()[1]), db=bench.work / "memory.db")
    rest = memory_mb(t.pid, "VmRSS")
    p.stdin.write("\n")
    p.stdin.flush()
    p.wait()
    after, peak = memory_mb(t.pid, "VmRSS"), memory_mb(t.pid, "VmHWM")
    made = json.loads(p.stdout.read())["calls"]
    result("memory", f"at rest and after {2 * made} traced calls", rest_mb=round(rest, 1), after_mb=round(after, 1),
           peak_mb=round(peak, 1))
    stop(t)


# ---- the job ----

def train_steps(bench, load, tracing):
    seconds = 2 if bench.quick else 4
    p = subprocess.Popen(["taskset", "-c", "0", bench.sim / "sim-train", "--seconds", str(seconds), "--load", load],
                         stdout=subprocess.PIPE, text=True, env=dict(os.environ, SIM_DEVICE="kernel=1us"))
    t = bench.trace(p.pid, db=bench.work / f"train{time.monotonic_ns()}.db") if tracing else None
    out, _ = p.communicate(timeout=120)
    if t:
        stop(t)
    return json.loads(out)


def section_job(bench):
    """loss of throughput of the simulated training job, CPU bound (the worst case), in percent"""
    for rate, load in ((2000, "26800us"), (5000, "10600us"), (10000, "5200us"), (50000, "880us")):
        plain, with_trace, calls = [], [], []
        for _ in range(bench.rounds):
            r = train_steps(bench, load, False)
            plain.append(r["steps_per_s"])
            calls.append(r["calls"] / r["seconds"])
            with_trace.append(train_steps(bench, load, True)["steps_per_s"])
        a, b = statistics.median(plain), statistics.median(with_trace)
        result("job", f"about {rate} user calls/s", user_calls_per_s=median(calls, 0), steps_per_s=round(a, 2),
               traced_steps_per_s=round(b, 2), loss_percent=round(100 * (1 - b / a), 2))


SECTIONS = {"call": section_call, "consumer": section_consumer, "loss": section_loss, "store": section_store,
            "memory": section_memory, "job": section_job}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                epilog="\n".join(f"  {n}: {f.__doc__}" for n, f in SECTIONS.items()))
    p.add_argument("--build", default="build")
    p.add_argument("--quick", action="store_true")
    p.add_argument("sections", nargs="*", help="which to measure (default all)")
    o = p.parse_args()
    unknown = [s for s in o.sections if s not in SECTIONS]
    if unknown:
        p.error(f"no section {unknown[0]}")
    with tempfile.TemporaryDirectory(prefix="ingero-bench-") as work:
        bench = Bench(o.build, o.quick, work)
        for name in o.sections or SECTIONS:
            SECTIONS[name](bench)


main()
