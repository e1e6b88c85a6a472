"""Fixtures: the program, the simulated CUDA, traced jobs. Everything waits for conditions, bounded by WAIT_S."""

import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("INGERO_BUILD", ROOT / "build"))
SIM = Path(os.environ.get("INGERO_SIM", BUILD / "sim"))
WAIT_S = 60


def pytest_configure(config):
    config.addinivalue_line("markers", "no_sanitizer: not with sanitizers (memory limits, speed)")


def wait_for(condition, what, seconds=WAIT_S):
    """Polls until the condition holds; the bound only catches hangs."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"waited {seconds} s for {what}")


class Lines:
    """Collects the lines of a pipe in the background."""

    def __init__(self, stream):
        self.lines = []
        self.thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self.thread.start()

    def _read(self, stream):
        for line in stream:
            self.lines.append(line.rstrip("\n"))

    def text(self):
        return "\n".join(self.lines)

    def wait(self, part, process, seconds=WAIT_S):
        def look():
            found = [line for line in list(self.lines) if part in line]
            if not found and process.poll() is not None:
                self.thread.join(5)
                found = [line for line in self.lines if part in line]
                assert found, f"ended with {process.returncode} before '{part}':\n{self.text()}"
            return found[0] if found else None

        return wait_for(look, f"'{part}'", seconds)


class Program:
    def __init__(self, args, env=None, **more):
        self.process = subprocess.Popen([str(a) for a in args], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, errors="replace",
                                        env=dict(os.environ, **(env or {})), **more)
        self.out = Lines(self.process.stdout)
        self.err = Lines(self.process.stderr)
        self.pid = self.process.pid

    def send(self, text="\n"):
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def signal(self, number):
        self.process.send_signal(number)

    def finish(self, seconds=WAIT_S):
        code = self.process.wait(seconds)
        self.out.thread.join(10)
        self.err.thread.join(10)
        return code

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(WAIT_S)


class Job(Program):
    """A simulated CUDA program that waits for a file before it does anything after `ready`."""

    def counts(self):
        """Calls of all processes of the job: {(layer, name): n}."""
        total = {}
        for line in self.out.lines:
            if not line.startswith("{"):
                continue
            for layer, calls in json.loads(line)["calls"].items():
                for name, n in calls.items():
                    total[layer, name] = total.get((layer, name), 0) + n
        return total


class Tracer(Program):
    def wait_active(self):
        self.err.wait("probes active", self.process)
        return self

    def events(self, **match):
        return [e for e in map(json.loads, self.out.lines)
                if e["type"] == "event" and all(e.get(k) == v for k, v in match.items())]

    def loss(self):
        last = json.loads(self.out.lines[-1])
        assert last["type"] == "loss" and last["final"], self.out.lines[-1]
        return last


@pytest.fixture(scope="session")
def ingero():
    path = BUILD / "src/cli/ingero"
    assert path.exists(), f"{path} is not built"
    return path


@pytest.fixture(scope="session")
def sim():
    assert (SIM / "sim-workload").exists(), f"{SIM} is not built"
    return SIM


@pytest.fixture(scope="session")
def bpf(ingero):
    """Kernel tests: skipped only where the program itself says that probes cannot work."""
    out = subprocess.run([ingero, "check", "--json"], capture_output=True, text=True, timeout=120)
    trial = {c["name"]: c for c in json.loads(out.stdout)["checks"]}["Trial probe"]
    if not trial["pass"] or os.geteuid() != 0:
        if os.environ.get("INGERO_BPF") == "required":
            pytest.fail(f"probes must work here: {trial}")
        pytest.skip(f"no BPF here: {trial.get('detail')}")


def our_bpf():
    """Programs of ours in the kernel."""
    out = subprocess.run(["bpftool", "-j", "prog", "show"], capture_output=True, text=True, timeout=60)
    return [p for p in json.loads(out.stdout or "[]") if p.get("name", "").startswith("ing_")]


def wait_bpf_gone():
    wait_for(lambda: not our_bpf(), "the probes to be gone")


@pytest.fixture
def start(tmp_path):
    """start(cls, args…): a program that is ended with the test, whatever happens."""
    running = []

    def begin(cls, args, **more):
        program = cls(args, **more)
        running.append(program)
        return program

    yield begin
    for program in running:
        program.stop()


@pytest.fixture
def job(start, sim, tmp_path):
    """job(script): has loaded its libraries and waits at `ready`; go() lets it run the script."""
    def begin(script, program="sim-workload", first="call cudaDeviceSynchronize", env=None):
        go = tmp_path / f"go{time.monotonic_ns()}"
        text = f"{first}\nready\nwait-file {go} 60s\n{script}\n"
        j = start(Job, [sim / program, "-c", text], env=env)
        j.go = go.touch
        j.out.wait("ready", j.process)
        return j

    return begin


@pytest.fixture
def trace(start, ingero, tmp_path):
    """trace(pid, *flags): a tracer with active probes, JSON on stdout."""
    def begin(pid, *flags, json_lines=True, db=None, wait=True, **more):
        args = [ingero, "trace", "--db", db or tmp_path / "t.db"]
        if json_lines:
            args.append("--json")
        if pid:
            args += ["--pid", pid]
        t = start(Tracer, args + list(flags), **more)
        return t.wait_active() if wait else t

    yield begin
    if os.geteuid() == 0:
        wait_bpf_gone()


def end(tracer, number=signal.SIGINT, code=0):
    tracer.signal(number)
    assert tracer.finish() == code, tracer.err.text()
    return tracer
