"""Streams of three agents from a seed, over a store that takes its time, and who follows them.

What a model says is written first, so that a reader can tell where each piece belongs.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from prsm_testing.memory_store import MemoryStore

from prsm_core.domain.turns import (
    AssistantMessage,
    Notice,
    TextDelta,
    ThinkingDelta,
    ToolOutput,
    UsageReported,
)
from prsm_core.domain.usage import TokenUsage
from prsm_core.permissions import Redactor

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from random import Random

    from prsm_core.domain.events import Event

    Pause = Callable[[float], Awaitable[None]]

SECRET = "hunter2-hunter2-hunter2"  # noqa: S105 - what readers must never see
REDACTOR = Redactor([SECRET])
WORDS = ("so", "I", "look", "at", "naïve", "caf\u00e9", "\U0001f680", "\n", SECRET, "x" * 40)
NAMES = ("master", "a", "b")
DELAY_S = 0.2  # of the store, at most
KINDS = {"text_delta": "text", "thinking_delta": "thinking"}


class SlowStore(MemoryStore):
    """Keeps the order of writes; each takes effect, and is told to its writer, whenever it may."""

    def __init__(self, dice: Random, pause: Pause) -> None:
        super().__init__()
        self.dice = dice
        self.pause = pause
        self._line = asyncio.Lock()
        self._told: asyncio.Future[None] | None = None

    async def commit(self, step):
        return await self._slowly(lambda: super(SlowStore, self).commit(step))

    async def append(self, events):
        return await self._slowly(lambda: super(SlowStore, self).append(events))

    async def picture(self, session_id):
        seen = await super().picture(session_id)
        await self._rest()
        return seen

    async def _slowly(self, act):
        async with self._line:
            await self._rest()
            before, told = self._told, asyncio.get_running_loop().create_future()
            self._told = told
            try:
                return await act()
            finally:
                await self._tell(before, told)

    async def _tell(self, before, told):
        """Let the writer know after the one before, while others write already."""
        self._line.release()
        try:
            await self._rest()
            if before is not None:
                await before
            told.set_result(None)
        finally:
            await self._line.acquire()

    async def _rest(self):
        await self.pause(self.dice.choice((0.0, 0.001, 0.01, self.dice.random() * DELAY_S)))


@dataclass
class Script:
    """What one agent does in its turn, and how much it has said before each of its calls."""

    name: str
    acts: list[tuple[str, Any]] = field(default_factory=list)
    messages: list[tuple[str, str]] = field(default_factory=list)  # text and thinking
    outputs: dict[str, str] = field(default_factory=dict)  # what each call writes
    before_call: dict[str, tuple[int, int]] = field(default_factory=dict)  # message, characters


def write_script(dice: Random, name: str) -> Script:
    """Return a script of a few messages, with calls and other news within and between them."""
    script = Script(name)
    for number in range(1, dice.randint(2, 5)):
        said = {"text": "", "thinking": ""}
        for _ in range(dice.randint(1, 4)):
            kind = dice.choice(("text", "text", "thinking"))
            part = "".join(f"{dice.choice(WORDS)} " for _ in range(dice.randint(1, 8)))
            said[kind] += part
            script.acts += [(kind, piece) for piece in cut(dice, part)]
            if dice.random() < 0.4:
                call = f"{name}-{number}-{len(script.before_call)}"
                told = REDACTOR.text(said["text"])
                script.before_call[call] = (number, len(told))
                written = "".join(f"{dice.choice(WORDS)}\n" for _ in range(dice.randint(0, 4)))
                script.outputs[call] = REDACTOR.text(written)
                script.acts += [("call", (call, cut(dice, written) if written else []))]
        is_cut_off = dice.random() < 0.1 and said["text"]
        if is_cut_off:
            script.messages.append((said["text"], ""))
            script.acts.append(("break off", None))
            break
        script.messages.append((said["text"], said["thinking"]))
        script.acts.append(("message", (said["text"], said["thinking"] or None)))
    return script


def cut(dice: Random, text: str) -> list[str]:
    """Return the text in pieces, cut anywhere."""
    places = sorted(dice.randint(1, len(text)) for _ in range(dice.randint(0, 5)))
    ends = zip([0, *places], [*places, len(text)], strict=True)
    return [text[start:end] for start, end in ends if start < end]


def behaviour(script: Script, dice: Random, pause: Pause) -> Any:
    """Return what an agent does that follows a script; the master has the others first."""
    is_master = script.name == "master"

    async def behave(agent):
        if agent.turn == 1:
            for name in NAMES[1:] if is_master else ():
                await agent.spawn(name=name)
            for kind, what in script.acts:
                await _act(agent, kind, what)
                if kind == "break off":
                    return
                await _rest(agent, dice, pause)
        if is_master:
            while (await agent.call("wait_for_message"))["type"] != "nothing_left":
                pass
        await agent.complete()

    return behave


async def _rest(agent, dice, pause):
    """Pause or not, tell something else or not."""
    if dice.random() < 0.3:
        await pause(dice.random() * 0.05)
    if dice.random() < 0.2:
        news = Notice("info", "news"), UsageReported(TokenUsage(input_tokens=1))
        await agent.tell(dice.choice(news))


async def _act(agent, kind, what):
    match kind:
        case "text":
            await agent.tell(TextDelta(what))
        case "thinking":
            await agent.tell(ThinkingDelta(what))
        case "message":
            await agent.tell(AssistantMessage(*what))
        case "call":
            call, pieces = what
            await agent.start_tool(call, command=call)
            await agent.tell(*(ToolOutput(call, piece) for piece in pieces))
            await agent.end_tool(call)


class Reader:
    """Builds messages of pieces alone, wherever it joins, and checks that each comes in place.

    A message that was committed when it came is told by that event alone.
    """

    def __init__(self, scripts: dict[str, Script]) -> None:
        self.scripts = scripts
        self.joined = 0  # the last event when it came
        self.calls: defaultdict[tuple, list] = defaultdict(list)  # said before each, by message
        self.names: dict[str, str] = {}
        self.said: defaultdict[tuple, str] = defaultdict(str)  # agent, turn, message, which text
        self.whole: set[tuple] = set()  # what is committed
        self.seen: set[tuple] = set()  # what a picture gave some of
        self.written: dict[str, str] = {}  # by calls that run
        self.running: set[str] = set()  # calls of a picture, which has not what they wrote
        self.outputs = 0  # of which pieces came
        self.rebuilt = 0  # messages of which pieces came
        self.placed = 0  # calls whose place was checked
        self.turns: dict[str, str] = {}  # of each agent

    def look(self, view) -> None:
        """Take what a picture has."""
        for node in view.tree.walk():
            self.names[node.id] = node.name
            self.running.update(one.call for one in node.open_tools)
        for turn in view.turns:
            told = [*turn.unwritten, turn]
            for one in told:
                key = (turn.agent, turn.turn, one.message)
                self.turns[turn.agent] = turn.turn
                self.seen.add(key)
                for which in ("text", "thinking"):
                    self.said[*key, which] = getattr(one, which)
            assert turn.at == len(turn.text)

    def read(self, event: Event) -> bool:
        """Take an event; return whether it is the last."""
        data = event.data
        if event.type == "agent_spawned":
            self.names[event.agent or ""] = data["name"]
        elif event.type == "turn_started":
            self.turns[event.agent or ""] = data["turn"]
        elif event.type in KINDS:
            self._piece(event)
        elif event.type == "message_completed" and data["role"] == "assistant":
            self._completed(event)
        elif event.type == "tool_call_started":
            self._call(event)
        elif event.type == "tool_output_delta":
            self._output(event)
        elif event.type == "tool_call_finished" and (have := self.written.pop(data["call"], "")):
            assert have == self.scripts[self.names[event.agent or ""]].outputs[data["call"]]
            self.outputs += 1
        return event.type == "run_finished"

    def check_end(self) -> None:
        """Check that there was an event of each message of which a piece came, after the piece."""
        assert {key[:3] for key, text in self.said.items() if text} <= self.whole

    def _output(self, event):
        """Add what a call writes; of one that ran when a picture was taken see whether it fits."""
        call, at, text = (event.data[name] for name in ("call", "at", "text"))
        if call in self.running:
            whole = self.scripts[self.names[event.agent]].outputs[call]
            assert whole[at : at + len(text)] == text
            return
        have = self.written[call]
        assert at <= len(have), "a piece is missing"
        self.written[call] = have[:at] + text

    def _piece(self, event):
        key = (event.agent, event.data["turn"], event.data["message"])
        assert key not in self.whole, "a piece of a message that was complete"
        which, at, text = KINDS[event.type], event.data["at"], event.data["text"]
        have = self.said[*key, which]
        assert at <= len(have), "a piece is missing"
        assert have[at : at + len(text)] == text[: len(have) - at]
        self.said[*key, which] = have + text[len(have) - at :]

    def _completed(self, event):
        key = (event.agent, event.data["turn"], event.data["message"])
        assert key not in self.whole
        self.whole.add(key)
        told = {"text": event.data["text"], "thinking": event.data["thinking"] or ""}
        said = {which: self.said[*key, which] for which in told}
        if not any(said.values()) and event.seq <= self.joined and key not in self.seen:
            return  # it was committed when the reader came
        if event.data["thinking"] is None:  # it was broken off
            del said["thinking"], told["thinking"]
        assert said == told
        self.rebuilt += 1
        for length, seen in self.calls[key]:
            assert seen == length, (
                "text has come before or behind a call that it does not belong to"
            )
            self.placed += 1

    def _call(self, event):
        """Note how much of its message has come before a call; a picture may be ahead."""
        script = self.scripts[self.names[event.agent]]
        if event.data["call"] not in script.before_call:
            return
        self.written[event.data["call"]] = ""
        number, length = script.before_call[event.data["call"]]
        key, later = ((event.agent, self.turns[event.agent], n) for n in (number, number + 1))
        if not self.seen & {key, later}:
            self.calls[key].append((length, len(self.said[*key, "text"])))
            assert not self.said[*later, "text"]


async def follow(app: Any, reader: Reader, last_seq: Callable[[], int], *, by_view: bool) -> None:
    """Follow a session to the end of its run, from its first event or from a picture."""
    after = 0
    if by_view:
        view = await app.view()
        reader.look(view)
        after = view.seq
        if view.run is not None and view.run.finished_at is not None:
            return
    async with aclosing(cast("Any", app.events(after=after))) as events:
        async for event in events:
            if not reader.joined:
                reader.joined = last_seq()
            if reader.read(event):
                reader.check_end()
                return
