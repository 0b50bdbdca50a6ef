"""Laws of the command policy over texts of any kind."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plugins.prsm_policy.tests.judging import STRENGTH, decide, lines, rows
from prsm_core.domain.agents import PermissionMode
from tests.command_policies import make_policy

WORDS = [
    "ls", "curl", "git", "push", "npm", "-c", "x", "'curl x'", '"a $(curl)"', "bash", "sudo", "rm",
    "cat", "<<E\n", "\nE\n", "if ", "then ", "fi", "xargs", "eval", "$x", "=", "a=b", "2>&1",
    ">/dev/null", "{a,b}", "*", "~", "#", "env", "timeout 5", "sh -c", "[[", "]]", "[ ", " ]",
]  # fmt: skip
GLUE = [*" ;|&\n(){}$`<>'\"\\\t", "&&", "||", "$(", "${", "<(", "\\\n", " ", " ", "; "]
SHELL = st.lists(st.sampled_from(WORDS + GLUE), max_size=15).map("".join) | st.text(max_size=60)
RULES = st.lists(st.sampled_from(["curl", "ls", "git push", "npm", "bash", "x"]), max_size=3)
MODES = st.sampled_from(list(PermissionMode))
SEPARATORS = ["; ", " && ", " || ", " | ", "\n", " & "]
WRAPPERS = [
    "env {}", "env A=1 {}", "env a.b=1 {}", "_=1 {}", "nohup {}", "timeout 5 {}", "nice -n 3 {}",
    "sudo {}", "xargs {}",
    "command {}", "exec {}", "time {}", "stdbuf -o0 {}", "setsid {}", "! {}", "({})", "{{ {}; }}",
    "if true; then {}; fi", "while true; do {}; done", "f() {{ {}; }}; f", "ls $({})", 'ls "$({})"',
    "ls <({})", "A=1 {}", "{} &", "{} > out", "ls | {}", "find . -exec {} \\;", "ssh h {}",
    "bash -c '{}'", 'sh -c "{}"', "eval '{}'", "trap '{}' EXIT", "watch '{}'", "echo '{}' | sh",
    "bash <<'E'\n{}\nE", "alias a='{}'", "case x in x) {};; esac", "coproc {}", "ls &\n{}",
]  # fmt: skip
# These start a program, whose name is the next word: shell grammar means nothing to them.
STARTERS = (
    *("env", "exec", "command", "nohup", "timeout", "nice", "sudo", "xargs", "setsid", "stdbuf"),
    *("find", "ssh"),
)
GRAMMAR = ("! ", "A=1 ", "_=1 ", "(", "{", "if ", "while ", "case ", "f()", "alias ", "coproc ")
SIMPLE = ["curl", "curl x", "/usr/bin/curl x", "git push", "git -C . push", "npm publish --tag x"]
DENY = make_policy(deny=["curl", "git push", "npm publish"])


@given(SHELL, RULES, RULES, RULES, st.sampled_from(["curl", "git", "ls", "x"]), MODES)
def test_adding_a_deny_rule_never_weakens_a_verdict(command, allow, ask, deny, more, mode):
    before = decide(command, policy=make_policy(allow, ask, deny), mode=mode)
    after = decide(command, policy=make_policy(allow, ask, [*deny, more]), mode=mode)
    assert STRENGTH[after] >= STRENGTH[before]


@given(SHELL, RULES, RULES, RULES, st.sampled_from(["curl", "git", "ls", "bash", "x"]), MODES)
def test_adding_an_allow_rule_never_lifts_a_denial_or_a_rule_that_asks(
    command, allow, ask, deny, more, mode
):
    policy = make_policy(allow, ask, deny)
    before = decide(command, policy=policy, mode=mode)
    after = decide(command, policy=make_policy([*allow, more], ask, deny), mode=mode)
    assert before != "deny" or after == "deny"
    assert STRENGTH[after] <= STRENGTH[before]


# Behind a comment nothing is in the chain.
CHAINED = sorted(
    line
    for line in {*SIMPLE, *lines("safe_commands.txt"), *lines("ordinary_commands.txt")}
    if " # " not in line
)


@given(
    st.lists(st.sampled_from(CHAINED), min_size=1, max_size=3),
    st.sampled_from(CHAINED + lines("dangerous_commands.txt")),
    st.sampled_from(SEPARATORS),
    MODES,
)
def test_adding_a_command_to_a_chain_never_loosens_the_verdict(commands, more, separator, mode):
    chain = separator.join(commands)
    before = decide(chain, policy=DENY, mode=mode)
    for longer in (f"{chain}{separator}{more}", f"{more}{separator}{chain}"):
        assert STRENGTH[decide(longer, policy=DENY, mode=mode)] >= STRENGTH[before]


# Where a redirection stands changes what a grammar makes of the list before it.
POINTED = [
    "cat <<<x", "head -1 <<<'a b'", "cat <README.md", "ls 2>/dev/null", "ls >/dev/null 2>&1",
    "(ls) 2>&1", "{ ls; pwd; } 2>/dev/null", "! ls", "(ls | head | tail)", "[ -f a ]", "wc -l",
    "for f in a b; do echo $f; done", "while read -r l; do echo $l; done <README.md",
]  # fmt: skip
HEREDOC = " && cat <<'E'{}\na b\nE\n"


@given(
    st.lists(st.sampled_from(POINTED), min_size=1, max_size=5),
    st.lists(st.sampled_from(SEPARATORS[:-1]), min_size=5, max_size=5),
    st.sampled_from(["", HEREDOC.format(""), HEREDOC.format(" | wc | wc && ls 2>&1")]),
)
@example(["ls", "head", "tail", "cat <<<x"], [" | ", " | ", " && ", "", ""], "")
@example(["ls", "head", "sort", "uniq", "wc", "ls", "cat <<<x"], [*[" | "] * 4, "\n", " && "], "")
@example(["ls", "wc", "wc", "(ls) 2>&1"], [" | ", " | ", " || ", "", ""], "")
@example(["ls", "wc", "wc", "ls"], [" | ", " | ", " || ", "", ""], HEREDOC.format(" | wc | wc"))
def test_a_list_of_safe_commands_is_safe_wherever_redirections_stand(commands, separators, end):
    text = commands[0]
    for separator, command in zip(separators, commands[1:], strict=False):
        # The grammar knows no negation behind a pipe, as bash knows none.
        text += separator + (command.removeprefix("! ") if separator == " | " else command)
    text += end
    assert decide(text) == "allow"
    assert decide(f"ls && {text}") == "allow"


def still_runs(wrapper, command):
    """Tell whether the command is one in the wrapper too: some would make it another."""
    if any(quote in wrapper and quote in command for quote in "'\""):
        return False  # a quote in quotes ends them
    if wrapper.startswith("xargs") and "\n" in command:
        return False  # what comes in becomes arguments
    if wrapper.startswith("find") and "|" in command:
        return False  # the pipe ends what find starts
    if wrapper.endswith("({})") or '({})"' in wrapper:
        return not command.startswith("(")  # two are arithmetic
    return not (wrapper.startswith(STARTERS) and command.startswith(GRAMMAR))


@given(st.sampled_from(SIMPLE), st.lists(st.sampled_from(WRAPPERS), max_size=3), MODES)
def test_wrapping_a_denied_command_never_loosens_the_verdict(command, wrappers, mode):
    for wrapper in wrappers:
        if not still_runs(wrapper, command):
            break
        command = wrapper.format(command)
    assert decide(command, policy=DENY, mode=mode) == "deny"


# No program has such a name, so that nothing is known of its arguments.
STRANGERS = st.from_regex(r"(?:\./|/opt/)?zz[a-z0-9_-]{0,8}", fullmatch=True)
OPTIONS = st.lists(
    st.from_regex(r"-[a-z]|--[a-z]{2,6}(?:=[a-z0-9]{1,3})?|[0-9]{1,3}|--", fullmatch=True)
)


@given(STRANGERS, OPTIONS, st.sampled_from(["curl", "curl x", "git push", "npm publish --tag x"]))
def test_no_stranger_is_handed_a_denied_command_unasked(name, options, command):
    text = " ".join([name, *options, command])
    policy = make_policy(allow=[name], deny=["curl", "git push", "npm publish"])
    assert decide(text, policy=policy, mode=PermissionMode.BYPASS) != "allow"


@given(SHELL, RULES, RULES, MODES)
@example("\0", [], ["curl"], PermissionMode.BYPASS)
@example("\ud800 ls", [], ["curl"], PermissionMode.BYPASS)
@example("'" * 99, [], ["curl"], PermissionMode.PLAN)
def test_any_text_gets_the_same_verdict_twice(command, allow, deny, mode):
    policy = make_policy(allow, (), deny)
    assert decide(command, policy=policy, mode=mode) == decide(command, policy=policy, mode=mode)


CORPUS = [
    *(row["command"] for row in rows("commands_sample.jsonl") if len(row["command"]) < 500),
    *lines("denied_commands.txt"),
    *lines("dangerous_commands.txt"),
]


def mutated(rng):
    """Return a command with a few characters removed, doubled, or put in from elsewhere."""
    text = list(rng.choice(CORPUS))
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(text) + 1)
        match rng.randrange(4):
            case 0:
                del text[at : at + rng.randint(1, 3)]
            case 1:
                text[at:at] = rng.choice(GLUE + WORDS)
            case 2:
                text[at:at] = chr(rng.choice([rng.randrange(128), rng.randrange(0x11000)]))
            case _:
                other = rng.choice(CORPUS)
                cut = rng.randrange(len(other))
                text[at:at] = other[cut : cut + rng.randint(1, 20)]
    return "".join(text)


def fuzz(seed, count):
    """Judge many mutations; return how many were allowed in default mode."""
    rng = random.Random(seed)
    policy = make_policy(allow=["make"], ask=["du"], deny=["curl", "git push"])
    allowed = 0
    for _ in range(count):
        command = mutated(rng)
        by_mode = {mode: decide(command, policy=policy, mode=mode) for mode in PermissionMode}
        strict, loose = by_mode[PermissionMode.PLAN], by_mode[PermissionMode.BYPASS]
        assert STRENGTH[strict] >= STRENGTH[loose], command
        assert STRENGTH[by_mode[PermissionMode.DEFAULT]] >= STRENGTH[loose], command
        allowed += by_mode[PermissionMode.DEFAULT] == "allow"
    return allowed


def test_mutated_commands_crash_nothing_and_no_mode_is_looser_than_bypass():
    assert fuzz(seed=1, count=1_500) < 750


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 22))
def test_a_hundred_thousand_mutated_commands_crash_nothing(seed):
    fuzz(seed, count=5_000)
