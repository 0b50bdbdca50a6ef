"""What the ledger gets holds no secret, whatever kind of fact brings it."""

from __future__ import annotations

from inspect import get_annotations
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from prsm_testing.steps import KILLED, PENDING, Steps

from prsm_core.domain import writes
from prsm_core.domain.agents import AgentResult
from prsm_core.domain.changes import Decision
from prsm_core.domain.events import EVENT_FIELDS
from prsm_core.domain.messages import MessageType
from prsm_core.domain.notes import Ending, Notes
from prsm_core.domain.projection import events_of, rows_of
from prsm_core.domain.steps import Write
from prsm_core.domain.tools import McpServer
from prsm_core.domain.turns import AgentError, AgentMessage, ErrorKind
from prsm_core.domain.writes import (
    AgentEnded,
    AgentHeld,
    AgentNoted,
    AgentRelabelled,
    AgentRestarted,
    AgentSpawned,
    CallOpened,
    ChangesDecided,
    Granted,
    ModelSwitched,
    RequestOpened,
    RequestResolved,
    ResultClaimed,
    RunFinished,
    RunResumed,
    RunStarted,
    SessionNamed,
    SnapshotTaken,
    ThreadKept,
    Told,
)
from prsm_core.engine.journal.redaction import WRITTEN, may_hold_secret, without_secrets
from prsm_core.permissions import Redactor

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "hunter2-" * 2
REDACTOR = Redactor([SECRET])
SAID = f"it is {SECRET}!"

TEAM = Steps()
TURN = TEAM.turn("w1")
MESSAGE = AgentMessage(id="m1", role="assistant", content=SAID, sequence=1, created_at=0)
ERROR = AgentError(kind=ErrorKind.UNKNOWN, message=SAID)
RESULT = AgentResult(
    agent_id="a",
    success=True,
    summary=SAID,
    artifacts=(SAID,),
    error=SAID,
    evidence_gaps=(SAID,),
    evidence_by=(SAID,),
)
SERVER = McpServer(command="x", args=(SAID,), env={"K": SECRET}, headers={"K": SECRET})
CALL = TEAM.call("c1", tool_name=SECRET, params={SECRET: [{"b": SAID}]}, result=SAID, error=SAID)
SENT = TEAM.message("w1", "w2", MessageType.ANSWER, payload={"text": SAID})
WRITES: dict[str, Write] = {
    "spawned": AgentSpawned(
        agent=TEAM.descriptor(
            "w3", prompt=SAID, system_prompt=SAID, mcp_servers={"s": SERVER}, labels={"a": SAID}
        )
    ),
    "state": TEAM.change(PENDING, KILLED, reason=SAID),
    "restarted": AgentRestarted(prompt=SAID),
    "model": ModelSwitched(provider=SECRET, model=SECRET),
    "held": AgentHeld(waiting_on="a login", reason=SAID),
    "thread": ThreadKept(thread=SECRET),
    "labels": AgentRelabelled(agent_id=TEAM.agent("w1"), labels={"a": SAID}),
    "notes": AgentNoted(
        notes=Notes(
            progress={"status": SAID}, ending=Ending(state="failed", reason=SAID, kind=SECRET)
        )
    ),
    "call": CallOpened(turn_id="t", call=CALL),
    "answer": TEAM.answer(TURN, "c1", result=SAID),
    "message": TEAM.sent(SENT)[0],
    "turn": TEAM.close(
        TURN, result=TEAM.result(messages=(MESSAGE,), tool_calls=(CALL,), error=ERROR)
    ),
    "ended": AgentEnded(result=RESULT),
    "claimed": ResultClaimed(result=RESULT),
    "request": RequestOpened(request=TEAM.request("w1", payload={"tool": SECRET, "command": SAID})),
    "resolved": RequestResolved(
        request_id="r", kind="question", answer={"text": SAID}, by="user", via=SAID
    ),
    "granted": Granted(grant={"command": SAID}),
    "started": RunStarted(task=SAID, workspace=f"/{SECRET}"),
    "resumed": RunResumed(epoch=2, options={"command_line": {"sets": [SAID]}}),
    "named": SessionNamed(name=SAID),
    "snapshot": SnapshotTaken(
        snapshot=TEAM.snapshot("w1", description=SAID, branch=SECRET, unquiet=(SAID,))
    ),
    "changed": Steps().changed("f1", path=f"{SECRET}.txt", note=SAID),
    "decided": ChangesDecided(decisions=(Decision("f1", f"{SECRET}.txt", "unmerged", SAID),)),
    "finished": RunFinished(status="failed", summary=SAID, error=SAID, used={"evidence": SAID}),
    "told": Told(kind="notice", data={"level": "info", "text": SAID}),
}
each_write = pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)


@pytest.mark.requirement("U19")
@each_write
def test_no_text_of_a_write_holds_a_secret(write):
    assert SECRET in repr(write)
    (clean,) = without_secrets((write,), REDACTOR)
    assert SECRET not in repr(clean)
    step = TEAM.step("w1", clean)
    assert SECRET not in repr([rows_of(step), events_of(step, 0)])
    assert type(clean) is type(write)


@each_write
def test_a_write_without_secrets_stays_as_it_is_and_each_field_is_searched(write, caplog):
    (kept,) = without_secrets((write,), Redactor(()))
    assert kept is write
    assert not caplog.records  # of a field that could not be searched


def test_every_write_that_holds_text_is_tried():
    kinds: set[Any] = {kind for kind in vars(writes).values() if isinstance(kind, type)}
    assert {type(write) for write in WRITES.values()} == {kind for kind in kinds if kind.texts}


@pytest.mark.parametrize("record", WRITTEN, ids=lambda record: record.__name__)
def test_the_fields_that_hold_text_exist(record):
    assert set(WRITTEN[record]) <= set(record.__struct_fields__)


def test_a_field_out_of_which_no_secret_can_be_taken_is_not_kept():
    class Broken(Redactor):
        def value(self, value):
            if isinstance(value, str) and "bad" in value:
                raise ValueError("no")
            return super().value(value)

    told = Told(kind="notice", data={"level": SAID, "text": "bad"})
    (clean,) = without_secrets((told,), Broken([SECRET]))
    assert clean.data["text"].startswith("[left out")
    assert SECRET not in clean.data["level"]


KEYS = (
    *(SECRET, "multi\nline\nsecret", "736b2d616263", "sk-" + "a1" * 10, "ghp_" + "a1" * 10),
    *("AKIA" + "A1" * 8, "xoxb-123456789012", "AC" + "0a" * 16 + " " + "1b" * 16),
    *("https://u:pass1234@host/", "Bearer abcdefghijklmnop1234", "x-api-key: abcdefgh12345"),
    *("password=abc123def456ghi", "Authorization: Basic abcdef123456", "M" + "a" * 24),
    *("-----BEGIN RSA PRIVATE KEY-----\nabc", "hooks.slack.com/services/abcdefgh12"),
    *("MTA" + "a" * 21 + ".abcdef." + "a" * 27, "AccountKey=" + "a" * 44, "\\nsk-" + "b2" * 9),
)
TEXTS = st.lists(
    st.one_of(
        st.sampled_from(KEYS),
        st.text(max_size=12),
        st.tuples(st.text(max_size=4), st.sampled_from(KEYS), st.text(max_size=4)).map("".join),
        st.tuples(st.sampled_from(KEYS), st.integers(1, 12)).map(lambda cut: cut[0][cut[1] :]),
        st.tuples(st.sampled_from(KEYS), st.integers(1, 12)).map(lambda cut: cut[0][: cut[1]]),
        st.text("0123456789abcdefABCDEFx\\%:,- \n", max_size=40),
    ),
    max_size=6,
)
KNOWN = Redactor([SECRET, "multi\nline\nsecret", "sk-abcdef", "ends with \n\0"])


@pytest.mark.requirement("U19")
@given(TEXTS)
@example(["a", SECRET, "b"])
@example(["Bearer ", "abcdefghijklmnop1234"])
@example(["0", "736b2d616263646566", "0"])
def test_whatever_would_be_redacted_is_found_in_the_text_of_the_whole(texts):
    told = [Told(kind="notice", data={"level": "info", "text": text}) for text in texts]
    if any(KNOWN.text(text) != text for text in texts):
        assert may_hold_secret(told, KNOWN)
    kept = [write.data["text"] for write in without_secrets(told, KNOWN)]
    assert kept == [KNOWN.text(text) for text in texts]


# The other fields: ids, names that are checked, states, and what PRSM says itself.
NO_TEXT = {
    "AgentDescriptor": "agent_id name session_id run_id role cwd tools grant mode parent_id"
    " state reasoning_effort continues",
    "AgentError": "kind",
    "AgentHeld": "waiting_on",
    "AgentMessage": "id role",
    "AgentNoted": "agent_id",
    "AgentRelabelled": "agent_id",
    "AgentResult": "agent_id error_kind evidence",
    "AgentSpawned": "call",
    "AgentToolCall": "id status spawned_session_label",
    "AgentsResumed": "lives",
    "CallClosed": "turn_id call_id status consumed",
    "CallOpened": "turn_id",
    "CompactionResult": "summarized_through_turn_id first_kept_turn_id model provider trigger",
    "Decision": "id state",
    "EffectNoted": "effect",
    "Ending": "state",
    "FileChange": "id scan kind old_mode new_mode before after how authors beside",
    "HumanRequest": "request_id agent_id kind",
    "McpServer": "command",
    "MessagesConsumed": "messages",
    "ModeSwitched": "source target mode granted",
    "Notes": "tried settled repeated reminded reminders heard chosen left went_on",
    "RequestResolved": "request_id kind",
    "RoutedMessage": "message_id type source target correlation_id",
    "RunResumed": "engine",
    "RunStarted": "engine",
    "SessionSnapshot": "snapshot_id kind folder tree staged head agent_id",
    "StateChanged": "source target waiting_on",
    "Told": "kind agent_id",
    "TurnClosed": "turn_id parent_turn_id session_label resume_token",
    "TurnMetered": "turn_id spent",
    "TurnOpened": "turn_id parent_turn_id session_label model provider role toolset_name"
    " tools_available permissions_granted workspace_path source_event_id consumed turn_type",
    "TurnResult": "usage stop_reason usage_provenance cost_provenance",
}
NUMBERS = {"int", "float", "bool"}


KINDS: dict[type, None] = dict.fromkeys([*map(type, WRITES.values()), *WRITTEN])


@pytest.mark.requirement("U19")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_of_each_field_it_is_said_whether_it_holds_text(kind):
    own = (base for base in kind.mro() if base not in {Write, *Write.mro()})
    hints = {name: hint for base in own for name, hint in get_annotations(base).items()}
    said = {*(kind.texts if issubclass(kind, Write) else WRITTEN[kind])}
    numbers = {name for name, hint in hints.items() if hint.removesuffix(" | None") in NUMBERS}
    assert said | numbers | {*NO_TEXT.get(kind.__name__, "").split()} == {
        name for name, hint in hints.items() if not hint.startswith("ClassVar")
    }


ACCOUNT = "AC" + "0a" * 16


@pytest.mark.requirement("U19")
@given(TEXTS, TEXTS)
@example([ACCOUNT], [ACCOUNT, "1b" * 16])
@example([ACCOUNT + "x" * 8], [ACCOUNT + "x" * 8, ACCOUNT, "1b" * 16])
def test_what_was_seen_before_hides_no_secret_of_a_long_text(before, lines):
    """Lines of a long text are left out where they are known; what goes over two is found."""
    filler, redactor = "nothing of note in it, " * 20, Redactor([SECRET, "multi\nline\nsecret"])
    for seen in ([*before], ["\n".join([*before, filler])]):
        redactor.finds(seen)
    text = "\n".join([filler, *lines, filler])
    told = [Told(kind="notice", data={"level": "info", "text": text})]
    (write,) = without_secrets(told, redactor)
    assert write.data["text"] == Redactor([SECRET, "multi\nline\nsecret"]).text(text)


@pytest.mark.requirement("U19")
@given(TEXTS, TEXTS)
@example([ACCOUNT], ["1b" * 16])
@example(["multi"], ["line", "secret"])
def test_what_is_known_behind_a_first_line_hides_no_secret_that_begins_in_that(heads, lines):
    known = [SECRET, "multi\nline\nsecret"]
    tail, redactor = "\n".join([*lines, "nothing of note in it, " * 20]), Redactor(known)
    for head in ["you are c1", "you are c2", "you are c3", *heads]:
        text = f"{head}\n{tail}"
        (write,) = without_secrets([Told(kind="notice", data={"text": text})], redactor)
        assert write.data["text"] == Redactor(known).text(text)


class Alike(str):
    """A text that says that it equals every other one."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("done")


@pytest.mark.requirement("U19")
@pytest.mark.parametrize(
    "write",
    [
        SessionNamed(name=Alike(SAID)),
        CallOpened(turn_id="t", call=replace(CALL, params={"a": Alike(SAID)}, result=None)),
        CallOpened(turn_id="t", call=replace(CALL, params={"a": [Alike(SAID)]}, result=None)),
        Told(kind="notice", data={"text": Alike(SAID)}),
        TEAM.close(TURN, result=TEAM.result(messages=(replace(MESSAGE, content=Alike(SAID)),))),
    ],
    ids=repr,
)
def test_a_text_that_equals_a_clean_one_is_looked_at_if_it_is_none(write):
    redactor = Redactor([SECRET])
    assert not may_hold_secret([SessionNamed(name="done")], redactor)
    assert may_hold_secret([write], redactor)


@pytest.mark.parametrize("held", [7, 1.5, True, (7,), ("a text", 7), {"a": 7}, b"bytes"], ids=repr)
def test_what_is_no_text_in_the_place_of_one_is_no_secret(held, caplog):
    write: Any = SessionNamed(name=held)
    assert not may_hold_secret([write], REDACTOR)
    assert not caplog.records


@pytest.mark.requirement("U19")
def test_secrets_are_found_after_what_was_known_was_forgotten():
    redactor, filler = Redactor([SECRET]), "nothing of note in it, " * 500
    for number in range(200):
        text = f"you are c{number}\n{number} {filler}"
        assert not may_hold_secret([Told(kind="notice", data={"text": text})], redactor)
        assert may_hold_secret([SessionNamed(name=SAID)], redactor)
        assert may_hold_secret([Told(kind="notice", data={"text": f"{text}\n{SAID}"})], redactor)
    assert sum(map(len, redactor.clean)) < 512 * 1024


@pytest.mark.requirement("U19")
def test_two_halves_of_a_secret_are_none_until_one_text_holds_both():
    redactor, token = Redactor(()), "1b" * 16
    for names in ([ACCOUNT, token], [token, ACCOUNT]):
        assert not may_hold_secret([SessionNamed(name=name) for name in names], redactor)
    assert may_hold_secret([SessionNamed(name=f"{ACCOUNT}\n{token}")], redactor)


def text_fields() -> list[tuple[str, tuple[str, ...]]]:
    """Return each place of each kind of write that may hold a text, however deep it is."""
    return [(name, path) for name, write in WRITES.items() for path in _places(write, ())]


def _places(one: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    names = one.texts if isinstance(one, Write) else WRITTEN[type(one)]
    for name in names:
        held = getattr(one, name)
        if type(held) in WRITTEN:
            yield from _places(held, (*path, name))
        else:
            yield (*path, name)


def _with(one: Any, path: tuple[str, ...], value: Any) -> Any:
    name, *rest = path
    return replace(one, **{name: _with(getattr(one, name), tuple(rest), value) if rest else value})


@pytest.mark.requirement("U19")
@pytest.mark.parametrize("held", [SAID, [SAID], {SAID: 1}, {"a": ({"b": SAID},)}], ids=repr)
@pytest.mark.parametrize(("name", "path"), text_fields(), ids=str)
def test_each_field_of_each_write_is_looked_at(name, path, held):
    value = {"text": held} if name == "told" else held  # its keys are those of the contract
    assert may_hold_secret([_with(WRITES[name], path, value)], REDACTOR)


def test_an_id_that_a_message_tells_again_hides_nothing_but_itself():
    message = Steps().message("worker-one", "master")
    source = message.source or ""
    redactor = Redactor([source, SECRET])  # as if an id were a secret: it would be found
    for payload, expected in (
        ({"agent_id": source}, False),
        ({"agent_id": f"{source}."}, True),
        ({"agent_id": source, "summary": SAID}, True),
        ({source: "x"}, True),
    ):
        [sent] = Steps().sent(replace(message, payload=payload))
        assert may_hold_secret([sent], redactor) is expected, payload
    [sent] = Steps().sent(replace(message, correlation_id=SAID))
    assert may_hold_secret([sent], redactor), "it is looked at with the rest: it comes back"


def test_fields_of_events_that_are_named_like_ids_hold_ids():
    """The one of a message is PRSM's own; a field of another event needs a look at this."""
    assert [kind for kind, names in EVENT_FIELDS.items() if "id" in names] == ["message_completed"]


@pytest.mark.parametrize("record", WRITTEN, ids=lambda record: record.__name__)
def test_a_record_that_a_write_holds_is_of_no_kind_of_its_own(record):
    """Its fields are got by the kind that the write says it holds."""
    assert not record.__subclasses__()


@pytest.mark.requirement("U19")
def test_what_holds_itself_may_hold_a_secret(caplog):
    loop: dict[str, Any] = {"a": [1]}
    loop["a"].append(loop)
    assert may_hold_secret([Told(kind="notice", data=loop)], REDACTOR)
    assert "could not be searched" in caplog.text
