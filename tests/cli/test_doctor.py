"""prsm doctor finds what is wrong, says how to mend it, and changes nothing."""

import json
import os
import shlex
import signal
import subprocess
import sys

import pytest

from prsm_core.cli.checkup.examination import check_packages, check_terminal
from prsm_core.cli.checkup.folders import FULL_BYTES, LOW_BYTES, format_size, judge_space
from prsm_core.distributions import DEFAULT_PACKAGES, distributions
from prsm_core.engine.control.session_lock import SessionLock
from prsm_core.engine.processes.table import process_identity
from tests.cli.conftest import command

CHECKS = [
    "python",
    "packages",
    "plugins",
    "config",
    "trust",
    "provider puppet",
    "names",
    "skills",
    "environment",
    "folders",
    "disk",
    "ledger",
    "sessions",
    "processes",
    "sandbox",
    "boxes",
    "answers",
    "terminal",
]


@pytest.fixture
def home(tmp_path):
    """Where data and state lie, made as PRSM makes it."""
    folder = tmp_path / "home"
    for part in (folder, folder / "data", folder / "state", folder / "state" / "runs"):
        part.mkdir(mode=0o700, exist_ok=True)
    return folder


@pytest.fixture
def found(prsm):
    """Return the findings by check, those that are not ok first."""

    def run(*args):
        done = prsm(*args, "doctor", "--json")
        findings = json.loads(done.out)
        assert all((f["cure"] is None) == (f["status"] == "ok") for f in findings)
        assert done.code == int(any(f["status"] == "broken" for f in findings))
        ordered = sorted(findings, key=lambda f: f["status"] != "ok")
        return {f["check"]: f for f in ordered}

    return run


@pytest.fixture
def dead():
    """The identity of a process that has ended."""
    process = subprocess.Popen(["true"], stdin=subprocess.DEVNULL)
    identity = process_identity(process.pid)
    process.wait()
    return identity


def tree(folder):
    """Return every file below a folder with its mode, time and content."""
    return {
        str(path): (
            path.lstat().st_mode,
            path.lstat().st_mtime_ns,
            path.read_bytes() if path.is_file() else None,
        )
        for path in folder.rglob("*")
    }


@pytest.mark.requirement("U18")
@pytest.mark.usefixtures("puppets", "session")
def test_a_sound_installation_is_ok_in_every_point(prsm_process, monkeypatch, home):
    monkeypatch.setenv("PYTHONUTF8", "1")
    for folder in (home, *home.rglob("*/")):
        folder.chmod(0o700)
    done = prsm_process("doctor", "--json")
    assert (done.code, done.err) == (0, "")
    findings = json.loads(done.out)
    assert [finding["check"] for finding in findings] == CHECKS
    assert list(findings[0]) == ["check", "status", "message", "cure"]
    bad = [finding for finding in findings if finding["status"] != "ok"]
    of_the_machine = {"disk", "boxes"}  # how much room there is, which limits can be held
    assert not [finding for finding in bad if finding["check"] not in of_the_machine]


# What no check may do: reach a network, or open a file for writing that is not its own.
WATCHED = """
import os, sys, tempfile
tempfile.gettempdir()  # tries the folder with a file, once
def watch(event, args):
    if event in {"socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.bind"}:
        print("WATCHED", event, args, file=sys.stderr)
    if event == "open" and isinstance(args[0], str) and args[2] & (os.O_WRONLY | os.O_RDWR):
        if not args[0].startswith("/dev/") and "prsm-doctor-" not in args[0]:
            print("WATCHED", event, args, file=sys.stderr)
    if event == "os.mkdir" and "prsm-doctor-" not in str(args[0]):
        print("WATCHED", event, args, file=sys.stderr)
sys.addaudithook(watch)
from prsm_core.cli import main
sys.exit(main(["doctor", "--json"]))
"""


@pytest.mark.requirement("U18")
@pytest.mark.usefixtures("puppets", "session")
def test_nothing_is_changed_and_no_network_is_used(tmp_path, workspace, dead, home):
    (workspace / ".prism").mkdir()
    (workspace / ".prism" / "config.yaml").write_text("engine: {max_agent_depth: 2}\n")
    (home / "state" / "runs" / "s9.lock").write_text("left behind")
    write_record(home, dead, dead)
    before = tree(tmp_path)
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", WATCHED], env=environ, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert tree(tmp_path) == before


@pytest.mark.usefixtures("session")
def test_lines_are_aligned_and_a_cure_stands_below(prsm):
    done = prsm("doctor")
    assert (done.code, done.err) == (1, "")
    lines = done.out.splitlines()
    column = lines[0].index("CPython")
    for above, line in zip(["", *lines], lines, strict=False):
        if line.startswith(" "):
            assert line.startswith(" " * column + "cure: ")
            assert not above.startswith("ok ")
        else:
            assert line.split()[0] in {"ok", "warning", "broken"}
            assert line[column - 1] == " "
            assert line[column] != " "


def test_a_wrong_configuration_is_a_finding_with_its_line_and_the_rest_is_checked(found, home):
    (home / "config.yaml").write_text("engine:\n  max_dept: 3\n")
    findings = found()
    assert findings["config"]["status"] == "broken"
    assert findings["config"]["message"].startswith(f"{home}/config.yaml:2: engine.max_dept is not")
    assert "prsm config schema" in findings["config"]["cure"]
    assert {"ledger", "providers", "sessions"} <= findings.keys()


def test_a_wrong_variable_is_a_finding(found, monkeypatch):
    monkeypatch.setenv("PRSM__ENGINE__MAX_AGENT_DEPTH", "deep")
    assert "PRSM__ENGINE__MAX_AGENT_DEPTH: " in found()["config"]["message"]


def test_without_a_ledger_all_is_well_and_none_is_made(found, tmp_path):
    findings = found()
    assert findings["ledger"]["status"] == "ok"
    assert "there is none yet" in findings["ledger"]["message"]
    assert not (tmp_path / "home").exists()


@pytest.mark.usefixtures("session")
def test_a_damaged_ledger_is_broken(found, ledger):
    with ledger.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096)
    finding = found()["ledger"]
    assert finding["status"] == "broken"
    assert finding["cure"].startswith(f"move {ledger.parent} away")


def test_what_is_no_ledger_is_broken(found, ledger):
    ledger.write_text("no ledger " * 1000)
    assert "file is not a database" in found()["ledger"]["message"]


@pytest.mark.usefixtures("session")
def test_a_ledger_that_cannot_be_checked_is_a_warning(found, ledger):
    ledger.with_name("ledger.db-wal").write_bytes(b"x" * 64)
    finding = found()["ledger"]
    assert finding["status"] == "warning"
    assert "was not checked" in finding["message"]


@pytest.mark.requirement("U18")
def test_a_session_with_a_living_owner_is_counted(found, home):
    with SessionLock.take(home / "state", "s1", since=0.0):
        finding = found()["sessions"]
    assert (finding["status"], finding["message"]) == ("ok", "1 running")


@pytest.mark.requirement("U18")
def test_a_lock_without_an_owner_is_a_warning_and_stays(found, home, dead):
    lock = home / "state" / "runs" / "s2.lock"
    lock.write_text(json.dumps({**vars_of(dead), "socket": "x", "since": 1.0}))
    finding = found()["sessions"]
    assert finding["status"] == "warning"
    assert "left a lock: s2" in finding["message"]
    assert lock.exists()


def vars_of(identity):
    return {"pid": identity.pid, "start_time": identity.start_time, "boot_id": identity.boot_id}


def write_record(home, *identities):
    lines = [json.dumps(list(vars_of(identity).values())) for identity in identities]
    path = home / "state" / "runs" / "1-1-aaaa.processes"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.requirement("U18")
def test_processes_of_a_dead_engine_are_told_and_left_alone(found, home, dead):
    sleeper = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    try:
        write_record(home, dead, process_identity(sleeper.pid))
        finding = found()["processes"]
        assert sleeper.poll() is None
    finally:
        sleeper.send_signal(signal.SIGKILL)
        sleeper.wait()
    assert finding["status"] == "warning"
    assert finding["message"] == f"engine {dead.pid} is dead and left processes: {sleeper.pid}"
    assert finding["cure"] == "the next `prsm run` ends them"
    assert found()["processes"]["status"] == "ok"


@pytest.mark.parametrize(("mode", "status"), [(0o755, "warning"), (0o777, "broken"), (0o700, "ok")])
def test_folders_that_others_may_enter_are_told_with_the_command_that_mends_it(
    found, home, mode, status
):
    (home / "state").chmod(mode)
    finding = found()["folders"]
    assert finding["status"] == status
    if finding["cure"]:
        subprocess.run(shlex.split(finding["cure"]), check=True)
        assert found()["folders"]["status"] == "ok"


def test_a_file_in_place_of_a_folder_is_broken(found, home):
    (home / "data").rmdir()
    (home / "data").write_text("")
    finding = found()["folders"]
    assert (finding["status"], finding["message"]) == ("broken", f"{home}/data is not a folder")


def test_state_in_the_temporary_folder_is_told(found, monkeypatch, tmp_path):
    monkeypatch.delenv("PRSM_HOME")
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("HOME", str(tmp_path))
    finding = found()["folders"]
    assert finding["status"] == "warning"
    assert "lies in the temporary folder" in finding["message"]


@pytest.mark.parametrize(
    ("free", "status"),
    [(FULL_BYTES - 1, "broken"), (FULL_BYTES, "warning"), (LOW_BYTES, "ok")],
)
def test_little_room_is_told(tmp_path, free, status):
    assert judge_space(tmp_path, free).status == status


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1536, "1.5 KiB"), (3 << 30, "3.0 GiB"), (5 << 40, "5.0 TiB")]
)
def test_sizes_are_written_for_people(size, text):
    assert format_size(size) == text


@pytest.mark.requirement("U18", "C6")
def test_a_broken_plugin_is_named_with_its_error(prsm_process, puppets, tmp_path, monkeypatch):
    names = tmp_path / "site" / "prsm_puppet-1.0.dist-info" / "entry_points.txt"
    names.write_text("[prsm]\npuppet = puppet_plugin\nbad = no_such_module\n")
    monkeypatch.setenv("PRSM_PLUGINS", "puppet,bad,nobody")
    done = prsm_process("doctor", "--json")
    bad, notice, fine = [f for f in json.loads(done.out) if f["check"] == "plugins"]
    assert done.code == 1
    assert bad["status"] == "broken"
    assert "no_such_module" in bad["message"]
    assert "PRSM_DISABLED_PLUGINS=bad" in bad["cure"]
    assert notice["status"] == "warning"
    assert "nobody" in notice["message"]
    ours = (name.removeprefix("prsm-") for name in DEFAULT_PACKAGES)
    assert fine["message"].startswith(f"active: {', '.join(sorted((*ours, 'builtin', 'puppet')))}")


def test_a_check_that_is_required_and_missing_is_broken(found, home):
    (home / "config.yaml").write_text("permissions: {required: [nobody-has-it]}\n")
    finding = found()["plugins"]
    assert finding["status"] == "broken"
    assert "permissions.required names nobody-has-it" in finding["message"]


def test_a_wrong_variable_about_plugins_leaves_the_other_checks(found, monkeypatch):
    monkeypatch.setenv("PRSM_PLUGIN_TIMEOUT", "soon")
    finding = found()["plugins"]
    assert finding["status"] == "broken"
    assert "PRSM_PLUGIN_TIMEOUT" in finding["message"]


def test_trust_is_told(prsm, found, workspace):
    assert found()["trust"]["status"] == "ok"
    (workspace / ".prism").mkdir()
    (workspace / ".prism" / "config.yaml").write_text("engine: {max_agent_depth: 2}\n")
    finding = found()["trust"]
    assert finding["status"] == "warning"
    assert "prsm trust" in finding["cure"]
    assert prsm("trust", "--yes").code == 0
    assert found()["trust"]["message"].endswith("is trusted as it is now")


def test_a_damaged_list_of_trust_is_broken_and_nothing_is_trusted(found, home, workspace):
    (workspace / ".prism").mkdir()
    (home / "data" / "trust.json").write_text("[")
    assert found()["trust"]["status"] == "broken"


def test_no_provider_is_broken_unless_plugins_are_off(found):
    assert found()["providers"]["status"] == "broken"
    assert found("--no-plugins")["providers"]["status"] == "warning"


PROVIDER = """
import os
from prsm_core import Provider, ProviderSpec, ProviderStatus, hookimpl

class Told(Provider):
    def __init__(self, settings, services):
        if settings.get("explode"):
            raise RuntimeError("exploded")
        self.status = dict(settings.get("status", {"available": True}))
        (services.state_dir / "note").write_text("prepared")

    async def probe(self):
        return ProviderStatus(**self.status)

    def open_session(self, request, host):
        raise NotImplementedError

class Other(Told):
    async def probe(self):
        reason = os.environ.get("OTHER_IS_DOWN")
        return ProviderStatus(available=reason is None, reason=reason)

@hookimpl
def prsm_providers():
    yield ProviderSpec(name="told", summary="", factory=Told)
    yield ProviderSpec(name="other", summary="", factory=Other)
"""


@pytest.fixture
def told(puppets, tmp_path, monkeypatch, prsm_process, home):
    """Return what doctor says of two providers whose answers the configuration holds."""
    (tmp_path / "site" / "puppet_plugin.py").write_text(PROVIDER)

    def run(config):
        (home / "config.yaml").write_text(json.dumps(config))
        findings = json.loads(prsm_process("doctor", "--json").out)
        return [f for f in findings if f["check"].startswith("provider")]

    return run


def of(section, **more):
    return {"providers": {"told": section}, **more}


@pytest.mark.requirement("U18")
def test_a_provider_that_can_be_used_tells_version_login_and_gaps(told, home):
    status = {"available": True, "version": "1.2", "tested": "1.x", "logged_in": True}
    findings = told(of({"status": {**status, "gaps": ["the network"]}}))
    assert [f["message"] for f in findings if f["check"] == "provider told"] == [
        "version 1.2, tested with 1.x, logged in",
        "cannot enforce: the network",
    ]
    assert not (home / "state" / "providers").exists()


def test_what_a_provider_ignores_is_told_each_time(told, prsm_process):
    ignored = (
        "provider told has no switch for models.warm.temperature: what is set there is ignored"
    )
    alias = {"provider": "told", "model_id": "m", "temperature": 0.5}
    for _ in range(2):
        findings = told(of({"status": {"available": True}}, models={"warm": alias}))
        assert ("warning", ignored) in [(f["status"], f["message"]) for f in findings]
        assert ignored in prsm_process("providers").out


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (
            {"available": False, "reason": "not logged in", "hint": "log in"},
            ("broken", "not logged in", "log in"),
        ),
        (
            {"available": True, "version": "9", "tested": "1.x", "reason": "version 9 is new"},
            ("warning", "version 9 is new", "use a version that was tested: 1.x"),
        ),
    ],
)
def test_a_provider_that_is_named_and_not_as_it_should_be(told, status, expected):
    [finding] = [f for f in told(of({"status": status})) if f["check"] == "provider told"]
    assert (finding["status"], finding["message"], finding["cure"]) == expected


def test_a_provider_that_nobody_named_may_be_missing_while_another_works(told, monkeypatch):
    assert [f["status"] for f in told(of({}))] == ["ok", "ok"]
    monkeypatch.setenv("OTHER_IS_DOWN", "1")
    assert [f["status"] for f in told(of({}))] == ["warning", "ok"]
    assert [f["status"] for f in told({"defaults": {"provider": "other"}})] == ["broken", "ok"]
    nothing_works = of({"status": {"available": False}})
    assert [f["status"] for f in told(nothing_works)] == ["broken", "broken"]


def test_a_provider_that_explodes_does_not_hide_the_others(told):
    other, exploded = told(of({"explode": True}))
    assert (other["check"], other["status"]) == ("provider other", "ok")
    assert "RuntimeError: exploded" in exploded["message"]
    assert exploded["status"] == "broken"


def test_a_key_that_is_not_set_is_told_by_the_name_of_its_variable(told):
    findings = told(of({"api_key_env": "NOBODY_SET_THIS"}))
    [finding] = [f for f in findings if f["status"] == "warning"]
    assert "NOBODY_SET_THIS is not set" in finding["message"]


def test_a_default_provider_that_is_not_installed_is_broken(told):
    [first, *_] = told({"defaults": {"provider": "nobody"}})
    assert first["status"] == "broken"
    assert "nobody" in first["message"]


def dist(tmp_path, name, version, requires=""):
    folder = tmp_path / f"{name} {version}" / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}"
    )
    (folder / "entry_points.txt").write_text("[prsm]\nx = y\n")
    [found] = distributions([str(folder.parent)])
    return found


def test_packages_of_another_release_or_installed_twice_are_told(tmp_path):
    core = dist(tmp_path, "prsm-core", "0.1.0")
    pinned = dist(tmp_path, "prsm-x", "9.0", "Requires-Dist: prsm-core<9.1,>=9.0\n")
    twice = [dist(tmp_path, "prsm-y", version) for version in ("0.1.0", "0.0.9")]
    release, double = check_packages([core, pinned, *twice])
    assert release.status == "broken"
    assert "prsm-x 9.0 needs prsm-core" in release.message
    assert double.status == "warning"
    assert "prsm-y is installed 2 times: 0.1.0, 0.0.9" in double.message
    [sources] = check_packages([dist(tmp_path, "prsm-z", "0.1.0")])
    assert "runs from its sources" in sources.message


@pytest.mark.parametrize(
    ("encoding", "status"),
    [("utf-8", "ok"), ("UTF8", "ok"), (None, "ok"), ("ascii", "warning"), ("odd", "warning")],
)
def test_a_terminal_that_does_not_take_utf_8_is_told(encoding, status):
    [finding] = check_terminal(encoding)
    assert finding.status == status


def test_what_the_terminal_does_not_take_is_escaped(workspace, monkeypatch):
    folder = workspace / "größe"
    (folder / ".prism").mkdir(parents=True)
    environ = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        command("doctor", "-C", str(folder)), env=environ, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, b"")
    assert rb"gr\xf6\xdfe" in done.stdout
    assert b"takes ascii only" in done.stdout


@pytest.mark.requirement("U23")
@pytest.mark.usefixtures("puppets", "home", "workspace")
def test_it_says_that_programs_of_vendors_are_never_in_the_sandbox(prsm):
    done = prsm("doctor")
    (line,) = (line for line in done.out.splitlines() if line.split()[1:2] == ["sandbox"])
    assert "vendors' own programs never are" in line


def test_what_people_can_be_told_by_and_where_it_ends_is_said(prsm):
    [answers] = [
        one for one in json.loads(prsm("doctor", "--json").out) if one["check"] == "answers"
    ]
    assert answers["status"] == "ok"
    assert "a guarantee in the sandbox only" in answers["message"]
    for way in ("read the key", "tmux", "at,", "cron", "systemd-run"):
        assert way in answers["message"]


@pytest.mark.requirement("U30")
def test_what_is_set_and_not_passed_is_named(prsm, monkeypatch):
    for name, value in {"PGHOST": "db", "CONDA_TOKEN": "t0ken-of-conda", "GOPATH": "/go"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PRSM__PASS_ENV", "['GOPATH', 'CONDA_*']")
    findings = json.loads(prsm("doctor", "--json").out)
    (told,) = [f["message"] for f in findings if f["check"] == "environment"]
    assert "PGHOST" in told
    assert "GOPATH" not in told
    assert "CONDA_TOKEN: name them in full" in told or "CONDA_TOKEN," in told.partition("takes")[2]
    assert "t0ken" not in str(findings)


@pytest.mark.requirement("U35")
def test_a_server_whose_name_a_provider_cannot_take_is_told_by_doctor_and_config_show(
    puppets, prsm_process, tmp_path, home
):
    text = PROVIDER.replace('name="told",', 'name="told", server_names="[a-z]+",', 1)
    assert text != PROVIDER
    (tmp_path / "site" / "puppet_plugin.py").write_text(text)
    servers = {"my.server": {"command": "sh"}, "fine": {"command": "sh"}}
    given = of({"status": {"available": True}}, mcp_servers=servers)
    (home / "config.yaml").write_text(json.dumps(given))
    told = "told takes no MCP server of the name 'my.server'; give it another"
    findings = json.loads(prsm_process("doctor", "--json").out)
    (finding,) = [f for f in findings if "'my.server'" in f["message"]]
    assert (finding["status"], told in finding["message"]) == ("warning", True)
    shown = prsm_process("config", "show")
    assert told in shown.err
    assert "fine" not in shown.err
