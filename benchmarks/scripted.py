"""The scripted model of `peers`: what agents of any vendor are told, and what they asked for."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from prsm_testing.model_server import ModelServer
from prsm_testing.playback import Call, Reply, Step

from benchmarks.first import ANSWER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from prsm_testing.playback import Conversation

    Respond = Callable[["Request"], Step]

CHILDREN = 8
RESPONSE_S = 0.4
PATCH = "*** Begin Patch\n*** Add File: {name}\n+done\n*** End Patch"
PASSED = "The test has passed."
# What it prints is not in its own text, which a refusal may repeat.
TEST = "grep -q done *.txt && printf 'The test has %s.' passed"
LEAD = "lead"
PART = "Say that part {} is done."
DONE = "Part {} is done."
_PART = re.compile(PART.format(r"(\d)"))
_DONE = re.compile(DONE.format(r"(\d)"))
# Of one agent: a script that goes in circles ends.
_MOST_REQUESTS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What an agent asks: who it is, how often it asked, what its calls gave and what it read."""

    agent: str
    number: int
    outputs: tuple[str, ...]
    prompts: tuple[str, ...]

    @property
    def reported(self) -> frozenset[str]:
        """The parts whose results the agent has, by its calls or by a notification."""
        texts = (*self.outputs, *self.prompts)
        return frozenset(part for text in texts for part in _DONE.findall(text))


class Scripted:
    """A model that answers as `respond` says, and counts.

    An agent is known by its prompt: one that is asked to say that a part is done is a child.
    """

    failures: list[str]

    def __init__(self, respond: Respond) -> None:
        self._respond = respond
        self.failures = []
        self.begin()

    @property
    def unplayed(self) -> Mapping[str, int]:
        """Nothing: a script has no end."""
        return {}

    def begin(self) -> None:
        """Forget what was counted; called before a program starts."""
        self.requests: dict[str, int] = {}
        self.first_at: float | None = None
        self.late = 0
        self._calls = 0
        self._completed: set[str] = set()

    def answer(self, conversation: Conversation) -> Reply:
        """Answer a request; one after `task_complete` was called is late."""
        self.first_at = self.first_at or time.perf_counter()
        agent = _agent(conversation)
        number = self.requests[agent] = self.requests.get(agent, 0) + 1
        if agent in self._completed:
            self.late += 1
            return Reply(step=Step(say="It is over."))
        if number > _MOST_REQUESTS:
            self.failures.append(f"{agent} asks for the {number}th time")
            return Reply(step=Step(say="It is enough."))
        outputs = tuple(text for _, _, text in conversation.outputs)
        prompts = tuple(conversation.user)
        request = Request(agent=agent, number=number, outputs=outputs, prompts=prompts)
        step = self._respond(request)
        if any(call.tool == "task_complete" for call in step.calls):
            self._completed.add(agent)
        return Reply(step=step, call_ids=tuple(self._call_id() for _ in step.calls))

    def _call_id(self) -> str:
        self._calls += 1
        return f"call_{self._calls}"


def _agent(conversation: Conversation) -> str:
    found = (_PART.search(text) for text in conversation.user)
    part = next((match[1] for match in found if match), None)
    return LEAD if part is None else f"part-{part}"


@dataclass(slots=True)
class Served:
    """A scripted model and its server, which runs in a thread of this process."""

    model: Scripted
    server: ModelServer = field(init=False)

    def __post_init__(self) -> None:
        self.server = ModelServer(self.model, max_requests=100_000)

    @property
    def urls(self) -> dict[str, str]:
        """Its addresses, by vendor."""
        root = self.server.root_url
        return {"codex": self.server.base_url, "claude": root, "gemini": root}

    def begin(self) -> None:
        """Forget what came."""
        self.model.begin()
        self.server.requests.clear()

    @property
    def bytes_received(self) -> int:
        """The bytes of all bodies that have come."""
        return sum(int(r.headers["content-length"]) for r in self.server.requests)


@contextmanager
def serve(respond: Respond) -> Iterator[Served]:
    """Serve a model. Its CPU time is this process', which is nobody's who is measured."""
    served = Served(Scripted(respond))
    ready: SimpleQueue[Callable[[], object]] = SimpleQueue()

    async def run() -> None:
        stopped, loop = asyncio.Event(), asyncio.get_running_loop()
        async with served.server:
            ready.put(lambda: loop.call_soon_threadsafe(stopped.set))
            await stopped.wait()

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    stop = ready.get(timeout=30)
    try:
        yield served
    finally:
        stop()
        thread.join()


def call(tool: str, namespace: str | None = None, kind: str = "tool", **arguments: Any) -> Call:
    """Return a call of a tool."""
    return Call(tool=tool, arguments=arguments, namespace=namespace, kind=kind)


# The tool by which each vendor starts an agent of its own, with the arguments of a part.
_SPAWNS: dict[str, Callable[[int], Call]] = {
    "codex": lambda part: call("spawn_agent", "multi_agent_v1", message=PART.format(part)),
    "claude": lambda part: call(
        "Agent",
        description=f"Part {part}",
        prompt=PART.format(part),
        subagent_type="general-purpose",
    ),
}
_AGENT_ID = re.compile(r'"agent_id":\s*"([^"]+)"')


def complete_task(summary: str) -> Step:
    """End an agent of PRSM."""
    return Step(calls=(call("task_complete", summary=summary),))


def edit_and_test(request: Request, last: Step) -> Step:
    """Write a file that is not there yet, test it, and end once the test has passed."""
    if request.number == 1:
        patch = PATCH.format(name=f"note-{time.time_ns()}.txt")
        return Step(calls=(call("", kind="patch", patch=patch),))
    if not any(PASSED in text for text in request.outputs):
        return Step(calls=(call("", kind="shell", cmd=TEST),))
    return last


def _part(agent: str) -> str:
    return DONE.format(agent.removeprefix("part-"))


def lead_by_prsm(request: Request) -> Step:
    """Lead: begin all children, then wait until all results are there. Child: complete."""
    if request.agent != LEAD:
        return Step(hang=RESPONSE_S, calls=(call("task_complete", summary=_part(request.agent)),))
    if request.number == 1:
        children = [{"name": f"part-{n}", "prompt": PART.format(n)} for n in range(CHILDREN)]
        wanted = call("spawn_children_parallel", children=children)
    elif len(request.reported) < CHILDREN:
        wanted = call("wait_for_message", all=True)
    else:
        wanted = call("task_complete", summary=ANSWER)
    return Step(hang=RESPONSE_S, calls=(wanted,))


def lead_by_vendor(vendor: str) -> Callable[[Request], Step]:
    """Return what a lead of the vendor's own does, and its children, which answer once."""

    def respond(request: Request) -> Step:
        if request.agent != LEAD:
            return Step(hang=RESPONSE_S, say=_part(request.agent))
        text = "\n".join(request.outputs)
        agents = _AGENT_ID.findall(text)
        pending = [agent for agent in agents if text.count(agent) == 1]
        calls: list[Call] = []
        if len(request.reported) == CHILDREN:
            return Step(hang=RESPONSE_S, say=ANSWER)
        # Claude is notified of each agent that has ended.
        if vendor == "claude" and request.number > 1:
            return Step(hang=RESPONSE_S, say="I wait.")
        if pending:
            calls.append(call("wait_agent", "multi_agent_v1", targets=pending))
        else:
            calls += [call("close_agent", "multi_agent_v1", target=agent) for agent in agents]
            calls += [_SPAWNS[vendor](part) for part in range(len(agents), CHILDREN)]
        return Step(hang=RESPONSE_S, calls=tuple(calls))

    return respond
