"""A read of a folder is a read of what is in it, in every mode.

The rows are judged in workspaces with and without secrets, below a home that has some.
"""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter

import pytest
from prsm_policy.danger.folders import is_public, why_guarded

from plugins.prsm_policy.tests.judging import decide, rows
from prsm_core.domain.agents import PermissionMode
from tests.command_policies import make_policy

ROWS = rows("folder_reads.jsonl")
MIN_ROWS = 250
BYPASS, PLAN = PermissionMode.BYPASS, PermissionMode.PLAN

FILES = {
    **dict.fromkeys(("src/a.py", "app.py", "docs/a.md", "docs/b.md", "README.md"), "x\n"),
    **dict.fromkeys(("build/x.txt", "public/index.html"), ""),
    "package.json": "{}",
    "names.txt": "src/a.py\n",
}
# What is in a workspace beside these, by the name that rows have for it.
GROUNDS = {
    "clean": {},
    "secret": dict.fromkeys((".env", "deploy/.env", "deploy/id_rsa"), "KEY=canary\n"),
    "ignored": {".env": "KEY=canary\n", "src/.env": "KEY=canary\n", ".ignore": "!{.env,x}\n"},
}
NEIGHBOURS = {"other/README.md": "x\n", "other/src/a.py": "x\n", ".ssh/id_rsa": "canary\n"}


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path, NEIGHBOURS)
    return tmp_path


@pytest.fixture
def grounds(home):
    """Make the workspaces; return them by name."""
    for name, files in GROUNDS.items():
        write(home / name, {**FILES, **files})
        init = ["git", "init", "-q", "-b", "main", "--template="]
        subprocess.run(init, cwd=home / name, check=True, timeout=30)
    return {name: home / name for name in GROUNDS}


@pytest.mark.requirement("E18", "E23", "E24")
def test_reads_of_folders_are_judged_by_what_is_in_them(grounds, report):
    assert len(ROWS) >= MIN_ROWS
    assert max(Counter((row["command"], row["ground"]) for row in ROWS).values()) == 1
    verdicts = {
        (row["id"], mode): decide(row["command"], grounds[row["ground"]], mode=PermissionMode(mode))
        for row in ROWS
        for mode in row["expected"]
    }
    wrong = [
        (row["id"], row["command"], mode, verdicts[row["id"], mode])
        for row in ROWS
        for mode, expected in row["expected"].items()
        if verdicts[row["id"], mode] != expected
    ]
    risky = [row for row in ROWS if row["expected"]["bypass"] == "ask"]
    unasked = [row for row in risky if verdicts[row["id"], "bypass"] == "allow"]
    free = [row for row in ROWS if row["expected"]["bypass"] == "allow"]
    kept = [row for row in free if verdicts[row["id"], "bypass"] == "allow"]
    report(
        f"reads of folders: {len(ROWS)} rows, each in 3 modes; {len(wrong)} wrong verdicts;"
        f" bypass: {len(unasked)} of {len(risky)} dangerous unasked,"
        f" {len(kept)} of {len(free)} benign unasked"
    )
    assert not wrong


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("grep", "grep -rn KEY ."),
        ("tar czf", "tar czf x.tgz ."),
        ("python -m http.server", "python -m http.server --directory deploy"),
        ("frobserve", "frobserve /home/bob"),
        ("cat", "cat deploy/*"),
        ("rg", "rg -uu KEY"),
    ],
)
@pytest.mark.requirement("E18")
def test_a_rule_to_allow_covers_no_longer_read_of_a_folder(grounds, rule, command):
    for mode in (PermissionMode.DEFAULT, BYPASS):
        policy = make_policy([rule])
        assert decide(command, grounds["secret"], policy=policy, mode=mode) == "ask"
        exactly = make_policy([command.split()])
        is_plain = "*" not in command
        verdict = decide(command, grounds["secret"], policy=exactly, mode=mode)
        assert verdict == ("allow" if is_plain else "ask"), command


def test_what_a_workspace_holds_is_seen_when_it_is_decided(grounds):
    work, command = grounds["clean"], "tar czf x.tgz src"
    policy = make_policy()
    assert decide(command, work, policy=policy, mode=BYPASS) == "allow"
    (work / "src" / "deep").mkdir()
    (work / "src" / "deep" / "id_rsa").write_text("canary")
    assert decide(command, work, policy=policy, mode=BYPASS) == "ask"
    (work / "src" / "deep" / "id_rsa").unlink()
    assert decide(command, work, policy=policy, mode=BYPASS) == "allow"


def test_a_link_that_leads_to_a_home_is_followed(grounds, home):
    work = grounds["clean"]
    (work / "link").symlink_to(home)
    for command in ("grep -rn x link/", "python -m http.server -d link", "zip -r x.zip link"):
        assert decide(command, work, mode=BYPASS) == "ask", command


def test_folders_outside_are_looked_at(grounds, home):
    work = grounds["clean"]
    assert decide("grep -rn x ../other", work, mode=BYPASS) == "allow"
    (home / "other" / ".env").write_text("KEY=canary")
    assert decide("grep -rn x ../other", work, mode=BYPASS) == "ask"
    assert decide("rg x ../other", work, mode=BYPASS) == "allow"
    assert decide("rg --hidden x ../other", work, mode=BYPASS) == "ask"


@pytest.mark.parametrize(
    "text",
    [
        "!.env", "!{.env,x}", "!.{env,x}", "!{.,x}env", "!{a/.env,x}", "!{{.env,y},x}", "!**",
        "\ufeff!.env", "![.]env", "!\\.env", "!?env", "!.en[!x]", "!{.en[v],x}",
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", [".ignore", ".rgignore", ".gitignore"])
@pytest.mark.requirement("E18")
def test_rg_is_asked_about_where_a_file_brings_a_secret_back(grounds, name, text):
    work = grounds["secret"]
    shutil.rmtree(work / "deploy")
    assert decide("rg KEY", work) == "allow"
    (work / name).write_text(f"{text}\n")
    assert decide("rg KEY", work) == "ask"
    assert decide("rg KEY", work, mode=PLAN) == "deny"
    assert decide("rg KEY", work, mode=BYPASS) == "ask"


@pytest.mark.skipif(shutil.which("rg") is None, reason="rg is not installed")
@pytest.mark.requirement("E18")
def test_what_rg_is_let_to_read_unasked_holds_no_secret(grounds):
    work = grounds["secret"]
    shutil.rmtree(work / "deploy")
    texts = ["!.env", "!{.env,x}", "!{.,x}env", "!x", "!{y,x}", "*.py\n!.env", "!.ENV", " !.env"]
    shown = 0
    for text in texts:
        (work / ".ignore").write_text(f"{text}\n")
        run = subprocess.run(
            ["rg", "--no-config", "KEY", "."],
            cwd=work,
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
        shown += "canary" in run.stdout
        if decide("rg --no-config KEY .", work) == "allow":
            assert "canary" not in run.stdout, text
    assert shown >= 3


@pytest.mark.parametrize(
    "path",
    [
        "/", "/etc", "/etc/ssl", "/etc/ssl/private", "/etc/shadow", "/home", "/home/bob",
        "/home/bob/x/y", "/root", "/Users/bob", "/proc", "/proc/1", "/var", "/var/lib", "/run",
        "/run/secrets/x", "/mnt",
    ],
)  # fmt: skip
def test_homes_and_folders_above_secrets_are_guarded(home, path):
    assert why_guarded(path) is not None


def test_what_everybody_has_and_the_own_projects_are_not_guarded(home):
    paths = ("/usr/include", "/opt/x", "/homework", f"{home}/work/src", "/srv/www")
    assert [path for path in paths if why_guarded(path)] == []
    assert why_guarded(str(home))
    assert why_guarded(f"{home}/.config")
    assert why_guarded(str(home.parent))
    assert is_public("/usr/include")
    assert is_public(f"{home}/.cargo/registry/src")
    assert not is_public("/usr/local/etc")
    assert not is_public("/etc")
