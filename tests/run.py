#!/usr/bin/python3
"""Builds, runs all tests, adds up. Used by scripts/test.sh; the last line printed is the sum."""

import argparse
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_S = 1500  # of one step; a hang is a failure, not a wait


class Sum:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.bad = []

    def add_check(self, name, ok):
        if ok:
            self.passed += 1
        else:
            self.failed += 1
            self.bad.append(name)

    def add_junit(self, name, path):
        """Counts the cases of a JUnit file; a missing or empty file is a failure."""
        cases = []
        if path.exists():
            cases = list(ET.parse(path).getroot().iter("testcase"))
        if not cases:
            self.add_check(f"{name}: no results", False)
        for case in cases:
            title = f"{name}: {case.get('classname')}.{case.get('name')}"
            if case.find("failure") is not None or case.find("error") is not None:
                self.add_check(title, False)
            elif case.find("skipped") is not None:
                self.skipped += 1
                print(f"  skipped {title}: {case.find('skipped').get('message')}")
            else:
                self.passed += 1


def run(args, env=None, timeout=TIMEOUT_S):
    print("+", " ".join(map(str, args)), flush=True)
    full = dict(os.environ, **(env or {}))
    try:
        return subprocess.run(list(map(str, args)), cwd=ROOT, env=full, timeout=timeout).returncode == 0
    except subprocess.TimeoutExpired:
        print(f"  took longer than {timeout} s and was stopped")
        return False


def build(folder, options, env):
    if not (folder / "build.ninja").exists():
        if not run(["meson", "setup", folder, *options], env):
            return False
    return run(["meson", "compile", "-C", folder], env)


def bpf_works(ingero):
    """Asks the program itself, so that tests and users go by the same judgement."""
    import json

    out = subprocess.run([ingero, "check", "--json"], capture_output=True, timeout=120)
    try:
        checks = {c["name"]: c for c in json.loads(out.stdout)["checks"]}
    except ValueError:
        return False
    print("  trial probe:", checks["Trial probe"].get("value"), "-", checks["Trial probe"].get("detail"))
    return checks["Trial probe"]["pass"]


def unit(total, name, folder, env=None):
    junit = folder / "meson-logs" / "testlog.junit.xml"
    junit.unlink(missing_ok=True)
    ok = run(["meson", "test", "-C", folder, "--no-rebuild", "--suite", "unit", "--print-errorlogs", "-q"], env)
    before = total.failed
    total.add_junit(name, junit)
    if not ok and total.failed == before:
        total.add_check(f"{name}: meson test", False)


def system(total, name, folder, env=None, extra=()):
    junit = folder / "system.junit.xml"
    junit.unlink(missing_ok=True)
    env = dict(env or {}, INGERO_BUILD=str(folder))
    ok = run(["/usr/bin/python3", "-m", "pytest", "-q", "-x" if os.environ.get("FAIL_FAST") else "-q", "-rs",
              "-p", "no:cacheprovider", f"--junitxml={junit}", "tests/system", *extra], env)
    before = total.failed
    total.add_junit(name, junit)
    if not ok and total.failed == before:
        total.add_check(f"{name}: pytest", False)


SANITIZER_ENV = {
    "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0:exitcode=99",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--quick", default="no")
    quick = p.parse_args().quick == "yes"
    total = Sum()
    began = time.monotonic()
    gcc, clang, asan = ROOT / "build", ROOT / "build-clang", ROOT / "build-asan"

    total.add_check("build with gcc", build(gcc, [], {"CC": "gcc", "CXX": "g++"}))
    ingero = gcc / "src/cli/ingero"
    if total.failed:
        print("FAILED: build")
        print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
        return 1
    unit(total, "unit", gcc)
    env = {"INGERO_BPF": "required"} if bpf_works(ingero) else {}
    system(total, "system", gcc, env)
    if not quick:
        total.add_check("build with clang", build(clang, [], {"CC": "clang", "CXX": "clang++"}))
        sanitize = ["-Db_sanitize=address,undefined", "-Db_lundef=false", "-Dsim=false"]
        ok = build(asan, sanitize, {"CC": "gcc", "CXX": "g++"})
        total.add_check("build with sanitizers", ok)
        if ok:
            unit(total, "unit (sanitizers)", asan, SANITIZER_ENV)
            env = dict(env, **SANITIZER_ENV, INGERO_SIM=str(gcc / "sim"))
            system(total, "system (sanitizers)", asan, env, ["-m", "not no_sanitizer"])
        total.add_check("lint", run(["scripts/lint.sh", clang]))
    for name in total.bad:
        print("FAILED:", name)
    print(f"in {time.monotonic() - began:.0f} s")
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 1 if total.failed else 0


sys.exit(main())
