"""Every benchmark runs, tiny, and tells what its document promises; no test looks at a clock."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import pytest
from click.testing import CliRunner
from prsm_testing.playback import Conversation

from benchmarks import peers
from benchmarks.__main__ import NAMED, NAMES, main, run_benchmark
from benchmarks.first import open_folder
from benchmarks.harness import Absent, Finding, Plan, compare
from benchmarks.scripted import DONE, LEAD, PART, Scripted
from benchmarks.walks import walk_all
from tests.engine.boxes import WHY_NO_RUNC
from tests.sources import ROOT

TINY = Plan(pairs=1, scale=0.004)
# What is measured of packages beside the core.
NEEDS = {
    "beside": ("acp", "claude", "codex", "gemini"),
    "bridge": ("protocols",),
    "protocols": ("protocols",),
    "proxy": ("mcp",),
    "regions": ("regions",),
    "symbols": ("regions",),
    "tui": ("tui",),
}
FIELDS = {"benchmark", "case", "unit", "value", "reference", "ratio", "goal", "met"}


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_tells_values_references_and_goals(name, monkeypatch):
    without_peers(monkeypatch)
    for package in NEEDS.get(name, ()):
        pytest.importorskip(f"prsm_{package}", reason=f"prsm-{package} is not installed")
    if name == "box" and WHY_NO_RUNC is not None:
        pytest.skip(WHY_NO_RUNC)
    if name == "bridge":
        pytest.importorskip("redis", reason="redis is not installed: pip install 'redis>=8'")
        if which("redis-server") is None:
            pytest.skip("redis-server is not installed")
    report = run_benchmark(name, TINY)
    findings = [line for line in report if isinstance(line, Finding)]
    assert findings
    for finding in findings:
        told = finding.to_dict()
        assert told.keys() == FIELDS
        assert told["benchmark"] == name
        assert told["case"]
        assert told["value"] > 0
        assert (told["met"] is None) is (told["goal"] is None)  # some lines show what a goal hides
        assert told["goal"] is None or told["goal"] > 0
        assert (told["ratio"] is None) or told["reference"] > 0
    assert len({line.case for line in report}) == len(report)


def test_each_walk_begins_where_its_value_does_and_passes_functions_files_and_types():
    walks = {walk.name: walk for walk in walk_all(1)}
    begins = {name: next(iter(walk.functions))[2] for name, walk in walks.items()}
    assert begins == {
        "task": "LocalRuns.start",
        "question": "SessionHost.call_tool",
        "permission": "SessionHost.authorize",
        "kill": "LocalAgents.kill",
        "resume": "OrchestrationEngine.resume",
    }
    for name, walk in walks.items():
        findings = {finding.unit: finding.value for finding in walk.findings()}
        assert findings["functions"] > findings["files"] > 10
        assert ("types" in findings) is (name in {"task", "question", "permission"})
        assert findings.get("types", 10) >= 10
    assert "PermissionRequest" in walks["permission"].types
    # A person was asked.
    assert any("/engine/requests" in file for file in walks["permission"].files)


def without_peers(monkeypatch):
    """Take away the programs of others that some benchmarks compare with: each starts processes."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("PRSM_LIVE_CODEX", raising=False)
    monkeypatch.delenv("PRSM_AUTOGEN_PYTHON", raising=False)


@pytest.mark.parametrize(
    ("name", "needs"), [("first", "codex"), ("spawn", "autogen-core"), ("ask", "autogen-core")]
)
def test_what_is_not_installed_is_told_and_not_measured(name, needs, monkeypatch):
    if needs == "codex" and any(Path(at, needs).exists() for at in ("/usr/bin", "/bin")):
        pytest.skip("codex is installed for the whole system")
    if needs != "codex" and find_spec("autogen_core"):
        pytest.skip("autogen-core is installed")
    without_peers(monkeypatch)
    (absent,) = (line for line in run_benchmark(name, TINY) if isinstance(line, Absent))
    assert needs in absent.why
    assert "not measured" in absent.to_line()
    told = absent.to_dict()
    assert (told["benchmark"], told["absent"]) == (name, absent.why)


def test_the_command_prints_one_json_object_a_line_or_text():
    options = ["--pairs", "1", "--scale", "0.01", "request"]
    as_json = CliRunner().invoke(main, ["--json", *options])
    as_text = CliRunner().invoke(main, options)
    assert as_json.exit_code == as_text.exit_code == 0
    told = [json.loads(line) for line in as_json.stdout.splitlines()]
    assert [line["unit"] for line in told] == ["bytes"] * len(told)
    assert as_text.stdout.count("goal <= 6000") == len(told)


def test_an_unknown_benchmark_is_refused_by_name():
    result = CliRunner().invoke(main, ["nonsense"])
    assert result.exit_code == 2
    assert "nonsense" in result.stderr


@pytest.mark.parametrize(
    ("ratio", "value", "met"), [(2.0, 9.0, True), (3.1, 1.0, False), (None, 3.0, True)]
)
def test_a_goal_bounds_the_ratio_or_else_the_value(ratio, value, met):
    finding = Finding(benchmark="x", case="c", unit="µs", value=value, ratio=ratio, goal=3.0)
    assert finding.met is met
    assert ("met" if met else "missed") == finding.to_line().split()[-1]


def test_pairs_are_interleaved_and_their_median_ratio_is_told():
    order = []
    costs = iter([9.0, 2.0, 4.0, 90.0])

    def subject():
        order.append("subject")
        return next(costs)

    def reference():
        order.append("reference")
        return 2.0

    assert compare(subject, reference, pairs=3) == (4.0, 2.0, 2.0)
    assert order == ["subject", "reference"] * 4


def test_the_document_has_a_section_for_each_benchmark_and_no_other():
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    sections = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    assert sections == ["How it is measured", *NAMES, *NAMED]


def case_of(row):
    return row.case


@pytest.mark.parametrize("row", peers.ROWS, ids=case_of)
def test_a_row_of_peers_whose_program_is_missing_is_told_as_absent(row, tmp_path):
    (absent,) = row.measure(peers.Bench(folder=tmp_path, plan=TINY, clis={}))
    assert isinstance(absent, Absent)
    assert f"{row.vendor} or prsm-{row.vendor} is not installed" in absent.why


def test_a_row_of_peers_whose_program_fails_says_why(tmp_path):
    (row, *_) = (row for row in peers.ROWS if row.theirs is None)
    missing = peers.Bench(folder=tmp_path, plan=TINY, clis={row.vendor: str(tmp_path / "none")})
    (absent,) = row.measure(missing)
    assert isinstance(absent, Absent)
    assert "prsm run ended with " in absent.why


@pytest.mark.live
@pytest.mark.parametrize("row", peers.ROWS, ids=case_of)
def test_a_row_of_peers_tells_each_of_its_costs(row, tmp_path):
    clis = peers.find_clis()
    if row.vendor not in clis:
        pytest.skip(f"{row.vendor} or prsm-{row.vendor} is not installed")
    with open_folder() as folder:
        lines = row.measure(peers.Bench(folder=folder, plan=TINY, clis=clis))
    assert [line.to_dict().get("absent") for line in lines] == [None] * len(row.costs)
    assert [line.case for line in lines] == [f"{row.case}: {cost}" for cost in row.costs]
    assert [line.goal for line in lines] == list(row.costs.values())


def test_the_model_of_peers_counts_requests_by_agent_and_those_that_come_too_late():
    def ask(*prompts, outputs=()):
        return model.answer(
            Conversation(
                user=prompts, system=(), outputs=tuple(("", "", text) for text in outputs), text=""
            )
        ).step

    model = Scripted(peers.ROWS[3].ours)
    children = [PART.format(part) for part in range(8)]
    assert [call.tool for call in ask("Lead them.").calls] == ["spawn_children_parallel"]
    assert {ask(prompt).calls[0].tool for prompt in children} == {"task_complete"}
    results = [DONE.format(part) for part in range(8)]
    assert ask("Lead them.", outputs=results[:7]).calls[0].tool == "wait_for_message"
    assert ask("Lead them.", outputs=results).calls[0].tool == "task_complete"
    assert (model.requests[LEAD], model.late, model.failures) == (3, 0, [])
    assert ask(children[3]).say == "It is over."
    assert (sum(model.requests.values()), model.late) == (12, 1)
