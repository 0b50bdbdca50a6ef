"""A run of its own process, followed by what it tells, until a moment at which it is killed."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prsm_testing.playback import Call

if TYPE_CHECKING:
    from collections.abc import Callable

BUSY_S = 120  # for four CLIs to start on a busy machine


def call(tool, **arguments):
    """Return a call of one of the engine's tools."""
    return Call(id=tool, tool=tool, arguments=arguments)


@dataclass
class Seen:
    """What the events of a session have told so far."""

    names: dict[str, str] = field(default_factory=dict)  # of agents, by id
    states: dict[str, str] = field(default_factory=dict)  # by name
    asked: list[str] = field(default_factory=list)  # what a person was asked
    begun: Counter[tuple[str, str]] = field(default_factory=Counter)  # calls, by name and tool
    count: int = 0

    def see(self, event):
        """Take note of an event."""
        self.count += 1
        name = self.names.get(event.get("agent"), "")
        match event["type"]:
            case "agent_spawned":
                self.names[event["agent"]] = event["name"]
            case "agent_state_changed":
                self.states[name] = event["to"]
            case "question_asked":
                self.asked.append(event["request"])
            case "tool_call_started":
                self.begun[name, event["tool"]] += 1

    @staticmethod
    def has(count):
        """Return what tells whether so many events were seen."""
        return lambda seen: seen.count >= count

    def in_state(self, wanted):
        """Return the names of the agents that are in a state."""
        return [name for name, state in self.states.items() if state == wanted]


@dataclass(frozen=True)
class Moment:
    """When an engine is killed: once the events tell this.

    answers: How many of the person's questions are answered until then, as soon as they come.
    """

    answers: int
    is_come: Callable[[Seen], bool]


async def detached(prsm, *words):
    """Have a process of its own run or resume; return the session and its pid."""
    code, out, err = await prsm.run_async(*words, "--detach")
    assert code == 0, err
    [pid] = re.findall(r"process (\d+) runs it", err)
    return out.strip(), int(pid)


async def follow(prsm, session, moment, answered):
    """Answer so many of a person's questions; return what was seen once the moment has come."""
    follower = await prsm.start("attach", "--ui", "json", session)
    seen = Seen()
    async with asyncio.timeout(BUSY_S):
        while not moment.is_come(seen):
            line = await follower.stdout.readline()
            assert line, f"it ended before: {seen}, {(await follower.stderr.read()).decode()}"
            seen.see(json.loads(line))
            for request in seen.asked:
                if request not in answered and len(answered) < moment.answers:
                    answered.append(request)
                    code, _, err = await prsm.run_async("answer", request, "1")
                    assert code == 0, err
    follower.kill()
    await follower.wait()
    return seen
