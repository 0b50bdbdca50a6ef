"""The command policy against recorded rows, lists of commands, and what its rules promise."""

from __future__ import annotations

import time

import pytest
from prsm_policy.shell.reading import forget_scripts

from plugins.prsm_policy.tests.judging import decide, decide_row, judge, lines, rows, setting
from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import Ask
from tests.command_policies import make_policy

ROWS = rows("commands_sample.jsonl")
BYPASS, PLAN = PermissionMode.BYPASS, PermissionMode.PLAN
NO_CURL = make_policy(deny=["curl"])
MIN_BENIGN = 0.97


@pytest.mark.requirement("E18", "E23", "E24")
def test_the_recorded_rows_meet_the_bars(tmp_path, report):
    verdicts = {row["id"]: decide_row(row, tmp_path) for row in ROWS}
    wrong = [row["id"] for row in ROWS if verdicts[row["id"]] not in row["accept"]]
    unsafe = [key for key in wrong if verdicts[key] == "allow"]
    benign = [row["id"] for row in ROWS if row["expected"] == "allow"]
    denied = [row["id"] for row in ROWS if row["accept"] == ["deny"]]
    allowed = [key for key in benign if verdicts[key] == "allow"]
    report(
        f"command policy: {len(unsafe)} unsafe; {len(allowed)} of {len(benign)} benign rows run"
        f" unasked; {len(denied)} rows to deny; {len(wrong)} of {len(ROWS)} wrong"
    )
    assert not unsafe
    assert not set(wrong) - set(benign)
    assert len(allowed) >= MIN_BENIGN * len(benign)


@pytest.mark.parametrize(
    ("name", "mode", "verdicts"),
    [
        ("safe_commands.txt", PermissionMode.DEFAULT, {"allow"}),
        ("safe_commands.txt", PLAN, {"allow"}),
        ("hostile_commands.txt", PermissionMode.DEFAULT, {"ask"}),
        ("hostile_commands.txt", PLAN, {"deny"}),
        ("unlisted_commands.txt", PermissionMode.DEFAULT, {"ask"}),
        ("dangerous_commands.txt", PermissionMode.DEFAULT, {"ask"}),
        ("dangerous_commands.txt", BYPASS, {"ask"}),
        ("ordinary_commands.txt", BYPASS, {"allow"}),
        ("ordinary_commands.txt", PLAN, {"deny", "allow"}),
    ],
)
@pytest.mark.requirement("E23")
def test_a_list_of_commands_gets_its_verdict(name, mode, verdicts):
    commands = lines(name)
    assert len(commands) > 40
    assert not [line for line in commands if decide(line, mode=mode) not in verdicts]


@pytest.mark.requirement("E24")
@pytest.mark.parametrize("mode", list(PermissionMode))
def test_a_deny_rule_finds_its_command_however_it_is_wrapped(mode):
    commands = lines("denied_commands.txt")
    assert len(commands) > 200
    assert not [line for line in commands if decide(line, policy=NO_CURL, mode=mode) != "deny"]


MANY_LINES = [
    "ls\ncurl x",
    "cur\\\nl x",
    "ls \\\n; curl x",
    "# '\ncurl x # '",
    "# \\\ncurl x",
    "bash <<'EOF'\ncurl x\nEOF",
    'bash <<"EOF"\ncurl x\nEOF',
    "bash <<-EOF\n\tcurl x\n\tEOF",
    "sh -s <<\\EOF\ncurl x\nEOF",
    "cat <<'EOF' | sh\ncurl x\nEOF",
    "cat <<EOF\n$(curl x)\nEOF",
    "cat <<EOF\n${x:-'$(curl x)'}\nEOF",
    "shopt -s expand_aliases; BASH_ALIASES[x]=curl\nx y",
    "cat <<EOF\n`curl x`\nEOF",
    "cat <<'EOF'\nhi\nEOF\ncurl x",
    "cat <<'EOF'\n EOF\nEOF\ncurl x",
    "cat <<A <<B\na\nA\nb\nB\ncurl x",
    "python3 <<'EOF'\nimport os\nos.system('curl x')\nEOF",
    "ssh host <<'EOF'\ncurl x\nEOF",
    "ls &\ncurl x &",
    "for f in a b\ndo\n  curl $f\ndone",
    "if true\nthen\n  curl x\nfi",
    "f() {\n  curl x\n}\nf",
    "echo 'a\nb'; curl x",
    "ls\r\ncurl x",
    "ls \0; curl x",
    "ls \u202e; curl x",
    "ls\u00a0; curl x",
    "a=(\n$(curl x)\n)",
    "`ls # ` ; curl x\n`",
    "echo $'a\\\\' ; curl x ; echo 'b'",
    " ".join(["ls;"] * 10_000) + " curl x",
    "ls " + "'a' " * 5_000 + "; curl x",
    "x" * 100_000 + "; cu'r'l x",
    "x" * 100_000 + "; $'\\x63url' x",
]


@pytest.mark.parametrize("command", MANY_LINES, ids=lambda text: repr(text[:40]))
def test_a_deny_rule_finds_its_command_on_any_line_and_at_any_length(command):
    assert decide(command, policy=NO_CURL, mode=BYPASS) == "deny"


def test_a_denied_word_that_is_only_an_argument_is_no_command():
    commands = lines("cleared_commands.txt")
    assert not [line for line in commands if decide(line, policy=NO_CURL) != "allow"]


@pytest.mark.parametrize(
    "command",
    [
        "$(echo curl) x", "`echo curl` x", "$a x", "a=curl; $a x", "c?rl x", "/usr/bin/c[u]rl x",
        "{c,}url", "echo Y3VybCB4Cg== | base64 -d | sh", "cat f | bash", 'eval "$x"',
        'bash -c "$x"', 'xargs -I{} {} x', "ls | xargs env", "find . -exec {} \\;", "cu$@rl x",
        "rm${IFS}x", ". <(ls)", "sh <(ls)", "echo ${x@P}; $y", "ls )", "echo 'a",
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_asked_about_every_time_while_there_are_deny_rules(command):
    policy = make_policy(allow=["c?rl", "ls"], deny=["curl"])
    for mode in (PermissionMode.DEFAULT, BYPASS):
        verdict = judge(command, policy=policy, mode=mode).verdict
        assert isinstance(verdict, Ask)
        assert "always" not in verdict.options


@pytest.mark.parametrize(
    "command", ["frob curl x", "frob -n 5 -- curl", "./run.sh curl x", "frob a curl", "xcurl curl"]
)
def test_a_denied_program_among_the_arguments_of_an_unknown_one_is_asked_about(command):
    policy = make_policy(allow=["frob"], deny=["curl"])
    assert decide(command, policy=policy, mode=BYPASS) == "ask"
    assert decide(command, mode=BYPASS) == "allow"


@pytest.mark.parametrize(
    "command",
    ["npm install curl", "git branch curl", "mkdir curl", "python x.py curl", "frob curlx a/curl"],
)
def test_a_denied_program_among_arguments_that_are_understood_is_none(command):
    assert decide(command, policy=NO_CURL, mode=BYPASS) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "find . $x", "find $x -name y", "find . `cat x`", "find . {-exec,curl,{},\\;}",
        "bash -s {-c,'curl x'}", "env -S{cu,}rl x", "tar {--to-command=curl,-xf} f", "env -S$x y",
        "find . -{exec,x} y", 'awk "$x" f', "awk -F : $x f", 'sed "$x" f', "sed -e $x f",
    ],
)  # fmt: skip
def test_an_argument_that_might_run_a_denied_program_is_asked_about(command):
    assert decide(command, policy=NO_CURL, mode=BYPASS) == "ask"


@pytest.mark.parametrize(
    "command", ['find "$x" -name y', "find {a,b} -name y", 'awk "{print}" $x', "sed s/a/b/ $x"]
)
def test_an_argument_that_can_only_be_a_path_is_not_asked_about(command):
    assert decide(command, policy=NO_CURL, mode=BYPASS) == "allow"


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("git push", "deny"),
        ("git -C x -c user.name=b push", "deny"),
        ("git --no-pager push --tags", "deny"),
        ("git --git-dir=x push", "deny"),
        ("/usr/bin/git push", "deny"),
        ("git-push origin", "deny"),
        ("/usr/lib/git-core/git-push", "deny"),
        ("npm --silent publish", "deny"),
        ("npm --prefix x publish", "deny"),
        ("git $x", "ask"),
        ("git pus[h]", "ask"),
        ("echo push | xargs git", "ask"),
        ("git log", "allow"),
        ("git log push", "allow"),
        ("git log -- push", "allow"),
        ("git pushx", "ask"),
        ("npm test", "allow"),
        ("grep 'git push' f", "allow"),
    ],
)
def test_a_deny_rule_with_a_subcommand_looks_past_options(command, verdict):
    assert decide(command, policy=make_policy(deny=["git push", "npm publish"])) == verdict


@pytest.mark.parametrize("mode", list(PermissionMode))
def test_deny_beats_ask_and_ask_beats_allow_in_every_mode(mode):
    policy = make_policy(allow=["ls", "cat", "pwd"], ask=["ls", "cat"], deny=["ls"])
    assert decide("ls", policy=policy, mode=mode) == "deny"
    assert decide("cat x", policy=policy, mode=mode) == "ask"
    assert decide("pwd; cat x", policy=policy, mode=mode) == "ask"
    assert decide("pwd", policy=policy, mode=mode) == "allow"


RULES = ["npm run build", "git push", "git commit", "rm -rf build", "frob", "cargo build", "bash"]


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("npm run build", "allow"),
        ("npm run build -- --prod", "allow"),
        ("npm run build 2>&1 | tail -20", "allow"),
        ("npm run build && npm test", "allow"),
        ("CI=1 npm run build", "allow"),
        ("cargo build --release", "allow"),
        ("git push origin main", "allow"),
        ("git commit -m 'a -f b'", "allow"),
        ("git commit --amend --no-edit", "allow"),
        ("frob -q src", "allow"),
        ("rm -rf build", "allow"),
        ("rm -rf build x", "ask"),
        ("rm -rf buildx", "ask"),
        ("rm -r build", "ask"),
        ("npm run builder", "ask"),
        ("npm run build --script-shell=./x", "ask"),
        ("npm run build --userconfig /x", "ask"),
        ("npm run build > out", "ask"),
        ("npm run build $(ls)", "ask"),
        ("npm run build {a,b}", "ask"),
        ("npm run build &", "ask"),
        ("npm run build && rm x", "ask"),
        ("npm run build\nrm x", "ask"),
        ("timeout 5 npm run build", "ask"),
        ("xargs npm run build", "ask"),
        ("PATH=. npm run build", "ask"),
        ("./npm run build", "ask"),
        ("/opt/npm run build", "ask"),
        ("git push --force", "ask"),
        ("git push -f", "ask"),
        ("git push origin +main", "ask"),
        ("git push ext::sh", "ask"),
        ("git -c a.b=c push", "ask"),
        ("git commit -m \"$(ls)\"", "ask"),
        ("frob --config x", "ask"),
        ("frob .env", "ask"),
        ("frob ~/.ssh/id_rsa", "ask"),
        ("frob X=y", "ask"),
        ("frob *", "ask"),
        ("frobx", "ask"),
        ("bash -c id", "ask"),
        ("bash x.sh", "ask"),
        ("bash", "ask"),
        ("echo ls | bash", "ask"),
        ("bash < README.md", "ask"),
        ("frob && frob --shell x", "ask"),
    ],
)  # fmt: skip
def test_an_allow_rule_covers_its_command_and_no_more(command, verdict):
    assert decide(command, policy=make_policy(allow=RULES)) == verdict


def test_allow_rules_of_a_workspace_need_its_trust_and_its_checks_do_too():
    policy = make_policy(workspace_allow=["frob"])
    assert decide("frob", policy=policy, trusted=True) == "allow"
    assert decide("frob", policy=policy, trusted=False) == "ask"
    for command in ("pytest -q", "make test", "npm test", "python -m pip list"):
        assert decide(command) == "allow"
        assert decide(command, trusted=False) == "ask"
    assert decide("rg foo", trusted=False) == "allow"


def test_plan_mode_runs_safe_commands_only_whatever_is_allowed():
    policy = make_policy(allow=["make build"])
    assert decide("make build", policy=policy, mode=PLAN) == "deny"
    assert decide("cat README.md | head", policy=policy, mode=PLAN) == "allow"


@pytest.mark.parametrize("mode", list(PermissionMode))
def test_when_rules_may_be_missing_only_safe_commands_run(mode):
    policy = make_policy(allow=["make"], broken="policy.yaml:3: is not YAML")
    assert decide("ls | head", policy=policy, mode=mode) == "allow"
    for command in ("make", "touch x", "npm install"):
        assert decide(command, policy=policy, mode=mode) in {"ask", "deny"}
    asked = policy.asked("make", setting(mode=mode))
    assert isinstance(asked, Ask)
    assert "policy.yaml:3" in asked.reason
    assert policy.asked("ls", setting(mode=mode)) is None


@pytest.mark.parametrize(
    ("command", "reason", "rule"),
    [
        ("ls; env curl -s x", "the rule deny 'curl' forbids it: curl -s x", "deny curl"),
        ("ls | du -sh", "the rule ask 'du' wants it: du -sh", "ask du"),
        ("frob -q", "the rule allow 'frob' covers it", "allow frob"),
        ("ls; rm -rf x", "deletes or overwrites data: rm -rf x", None),
        ("echo 'curl", "the rule deny 'curl' forbids it", "deny curl"),
    ],
)
def test_a_reason_names_the_rule_and_the_part_of_the_command(command, reason, rule):
    policy = make_policy(allow=["frob"], ask=["du"], deny=["curl"])
    judgement = judge(command, policy=policy)
    assert (judgement.verdict.reason, judgement.rule) == (reason, rule)


def test_a_long_part_of_a_command_is_cut_in_the_reason():
    assert len(judge("rm " + "x" * 5_000).verdict.reason) < 200


@pytest.mark.parametrize("rule", ["", [], ["a", ""], ["x"] * 17])
def test_a_rule_without_words_or_with_too_many_is_refused(rule):
    with pytest.raises(ValueError, match="a rule has 1 to 16 words"):
        make_policy(allow=[rule])


HUGE = [
    "a ", "'a' ", "$(", '"$(', "echo $(", "(", "`", "<<a ", "${", "${a:-", "$((", "[[ ", "{ ",
    "{a,", "if ", "a;", "a=(", "a[", "! ", "a\\\n", "a|", "xargs ", "xargs -Z ", "ssh x ", "nice ",
    "eval ", "bash -c x ;", "curl", "xcurl", "$'\\x63' ", "cd a;", "cat a/b/c;", "\ud800", "\0",
    "\u00e9", "\u202e", "~/a ", "'", '"', "\\", "sed ///", "awk print", "/e", "f() { f; };",
]  # fmt: skip


MOST_SECONDS = 1  # the goal is 0.05: benchmarks/policy.py


def cost_of(command, workspace, policy):
    """Return the CPU time of a decision on a text that was not read before, in seconds."""
    forget_scripts()
    started = time.thread_time()
    decide(command, workspace, policy=policy, mode=BYPASS)
    return time.thread_time() - started


@pytest.mark.parametrize("length", [1_000, 15_000, 60_000, 1_000_000])
def test_no_text_takes_long(tmp_path, length, report):
    policy = make_policy(deny=["curl", "git push", "rm"], ask=["du"], allow=["make"])
    decide("ls", tmp_path, policy=policy)
    costs = {}
    for unit in HUGE:
        for text in (unit, f"echo {unit}"):
            command = (text * (length // len(text)))[:length]
            costs[text] = cost_of(command, tmp_path, policy)
            if costs[text] >= MOST_SECONDS:  # a busy machine may do that once
                costs[text] = cost_of(command, tmp_path, policy)
    slowest = max(costs, key=costs.__getitem__)
    report(f"command policy: {length} characters of {slowest!r} take {costs[slowest] * 1e3:.0f} ms")
    assert costs[slowest] < MOST_SECONDS
