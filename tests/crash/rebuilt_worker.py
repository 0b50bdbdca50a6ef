"""`worker.py`, with minds in place of scripts whose sessions are lost with their engine.

Each knows from its history what it has done, and acts on what it hears: on its prompt, and on the
answers of its calls. A question in its history moves it no more than it moves anybody else.
"""

from __future__ import annotations

import os
import re
import runpy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_demo import provider as script_provider

from prsm_core.interfaces.provider import ProviderCapabilities
from tests.engine.harness import Actor, ScriptedProvider

if TYPE_CHECKING:
    from collections.abc import Mapping

CHILDREN = ("a", "b")
QUESTIONS = 2  # of each child, and one of each grandchild
ASKED = re.compile(r"(\S+) asks \(correlation_id (\w+)\)")
RESULT = re.compile(r'"type":"task_result".*?"name":"(\w+)"')


class Mind:
    """One turn of an agent: what it knows, and what it hears."""

    def __init__(self, agent: Actor) -> None:
        self.agent = agent
        self.known = [message.content for message in agent.context.history]

    def has_called(self, tool: str, *words: str) -> bool:
        """Whether its history has such a call, with an answer."""
        begin = f'[I called "{tool}"'
        calls = (text for text in self.known if text.startswith(begin) and "; completed:" in text)
        return any(all(word in text for word in words) for text in calls)

    async def hear_prompt(self) -> None:
        """Answer the questions of its prompt, which it is given with a turn."""
        for name, about in ASKED.findall(self.agent.text or ""):
            await self.respond(name, about)

    async def respond(self, child: str, about: str) -> None:
        told = {"child_id": child, "correlation_id": about, "response": f"yes {child}"}
        await self.agent.outcome("respond_to_child", told)  # which may be refused: it was answered

    async def spawn(self, name: str) -> None:
        if not self.has_called("spawn_child", f'"name":"{name}"'):
            await self.agent.call("spawn_child", name=name, prompt=f"you are {name}")

    async def collect(self, names: tuple[str, ...]) -> None:
        """Wait until all these children have ended, and answer what they ask."""
        ended = {name for text in self.known for name in RESULT.findall(text)}
        while not ended.issuperset(names):
            for message in await self.agent.hear(all=self.agent.name == "master"):
                if message["type"] == "question":
                    await self.respond(message["from"], message["correlation_id"])
                elif message["type"] == "task_result":
                    ended.add(message["name"])
                else:
                    return

    async def ask(self, question: str) -> None:
        if not self.has_called("ask_parent", question):
            answer = (await self.agent.call("ask_parent", question=question))["answer"]
            assert answer.startswith("yes"), answer


async def think(agent: Actor) -> None:
    mind, name = Mind(agent), agent.name
    await mind.hear_prompt()
    if name == "master":
        for child in CHILDREN:
            await mind.spawn(child)
        await mind.collect(CHILDREN)
    elif name in CHILDREN:
        await mind.spawn(f"{name}1")
        for number in range(QUESTIONS):
            await mind.ask(f"{name} asks {number}?")
        await mind.collect((f"{name}1",))
    else:
        await mind.ask(f"{name} asks?")
    await agent.complete(f"{name} is done")


class Minds(dict[str, Any]):
    """Every agent thinks alike."""

    def get(self, _name: str, _default: Any = None) -> Any:
        return think


def build(_settings: Mapping[str, Any], services: Any) -> ScriptedProvider:
    level = os.environ["PRSM_TEST_LEVEL"]
    can = ProviderCapabilities(enforcement="pre_tool", resume=level)
    return ScriptedProvider(services=services, behaviours=Minds(), capabilities=can)


if __name__ == "__main__":
    setattr(script_provider, "build", build)  # noqa: B010 - with other types
    runpy.run_path(str(Path(__file__).with_name("worker.py")), run_name="__main__")
