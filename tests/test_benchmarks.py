"""Every benchmark runs, tiny, and tells what its document promises; no test looks at a clock."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from benchmarks.__main__ import NAMES, main, run_benchmark
from benchmarks.harness import Finding, Plan, compare
from tests.sources import ROOT

TINY = Plan(pairs=1, scale=0.004)
FIELDS = {"benchmark", "case", "unit", "value", "reference", "ratio", "goal", "met"}


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_tells_values_references_and_goals(name):
    if name == "beside":
        for plugin in ("acp", "claude", "codex", "gemini"):
            pytest.importorskip(f"prsm_{plugin}", reason=f"prsm-{plugin} is not installed")
    findings = run_benchmark(name, TINY)
    assert findings
    for finding in findings:
        told = finding.to_dict()
        assert told.keys() == FIELDS
        assert told["benchmark"] == name
        assert told["case"]
        assert told["value"] > 0
        assert told["goal"] > 0
        assert told["met"] in {True, False}
        assert (told["ratio"] is None) or told["reference"] > 0
    assert len({finding.case for finding in findings}) == len(findings)


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
    assert sections == ["How it is measured", *NAMES]
