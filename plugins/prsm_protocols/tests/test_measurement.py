"""What agents under a protocol do is measured beside the run, and forgotten after its days."""

from __future__ import annotations

import json
from datetime import date

import pytest
from prsm_protocols.measurement import MEASUREMENTS, MeasurementSink, sweep
from prsm_protocols.plugin import prsm_event_sinks
from prsm_testing import EventSinkContract

from prsm_core.domain.events import Event
from prsm_core.interfaces.sink import RunInfo

(SPEC,) = prsm_event_sinks()
DAY = 86_400.0
NOON = 1_700_000_000.0  # on 2023-11-14
RUN = RunInfo(run_id="r1", session="s1", task="count", workspace="/work")
FREE = {"protocol": "inbox"}


def pinned(state, agent="w1"):
    protocol = {"protocols/agent": agent, "protocols/protocol": "inbox@1b1abb595ece"}
    return {**FREE, **protocol, "protocols/state": state, "protocols/since": "1700000000"}


class TestMeasurements(EventSinkContract):
    kinds = SPEC.kinds

    def open_sink(self, run, tmp_path):
        return MeasurementSink(run, MEASUREMENTS(path=str(tmp_path)))

    def open_failing_sink(self, run, tmp_path):
        (tmp_path / "file").touch()
        return Watched(run, MEASUREMENTS(path=str(tmp_path / "file")))


class Watched(MeasurementSink):
    """A sink for which each agent is under a protocol, so that it writes of all sample events."""

    async def write(self, batch):
        first = batch[0]
        begun = Event(type="agent_spawned", session=first.session, run=first.run, ts=first.ts,
                      agent="w1", data={"labels": FREE}, seq=1)  # fmt: skip
        await super().write([begun, *batch])


def event(type_, seq, agent="w1", after=0.0, **data):
    return Event(
        type=type_, session="s1", run="r1", ts=NOON + after, agent=agent, data=data, seq=seq
    )


LIFE = [
    event("agent_spawned", 1, name="alice", labels=FREE),
    event("agent_spawned", 2, agent="w2", name="bob", labels={}),
    event("agent_labels_changed", 3, labels=pinned("inbox")),
    event("tool_call_started", 4, call="c1", tool="state_transition", arguments={"to": "x"}),
    event("tool_call_finished", 5, call="c1", status="failed", error="no transition leads to x"),
    event("check_denied", 6, check="protocol-states", tool="Edit", reason="no"),
    event("check_denied", 7, check="other", tool="Edit", reason="no"),
    event("tool_call_started", 8, call="c2", tool="measure",
          arguments={"name": "mails", "value": 3, "data": {"new": 1}}),
    event("agent_labels_changed", 9, after=2.5, labels=pinned("deep_work")),
    event("message_routed", 10, kind="peer", to="w2", mid="m1"),
    event("turn_finished", 11, usage={"total_tokens": 120}, cost_usd=0.1, context=0.4,
          stop_reason="end"),
    event("turn_finished", 12, agent="w2", usage={"total_tokens": 7}),
    event("agent_state_changed", 13, **{"from": "running", "to": "completed"}),
]  # fmt: skip


async def records(tmp_path, events, **settings):
    sink = MeasurementSink(RUN, MEASUREMENTS(path=str(tmp_path), **settings))
    await sink.write(events)
    await sink.aclose()
    lines = [
        line
        for path in sorted(tmp_path.glob("*/r1.jsonl"))
        for line in path.read_text().splitlines()
    ]
    return [json.loads(line) for line in lines]


@pytest.mark.requirement("A8", "A20")
async def test_each_act_of_an_agent_under_a_protocol_is_a_record_and_no_others_is(tmp_path):
    told = await records(tmp_path, LIFE)
    assert [(one["kind"], one["seq"], one.get("state", "")) for one in told] == [
        ("began", 1, ""), ("moved", 3, "inbox"), ("refused", 5, "inbox"), ("denied", 6, "inbox"),
        ("measured", 8, "inbox"), ("moved", 9, "deep_work"), ("sent", 10, "deep_work"),
        ("turn", 11, "deep_work"), ("ended", 13, "deep_work"),
    ]  # fmt: skip
    assert told[4] == {
        "at": NOON, "seq": 8, "session": "s1", "run": "r1", "agent": "w1", "agent_name": "alice",
        "kind": "measured", "protocol": "inbox@1b1abb595ece", "state": "inbox", "name": "mails",
        "value": 3, "data": {"new": 1},
    }  # fmt: skip
    assert (told[5]["value"], told[5]["data"]) == (2.5, {"from": "inbox"})
    assert (tmp_path / "2023-11-14" / "r1.jsonl").stat().st_mode & 0o777 == 0o600


@pytest.mark.requirement("A19", "A20")
async def test_where_it_is_by_turn_there_is_one_record_for_each(tmp_path):
    (told,) = await records(tmp_path, LIFE, detail="turn")
    assert (told["kind"], told["value"]) == ("turn", 120)
    assert told["data"]["counts"] == {
        "began": 1, "denied": 1, "measured": 1, "moved": 2, "refused": 1, "sent": 1,
    }  # fmt: skip


@pytest.mark.requirement("A19")
@pytest.mark.parametrize(("setting", "kept"), [({}, 2), ({"days": 3}, 1)])
async def test_days_that_are_over_are_removed(tmp_path, setting, kept):
    for name in ("2023-09-01", "2023-10-30", "notes"):
        (tmp_path / name).mkdir()
    await records(tmp_path, LIFE, **setting)
    left = {path.name for path in tmp_path.iterdir()} - {"notes"}
    assert len(left) == kept
    assert (tmp_path / "notes").is_dir()
    sweep(tmp_path / "missing", date(2023, 1, 1))


async def test_after_a_resume_what_is_measured_is_told_before_the_labels_are_known(tmp_path):
    (told,) = await records(tmp_path, [LIFE[7]])
    assert (told["kind"], told["name"], "protocol" in told) == ("measured", "mails", False)


@pytest.mark.requirement("A8")
def test_no_tool_leads_to_the_measurements():
    from prsm_protocols import tools

    for module in (tools, tools, tools, tools):
        assert "measurement" not in {name.rpartition(".")[2] for name in vars(module)}
