"""A warning on a provider that says nothing new is shown to a person once; the ledger has all."""

from __future__ import annotations

import json

import pytest

from prsm_core.config.seen import FILE

ONE = {"lanes": {"master": {"steps": [{"say": "built"}]}}}
IGNORED = "warning: provider script has no switch for models.{}.temperature"
LIMITS = "warning: provider script tells its cost"
NO_PLUGIN = "note: plugins.disabled: there is no plugin 'nothing'"


@pytest.fixture
def run(prsm_process, tmp_path):
    """Run a task of the script provider, whose models have the parameters that it ignores."""
    path = tmp_path / "one.json"
    path.write_text(json.dumps(ONE))

    def run(*args, alias="terse"):
        model = f"{{{alias}: {{provider: script, model_id: m, temperature: 0.5}}}}"
        scenario, off = f"providers.script.scenario={path}", "plugins.disabled=[nothing]"
        flags = [word for text in (scenario, f"models={model}", off) for word in ("--set", text)]
        done = prsm_process("run", "build", "--provider", "script", *flags, *args)
        assert done.code == 0, done.err
        return done

    return run


def events_of(done):
    """Return what a run has told, without what differs from run to run."""
    events = [json.loads(line) for line in done.out.splitlines()]
    return [(event["text"], event["once"]) for event in events if event["type"] == "notice"]


def test_a_warning_is_shown_in_the_first_run_and_again_when_it_changes(run):
    first, second, changed = run(), run(), run(alias="curt")
    assert IGNORED.format("terse") in first.err
    assert NO_PLUGIN in first.err
    assert "warning" not in second.err
    assert NO_PLUGIN not in second.err
    assert IGNORED.format("curt") in changed.err
    assert "warning" not in run(alias="curt").err


def test_the_events_are_those_of_a_person_who_has_seen_nothing(run, prsm_process):
    first = events_of(run("--json"))
    assert [once for _, once in first] == [True, True], first
    run()
    assert "warning" not in run().err
    assert events_of(run("--json")) == first
    assert events_of(prsm_process("events", "--json")) == first


def test_what_protects_a_person_less_than_they_have_set_is_told_in_each_run(run):
    assert [LIMITS in run("--budget-usd", "1").err for _ in range(2)] == [True, True]


def test_a_home_that_cannot_be_written_shows_it_again(run, tmp_path):
    (tmp_path / "home" / "state" / FILE).mkdir(parents=True)
    assert [IGNORED.format("terse") in run().err for _ in range(2)] == [True, True]


def test_a_replay_shows_what_was_told(run, prsm_process):
    run()
    assert "warning" not in run().err
    replayed = prsm_process("replay")
    assert IGNORED.format("terse") in replayed.out + replayed.err
