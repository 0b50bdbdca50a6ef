"""prsm answer: what agents ask of a person, answered from another process."""

import json
import subprocess

import pytest

from prsm_core.cli.answering import read_answer
from prsm_core.domain.permissions import Answer

pytestmark = pytest.mark.usefixtures("puppets")

DEADLINE = 60


@pytest.fixture
def start_asking(start_prsm):
    """Start a run with a person who does not answer, and wait until it asks."""

    def start(task):
        process = start_prsm("run", task, "--ui", "console", stdin=subprocess.PIPE)
        for line in process.stderr:
            if b" ask" in line and b"starts" not in line:
                return process
        raise AssertionError("the run ended without asking")

    return start


def listed(prsm):
    done = prsm("answer", "--json")
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


def summary(process):
    out, _ = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0
    return out.decode()


def test_a_permission_is_listed_and_answered(start_asking, prsm):
    process = start_asking("read")
    [request] = listed(prsm)
    assert (request["kind"], request["name"], request["tool"]) == ("permission", "master", "Read")
    assert request["paths"] == ["secret.txt"]
    head, row = prsm("answer").out.splitlines()
    assert head.split() == ["REQUEST", "AGENT", "KIND", "ANSWERS", "ASKS"]
    short = request["request"][:8]
    assert row.split()[:3] == [short, "master", "permission"]
    assert row.endswith(f"{', '.join(request['options'])}  Read: secret.txt")
    done = prsm("answer", short, "once")
    assert (done.code, done.out, done.err) == (0, f"answered {short}\n", "")
    assert summary(process) == "allowed\n"
    events = [json.loads(line) for line in prsm("events", "--json").out.splitlines()]
    [resolved] = [event for event in events if event["type"] == "permission_resolved"]
    assert (resolved["verdict"], resolved["by"]) == ("once", "user")


def test_a_blank_id_answers_nothing(start_asking, prsm):
    """A script's variable that nobody has set must not allow the only thing that waits."""
    process = start_asking("read")
    done = prsm("answer", "", "once")
    assert (done.code, done.out) == (1, "")
    assert "no open request begins with ''" in done.err
    [request] = listed(prsm)
    assert prsm("answer", request["request"], "deny").code == 0
    assert "denied" in summary(process)


def test_a_denial_is_an_answer(start_asking, prsm):
    process = start_asking("read")
    [request] = listed(prsm)
    assert prsm("answer", request["request"], "deny").code == 0
    assert summary(process) == "denied\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("2",), "chose ('blue',) None\n"),
        (("red",), "chose ('red',) None\n"),
        (("neither", "of", "them"), "chose () neither of them\n"),
    ],
)
def test_a_question_takes_a_number_a_word_or_a_text(start_asking, prsm, words, said):
    process = start_asking("choose Which?")
    [request] = listed(prsm)
    row = prsm("answer").out.splitlines()[1]
    assert row.endswith("question  1 red, 2 blue  Which?")
    assert prsm("answer", request["request"], *words).code == 0
    assert summary(process) == said


@pytest.mark.requirement("D9")
def test_the_first_answer_wins(start_asking, start_prsm, prsm):
    process = start_asking("read; hang")
    [request] = listed(prsm)
    given = [start_prsm("answer", request["request"], verdict) for verdict in ("once", "deny")]
    ends = [(answering.communicate(timeout=DEADLINE), answering.returncode) for answering in given]
    assert sorted(code for _, code in ends) == [0, 1]
    [refused] = [err.decode() for (_, err), code in ends if code]
    first_code = ends[0][1]
    verdict = "deny" if first_code else "once"
    first = f"prsm: request {request['request'][:8]} was answered already: {verdict}"
    first += " (by user, prsm answer, pid "
    assert refused.startswith(first)
    for late in (prsm("answer", request["request"], "once"), prsm("answer", request["request"])):
        assert (late.code, late.out) == (1, "")
        assert late.err.startswith(first)
    assert prsm("kill", "master").code == 0
    process.communicate(timeout=DEADLINE)


def test_an_answer_that_the_request_does_not_take_leaves_it_open(start_asking, prsm):
    process = start_asking("read")
    [request] = listed(prsm)
    offered = " or ".join(request["options"])
    done = prsm("answer", request["request"], "maybe")
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith(f"is {offered}\n")
    assert listed(prsm) == [request]
    assert prsm("answer", request["request"], "once").code == 0
    summary(process)


@pytest.mark.requirement("D9")
def test_a_request_is_shown_in_full(start_asking, prsm):
    process = start_asking("send run npm run deploy\u200b && rm -rf 'a\u202eb' # " + "x" * 500)
    [request] = listed(prsm)
    shown = prsm("answer", request["request"]).out.splitlines()
    assert shown[0] == "w1 asks permission for Bash"
    assert shown[1].startswith("  command: npm run deploy\\u200b && rm -rf 'a\\u202eb' # xxx")
    assert shown[1].endswith("x" * 500)
    assert "  reason: " in shown[2] + shown[3]
    assert shown[-1] == f"  answers: {', '.join(request['options'])}"
    row = prsm("answer").out.splitlines()[1]
    assert row.endswith(shown[1].removeprefix("  command: "))
    assert prsm("answer", request["request"], "deny").code == 0
    assert summary(process) == "denied\n"


@pytest.mark.requirement("D9")
@pytest.mark.parametrize(("word", "said"), [("allow", "allowed"), ("deny", "denied")])
def test_all_permissions_are_answered_at_once(start_asking, prsm, word, said):
    runs = [start_asking(task) for task in ("read", "send run npm run a", "choose Which?")]
    requests = {request["kind"]: request for request in listed(prsm)}
    done = prsm("answer", "all", word)
    assert done.code == 0
    lines = done.out.splitlines()
    whats = [line.split(", ")[1] for line in lines]
    assert whats == ["w1: Bash: npm run a", "master: Read: secret.txt"]
    assert done.err == "prsm: questions that still wait: 1\n"
    assert [request["kind"] for request in listed(prsm)] == ["question"]
    assert prsm("answer", requests["question"]["request"], "1").code == 0
    assert [summary(run) for run in runs] == [f"{said}\n"] * 2 + ["chose ('red',) None\n"]


def test_what_does_not_take_the_answer_for_all_stays_open(start_asking, prsm):
    runs = [start_asking(task) for task in ("send run curl x | sh", "send run npm run a")]
    done = prsm("answer", "all", "allow_global")
    assert done.code == 1
    assert done.out.endswith(", w1: Bash: npm run a\n")
    assert done.err.startswith("prsm: left open ")
    assert [request["command"] for request in listed(prsm)] == ["curl x | sh"]
    assert prsm("answer", "all", "no").code == 0
    assert [summary(run) for run in runs] == ["denied\n", "allowed\n"]
    assert prsm("answer", "all").code == 2


@pytest.mark.requirement("D11", "U9")
def test_a_rule_made_by_an_answer_holds_in_later_runs(start_asking, prsm, prsm_process, workspace):
    process = start_asking("send run npm run build -- --fast")
    [request] = listed(prsm)
    assert request["rules"] == {"allow": ["npm run build"], "deny": ["npm run build -- --fast"]}
    assert prsm("answer", request["request"], "allow_project").code == 0
    assert summary(process) == "allowed\n"
    assert (workspace / ".prism" / "policy.yaml").read_text() == "allow:\n  - npm run build\n"
    later = prsm_process("run", "send run npm run build -- --slow")
    assert (later.out, later.code) == ("allowed\n", 0)
    process = start_asking("send run npm run deploy")
    [request] = listed(prsm)
    assert prsm("answer", request["request"], "deny_global").code == 0
    assert summary(process) == "denied\n"
    assert "deploy" not in (workspace / ".prism" / "policy.yaml").read_text()
    listed_rules = prsm("policy", "list", "--json").out
    assert [(row["verdict"], row["words"], row["layer"]) for row in json.loads(listed_rules)] == [
        ("allow", ["npm", "run", "build"], "workspace"),
        ("deny", ["npm", "run", "deploy"], "user"),
    ]


def test_requests_of_all_running_sessions_are_listed_and_found(start_asking, prsm):
    first, second = start_asking("read"), start_asking("choose Which?")
    requests = listed(prsm)
    assert [request["kind"] for request in requests] == ["question", "permission"], "newest first"
    sessions = [request["session"] for request in requests]
    one = json.loads(prsm("answer", "--json", "--session", sessions[0]).out)
    assert one == requests[:1]
    assert prsm("answer", requests[0]["request"], "1").code == 0
    assert prsm("answer", requests[1]["request"], "once").code == 0
    assert (summary(first), summary(second)) == ("allowed\n", "chose ('red',) None\n")


def test_where_nothing_runs_nothing_waits(prsm, prsm_process):
    assert prsm_process("run", "say done").code == 0
    done = prsm("answer")
    assert (done.code, done.out) == (0, "")
    assert done.err == "prsm: nothing waits for an answer\n"
    assert listed(prsm) == []
    unknown = prsm("answer", "abc", "once")
    assert (unknown.code, unknown.out) == (1, "")


@pytest.mark.parametrize(
    ("words", "options", "said"),
    [
        (["1", "3"], ["a", "b", "c"], Answer(choices=("a", "c"))),
        (["1,2"], ["a", "b"], Answer(choices=("a", "b"))),
        (["b", "b", "1"], ["a", "b"], Answer(choices=("b", "a"))),
        (["light blue"], ["light blue"], Answer(choices=("light blue",))),
        (["light", "blue"], ["light blue"], Answer(choices=("light blue",))),
        (["a", "lot"], ["a"], Answer(text="a lot")),
        (["4"], ["a"], None),
        (["4"], [], Answer(text="4")),
        ([" "], [], None),
    ],
)
def test_words_are_choices_when_each_of_them_is_one(words, options, said):
    assert read_answer(words, options) == said
