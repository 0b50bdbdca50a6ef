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


@pytest.fixture
def run(prsm_process, tmp_path, monkeypatch):
    """Run a task with labels, beside plugins that declare to read some; return its notices."""
    site = tmp_path / "site"
    info = site / "prsm_reading-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "reading_plugin.py").write_text(READING)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: prsm-reading\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[prsm]\nreading = reading_plugin\n")
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.setenv("PRSM_PLUGINS", "reading")
    path = tmp_path / "one.json"
    path.write_text(json.dumps(ONE))

    def run(*labels, command=("run", "build", "--provider", "script")):
        flags = [word for label in labels for word in ("--label", label)]
        done = prsm_process(*command, *flags, "--set", f"providers.script.scenario={path}")
        assert done.code == 0, done.err
        return [line for line in done.err.splitlines() if "that it reads" in line]

    return run


READS = ("protocol=tdd", "effort=high", "glossary=yes", "cost-centre=7")
READING = """
from msgspec import Struct
from prsm_core import EventSinkSpec, PermissionCheckSpec, ProviderSpec, ToolContribution, hookimpl

@hookimpl
def prsm_permission_checks():
    yield PermissionCheckSpec(
        name="c", summary="", priority=1, check=lambda request, context: None,
        labels=frozenset({"protocol", "protocols/state"}),
    )

@hookimpl
def prsm_providers():
    yield ProviderSpec(
        name="p", summary="", factory="a:b", selectable=False, reads_labels=frozenset({"effort"})
    )

@hookimpl
def prsm_tools():
    yield ToolContribution(
        name="t", summary="", description="", arguments=Struct, roles=frozenset({"worker"}),
        handler=lambda call: {}, when=lambda labels: False,
        reads_labels=frozenset({"glossary"}),
    )

class Sink:
    def __init__(self, run, settings):
        pass

    async def write(self, batch):
        pass

    async def aclose(self):
        pass

@hookimpl
def prsm_event_sinks():
    yield EventSinkSpec(
        name="s", summary="", factory=Sink, reads_labels=frozenset({"cost-centre"})
    )
"""
UNREAD = "warning: no active plugin says that it reads the label"


def test_a_label_that_a_plugin_reads_is_not_spoken_of(run):
    assert run(*READS) == []
    assert run() == []


def test_a_misspelt_label_is_told_in_each_run_with_the_name_that_is_like_it(run):
    text = f"{UNREAD}s mine, protcol (did you mean protocol?)"
    for _ in range(2):
        assert run("protcol=tdd", "effort=high", "mine=1") == [text]
    again = ("run", "test", "--continue")
    [told] = run("glosary=yes", command=again)
    assert told.endswith("reads the label glosary (did you mean glossary?)")


def test_a_label_that_is_like_none_is_told_a_person_once(run):
    assert run("mine=1") == [f"{UNREAD} mine"]
    assert run("mine=2") == []


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
