"""`--label`: what a person says of a run stays with its session; further tasks lay theirs over."""

from __future__ import annotations

import json

import pytest

ONE = {"lanes": {"master": {"steps": [{"say": "built"}, {"say": "tested"}]}}}


def labels_of(done, kind):
    events = [json.loads(line) for line in done.out.splitlines()]
    return [event["labels"] for event in events if event["type"] == kind]


def test_a_label_stays_with_a_session_and_a_further_task_lays_others_over(prsm_process, tmp_path):
    path = tmp_path / "one.json"
    path.write_text(json.dumps(ONE))
    script = ("--on-ask", "allow", "--json", "--set", f"providers.script.scenario={path}")
    first = ("--label", "team=blue", "--label", "why=a=b", "--label", "team=red")
    done = prsm_process("run", "build", "--provider", "script", *first, *script)
    assert done.code == 0, done.err
    assert labels_of(done, "agent_spawned") == [{"team": "red", "why": "a=b"}]
    again = prsm_process("run", "test", "--continue", "--label", "team=green", *script)
    assert again.code == 0, again.err
    assert labels_of(again, "agent_labels_changed") == [{"team": "green", "why": "a=b"}]


@pytest.mark.parametrize(
    ("label", "cure"),
    [
        ("team", "give NAME=TEXT"),
        ("a b=c", "a name is words"),
        ("regions/state=done", "choose a name without a slash"),
        (f"a={'x' * 5000}", "4096 are the most"),
    ],
)
def test_what_can_be_no_label_is_a_mistake_with_its_cure(prsm_process, label, cure):
    done = prsm_process("run", "build", "--label", label)
    assert done.code == 2
    assert cure in " ".join(done.err.split())
