"""Commands, flags, ingero.yaml and exit codes; no probes."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from conftest import ROOT
from test_query import NOBODY, T0, S, call, environment, make, strict

COMMANDS = ["check", "trace", "explain", "query", "mcp", "dashboard", "merge", "export", "demo", "version"]
NOT_YET = ["explain", "mcp", "dashboard", "merge", "export", "demo"]


def option_rows():
    """The table of options: name, short, kind, commands, later, default, metavar, help."""
    text = re.sub(r"/\*.*?\*/", "", (ROOT / "src/cli/options.def").read_text(), flags=re.S)
    rows = []
    for line in re.findall(r"^OPTION\((.*)\)$", text, flags=re.M):
        m = re.fullmatch(r'(\w+), "([^"]+)", (0|\'.\'), (\w+), ([\w |]+), ([\w |]+), (NULL|"[^"]*"), (NULL|"[^"]*"), '
                         r'(NULL|"[^"]*"), (NULL|"[^"]*"), "(.*)"', line)
        assert m, line
        quoted = [None if g == "NULL" else g.strip('"') for g in m.groups()[6:10]]
        rows.append({"name": m[2], "short": m[3].strip("'"), "kind": m[4], "later": "OPTF_LATER" in m[6],
                     "commands": set(COMMANDS) if "CMD_ALL" in m[5] else
                     {c.strip().removeprefix("CMD_").lower() for c in m[5].split("|")},
                     "default": quoted[0], "env": quoted[1], "key": quoted[2], "metavar": quoted[3], "help": m[11]})
    return rows


OPTIONS = option_rows()


def of(command):
    return [o for o in OPTIONS if command in o["commands"]]


@pytest.fixture
def run(ingero, tmp_path):
    """run(*words): the finished program, in an empty folder with an empty home."""
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)

    def start(*words, code=0, prefix=(), stdout=subprocess.PIPE, cwd=tmp_path, **env):
        done = subprocess.run([*prefix, ingero, *words], stdout=stdout, stderr=subprocess.PIPE, timeout=60, cwd=cwd,
                              stdin=subprocess.DEVNULL, env=environment(home, **env))
        done.stdout, done.stderr = (done.stdout or b"").decode(), done.stderr.decode()
        shown = [str(w)[:100] for w in words[:20]]
        assert done.returncode in (code if isinstance(code, set) else {code}), (shown, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
        return done

    return start


def one_line(done, *parts, limit=700):
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("Error: "), done.stderr[:2000]
    assert done.stdout == ""
    assert len(lines[0]) <= limit, len(lines[0])
    for part in parts:
        assert part in lines[0], (part, lines[0])
    return lines[0]


# ---- version and help ----

VERSION = re.compile(r"ingero v\d+\.\d+\.\d+ \(commit: [0-9a-z-]+, built: \d{4}-\d{2}-\d{2}\)\n")


def test_version(run):
    done = run("version")
    assert VERSION.fullmatch(done.stdout) and done.stderr == ""
    assert run("--version").stdout == done.stdout
    one_line(run("version", "more", code=2), "more")


def test_help_of_the_program_names_every_command(run):
    text = run("help").stdout
    assert text == run("--help").stdout == run("-h").stdout
    lines = {line.split()[0]: line for line in text.splitlines() if line.startswith("  ")}
    assert list(lines) == COMMANDS
    assert [c for c in COMMANDS if "not in this version yet" in lines[c]] == NOT_YET
    for word in ("INGERO_DB", "INGERO_CONFIG", "ingero.yaml"):
        assert word in text
    bare = run(code=2)
    assert bare.stdout == "" and bare.stderr == text


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_lists_its_options_and_no_others(run, command):
    text = run(command, "--help").stdout
    assert text == run("help", command).stdout == run(command, "-h").stdout
    assert ("not in this version yet" in text) == (command in NOT_YET)
    now, _, later = text.partition("\nFlags that this version does not support yet:\n")
    listed = {}
    for part, is_later in ((now, False), (later, True)):
        for m in re.finditer(r"^  (?:-(\w), |    )--([\w-]+)(?: (\S+))?", part, flags=re.M):
            listed[m[2]] = (is_later, m[1], m[3])
    assert set(listed) == {o["name"] for o in of(command)}
    taken = set()
    for o in of(command):
        is_later, short, metavar = listed[o["name"]]
        assert is_later == o["later"], o["name"]
        expected = o["short"] if o["short"] != "0" and o["short"] not in taken else None
        taken.add(o["short"])
        assert short == expected, o["name"]
        assert o["help"] in text
        if o["metavar"]:
            assert metavar == o["metavar"], o["name"]
        # a long name stands on a line of its own, its text on the next
        line = re.search(rf"--{o['name']}\b(?!-)[^\n]*\n?.*?{re.escape(o['help'])}[^\n]*", text, flags=re.S)[0]
        for word in (o["env"], o["key"]):
            assert not word or word in line
        if o["default"] and o["kind"] != "BOOL" and o["default"] != "0":
            assert f"(default {o['default']})" in line


def test_help_behind_other_flags(run):
    one_line(run("query", "--nonsense", "--help", code=2), "--nonsense")
    assert "Usage:" in run("query", "--since", "5m", "--help").stdout


# ---- words that are wrong ----

@pytest.mark.parametrize("word, near", [("trce", "trace"), ("TRACE", "trace"), ("querry", "query"), ("chek", "check"),
                                        ("verson", "version"), ("frobnicate", None), ("", None), ("--frob", None),
                                        ("x" * 100_000, None), ("\x1b[31m", None)])
def test_unknown_command(run, word, near):
    for words in ([word], ["help", word]):
        line = one_line(run(*words, code=2), "unknown command", "--help")
        assert (f"did you mean {near}?" in line) if near else ("did you mean" not in line)
        assert "\x1b" not in line


@pytest.mark.parametrize("command, flag, near", [
    ("query", "--sinc", "since"), ("query", "--Limit", "limit"), ("query", "--jsn=true", "json"),
    ("trace", "--recrd", "record"), ("trace", "--ringbufsize", "ringbuf-size"), ("check", "--requiregpu", "require-gpu"),
    ("check", "--since", None), ("query", "--frobnicate", None), ("query", "-x", None), ("query", "--=1", None),
    ("query", "--" + "y" * 100_000, None), ("trace", "--\xff\x1b[31m", None)])
def test_unknown_flag(run, command, flag, near):
    line = one_line(run(command, flag, "1h", code=2), "unknown flag", f"See: ingero {command} --help")
    assert (f"did you mean --{near}?" in line) if near else ("did you mean" not in line)
    assert "\x1b" not in line


@pytest.mark.parametrize("command", ["check", "trace", "version"])
def test_words_that_no_flag_takes(run, command):
    one_line(run(command, "word", code=2), "word", command)
    one_line(run(command, "--", "--json", code=2), "--json")


@pytest.mark.parametrize("command", NOT_YET)
def test_commands_that_come_later(run, command):
    for more in ([], ["a", "b"], ["--json"], ["--frobnicate"], ["--db", "x.db"]):
        one_line(run(command, *more, code=2), command, "not in this version yet")


@pytest.mark.parametrize("option", [o for c in ("trace", "query") for o in of(c) if o["later"]],
                         ids=lambda o: o["name"])
def test_flags_that_come_later(run, option):
    value = {"BOOL": "true", "UINT": "7", "DURATION": "3s", "CHOICE": "ebpf"}.get(option["kind"], "text")
    for command in option["commands"] & {"trace", "query"}:
        one_line(run(command, f"--{option['name']}={value}", code=2), f"--{option['name']}", "not supported")


def test_later_flags_that_change_nothing_are_let_through(run):
    # the wrong node ends it before anything is traced
    for same in (["--stack=false"], ["--stack=off"], ["--py-walker", "auto"], ["--stack-samples=100"], ["--no-io=0"]):
        one_line(run("trace", *same, "--node", "a:b", code=2), "--node")


# ---- forms of flags ----

@pytest.fixture(scope="module")
def db(tmp_path_factory):
    return make(tmp_path_factory.mktemp("db") / "a.db", [call(T0 * S + i, "cudaMalloc", 5000, pid=10 + i)
                                                         for i in range(3)])


@pytest.mark.parametrize("form", [["--db", "{}"], ["--db={}"], ["-d", "{}"], ["-d{}"], ["-d={}"]])
def test_forms_of_a_value(run, db, form):
    words = [w.format(db) for w in form]
    for flags in (["--json", "--since", "0"], ["--json", "--since=0"], ["--json=true", "--since=0"],
                  ["--json", "--json=false", "--json", "--since=5m", "--since=0"]):
        assert len(strict(run("query", *words, *flags).stdout)) == 3
    assert run("query", *words, "--json=false", "--since=0").stdout.startswith("  Query: everything")


def test_a_value_may_look_like_a_flag(run, db, tmp_path):
    shutil.copyfile(db, tmp_path / "--json")
    assert "Query:" in run("query", "--db", "--json", "--since", "0").stdout


def test_bare_switches_take_no_following_word(run, db):
    for switch in ("--stack", "--record", "--record-all", "--json", "--debug"):
        for word in ("false", "foo"):
            one_line(run("trace", switch, word, code=2), f"'{word}'")
    # the word behind --json is the statement, not a value
    assert strict(run("query", "--db", db, "--json", "SELECT 7 AS x").stdout) == [{"x": 7}]
    assert "\"x\"" not in run("query", "--db", db, "--json=false", "SELECT 7 AS x").stdout


@pytest.mark.parametrize("option", [o for o in of("trace") + of("query") if o["kind"] != "BOOL"],
                         ids=lambda o: "-".join([*sorted(o["commands"])][:1] + [o["name"]]))
def test_values_that_are_missing_or_empty(run, option):
    for command in option["commands"] & {"trace", "query"}:
        one_line(run(command, f"--{option['name']}", code=2), f"--{option['name']} needs a value")
        if option["name"] != "max-db":  # nothing there is no bound, as the reference has it
            one_line(run(command, f"--{option['name']}=", code=2), f"--{option['name']}")


WRONG = {"BOOL": ["maybe", "2", ""], "INT": ["x", "1.5", "1e3", "99999999999999999999"],
         "UINT": ["x", "-1", "1.5", "99999999999999999999"], "SIZE": ["x", "-1", "5x", "1.5g", "99999999999t"],
         "DURATION": ["x", "5", "-5s", "1y", "1h-"], "DOUBLE": ["x", "-1", "nan", "inf", "1,5"],
         "PIDS": ["x", "0", "1,1", "1,,2", "-3", "99999999999"], "CHOICE": ["x", "AUTO ", "|", "auto|single"]}


@pytest.mark.parametrize("option", [o for o in of("trace") + of("query") if o["kind"] in WRONG],
                         ids=lambda o: "-".join([*sorted(o["commands"])][:1] + [o["name"]]))
def test_wrong_values(run, option):
    for command in option["commands"] & {"trace", "query"}:
        for value in WRONG[option["kind"]]:
            one_line(run(command, f"--{option['name']}={value}", code=2), f"--{option['name']}", value)


@pytest.mark.parametrize("option", of("trace") + of("query"),
                         ids=lambda o: "-".join([*sorted(o["commands"])][:1] + [o["name"]]))
def test_very_long_values(run, option):
    """120,000 bytes: one line, and an end."""
    value = ("v" if option["kind"] in ("STRING", "BOOL") else "9") * 120_000
    for command in option["commands"] & {"trace", "query"}:
        words = [command, f"--{option['name']}={value}"]
        if command == "trace" and option["name"] not in ("node", "user", "db"):
            words += ["--user", "no-such-user-here", "--record=false"]  # nothing is to be traced
        # a text may be used for what it is, and not be found; everything else is no value
        done = run(*words, code={1, 2} if option["kind"] == "STRING" else 2)
        # paths are shown in full up to a bound, other things are cut
        one_line(done, limit=17_000 if option["kind"] == "STRING" else 400)


@pytest.mark.parametrize("size", ["5000", "4095", "4097", "1k", "2048", "3m", "8388609", "4g", "12k"])
def test_ring_size_that_is_no_power_of_two(run, size):
    one_line(run("trace", "--ringbuf-size", size, code=2), "--ringbuf-size", f"'{size}'", "power of two")


@pytest.mark.parametrize("size", ["4096", "4k", "4KB", "8m", "2g", "65536"])
def test_ring_size_that_is_one(run, size):
    one_line(run("trace", f"--ringbuf-size={size}", "--node=a:b", code=2), "--node")


@pytest.mark.parametrize("rate", ["4294967296", "18446744073709551615"])
def test_sampling_rate_beyond_32_bits(run, rate):
    one_line(run("trace", "--sampling-rate", rate, code=2), "--sampling-rate", rate, "4294967295")
    one_line(run("trace", "--sampling-rate", "4294967295", "--node=a:b", code=2), "--node")


def test_names_of_nodes_and_users(run):
    for node in ("a:b", ":", "n" * 64):
        one_line(run("trace", "--node", node, code=2), "--node")
    one_line(run("trace", "--user", "no-such-user-here", "--record=false", code=1), "no-such-user-here")


# ---- where the database is ----

def test_database_by_flag_environment_file_and_default(run, tmp_path):
    """Each step names the file it would read."""
    names = {n: tmp_path / f"{n}.db" for n in ("flag", "env", "yaml")}
    one_line(run("query", code=1), str(tmp_path / "home/.ingero/ingero.db"))
    yaml = tmp_path / "ingero.yaml"
    yaml.write_text(f"store:\n  path: {names['yaml']}\n")
    yaml.chmod(0o644)
    one_line(run("query", code=1), str(names["yaml"]))
    one_line(run("query", code=1, INGERO_DB=str(names["env"])), str(names["env"]))
    for flag in ("--db", "-d"):
        one_line(run("query", flag, names["flag"], code=1, INGERO_DB=str(names["env"])), str(names["flag"]))
    one_line(run("query", code=1, INGERO_DB=""), str(names["yaml"]))  # empty is not given
    assert not any(p.exists() for p in names.values()) and not (tmp_path / "home/.ingero").exists()


def test_database_of_the_environment_is_read(run, db):
    assert len(strict(run("query", "--json", "--since=0", INGERO_DB=str(db)).stdout)) == 3


# ---- ingero.yaml ----

@pytest.fixture
def yaml(tmp_path):
    def write(text, path=None):
        path = path or tmp_path / "ingero.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(0o644)
        return path

    return write


def test_files_in_their_order(run, yaml, tmp_path):
    home = yaml("store: {path: /nowhere/home.db}\nagent: {node: 'h:h'}\n", tmp_path / "home/.config/ingero/ingero.yaml")
    one_line(run("query", code=1), "/nowhere/home.db")
    here = yaml("store: {path: /nowhere/here.db}\n")
    one_line(run("query", code=1), "/nowhere/here.db")
    named = yaml("store: {path: /nowhere/named.db}\n", tmp_path / "other.yaml")
    one_line(run("query", code=1, INGERO_CONFIG=str(named)), "/nowhere/named.db")
    # what the first files do not say comes from the next
    one_line(run("trace", code=2, INGERO_CONFIG=str(named)), "--node", "h:h")
    one_line(run("trace", "--node", "f:f", code=2), "f:f")
    here.unlink()
    home.unlink()
    one_line(run("query", code=2, INGERO_CONFIG=str(tmp_path / "no.yaml")), "no.yaml", "INGERO_CONFIG")


@pytest.mark.parametrize("value, same", [("5000", False), ("3m", False), ("8m", True), ("65536", True)])
def test_values_of_the_file_are_checked_as_flags_are(run, yaml, value, same):
    yaml(f"probes:\n  cuda:\n    ringbuf_size: {value}\nagent:\n  node: 'a:b'\n")
    line = one_line(run("trace", code=2))
    assert ("--node" in line) == same and ("power of two" in line) != same
    one_line(run("trace", "--ringbuf-size", "4k", code=2), "--node")  # the flag wins


@pytest.mark.parametrize("text, line, parts", [
    ("store:\n  path: x.db\n  pth: y.db\n", 3, ["unknown key", "store.pth", "store.path"]),
    ("\n\nstroe:\n  path: x.db\n", 4, ["stroe.path", "store.path"]),
    ("frobnicate: 1\n", 1, ["unknown key", "frobnicate"]),
    ("agent:\n  log_level: loud\n", 2, ["agent.log_level", "loud", "error|warn|info|debug"]),
    ("probes:\n  cuda:\n    ringbuf_size: big\n", 3, ["probes.cuda.ringbuf_size", "big"]),
    ("store:\n  max_db_size: [1g, 2g]\n", 2, ["store.max_db_size", "not a list"]),
    ("store:\n  path: [a.db]\n", 2, ["store.path", "not a list"]),
    ("store: x.db\n", 1, ["store", "holds keys"]),
    ("store:\n  path:\n    deep: x\n", 3, ["store.path.deep"]),
    ("store:\n  path: a.db\n  path: b.db\n", 3, ["store.path", "twice"]),
    ("store:\n  path: ''\n", 2, ["store.path", "empty"]),
    ("- a\n- b\n", 1, ["list"]),
    ("just text\n", 1, ["keys"]),
    ("store:\n  path: [unclosed\n", None, ["not YAML"]),
    ("store:\n\tpath: x\n", 2, ["not YAML"]),
    ("a: &x 1\nb: *x\n", 1, ["unknown key"]),
    ("store:\n  path: *x\n", 2, ["alias"]),
    ("store:\n  path: \"a\\0b\"\n", 2, ["NUL"]),
    ("{a: {b: {c: {d: {e: {f: 1}}}}}}\n", 1, ["mapping"]),
    ("k" * 5000 + ": 1\n", 1, ["key"]),
    (b"# fine\nstore:\n  path: caf\xe9.db\n", 3, ["UTF-8"]),
    (b"\x00\x01\x02\x03binary", 1, ["UTF-8"]),
    (b"\x1b[31mstore: 1\n", 1, []),
], ids=range(23))
def test_wrong_files_name_the_line(run, yaml, text, line, parts):
    yaml(text)
    for command in ("query", "trace", "check"):
        message = one_line(run(command, code=2), *parts)
        assert re.search(rf"ingero\.yaml:{line or '[0-9]+'}: ", message), message
        assert "\x1b" not in message
    # help and version-less words need no file
    assert "Usage:" in run("query", "--help").stdout


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "store:\n  path: x.db\n...\n", "{}\n",
                                  "\ufeffstore:\n  path: x.db\n", "store: {path: x.db}\r\n"])
def test_files_that_are_fine(run, yaml, text):
    yaml(text)
    one_line(run("query", code=1), "x.db" if "x.db" in text else ".ingero/ingero.db", "no recording")


def test_keys_that_come_later_are_said_once(run, yaml, db):
    yaml("prometheus:\n  listen: ':9090'\nprobes:\n  host:\n    enabled: true\n    tracepoints: [a, b]\n")
    done = run("query", "--db", db, "--since=0", "--json")
    assert len(strict(done.stdout)) == 3
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("Warning: ") and "prometheus.listen" in done.stderr


def test_lists_where_one_is_taken(run, yaml):
    yaml("probes:\n  cuda:\n    library_path:\n      - /a.so\n      - /b.so\nagent:\n  node: 'a:b'\n")
    one_line(run("trace", code=2), "--node")
    yaml("probes:\n  cuda:\n    library_path:\n      - /a.so\n      - {x: y}\n")
    one_line(run("trace", code=2), "ingero.yaml:5: ", "mapping")
    yaml("probes:\n  cuda:\n    library_path:\n" + "".join(f"      - /lib{i}.so\n" for i in range(5000)))
    one_line(run("trace", code=2), "ingero.yaml:")


def test_files_of_a_wrong_kind(run, yaml, tmp_path):
    path = yaml("#" * (1 << 20) + "\n")
    one_line(run("query", code=2), "ingero.yaml", "at most 1048576 bytes")
    path.unlink()
    path.mkdir()
    one_line(run("query", code=2), "ingero.yaml")
    path.rmdir()
    os.mkfifo(path)
    one_line(run("query", code=2), "ingero.yaml")
    one_line(run("query", code=2, INGERO_CONFIG="/dev/zero"), "/dev/zero")
    path.unlink()
    one_line(run("query", code=1), "no recording")


def test_root_does_not_listen_to_files_of_others(run, yaml, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root is careful")
    path = yaml("store: {path: /nowhere/theirs.db}\n")
    for spoil in (lambda: path.chmod(0o666), lambda: (path.chmod(0o644), os.chown(path, 65534, 65534))):
        spoil()
        done = run("query", code=1)
        assert "Warning: " in done.stderr and "is ignored" in done.stderr and "theirs" not in done.stderr
        one_line(run("query", code=2, INGERO_CONFIG=str(path)), str(path))


def test_messages_go_to_the_log_file(run, tmp_path, db):
    log = tmp_path / "messages"
    done = run("query", "--db", tmp_path / "no.db", "--log", log, code=1)
    assert done.stderr == "" and "no recording at" in log.read_text()
    assert log.stat().st_mode & 0o77 == 0
    run("query", "--db", tmp_path / "no.db", "--log", log, code=1)
    assert log.read_text().count("\n") == 2
    one_line(run("query", "--db", db, "--log", tmp_path / "no" / "log", code=1), "--log")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "target")
    one_line(run("query", "--db", db, "--log", link, code=1), "--log")
    assert not (tmp_path / "target").exists()
    warned = ["query", "--db", db, "--since=0", "--limit", "1"]
    assert "Warning: " in run(*warned).stderr
    assert run(*warned, "--log-level", "error").stderr == ""


# ---- output that cannot be written ----

OUTPUTS = [["version"], ["--version"], ["help"], ["query", "--help"], ["demo", "--help"], ["check", "--json"], ["check"],
           ["query", "--db", "{}", "--since", "0"], ["query", "--db", "{}", "--since", "0", "--json"],
           ["query", "--db", "{}"], ["query", "--db", "{}", "--json"], ["query", "--db", "{}", "SELECT 1"],
           ["query", "--db", "{}", "SELECT 1", "--json"]]


@pytest.mark.parametrize("words", OUTPUTS, ids=lambda w: "-".join(w).replace("{}", "db"))
def test_full_and_closed_output(run, db, words):
    words = [w.format(db) for w in words]
    with open("/dev/full", "wb") as full:
        one_line(run(*words, code=1, stdout=full), "cannot be written", "No space left")
    closed = ["sh", "-c", "exec \"$@\" >&-", "sh"]
    one_line(run(*words, code=1, prefix=closed), "cannot be written")
    read, write = os.pipe()
    os.close(read)
    try:
        one_line(run(*words, code=1, stdout=write), "cannot be written", "Broken pipe")
    finally:
        os.close(write)


# ---- without rights ----

@pytest.fixture
def nobodys():
    """A folder of the user nobody."""
    path = Path(tempfile.mkdtemp(prefix="ingero-test-"))
    path.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
    yield path
    shutil.rmtree(path)


@pytest.mark.parametrize("more", [[], ["--json"], ["--record=false"], ["--verbose", "--pid", "1"]])
def test_trace_without_rights(ingero, nobodys, more):
    prefix = NOBODY if os.geteuid() == 0 else []
    done = subprocess.run([*prefix, ingero, "trace", *more], capture_output=True, text=True, timeout=60, cwd=nobodys,
                          env=environment(nobodys), stdin=subprocess.DEVNULL)
    assert done.returncode == 1, done.stderr
    one_line(done, "root", "CAP_BPF", "sudo")


def test_trace_without_rights_leaves_no_empty_recording(ingero, nobodys):
    prefix = NOBODY if os.geteuid() == 0 else []
    done = subprocess.run([*prefix, ingero, "trace", "--db", nobodys / "t.db"], capture_output=True, text=True,
                          timeout=60, cwd=nobodys, env=environment(nobodys), stdin=subprocess.DEVNULL)
    assert done.returncode == 1
    assert list(nobodys.iterdir()) == []
