"""Workspaces with protocols, and calls of tools without an engine."""

from __future__ import annotations

from inspect import isawaitable
from types import SimpleNamespace

import pytest
from prsm_protocols.kept import Kept
from prsm_protocols.labels import PREFIX
from prsm_protocols.library import Library
from prsm_protocols.places import PAGES
from prsm_protocols.tools import Tools
from prsm_protocols.validator import Validator

from prsm_core import Answer, MessageRoutingError
from prsm_core.domain.labels import relabelled
from prsm_core.errors import OrchestrationError

INBOX = """# Protocol: inbox

## States
- inbox: Processing messages and requests
  - tools: Read, Grep
- deep_work: Focused task execution
  - message: Work on one thing.
- distill: Context compression
  - tools: none

## Transitions
- inbox → deep_work: When focused task identified
- inbox → idle: When no actionable items
- deep_work → distill: When context pressure high
  - guard: context >= 0.8
- deep_work → inbox: When done
"""
IDLE = """# Protocol: idle
## States
- idle: Waits for what comes
  - tools: Read
  - within: 30m -> inbox
## Transitions
- idle -> inbox: When mail comes
"""


class World:
    """The agents of a run as the engine keeps them: their labels, what is sent, and who is asked.

    A call's labels are written with its answer, in one step, and a handler that raises leaves them.
    """

    def __init__(self, workspace, state):
        self.workspace = workspace
        self.time = 1000.0
        self.validator = Validator(Library(), Kept(lambda: state))
        self.tools = Tools(self.validator)
        self.labels = {}
        self.context = None
        self.trusted = True
        self.sent, self.inbox = [], []
        self.questions, self.answers = [], []

    def page(self, name, text):
        """Write a page."""
        folder = self.workspace / PAGES
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.md").write_text(text, encoding="utf-8")

    def agent(self, name, **labels):
        """Have an agent with these labels."""
        self.labels[name] = {"protocol": "inbox", **labels}
        return name

    async def call(self, tool, agent="w1", **args):
        """Call a tool as an agent, and commit what it does with its answer."""
        call = FakeCall(self, agent, args)
        name = "transition" if tool == "state_transition" else tool
        answer = getattr(self.tools, name)(call)
        if isawaitable(answer):
            answer = await answer
        self.labels[agent] = dict(call.labels)
        self.sent += call.sent
        return answer

    async def move(self, to=None, agent="w1", **args):
        """Call state_transition."""
        return await self.call(
            "state_transition", agent, **({} if to is None else {"to": to}), **args
        )

    def state(self, agent="w1"):
        """Return the state that the labels of an agent tell."""
        return self.labels[agent].get("protocols/state")


class FakeCall:
    """A ToolCall whose engine is a World."""

    id = "call-1"
    provider = "script"
    cwd = "."
    is_again = False

    def __init__(self, world, agent, args):
        self.world, self.args = world, args
        self.agent_id = self.agent_name = agent
        self.workspace = str(world.workspace)
        self.trusted = world.trusted
        self.context_used = world.context
        self.labels = dict(world.labels[agent])
        self.sent = []
        self.now = world.time

    def agents(self):
        return [
            SimpleNamespace(agent_id=name, name=name, labels=labels)
            for name, labels in self.world.labels.items()
        ]

    def relabel(self, changes):
        assert all(name.startswith(f"{PREFIX}/") for name in changes)
        self.labels = relabelled(self.labels, changes, owner=PREFIX, error=OrchestrationError)
        return self.labels

    def send(self, to, text):
        if to not in self.world.labels:
            raise MessageRoutingError(f"no agent {to}")
        self.sent.append((to, text))
        return "m1"

    async def next_message(self, seconds):
        return self.world.inbox.pop(0) if self.world.inbox else None

    async def ask_user(self, question):
        self.world.questions.append(question)
        said = self.world.answers.pop(0) if self.world.answers else None
        return Answer(choices=() if said is None else (said,))


@pytest.fixture
def world(tmp_path):
    """A trusted workspace with two pages, and one agent under the protocol `inbox`."""
    found = World(tmp_path / "work", tmp_path / "kept")
    found.page("inbox", INBOX)
    found.page("idle", IDLE)
    found.agent("w1")
    return found
