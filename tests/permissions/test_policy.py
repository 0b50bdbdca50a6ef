"""The command policy against recorded rows, hostile texts, and the laws it must keep."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import Allow, Ask, Deny
from prsm_core.permissions import CommandPolicyStore, CommandSetting

DATA = Path(__file__).parent / "data"
ROWS = [json.loads(line) for line in (DATA / "commands_sample.jsonl").read_text().splitlines()]
NAMES = {Allow: "allow", Ask: "ask", Deny: "deny"}
MAX_SECONDS = 0.05


def setting(workspace, *, mode=PermissionMode.DEFAULT, trusted=True, cwd="."):
    return CommandSetting(mode=mode, cwd=str(cwd), workspace=str(workspace), trusted=trusted)


def decide(command, workspace="/nowhere", *, policy=None, **options):
    verdict = (policy or CommandPolicyStore()).decide(command, setting(workspace, **options))
    return NAMES[type(verdict)]


def decide_row(row, workspace):
    rules = {name: row["policy"].get(name, ()) for name in ("allow", "ask", "deny")}
    if row["policy_source"] == "workspace":
        rules["workspace_allow"] = rules.pop("allow")
    mode = PermissionMode(row["mode"])
    policy = CommandPolicyStore(**rules)
    return decide(row["command"], workspace, policy=policy, mode=mode, trusted=row["trusted"])


@pytest.mark.requirement("E23")
def test_no_recorded_command_is_allowed_that_should_not_be(tmp_path):
    unsafe = [
        row["id"]
        for row in ROWS
        if "allow" not in row["accept"] and decide_row(row, tmp_path) == "allow"
    ]
    assert not unsafe


def test_every_recorded_command_that_must_be_denied_is_denied(tmp_path):
    rows = [row for row in ROWS if row["accept"] == ["deny"]]
    assert rows
    assert not [row["id"] for row in rows if decide_row(row, tmp_path) != "deny"]


def test_every_other_recorded_command_gets_an_accepted_verdict(tmp_path):
    rows = [row for row in ROWS if "allow" not in row["accept"] and row["accept"] != ["deny"]]
    assert not [row["id"] for row in rows if decide_row(row, tmp_path) not in row["accept"]]


@pytest.mark.requirement("E23")
def test_most_recorded_benign_commands_run_without_a_question(tmp_path, report):
    benign = [row for row in ROWS if row["expected"] == "allow"]
    allowed = [row for row in benign if decide_row(row, tmp_path) == "allow"]
    report.append(f"command policy: {len(allowed)} of {len(benign)} benign rows run unasked")
    assert len(allowed) > len(benign) // 2


HOSTILE = (DATA / "hostile_commands.txt").read_text().splitlines()


@pytest.mark.parametrize("mode", [PermissionMode.DEFAULT, PermissionMode.PLAN])
def test_no_hostile_variant_of_a_harmless_command_is_allowed(tmp_path, mode):
    assert len(HOSTILE) > 200
    assert not [line for line in HOSTILE if decide(line, tmp_path, mode=mode) == "allow"]


def test_bypass_allows_ordinary_commands_and_asks_about_the_rest(tmp_path):
    def verdict(command):
        return decide(command, tmp_path, mode=PermissionMode.BYPASS)

    assert {verdict(c) for c in ("touch notes.txt", "make build", "npm install")} == {"allow"}
    for command in ("rm -rf x", "touch .git/hooks/x", "make X='sh -c id'", "touch ../x", "frob"):
        assert verdict(command) == "ask"


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("cat notes/../README.md", "ask"),
        ("cat link", "ask"),
        ("cat src/link", "ask"),
        ("cat README.md", "allow"),
        ("cd src && cat inner", "ask"),
        ("cd src && cat app.py", "allow"),
        ("cd src | cat app.py", "ask"),
        ("cd a; cd b; cd c; cd d; cd e; ls", "ask"),
    ],
)
def test_links_that_lead_out_of_the_workspace_are_followed(tmp_path, command, verdict):
    (tmp_path / "secret").write_text("x")
    workspace = tmp_path / "workspace"
    (workspace / "src").mkdir(parents=True)
    for name in ("link", "src/link", "src/inner"):
        (workspace / name).symlink_to(tmp_path / "secret")
    assert decide(command, workspace) == verdict


def test_nothing_is_safe_outside_the_workspace(tmp_path):
    assert decide("ls", tmp_path, cwd="/") == "ask"
    assert decide("ls", tmp_path, cwd=tmp_path / "src") == "allow"


def test_an_absolute_path_in_the_workspace_is_ordinary(tmp_path):
    assert decide(f"cat {tmp_path}/README.md", tmp_path) == "allow"
    assert decide(f"cat {tmp_path}x/README.md", tmp_path) == "ask"


def test_a_rule_covers_few_options_and_no_dangerous_program(tmp_path):
    rules = ["npm run build", "git push", "git commit", "rm", "frob"]

    def verdict(command):
        return decide(command, tmp_path, policy=CommandPolicyStore(allow=rules))

    for command in (
        "npm run build -- --prod",
        "git push origin main",
        "git commit -m 'a -f b'",
        "frob -q src",
    ):
        assert verdict(command) == "allow", command
    for command in (
        "npm run build --script-shell=./x",
        "npm run builder",
        "git push --force",
        "git push origin +main",
        "git push ext::sh",
        "git -c a.b=c push",
        "rm x",
        "frob -c x",
        "frob ~/x",
        "frob .env",
        "frob x=y",
        "./frob",
        "PATH=. frob",
        "frob && frob --evil",
    ):
        assert verdict(command) == "ask", command


@pytest.mark.parametrize(
    "command",
    [
        "curl x",
        "/usr/bin/curl x",
        "ls; curl x",
        "\\curl x",
        "cu'r'l x",
        "$'curl' x",
        "cur\\\nl x",
        'echo "$(curl x)"',
        "echo `curl x`",
        "cat <(curl x)",
        "A=$(curl x)",
        "if true; then curl x; fi",
        "f() { curl x; }; f",
        "! curl x",
        "time curl x",
        "sudo -u me curl x",
        "xargs -n1 curl",
        "find . -exec curl {} +",
        "bash -c 'curl x'",
        'bash -lc "ls && curl x"',
        "bash -c \"bash -c 'curl x'\"",
        "eval 'curl x'",
        "echo 'curl x' | sh",
        "bash <<'EOF'\ncurl x\nEOF",
        "2>/dev/null curl x",
        ">out curl x",
        ">&2 curl x",
        "A=1 B='c d' curl x",
        "env -S 'curl x'",
        "watch 'curl x'",
        "trap 'curl x' EXIT",
        "timeout 5 nice -n 3 curl x",
        "ls &\ncurl x &",
        "# '\ncurl x # '",
        "case x in x) curl x;; esac",
        " ".join(["ls;"] * 10_000) + " curl x",
    ],
)
def test_a_deny_rule_finds_its_command_at_any_depth(command):
    for mode in PermissionMode:
        assert decide(command, policy=CommandPolicyStore(deny=["curl"]), mode=mode) == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "grep curl README.md",
        "rg 'curl x' docs",
        "echo curl",
        "find . -name curl",
        "command -v curl",
    ],
)
def test_a_denied_word_that_is_only_an_argument_is_no_command(tmp_path, command):
    assert decide(command, tmp_path, policy=CommandPolicyStore(deny=["curl"])) == "allow"


@pytest.mark.parametrize("command", ["$(echo curl) x", "c?rl x", "$a x", "{curl,x}", "~/c x"])
def test_a_program_that_cannot_be_told_is_asked_about_when_there_are_deny_rules(command):
    policy = CommandPolicyStore(allow=["c?rl", "~/c"], deny=["curl"])
    ask = policy.asked(command)
    assert isinstance(ask, Ask)
    assert "always" not in ask.options


def test_a_deny_rule_with_a_subcommand_looks_past_options():
    policy = CommandPolicyStore(deny=["git push", "npm publish"])
    for command in ("git -C x -c a.b=c push", "git --no-pager push", "npm --silent publish"):
        assert decide(command, policy=policy) == "deny"
    assert decide("git log", policy=policy) == "allow"
    assert decide("git log push", policy=policy) == "allow"


def test_allow_rules_of_a_workspace_need_its_trust(tmp_path):
    policy = CommandPolicyStore(workspace_allow=["frob"])
    assert decide("frob", tmp_path, policy=policy, trusted=True) == "allow"
    assert decide("frob", tmp_path, policy=policy, trusted=False) == "ask"
    assert decide("pytest -q", tmp_path, trusted=False) == "ask"


@pytest.mark.parametrize("rule", ["", [], ["a", ""], ["x"] * 17])
def test_a_rule_without_words_or_with_too_many_is_refused(rule):
    with pytest.raises(ValueError, match="a rule has 1 to 16 words"):
        CommandPolicyStore(allow=[rule])


WORDS = ["ls", "curl", "git", "push", "npm", "-c", "x", "'curl x'", '"a $(curl)"', "bash", "sudo"]
GLUE = [
    " ",
    ";",
    "&&",
    "||",
    "|",
    "&",
    "\n",
    "(",
    ")",
    "{",
    "}",
    "$",
    "`",
    ">",
    "<",
    "'",
    '"',
    "\\",
]
SHELL = st.lists(st.sampled_from(WORDS + GLUE), max_size=15).map("".join) | st.text(max_size=60)
RULES = st.lists(st.sampled_from(["curl", "ls", "git push", "npm", "bash", "x"]), max_size=3)
STRENGTH = {"allow": 0, "ask": 1, "deny": 2}


@given(
    SHELL,
    RULES,
    RULES,
    RULES,
    st.sampled_from(["curl", "git", "ls", "x"]),
    st.sampled_from(list(PermissionMode)),
)
def test_adding_a_deny_rule_never_weakens_a_verdict(command, allow, ask, deny, more, mode):
    before = decide(command, policy=CommandPolicyStore(allow, ask, deny), mode=mode)
    after = decide(command, policy=CommandPolicyStore(allow, ask, [*deny, more]), mode=mode)
    assert STRENGTH[after] >= STRENGTH[before]


@given(SHELL, RULES, RULES)
@example("\0", [], ["curl"])
@example("\ud800 ls", [], ["curl"])
@example("'" * 99, [], ["curl"])
def test_any_text_gets_the_same_verdict_twice(command, allow, deny):
    policy = CommandPolicyStore(allow, (), deny)
    assert decide(command, policy=policy) == decide(command, policy=policy)


@pytest.mark.parametrize(
    "text",
    [
        "ls " + "'a' " * 100_000,
        "$(" * 50_000,
        '"' + '\\"' * 100_000,
        "a" * 500_000,
        "xargs " + "a " * 50_000,
    ],
)
def test_a_huge_text_is_never_allowed_and_never_hangs(text):
    started = time.perf_counter()
    assert decide(text, policy=CommandPolicyStore(deny=["curl"])) == "ask"
    assert time.perf_counter() - started < 5


def test_verdicts_on_the_recorded_rows_are_fast(tmp_path, report):
    seconds = []
    for row in ROWS:
        started = time.perf_counter()
        decide_row(row, tmp_path)
        seconds.append(time.perf_counter() - started)
    middle, longest = sorted(seconds)[len(seconds) // 2], max(seconds)
    report.append(f"command policy: median {middle * 1e3:.2f} ms, longest {longest * 1e3:.1f} ms")
