"""What bash runs is found: texts are run with a program that notes it, and a rule denies that."""

from __future__ import annotations

import itertools
import random
import shutil
import subprocess

import pytest

from plugins.prsm_policy.tests.judging import decide
from prsm_core.domain.agents import PermissionMode
from tests.command_policies import make_policy

NO_CURL = make_policy(deny=["curl"])


class Bash:
    """Runs texts in a folder of their own, where the only curl is one that notes that it ran."""

    def __init__(self, folder):
        self.work, self.bin, self.note = folder / "work", folder / "bin", folder / "ran"
        self.work.mkdir()
        self.bin.mkdir()
        for name in ("curl", "notcurl"):
            (self.bin / name).write_text(f"#!/bin/bash\n: >> {self.note}\n")
            (self.bin / name).chmod(0o755)
        for name in ("cat", "sh", "bash", "env", "tr", "true", "ln", "cp"):
            (self.bin / name).symlink_to(shutil.which(name))

    def runs_curl(self, text):
        self.note.unlink(missing_ok=True)
        for path in self.work.iterdir():
            path.unlink()
        subprocess.run(
            [b"/bin/bash", b"--norc", b"--noprofile", b"-c", b"--", text.encode()],
            env={"PATH": str(self.bin), "HOME": str(self.work)},
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
            check=False,
        )
        return self.note.exists()

    def assert_found(self, text):
        """Check that a text that is allowed does not run the denied program; tell if it was."""
        if decide(text, self.work, policy=NO_CURL, mode=PermissionMode.BYPASS) != "allow":
            return False
        assert not self.runs_curl(text), repr(text)
        return True


@pytest.fixture
def bash(tmp_path):
    return Bash(tmp_path)


OPERATORS = [">&", "1>&", "&>", "&>>", "<&", ">|", ">>", "<>", "<<<", ">", "<", "2>&", "0<&"]
TARGETS = [
    "'$(curl)'", '"\\$(curl)"', "\\$\\(curl\\)", "'`curl`'", "\\`curl\\`", "$'$(curl)'", "$x",
    "'${x:=$(curl)}'", "'a$(curl)b'", "'<(curl)'", "'$((a[$(curl)]))'", '"$x"', "$'\\x24(curl)'",
    "a'$(curl)'", "'$y'", "${x}", "'${x@P}'",
]  # fmt: skip


@pytest.mark.requirement("E24")
@pytest.mark.parametrize("operator", OPERATORS)
def test_what_a_redirection_expands_is_found(bash, operator):
    for target, before in itertools.product(TARGETS, ["", "x='$(curl)'; "]):
        bash.assert_found(f"{before}true {operator}{target}")


HEREDOCS = [
    "cat <<E\n E\n: <<'X'\nE\ncurl x\nX",
    "cat <<E\n\tE\n: <<'X'\nE\ncurl x\nX",
    "cat <<-E\n E\n: <<'X'\nE\ncurl x\nX",
    "cat <<-E\n\t E\n: <<'X'\nE\ncurl x\nX",
    "cat <<-'E'\n \tE\n: <<'X'\nE\ncurl x\nX",
    "cat <<'E'\n\t\n E\n: <<'X'\nE\ncurl x\nX",
    "x=$(cat <<E\n E\n: <<'X'\nE\ncurl x\nX\n)",
    "cat <<A <<B\n A\nA\n B\n: <<'X'\nB\ncurl x\nX",
    "{ cat <<E\n E\n: <<'X'\nE\ncurl x\nX\n}",
    # What begins with two parentheses ends at the one that matches, also inside a heredoc.
    "cat <((cat) <<F\n)\ncurl x\nF\n)",
    "cat <(\\\n(cat) <<'F'\n)\ncurl x\nF\n)",
    "tee >((cat) <<F\n)\ncurl x\nF\n)",
    "cat < <((cat) <<F\n)\ncurl x\nF\n)",
    "echo $((cat) <<F\n)\ncurl x\nF\n)",
    "cat <((true) # )\ncurl x\n)",
    "cat <<Z\n$((cat) <<'F' >a\n`curl`\nE)\n$(curl x)\nF\n)\nZ",
]


@pytest.mark.requirement("E24")
@pytest.mark.parametrize("text", HEREDOCS)
def test_a_heredoc_ends_where_bash_ends_it(bash, text):
    assert bash.runs_curl(text)
    assert decide(text, policy=NO_CURL, mode=PermissionMode.BYPASS) != "allow"


BEGINNINGS = [
    "<<E", "<<'E'", "<<\\E", '<<"E"', "<<-E", "<<-'E'", "<< E", "<<- E", "<<'F'", "<<F", "<<-F",
    "<<$E", "<<E-x", "<<'E F'", '<<"E"F', "<<E''", "<<-\\E",
]  # fmt: skip
ENDS = [
    *["E"] * 12, " E", "\tE", "E ", "\t\tE", " \tE", "\\E", "'E'", "F", "EF", "\tF", "E;", "E)",
    "E`", "$E", "E\\", "E-x", "\t E",
]  # fmt: skip
BODIES = [
    "", "x", "  ", "\t", "curl x", "\tcurl x", "$(curl x)", "`curl`", ": <<'F'", ": <<'E'",
    ": <<E", "cat <<F", "#", "'", '"', "\\", "x\\", ")", "$x", "a b", "<<E", "$(cat <<F",
]  # fmt: skip
READERS = [
    "cat", ":", "bash", "sh -s", "cat | cat", "{ cat; }", "(cat)", "cat >a", "x=1 cat", "env cat",
    "while read x; do :; done", "f(){ cat; }; f", "tr a b", "eval cat",
]  # fmt: skip
BEHIND = [
    *[""] * 20, " | cat", " | sh", " && true", "; :", " >a", " 2>&1", " <<F", " <<'F'", " <<-F",
    " 'a'", ' "a\nb"', " # c", " &", " $x", " \\", " ; curl x", " $(true)", " `true`",
]  # fmt: skip
AROUND = [
    *["{}"] * 12, "x=$({}\n)", "echo $({}\n)", "echo `{}\n`", "({}\n)", "if true; then\n{}\nfi",
    "f() {{\n{}\n}}\nf", "bash -c '{}'", "for i in 1; do {}\ndone", 'x="$({}\n)"', "cat <({}\n)",
    "! {}", "true && {}", "case x in x) {}\n;; esac", "cat <<Z\n$({}\n)\nZ",
]  # fmt: skip


def heredoc(rng):
    lines = [f"{rng.choice(READERS)} {rng.choice(BEGINNINGS)}{rng.choice(BEHIND)}"]
    lines += [rng.choice(BODIES) for _ in range(rng.randint(1, 4))]
    for _ in range(rng.randint(1, 3)):
        lines.insert(rng.randint(1, len(lines)), rng.choice(ENDS))
    if rng.random() < 0.4:
        lines.insert(rng.randint(1, len(lines)), "curl x")
    lines += rng.choice([["curl x"], [": <<'E'"], ["E"], ["F"], ["curl x", "F"], []])
    return rng.choice(AROUND).format("\n".join(lines))


def fuzz(bash, seed, count):
    rng = random.Random(seed)
    return sum(bash.assert_found(heredoc(rng)) for _ in range(count))


def test_heredocs_of_all_kinds_hide_nothing_that_bash_runs(bash):
    assert fuzz(bash, seed=1, count=4_000) > 40


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 8))
def test_very_many_heredocs_hide_nothing_that_bash_runs(bash, seed):
    assert fuzz(bash, seed, count=60_000) > 600


@pytest.mark.requirement("E24")
def test_a_link_to_a_denied_program_is_asked_about(bash):
    for name, target in (("x", "curl"), ("y", "bash"), ("z", "env")):
        (bash.work / name).symlink_to(bash.bin / target)
    (bash.work / "t").symlink_to(bash.bin / "true")
    for text in ("./x a", "cd . && ./x a", f"{bash.work}/x a", "./y -c 'cur''l x'", "./z FOO=1"):
        assert decide(text, bash.work, policy=NO_CURL, mode=PermissionMode.BYPASS) == "ask", text
    assert decide("./t a", bash.work, policy=NO_CURL, mode=PermissionMode.BYPASS) == "allow"
    assert decide("./x a", bash.work, mode=PermissionMode.BYPASS) == "allow"


@pytest.mark.parametrize(
    "command", ["ln -s /usr/bin/curl x && ./x a", "cp /usr/bin/curl ./x; ./x a"]
)
def test_another_name_for_a_denied_program_is_asked_about(command):
    assert decide(command, policy=NO_CURL, mode=PermissionMode.BYPASS) == "ask"


def test_an_environment_s_own_python_is_no_other_program(tmp_path):
    (tmp_path / "python").symlink_to("/usr/bin/python3.11")
    assert decide("./python x.py", tmp_path, policy=NO_CURL, mode=PermissionMode.BYPASS) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "/proc/$$/exe -c id",
        "/proc/self/fd/3 x",
        "/dev/fd/3",
        "../../proc/self/exe -c id",
        "/dev/../proc/1/exe",
    ],
)
def test_a_program_that_the_kernel_names_is_never_run_unasked(command):
    for policy in (NO_CURL, make_policy()):
        assert decide(command, policy=policy, mode=PermissionMode.BYPASS) == "ask"
