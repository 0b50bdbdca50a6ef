"""Behaviour: what one agent knows, over all its lives, and what it wants to do next."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prsm_core.domain.tools import NATIVE_TOOLS
from prsm_testing.sim.shape import EXPERT

if TYPE_CHECKING:
    import random

    from prsm_core.domain.tools import ToolOutcome
    from prsm_testing.sim.shape import Shape

Request = tuple[str, Mapping[str, Any]]  # a tool and its arguments
Wish = tuple[float, Callable[[], Request]]  # how much it is wanted, and what it is

_ASKED = re.compile(r"(\S+) asks \(correlation_id (\w+)\)")
_NATIVE = sorted(NATIVE_TOOLS)
_LONGEST_TURN = 8  # responses
_MOST_AT_ONCE = 3  # calls of one response

_BAD: tuple[Request, ...] = (
    ("spawn_child", {"prompt": 7}),
    ("spawn_child", {"prompt": "x", "tools": ["Teleport"]}),
    ("spawn_child", {"prompt": "x", "cwd": "../.."}),
    ("spawn_child", {"prompt": "x", "model": "nowhere/none", "colour": "red"}),
    ("spawn_child", {"prompt": " "}),
    ("spawn_child", {"prompt": "x", "name": "Not A Name"}),
    ("spawn_children_parallel", {"children": []}),
    ("wait_for_message", {"timeout": -1}),
    ("task_complete", {"summary": "  "}),
    ("task_complete", {"summary": None}),
    ("respond_to_child", {"child_id": "nobody", "correlation_id": "x", "response": "x"}),
    ("send_child_prompt", {"child_id": "nobody", "prompt": "x"}),
    ("restart_child", {"child_id": "nobody", "prompt": "x"}),
    ("check_child_status", {"child_id": ""}),
    ("ask_parent", {}),
    ("no_such_tool", {"deep": {"er": [1, "\ud800", float("nan")]}}),
)


@dataclass(slots=True)
class Society:
    """What the behaviours of a run share."""

    shape: Shape
    dice: random.Random
    to_spawn: int  # until the tree is as large as it shall be
    restarts: int  # that may still be asked for
    names: list[str] = field(default_factory=lambda: ["nobody"])  # whom one may write to, or not


@dataclass(slots=True)
class Behaviour:
    """Owns the memory of one agent; tools are named as the engine offers them."""

    society: Society
    children: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)  # children it knows to have ended
    questions: list[tuple[str, str]] = field(default_factory=list)  # (child, correlation id)
    answered: list[tuple[str, str]] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)  # of calls that it was not answered in time
    patience: int = 0  # responses until it wants to be done
    wants_mail: bool = False  # it was told that an instruction waits

    def wake(self, text: str | None) -> None:
        """Begin a turn with a prompt; without one the last turn goes on."""
        self.patience = max(self.patience, self.society.dice.randint(1, _LONGEST_TURN))
        for child, correlation_id in _ASKED.findall(text or ""):
            self.questions.append((child, correlation_id))

    def next_response(self, tools: frozenset[str]) -> list[Request]:
        """Return the calls of the next response; none when the agent has nothing more to do."""
        dice = self.society.dice
        self.patience -= 1
        if self.wants_mail and "wait_for_message" in tools and dice.random() < 0.9:
            self.wants_mail = False
            return [("wait_for_message", {})]
        can_answer = bool(self.questions) and "respond_to_child" in tools
        if can_answer and dice.random() < self.society.shape.diligence:
            return [self._answer()]
        if self.patience < 0:
            return [self._finish()] if dice.random() < 0.8 else []
        count = dice.randint(2, _MOST_AT_ONCE) if dice.random() < 0.25 else 1
        return [self._choose(tools) for _ in range(count)]

    def random_request(self) -> Request:
        """Return some call, whether it makes sense or not."""
        dice = self.society.dice
        own = [self._ask, self._progress, self._wait, self._finish, self._spawn, self._watch]
        return dice.choice(own)() if dice.random() < 0.6 else dice.choice(_BAD)

    def learn(self, outcome: ToolOutcome) -> None:
        """Take in the answer of a call."""
        if outcome.is_error:
            code = (outcome.data or {}).get("error", {}).get("code")
            self.wants_mail = code == "unread_prompt"
            self.patience = max(self.patience, 0) if self.wants_mail else self.patience
            return
        data = outcome.data or {}
        if "token" in data:
            self.tokens.append(data["token"])
        for child in (data, *data.get("children", ())):
            if "reused" in child and child["agent_id"] not in self.children:
                self.children.append(child["agent_id"])
            elif "reused" in child and child["agent_id"] in self.ended:
                self.ended.remove(child["agent_id"])
        for message in (data.get("result") or data, *data.get("others", ())):
            self._hear(message)

    def _hear(self, message: Mapping[str, Any]) -> None:
        match message.get("type"):
            case "question":
                self.questions.append((message["from"], message["correlation_id"]))
            case "task_result" if message["from"] not in self.ended:
                self.ended.append(message["from"])

    def _choose(self, tools: frozenset[str]) -> Request:
        dice = self.society.dice
        wishes = [
            wish for name, wishes in self._wishes().items() if name in tools for wish in wishes
        ]
        wishes.append((0.4, lambda: dice.choice(_BAD)))
        [(_, wish)] = dice.choices(wishes, weights=[weight for weight, _ in wishes])
        return wish()

    def _wishes(self) -> dict[str, list[Wish]]:
        family = len(self.children) - len(self.ended)
        hunger = 6.0 if self.society.to_spawn > 0 else 0.1
        again = 1.0 if self.children and self.society.restarts > 0 else 0.0
        return {
            "spawn_child": [(hunger, self._spawn)],
            "spawn_children_parallel": [(hunger, self._spawn_several)],
            "restart_child": [(again, self._restart)],
            "consult_expert": [(0.4, self._consult)],
            "wait_for_message": [
                (2.0 if family else 0.3, self._wait),
                (6.0 if self.tokens else 0.0, self._redeem),
            ],
            "respond_to_child": [
                (2.0 if self.questions else 0.0, self._answer),
                (0.3 if self.answered else 0.0, self._answer_again),
            ],
            "send_child_prompt": [(1.0 if self.children else 0.0, self._prompt)],
            "get_child_history": [(0.1 if self.children else 0.0, self._read)],
            "check_child_status": [(0.2 if self.children else 0.0, self._check)],
            "get_children_status": [(0.2, lambda: ("get_children_status", {}))],
            "ask_parent": [(1.5, self._ask)],
            "report_progress": [(1.0, self._progress)],
            "ask_user": [(0.2, lambda: ("ask_user", {"question": "Shall I?"}))],
            "run_bash": [(0.2, lambda: ("run_bash", {"command": "rm -r build"}))],
            "task_complete": [(0.3, self._finish)],
            "message_send": [(1.5, self._write)],
            "message_next": [(1.0, self._take)],
        }

    def _write(self) -> Request:
        to = self.society.dice.choice(self.society.names)
        return "message_send", {"to": to, "text": f"word {self.society.dice.randint(1, 999)}"}

    def _take(self) -> Request:
        dice = self.society.dice
        return "message_next", {"seconds": dice.choice((0, 5, 60))} if dice.random() < 0.6 else {}

    def _child(self) -> str:
        return self.society.dice.choice(self.children)

    def _task(self) -> dict[str, Any]:
        dice = self.society.dice
        self.society.to_spawn -= 1
        task: dict[str, Any] = {"prompt": f"part {dice.randint(1, 999)}"}
        if dice.random() < 0.2:
            task["role"] = dice.choice(("worker", "reviewer"))
        if dice.random() < 0.2:
            task["tools"] = dice.sample(_NATIVE, dice.randint(1, 4))
        if dice.random() < 0.1:
            task["name"] = f"n{dice.randint(1, 60)}"
        return task

    def _spawn(self) -> Request:
        return "spawn_child", {**self._task(), "wait": self.society.dice.random() < 0.35}

    def _spawn_several(self) -> Request:
        count = self.society.dice.randint(2, 4)
        return "spawn_children_parallel", {"children": [self._task() for _ in range(count)]}

    def _restart(self) -> Request:
        self.society.restarts -= 1
        ended = self.ended if self.ended and self.society.dice.random() < 0.8 else self.children
        child = self.society.dice.choice(ended)
        wait = self.society.dice.random() < 0.4
        return "restart_child", {"child_id": child, "prompt": "once more", "wait": wait}

    def _wait(self) -> Request:
        dice = self.society.dice
        timed = {"timeout": round(dice.uniform(0.1, 90), 2)} if dice.random() < 0.25 else {}
        for_all = {"all": True} if dice.random() < 0.4 else {}
        return "wait_for_message", {**timed, **for_all}

    def _redeem(self) -> Request:
        return "wait_for_message", {"token": self.society.dice.choice(self.tokens)}

    def _consult(self) -> Request:
        expert = EXPERT if self.society.dice.random() < 0.8 else "nobody"
        return "consult_expert", {"expert_id": expert, "question": "Is it right?"}

    def _answer(self) -> Request:
        child, correlation_id = self.questions.pop(0)
        self.answered.append((child, correlation_id))
        return self._response(child, correlation_id)

    def _answer_again(self) -> Request:
        return self._response(*self.society.dice.choice(self.answered))

    def _response(self, child: str, correlation_id: str) -> Request:
        arguments = {"child_id": child, "correlation_id": correlation_id, "response": "yes"}
        return "respond_to_child", arguments

    def _prompt(self) -> Request:
        return "send_child_prompt", {"child_id": self._child(), "prompt": "and mind the tests"}

    def _read(self) -> Request:
        return "get_child_history", {"child_id": self._child(), "detail_level": "summary"}

    def _check(self) -> Request:
        return "check_child_status", {"child_id": self._child()}

    def _watch(self) -> Request:
        return "get_children_status", {}

    def _ask(self) -> Request:
        return "ask_parent", {"question": "which one?"}

    def _progress(self) -> Request:
        percent = self.society.dice.randint(0, 100)
        return "report_progress", {"status": "at it", "percent": percent}

    def _finish(self) -> Request:
        return "task_complete", {"summary": f"done {self.society.dice.randint(1, 999)}"}
