"""Safe commands put together: loops, branches, substitutions, what find and xargs run."""

from __future__ import annotations

import os
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prsm_policy.plugin import CHECK_CLASSES
from prsm_policy.tables import read_rows

from plugins.prsm_policy.tests.judging import decide, lines
from prsm_core.domain.agents import PermissionMode
from tests.command_policies import make_policy

CANARY = "CANARY-7f3a"
MIN_UNASKED = 0.9
FILES = {
    "README.md": "hello\nworld\n",
    "a": "b\na\n",
    "f": "foo 1\nbar 2\n",
    "list": ".env\n../outside\nsub/id_rsa\n",
    "src/app.py": "print(1)\n",
    "src/b.py": "x = 2\n",
    ".env": f"KEY={CANARY}\n",
    "sub/id_rsa": f"{CANARY}\n",
    "sub/c.py": "y\n",
    "odd/-n": "an option\n",
    "odd/x .env": "two words\n",
}


def planted(folder):
    """Make a workspace with secrets, a file that names them, odd names, and a link out of it."""
    work = folder / "work"
    for name, text in FILES.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "outside").write_text(f"{CANARY}\n")
    (work / "src" / "link.txt").symlink_to(folder / "outside")
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "TOKEN": CANARY}
    names = ("AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL")
    environ |= {f"GIT_{name}": "a@b" for name in names}
    for command in ("init -q -b main", "add .", "commit -q -m first"):
        subprocess.run(["git", *command.split()], cwd=work, env=environ, check=True)
    return work, environ


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    return planted(tmp_path_factory.mktemp("planted"))


def tree(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def run(command, work, environ):
    """Return what a text prints under bash."""
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-c", "--", command],
        cwd=work,
        env={**environ, "GIT_OPTIONAL_LOCKS": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        check=False,
    )
    return (done.stdout + done.stderr).decode(errors="replace")


@pytest.mark.requirement("E18", "E23")
def test_everyday_commands_of_agents_run_unasked_but_for_those_that_change_things(tmp_path, report):
    for program in ("tsc", "eslint", "jest", "vitest", "mocha", "prettier"):
        path = tmp_path / "node_modules" / ".bin" / program
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    rows = [line.split("\t", 1) for line in lines("everyday_commands.txt")]
    asked = [command for _, command in rows if decide(command, tmp_path) != "allow"]
    report(f"command policy: {len(rows) - len(asked)} of {len(rows)} everyday commands run unasked")
    assert len(rows) >= 400
    assert asked == [command for kind, command in rows if kind == "change"]
    assert len(rows) - len(asked) >= MIN_UNASKED * len(rows)


@pytest.mark.requirement("E23")
@pytest.mark.parametrize("trusted", [True, False])
def test_no_hostile_composition_is_allowed(workspace, trusted):
    commands = [line.replace("⏎", "\n") for line in lines("hostile_compositions.txt")]
    assert len(commands) >= 300
    work, _ = workspace
    assert not [line for line in commands if decide(line, work, trusted=trusted) == "allow"]


def test_every_check_of_a_trusted_workspace_has_a_class_that_a_person_is_told():
    used = [" ".join(fields["class"]) for _, fields in read_rows("checks")]
    assert {*used, "plans"} == set(CHECK_CLASSES)
    assert all(text.strip() for text in CHECK_CLASSES.values())


@pytest.mark.parametrize("trusted", [True, False])
def test_plan_mode_runs_what_only_looks_however_it_is_put_together(tmp_path, trusted):
    command = 'for f in *.py; do if grep -q x "$f"; then wc -l "$f"; fi; done'
    assert decide(command, tmp_path, mode=PermissionMode.PLAN, trusted=trusted) == "allow"
    command = 'for f in *.py; do rm "$f"; done'
    assert decide(command, tmp_path, mode=PermissionMode.PLAN, trusted=trusted) == "deny"


def test_rules_see_through_a_composition_and_an_allow_rule_covers_none():
    policy = make_policy(allow=["frob"], ask=["wc"], deny=["head"])
    assert decide('for f in a b; do head "$f"; done', policy=policy) == "deny"
    assert decide('for f in a b; do wc "$f"; done', policy=policy) == "ask"
    assert decide('for f in a b; do frob "$f"; done', policy=policy) == "ask"
    assert decide('for f in a b; do cat "$f"; done', policy=policy) == "allow"


@pytest.mark.parametrize(
    ("name", "command", "verdict"),
    [
        ("x.py", "cat $(git ls-files '*.py')", "allow"),
        ("x.key.py", "cat $(git ls-files '*.py')", "allow"),
        ("a b.py", "cat $(git ls-files '*.py')", "ask"),
        ("a b.py", "find . -name '*.py' | xargs cat", "ask"),
        ("a b.py", "find . -name '*.py' -exec cat {} +", "allow"),
        ("a b.py", "for f in *.py; do cat $f; done", "ask"),
        ("a b.py", 'for f in *.py; do cat "$f"; done', "allow"),
        ("-n.py", "git ls-files | xargs cat", "ask"),
        ("x.pem", "find . -exec cat {} +", "ask"),
        ("x.pem", "find . -name '*.py' -exec cat {} +", "allow"),
        ("x.pem", "find . -name '*.p*' -exec cat {} +", "ask"),
        (".aws/x.py", "find . -name '*.py' -exec cat {} +", "ask"),
        ("x.pem", 'ls | while read -r f; do cat "$f"; done', "ask"),
        ("x.pem", 'ls | while read -r f; do echo "$f"; done', "allow"),
        ("objects/x.pem", "find . -exec cat {} +", "ask"),
        (".git/x.pem", "git ls-files | xargs cat", "allow"),
        (".git/x.pem", "find . -type f | xargs cat", "ask"),
        (".env", "rg --files | xargs cat", "allow"),
        (".env", "rg --files --hidden | xargs cat", "ask"),
        ("src/x.pem", "find . -name src -exec grep -r x {} +", "ask"),
        ("src/x.pem", "find . -name 'test*' -exec grep -r x {} +", "allow"),
        ("a[x].py", "n=$(grep -c x *.py); echo $((n + 1))", "ask"),
        ("a[x].py", "n=$(grep -c -r x); echo $((n + 1))", "ask"),
        ("a[x].py", "n=$(ls | grep -c -r x); echo $((n + 1))", "ask"),
        ("a.py", "n=$(grep -c x a.py); echo $((n + 1))", "allow"),
        ("a.py", "n=$(ls | grep -c x); echo $((n + 1))", "allow"),
        ("[x].ts", "find . -name '*.ts' | xargs grep foo", "allow"),
        ("[x].ts", "grep foo $(git ls-files '*.ts')", "ask"),
    ],
)
def test_names_that_a_command_prints_are_judged_by_what_is_there(tmp_path, name, command, verdict):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.touch()
    assert decide(command, tmp_path) == verdict


def test_links_that_are_found_must_not_lead_out(tmp_path):
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (tmp_path / "secret").touch()
    (workspace / "link.py").symlink_to(tmp_path / "secret")
    for command in (
        "find . -name '*.py' -exec cat {} +",
        "cat $(git ls-files '*.py')",
        "find . -name '*.py' | xargs cat",
        "find . -name '*.py' | while read -r f; do cat \"$f\"; done",
    ):
        assert decide(command, workspace) == "ask"
        assert decide(command.replace(".py", ".ts"), workspace) == "allow"


WORDS = st.sampled_from(
    [
        "a", "f", "list", ".env", "src/app.py", "*.py", "*", ".*", "src/*", "sub/*", "$x", '"$x"',
        "${x%.py}", "$(cat list)", '"$(cat list)"', "$(ls)", "$(ls -a)", "$(find . -name '*.py')",
        "$(git ls-files)", "$(git ls-files '*.py')", '"$(git rev-parse HEAD)"', "$TOKEN", "-n",
        "$(seq 1 3)", "$((1+2))", "<(sort f)", "'s/a/b/'", "'{print $1}'", "'w out'", "x=.env",
        "$?", "'*'", '"*"', ".$x", "src/$x", '"src/$x"', "../outside", "/etc/hostname", "..", "--",
        "src/link.txt",
    ]
)  # fmt: skip
PROGRAMS = st.sampled_from(
    [
        "cat", "head", "wc", "ls", "echo", "printf", "grep", "sort", "uniq", "sed", "awk", "find",
        "xxd", "touch", "rm", "tee", "git", "diff", "test", "[", "xargs", "cut", "tail", "cd",
        "basename", "strings", "base64",
    ]
)  # fmt: skip
SIMPLE = st.builds(
    lambda name, words: " ".join([name, *words]), PROGRAMS, st.lists(WORDS, max_size=3)
)


def composed(inner):
    one = st.tuples(inner, inner)
    return st.one_of(
        st.builds("for x in {} {}; do {}; done".format, WORDS, WORDS, inner),
        st.builds("x={}; {}".format, WORDS, inner),
        st.builds("{} | while read -r x; do {}; done".format, inner, inner),
        st.builds(
            "while read -r x; do {}; done < {}".format, inner, st.sampled_from(["f", "list"])
        ),
        st.builds("{} | xargs {}".format, inner, inner),
        st.builds("find . -name '*.py' -exec {} {{}} +".format, inner),
        st.builds("find {} -exec {} {{}} \\;".format, WORDS, inner),
        one.map(lambda two: f"{two[0]} | {two[1]}"),
        one.map(lambda two: f"{two[0]} && {two[1]}"),
        one.map(lambda two: f"{two[0]} || {two[1]}"),
        one.map(lambda two: f"{two[0]}; {two[1]}"),
        one.map(lambda two: f"if {two[0]}; then {two[1]}; fi"),
        one.map(lambda two: f"cd src && {two[0]}; {two[1]}"),
        st.builds("({})".format, inner),
        st.builds("{{ {}; }}".format, inner),
        st.builds("! {}".format, inner),
        st.builds('echo "$({})"'.format, inner),
        st.builds("case {} in a*) {};; *) {};; esac".format, WORDS, inner, inner),
        st.builds("{} <<< {}".format, inner, WORDS),
        st.builds("{} < {}".format, inner, WORDS),
    )


COMPOSED = st.recursive(SIMPLE, composed, max_leaves=4)


def check_effect(command, workspace, before):
    work, environ = workspace
    if decide(command, work) != "allow":
        return
    assert CANARY not in run(command, work, environ), command
    assert tree(work) == before, command


@given(command=COMPOSED)
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_allowed_compositions_show_no_secret_and_change_nothing(workspace, command):
    check_effect(command, workspace, tree(workspace[0]))


@pytest.mark.long
@given(command=COMPOSED)
@settings(max_examples=20_000, deadline=None, suppress_health_check=list(HealthCheck))
def test_thousands_of_allowed_compositions_show_no_secret_and_change_nothing(workspace, command):
    check_effect(command, workspace, tree(workspace[0]))
