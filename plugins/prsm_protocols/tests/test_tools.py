"""Moves, messages and measurements of agents under a protocol, and what each call answers."""

from __future__ import annotations

import json
from inspect import isawaitable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prsm_protocols.problems import ProtocolError

from plugins.prsm_protocols.tests.conftest import INBOX, FakeCall, World
from prsm_core import MessageRoutingError, OrchestrationError, ToolInputError


@pytest.mark.requirement("A2", "A4")
async def test_the_first_call_pins_the_agent_and_tells_where_it_is(world):
    answer = await world.move()
    protocol = world.validator.library.read(str(world.workspace)).get("inbox")
    assert answer == {
        "state": "inbox",
        "protocol": "inbox",
        "version": protocol.id,
        "moved": False,
        "description": "Processing messages and requests",
        "tools": ["Grep", "Read"],
        "moves": [
            {"to": "deep_work", "when": "When focused task identified", "open": True},
            {"to": "idle", "when": "When no actionable items", "open": True},
        ],
        "session": "continued",
    }
    assert world.labels["w1"] == {
        "protocol": "inbox",
        "protocols/agent": "w1",
        "protocols/protocol": protocol.id,
        "protocols/since": "1000",
        "protocols/state": "inbox",
    }


@pytest.mark.requirement("A4", "A12")
async def test_a_move_is_made_where_the_page_has_it(world):
    answer = await world.move("deep_work", context={"task": "parser"})
    assert (answer["state"], answer["moved"]) == ("deep_work", True)
    assert answer["message"] == "Work on one thing."
    assert answer["tools"] is None
    assert world.state() == "deep_work"


async def test_a_call_for_which_nothing_has_to_be_read_kept_or_asked_is_answered_at_once(world):
    async def is_at_once(agent="w1", **args):
        call: Any = FakeCall(world, agent, args)
        answer = world.tools.transition(call)
        if isawaitable(answer):
            await answer
        return not isawaitable(answer)

    assert not await is_at_once()  # its version has to be kept first
    await world.move()
    assert await is_at_once()
    assert await is_at_once(to="deep_work")
    assert not await is_at_once(to="idle")  # of another page
    world.page("inbox", INBOX.replace("Work on one thing.", "Work on two."))
    assert await is_at_once()  # where it stays
    assert not await is_at_once(to="deep_work")  # a person is asked first
    assert len(world.questions) == 1


@pytest.mark.requirement("A12")
async def test_a_move_to_another_page_is_under_its_protocol_from_then_on(world):
    answer = await world.move("idle")
    assert (answer["protocol"], answer["within"]) == ("idle", {"seconds": 1800, "to": "inbox"})
    assert world.labels["w1"]["protocols/protocol"].startswith("idle@")
    assert (await world.move("inbox"))["protocol"] == "inbox"


@pytest.mark.requirement("A4")
@pytest.mark.parametrize(
    ("to", "told"),
    [
        ("inbox", "you are in the state inbox already; nothing has changed"),
        ("distill", "no transition leads from inbox to 'distill'"),
        ("deep-work", "no transition leads from inbox to 'deep-work'; did you mean deep_work?"),
        ("", "no transition leads from inbox to ''"),
    ],
)
async def test_what_is_no_move_is_refused_with_those_that_are(world, to, told):
    await world.move()
    before = world.labels["w1"]
    with pytest.raises(OrchestrationError) as caught:
        await world.move(to)
    assert told in caught.value.message
    assert caught.value.hint == "open from inbox: deep_work, idle"
    assert world.labels["w1"] == before


@pytest.mark.requirement("A18")
async def test_a_guard_opens_as_the_context_fills_and_the_answer_says_so(world):
    await world.move("deep_work")
    for context, told in ((None, "is not known yet"), (0.79, "is 0.79")):
        world.context = context
        with pytest.raises(OrchestrationError, match=told) as caught:
            await world.move("distill")
        assert caught.value.hint == "open from deep_work: inbox"
    world.context = 0.83
    opened = ["distill is open: context >= 0.8, and 0.83 of it is used"]
    assert (await world.call("measure", name="steps"))["opened"] == opened
    asked = await world.move()
    assert asked["opened"] == opened
    assert {"to": "distill", "when": "When context pressure high", "open": True,
            "guard": "context >= 0.8"} in asked["moves"]  # fmt: skip
    assert (await world.move("distill"))["moves"] == []


@pytest.mark.requirement("F8")
async def test_an_agent_stays_on_its_version_also_without_the_files(world):
    await world.move("deep_work")
    for path in (world.workspace / ".prism" / "protocols").iterdir():
        path.unlink()
    fresh = World(world.workspace, world.validator.kept.folder("x").parent)
    fresh.labels = world.labels
    assert (await fresh.move("inbox"))["state"] == "inbox"


@pytest.mark.requirement("F8")
async def test_a_kept_version_that_was_changed_is_refused(world):
    await world.move("deep_work")
    digits = world.labels["w1"]["protocols/protocol"].rpartition("@")[2]
    kept = world.validator.kept.folder(digits)
    fresh = World(world.workspace, kept.parent)
    fresh.labels = world.labels
    (kept / "inbox.md").write_text(INBOX.replace("tools: none", "tools: Bash"))
    with pytest.raises(
        OrchestrationError, match=r"cannot be read from .* other than it was"
    ) as caught:
        await fresh.move("inbox")
    assert caught.value.code == "protocol_lost"


async def test_a_child_begins_at_the_beginning_whatever_its_parent_does(world):
    await world.move("deep_work")
    world.labels["c1"] = dict(world.labels["w1"])  # as an agent is born
    answer = await world.move(agent="c1")
    assert (answer["state"], world.state("c1"), world.state()) == ("inbox", "inbox", "deep_work")


async def test_pages_that_are_wrong_are_told_and_nothing_is_pinned(world):
    world.page("inbox", INBOX.replace("## States", "## State"))
    with pytest.raises(ProtocolError, match=r"inbox\.md:3: 'State' is no section"):
        await world.move()
    assert world.state() is None


async def test_a_protocol_that_is_not_there_is_told_with_the_nearest(world):
    world.agent("w1", protocol="inbx")
    with pytest.raises(
        OrchestrationError, match=r"no protocol 'inbx'.*did you mean inbox"
    ) as caught:
        await world.move()
    assert "protocols here: idle, inbox" in str(caught.value.hint)


async def test_of_a_workspace_that_is_not_trusted_nothing_is_read(world):
    world.trusted = False
    with pytest.raises(OrchestrationError, match="not trusted") as caught:
        await world.move()
    assert "prsm trust" in str(caught.value.hint)


async def test_a_link_is_no_page(world, tmp_path):
    (tmp_path / "secret").write_text(INBOX)
    page = world.workspace / ".prism" / "protocols" / "more.md"
    page.symlink_to(tmp_path / "secret")
    with pytest.raises(ProtocolError, match=r"more\.md:1: it is a link"):
        await world.move()


@pytest.mark.requirement("A15")
async def test_a_state_that_lasts_too_long_is_left_at_the_next_call(world):
    await world.move("idle")
    world.time += 1799
    assert (await world.move())["state"] == "idle"
    world.time += 1
    answer = await world.call("measure", name="x")
    assert answer["state"] == "inbox"
    assert world.labels["w1"]["protocols/since"] == "2800"


async def test_a_move_from_a_state_that_is_over_begins_where_time_has_led(world):
    await world.move("idle")
    world.time += 4000
    answer = await world.move("deep_work")
    assert (answer["state"], answer["timed_out"], answer["moved"]) == ("deep_work", "idle", True)
    await world.move("inbox")
    await world.move("idle")
    world.time += 4000
    answer = await world.move("inbox")  # where it is by then
    assert (answer["state"], "refused" in answer) == ("inbox", False)
    await world.move("idle")
    world.time += 4000
    answer = await world.move("distill")
    assert answer["state"] == world.state() == "inbox"
    assert answer["refused"].startswith("no transition leads from inbox to 'distill'")


@pytest.mark.requirement("A6")
async def test_a_message_goes_to_any_other_agent_of_the_run(world):
    world.labels["boss"] = {}
    answer = await world.call("message_send", to="boss", text="ready")
    assert (answer["id"], answer["state"]) == ("m1", "inbox")
    assert world.sent == [("boss", "ready")]
    for to, told in (("w1", "that is you"), ("bos", "did you mean boss")):
        with pytest.raises(MessageRoutingError, match=told) as caught:
            await world.call("message_send", to=to, text="x")
        assert caught.value.hint == "you may write to: boss"


@pytest.mark.requirement("A6")
@pytest.mark.parametrize(
    ("section", "allowed"),
    [
        ("- boss", {"boss"}),
        ("- idle", {"lazy"}),
        ("- nobody", set()),
        ("- boss\n- idle", {"boss", "lazy"}),
    ],
)
async def test_a_protocol_says_who_may_be_written_to(world, section, allowed):
    world.page("inbox", f"{INBOX}\n## Messages\n{section}\n")
    world.labels["boss"] = {}
    world.agent("lazy", protocol="idle")
    world.agent("w2")
    for to in ("boss", "lazy", "w2"):
        if to in allowed:
            await world.call("message_send", to=to, text="x")
        else:
            with pytest.raises(MessageRoutingError, match="lets you not write to"):
                await world.call("message_send", to=to, text="x")
    assert {to for to, _ in world.sent} == allowed


async def test_the_oldest_message_is_taken_and_none_is_told(world):
    world.inbox.append(SimpleNamespace(message_id="m7", name="boss", text="begin"))
    first = await world.call("message_next", seconds=1)
    assert first["message"] == {"id": "m7", "from": "boss", "text": "begin"}
    assert (await world.call("message_next"))["message"] is None


async def test_what_is_too_much_to_note_is_refused(world):
    with pytest.raises(ToolInputError, match=r"data has .* bytes") as caught:
        await world.call("measure", name="x", data={"log": "a" * 20_000})
    assert "16384 are the most" in str(caught.value.hint)


@pytest.mark.parametrize("one", ["a", "é", "\U0001f600", "\0", "\ud800", '"'])
async def test_what_is_noted_has_as_many_bytes_of_json_as_it_may_and_not_one_more(world, one):
    await world.move()
    fits = (16_384 - len('{"log": ""}')) // len(json.dumps(one)[1:-1])
    assert (await world.call("measure", name="x", data={"log": one * fits}))["ok"]
    with pytest.raises(ToolInputError, match=r"data has .* bytes"):
        await world.call("measure", name="x", data={"log": one * (fits + 1)})


NEW = INBOX.replace("- deep_work: Focused", "- deep_work: More focused")


@pytest.mark.requirement("A17")
async def test_a_newer_version_is_asked_about_once_and_for_all(world):
    world.agent("w2")
    for agent in ("w1", "w2"):
        await world.move("deep_work", agent)
    old = world.labels["w1"]["protocols/protocol"]
    world.page("inbox", NEW)
    world.answers = ["upgrade all"]
    answer = await world.move("inbox")
    assert answer["upgraded"] == world.labels["w1"]["protocols/protocol"] != old
    assert (await world.move("inbox", "w2"))["upgraded"] == answer["upgraded"]
    (question,) = world.questions
    assert question.options == ("upgrade all", "upgrade this one", "keep the old one")
    assert "w1 is in the state deep_work, and would go on in deep_work" in question.text


@pytest.mark.requirement("A17")
async def test_the_word_for_all_is_in_the_labels_for_the_next_engine(world):
    world.agent("w2")
    for agent in ("w1", "w2"):
        await world.move("deep_work", agent)
    world.page("inbox", NEW)
    world.answers = ["upgrade all"]
    await world.move("inbox")
    fresh = World(world.workspace, world.validator.kept.folder("x").parent)
    fresh.labels = world.labels
    assert "upgraded" in await fresh.move("inbox", "w2")
    assert fresh.questions == []


@pytest.mark.requirement("A17")
@pytest.mark.parametrize(
    ("said", "asked"), [("keep the old one", 1), ("upgrade this one", 1), (None, 2)]
)
async def test_whom_a_person_lets_be_is_not_asked_about_again(world, said, asked):
    world.agent("w2")
    for agent in ("w1", "w2"):
        await world.move("deep_work", agent)
    world.page("inbox", NEW)
    for agent in ("w1", "w2"):  # the word on one is none on the other
        world.questions, world.answers = [], [said]
        told = [await world.move(to, agent) for to in ("inbox", "deep_work")]
        assert ["upgraded" in answer for answer in told] == [said == "upgrade this one", False]
        assert len(world.questions) == asked


@pytest.mark.requirement("A17")
async def test_a_state_that_is_gone_keeps_the_old_version_unless_the_new_one_maps_it(world):
    await world.move("deep_work")
    renamed = INBOX.replace("deep_work", "focus")
    world.page("inbox", renamed)
    assert "upgraded" not in await world.move("inbox")
    assert world.questions == []
    await world.move("deep_work")
    world.page("inbox", f"{renamed}\n## Upgrades\n- deep_work -> focus\n")
    world.answers = ["upgrade this one"]
    answer = await world.move("inbox")
    assert answer["state"] == "inbox"
    assert "would go on in focus" in world.questions[-1].text


@pytest.mark.requirement("A17")
async def test_a_move_that_the_new_version_does_not_have_is_told_beside_the_upgrade(world):
    await world.move("deep_work")
    world.page("inbox", NEW.replace("- deep_work → inbox: When done\n", ""))
    world.answers = ["upgrade this one"]
    answer = await world.move("inbox")
    assert (answer["state"], world.state()) == ("deep_work", "deep_work")
    assert "no transition leads from deep_work to 'inbox'" in answer["refused"]
    assert "upgraded" in answer


async def test_pages_that_became_wrong_are_no_newer_version(world):
    await world.move("deep_work")
    world.page("inbox", "# Nothing\n")
    assert (await world.move("inbox"))["state"] == "inbox"
    assert world.questions == []


PAIRS = {("inbox", "deep_work"), ("inbox", "idle"), ("deep_work", "inbox"), ("idle", "inbox")}


@pytest.mark.requirement("A4", "F8")
@settings(max_examples=15)
@given(st.lists(st.sampled_from(["inbox", "deep_work", "idle", "distill", "gone"]), max_size=12))
async def test_an_agent_is_where_a_set_of_pairs_has_it(tmp_path_factory, walk):
    folder = tmp_path_factory.mktemp("walk")
    world = World(folder / "work", folder / "kept")
    world.page("inbox", INBOX)
    world.page("idle", "# Protocol: idle\n## States\n- idle: x\n## Transitions\n- idle -> inbox\n")
    world.agent("w1")
    at = "inbox"
    for to in walk:
        if (at, to) in PAIRS:
            at = (await world.move(to))["state"]
            assert at == to == world.state()
        else:
            with pytest.raises(OrchestrationError):
                await world.move(to)
            assert world.state() in {at, None}
