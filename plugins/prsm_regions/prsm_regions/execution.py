"""Carrying a plan out: who is at work where, what they ask, and how each subtask ended.

Reads of others' regions are noticed from events, and denied for an outline where it is set. That
saves tokens and keeps no secret: a command whose files are only known when it runs goes through.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from prsm_core import Deny, Notice, OrchestrationError
from prsm_core.files import repo_identity
from prsm_regions.config import Richness
from prsm_regions.drafts import Draft
from prsm_regions.ground import is_below, touch
from prsm_regions.lifecycle import SUBTASK_MACHINE, TO_RETRY, Lifecycle, SubtaskState
from prsm_regions.report import plan_event
from prsm_regions.signatures import ProgressEval, PromptBuild
from prsm_regions.symbols.outlines import outline_of_file
from prsm_regions.team import data_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from prsm_policy.shell import Command, Word

    from prsm_core import PermissionContext, PermissionRequest
    from prsm_regions.config import RegionsConfig
    from prsm_regions.judging import Judges
    from prsm_regions.plan import Plan, Subtask
    from prsm_regions.planning import Planner
    from prsm_regions.router import A2ARouter
    from prsm_regions.symbols.oracle import Oracle
    from prsm_regions.team import Team

Text = TypeVar("Text", str, str | None)
MOST_READS = 20  # that one notice names
ROUNDS = 2  # that a subtask goes on for what its last words ask

NAMED = 4000  # characters of a label that names regions

OWN = "regions/region"  # label: the regions of an agent, a line each
OTHERS = "regions/others"  # label: those of others, a line each
READS = "regions/reads"  # label: what an agent may read of them
INTERFACE = "interface"  # … their outlines

_PATHS = frozenset({"file_path", "path", "absolute_path", "notebook_path"})  # arguments
_FILE_TOOLS = frozenset({"Glob", "Grep", "Read"})
_SHOWS = frozenset(
    (
        *("cat", "tac", "head", "tail", "less", "more", "bat", "batcat", "view", "nl", "sed"),
        *("awk", "gawk", "mawk", "cut", "sort", "uniq", "diff", "cmp", "xxd", "od", "strings"),
        *("hexdump", "base64", "paste", "grep", "egrep", "fgrep", "rg", "ag", "ack", "jq", "git"),
    )
)
_SEARCHES = frozenset({"rg", "ag", "ack"})  # these go into folders by themselves
_RECURSIVE = re.compile(r"-[A-Za-z]*[rR][A-Za-z]*|--(?:dereference-)?recursive")
_GIT_SHOWS = frozenset({"show", "diff", "blame", "grep", "cat-file", "log"})
_GREPS = frozenset({"grep", "egrep", "fgrep"})
_GLOB = re.compile(r"[*?\[]")
_WORDS = re.compile(r"[^\s;&|()<>'\"`$={}]+")  # of a text that bash would not read, or not in time
_MAX_TEXT = 20_000


@dataclass(slots=True, kw_only=True)
class Workplace:
    """What a plan is carried out with."""

    team: Team
    judges: Judges
    planner: Planner
    router: A2ARouter
    oracle: Oracle
    config: RegionsConfig
    workspace: str
    intent: str


class Execution:
    """Owns the subtasks of one plan. Not more than five are at work; what failed keeps nobody."""

    def __init__(self, plan: Plan, models: Sequence[str], at: Workplace) -> None:
        self.plan = plan
        self.lives = [Lifecycle(SUBTASK_MACHINE, SubtaskState.PENDING) for _ in plan.subtasks]
        self.agents: dict[int, str] = {}  # by subtask
        self._models = models
        self._at = at
        self._team = at.team
        self._room = asyncio.Semaphore(at.config.max_agents)
        self._queue = ReadyQueue(plan)
        self._running: set[int] = set()
        self._attempts = [0] * len(plan.subtasks)
        self._rounds = [0] * len(plan.subtasks)
        self._steps = 0
        self._has_looked = False  # at the tree, since some began
        self._told: set[ForeignRead] = set()

    @property
    def unfinished(self) -> tuple[int, ...]:
        """The subtasks that failed or are partial."""
        return tuple(n for n, life in enumerate(self.lives) if life.state in TO_RETRY)

    async def begin(self) -> None:
        """Begin what is ready, as far as there is room."""
        self._has_looked = False
        while not self._room.locked() and (one := self._queue.pop()) is not None:
            await self._room.acquire()
            await self._begin(one)

    async def run(self) -> None:
        """Return once everything has ended that could begin."""
        while self._running:
            await self._take(await self._team.next_message())
            await self.begin()

    def retry(self, wanted: Iterable[int]) -> None:
        """Have subtasks tried again, in the plan's order, with what waits for them."""
        again = set(wanted).intersection(self.unfinished)
        done = {n for n, life in enumerate(self.lives) if life.state is SubtaskState.COMPLETED}
        waiting = {n for n, life in enumerate(self.lives) if life.state is SubtaskState.PENDING}
        self._queue = ReadyQueue(self.plan, only=again | waiting, done=done)

    async def _begin(self, one: Subtask) -> None:
        life, index = self.lives[one.index], one.index
        failure = life.error or ""
        if life.state in TO_RETRY:
            life.go(SubtaskState.RETRYING, failure)
        life.go(SubtaskState.RUNNING)
        self._running.add(index)
        self._attempts[index] += 1
        self._rounds[index] = 0
        key = f"s{index}a{self._attempts[index]}"
        try:
            agent = await self._start(key, one, failure)
        except OrchestrationError as error:
            await self._end(one, SubtaskState.FAILED, error.message)
            return
        self.agents[index] = agent
        self._at.router.register_agent(one.region, agent, self._root(agent))
        await self._tell(one)

    def _root(self, agent: str) -> str | None:
        child = self._team.child(agent)
        return None if child is None else child.cwd

    async def _start(self, key: str, one: Subtask, failure: str) -> str:
        """Have an agent begin: the one that failed goes on, else there is a new one."""
        made = partial(self._spawn_of, one, failure)

        async def again() -> dict[str, Any]:
            return {"child_id": known, "prompt": (await made())["prompt"]}

        known = self.agents.get(one.index)
        if known is not None:
            outcome = await self._team.call(f"{key}again", "restart_child", again)
            if not outcome.is_error:
                return known
        return str(data_of(await self._team.call(key, "spawn_child", made))["agent_id"])

    async def _spawn_of(self, one: Subtask, failure: str) -> dict[str, Any]:
        is_rich = self._at.config.effort is Richness.HIGH
        outline, interfaces = await self._known_of(one)
        given = PromptBuild(
            intent=self._at.intent,
            subtask=_draft(one, one.checks if is_rich else ()),
            outline=outline,
            interfaces=interfaces,
            failure=failure,
        )
        arguments: dict[str, Any] = {
            "prompt": (await self._at.judges.build(given)).prompt,
            "model": self._models[one.index],
            "region": [one.region],
            "labels": {
                "regions/role": "subtask",
                "regions/subtask": str(one.index),
                "regions/name": one.name[:200],
                "regions/state": SubtaskState.RUNNING.value,
                **labels_of(one.region, self._others(one), self._at.config.reads),
            },
        }
        if self._at.config.worktrees:
            arguments["worktree"] = True
        return arguments

    async def _known_of(self, one: Subtask) -> tuple[str, str]:
        """Return the outline of a region and the interfaces of what it builds on, by the effort."""
        oracle, effort = self._at.oracle, self._at.config.effort
        outline = interfaces = ""
        if effort is Richness.LOW:
            return outline, interfaces
        try:
            if not self._has_looked:  # once for all that begin together
                await oracle.refresh(self._at.workspace)
                self._has_looked = True
            outline = await oracle.outline(self._at.workspace, one.region)
            if effort is Richness.HIGH:
                needs = [self.plan.subtasks[need].region for need in one.depends_on]
                found = [await oracle.interface(self._at.workspace, need) for need in needs]
                interfaces = "\n".join(filter(None, found))
        except TimeoutError as error:
            text = f"{one.name} is not told what its region and others hold: {error}"
            await self._team.tell(Notice("warning", text))
        return outline, interfaces

    def _others(self, one: Subtask) -> tuple[str, ...]:
        return tuple(other.region for other in self.plan.subtasks if other != one)

    async def _take(self, message: Mapping[str, Any]) -> None:
        kind = message["type"]
        if kind == "nothing_left":
            for index in sorted(self._running):
                alone = self.plan.subtasks[index]
                await self._end(alone, SubtaskState.FAILED, "its agent ended without a result")
        elif kind == "user_prompt":
            await self._pass_on(message)
        elif (one := self._of(message["from"])) is not None:
            await (self._answer if kind == "question" else self._ended)(one, message)

    def _of(self, agent: str) -> Subtask | None:
        found = (n for n in self._running if self.agents.get(n) == agent)
        return next((self.plan.subtasks[n] for n in found), None)

    async def _pass_on(self, message: Mapping[str, Any]) -> None:
        """Let everybody at work know what a person said meanwhile."""
        self._steps += 1
        for index in sorted(self._running):
            await self._team.say(
                f"said{self._steps}to{index}",
                "send_child_prompt",
                child_id=self.agents[index],
                prompt=message["text"],
            )

    async def _answer(self, one: Subtask, message: Mapping[str, Any]) -> None:
        """Answer a question: what is about symbols without a token, all else by the planner."""
        self._steps += 1
        agent, text = self.agents[one.index], message["text"]
        ask = partial(self._at.router.answer, agent, text)
        answer = await self._routed(f"route{self._steps}", ask)
        if answer is None:
            answer = await self._at.planner.answer(
                f"The agent of subtask {one.name!r} asks: {text}\n"
                "Complete your task with the answer alone."
            )
        await self._team.respond(f"answer{self._steps}", message, answer)

    async def _ended(self, one: Subtask, message: Mapping[str, Any]) -> None:
        asks = find_requests(message.get("summary", "")) if message["success"] else {}
        if asks and self._rounds[one.index] < ROUNDS and await self._go_on(one, asks):
            return
        await self._log_reads(one)
        tree = message.get("worktree", {})
        given = ProgressEval(
            subtask=_draft(one, one.checks),
            success=message["success"],
            summary=message.get("summary", ""),
            error=message.get("error", ""),
            evidence=message.get("evidence", "claimed"),
            gaps=tuple(message.get("evidence_gaps", ())),
            outside=tuple(each["path"] for each in tree.get("outside", ())),
            conflicts=tuple(each["path"] for each in tree.get("conflicts", ())),
            asks=tuple(asks),
        )
        judged = await self._at.judges.judge(given)
        await self._end(one, SubtaskState(judged.state), judged.reason or None)

    async def _log_reads(self, one: Subtask) -> None:
        """Tell what an agent has read of others' regions, by its calls in the ledger."""
        key = f"s{one.index}a{self._attempts[one.index]}reads"
        agent, regions = self.agents[one.index], Regions((one.region,), self._others(one))
        asked = {"child_id": agent, "detail_level": "calls"}
        history = data_of(await self._team.say(key, "get_child_history", **asked))
        if not history["entries"]:
            return
        folder = self._root(agent) or self._at.workspace
        found = await asyncio.to_thread(
            lambda: dict.fromkeys(
                read
                for call in history["entries"]
                for read in foreign_reads(agent, call, folder, self._at.workspace, regions)
                if read not in self._told
            )
        )
        self._told.update(found)
        if found:
            shown = ", ".join(f"{read.path} ({read.tool})" for read in list(found)[:MOST_READS])
            more = f" and {len(found) - MOST_READS} more" if len(found) > MOST_READS else ""
            if history["left_out"]:
                more += f" ({history['left_out']} calls were not looked at)"
            text = f"{one.name} has read of regions that are not its own: {shown}{more}"
            await self._team.event(key, Notice("info", text))

    async def _go_on(self, one: Subtask, asks: Mapping[str, str]) -> bool:
        """Give an agent, in its next prompt, what its last words asked for; whether it goes on."""
        self._rounds[one.index] += 1
        agent = self.agents[one.index]
        key = f"s{one.index}a{self._attempts[one.index]}more{self._rounds[one.index]}"

        async def found() -> str:
            resolve = self._at.router.resolve
            return "\n\n".join([await resolve(agent, name, asks[name]) for name in asks])

        answers = await self._routed(f"{key}route", found)
        text = (
            f"Here is the information you requested:\n{answers}\nContinue with your implementation."
        )
        outcome = await self._team.say(key, "restart_child", child_id=agent, prompt=text)
        return not outcome.is_error

    async def _routed(self, key: str, ask: Callable[[], Awaitable[Text]]) -> Text:
        """Return what the router says, once: owners may be asked for it, within their tokens."""

        async def told() -> tuple[Text, int]:
            return await ask(), self._at.router.tokens

        said, self._at.router.tokens = await self._team.once_heard(key, told)
        return said

    async def _end(self, one: Subtask, state: SubtaskState, why: str | None) -> None:
        self.lives[one.index].go(state, why)
        self._running.discard(one.index)
        self._room.release()
        if state is SubtaskState.COMPLETED:
            self._queue.completed(one.index)
        if (agent := self.agents.get(one.index)) is not None:
            self._at.router.unregister_agent(agent)
        await self._tell(one)

    async def _tell(self, one: Subtask) -> None:
        """Say how far a subtask is: by the labels of its agent, and by the plan as an event."""
        life, agent = self.lives[one.index], self.agents.get(one.index)
        key = f"s{one.index}a{self._attempts[one.index]}{life.state.value}"
        if agent is not None:
            error = None if life.error is None else life.error[:1000]
            await self._team.label(key, agent, state=life.state.value, error=error)
        await self._team.event(key, plan_event(self.plan, self.lives))


def _draft(one: Subtask, checks: tuple[str, ...]) -> Draft:
    region = one.region if one.is_file else f"{one.region}/"
    return Draft(name=one.name, description=one.description, region=region, checks=checks)


def chosen(text: str, among: Sequence[int]) -> tuple[int, ...]:
    """Return the subtasks, numbered from 1, that a person's answer names; all, where none."""
    named = {int(number) - 1 for number in re.findall(r"\d{1,3}", text)}
    return tuple(n for n in among if n in named) or tuple(among)


class ReadyQueue:
    """Owns what is still to be begun of a plan, in its order.

    A subtask is ready once all that it depends on is completed, and never if that ended otherwise.
    """

    def __init__(self, plan: Plan, *, only: Iterable[int] = (), done: Iterable[int] = ()) -> None:
        """Begin with `only` these subtasks, or else with all; those `done` are completed."""
        wanted = set(only) or {one.index for one in plan.subtasks}
        self._done = set(done)
        self._left = [one for one in plan.subtasks if one.index in wanted - self._done]

    def pop(self) -> Subtask | None:
        """Take the first subtask that is ready; None: none is."""
        for place, one in enumerate(self._left):
            if self._done.issuperset(one.depends_on):
                return self._left.pop(place)
        return None

    def completed(self, index: int) -> None:
        """Note that a subtask is completed."""
        self._done.add(index)


# "I need the type signature of AuthValidator from /core/src/auth", and its kin.
_WHAT = (
    r"(?:type signature|signature|type|definition|interface|field|member|parameter|declaration)s?"
)
_NAME = r"[`'\"]?([A-Za-z_$][\w$]*(?:(?:\.|::|#)[A-Za-z_$][\w$]*)*)"
_ASKED = re.compile(rf"\b{_WHAT}\s+(?:of|for)\s+(?:the\s+)?(?:{_WHAT}\s+)?{_NAME}")
_IS_NEED = re.compile(
    r"\b(?:need|needs|want|require|describe|tell me|give me|what (?:is|are)|which (?:is|are))\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.?!])\s+|\n+")
_PLAIN = frozenset({"the", "a", "an", "this", "that", "it", "its", "my", "your", "each", "all"})
MOST = 10  # of one text


def find_requests(text: str) -> dict[str, str]:
    """Return the symbols that sentences say are needed, at most ten, each with its sentence."""
    needs = [sentence.strip() for sentence in _SENTENCE.split(text) if _IS_NEED.search(sentence)]
    found: dict[str, str] = {}
    for sentence in needs:
        for name in _ASKED.findall(sentence):
            if name.lower() not in _PLAIN and len(found) < MOST:
                found.setdefault(name, sentence)
    return found


class Regions(msgspec.Struct, frozen=True):
    """Which regions an agent has, and which others have; relative to the workspace."""

    own: tuple[str, ...]
    others: tuple[str, ...]

    @classmethod
    def of(cls, labels: Mapping[str, str]) -> Regions:
        """Return what the labels of an agent say."""
        return cls(_lines(labels.get(OWN, "")), _lines(labels.get(OTHERS, "")))

    def foreign(self, path: str) -> str | None:
        """Return the region of others that a path is in, None where it is in none."""
        if any(is_below(path, region) for region in self.own):
            return None
        return next((region for region in self.others if is_below(path, region)), None)

    def around(self, folder: str) -> str | None:
        """Return a region of others that is in a folder, or that this is in."""
        if any(is_below(folder, region) for region in self.own):
            return None
        return next((each for each in self.others if touch(each, folder)), None)


def labels_of(own: str, others: Iterable[str], reads: str) -> dict[str, str]:
    """Return the labels that the check reads; of too many others the first ones are named."""
    named = ""
    for region in others:
        if len(named.encode()) + len(region.encode()) + 1 > NAMED:
            break
        named += f"{region}\n"
    return {OWN: own[:NAMED], OTHERS: named, READS: reads}


class ForeignRead(msgspec.Struct, frozen=True):
    """A read of another's region: by whom, of what, with which tool."""

    agent: str
    tool: str
    path: str
    region: str


async def check(request: PermissionRequest, context: PermissionContext) -> Deny | None:
    """Deny what reads in another's region, where the agent may see interfaces alone."""
    labels = context.labels
    if labels.get(READS) != INTERFACE:
        return None
    return await asyncio.to_thread(_denial, request, context.workspace, Regions.of(labels))


def _denial(request: PermissionRequest, workspace: str, regions: Regions) -> Deny | None:
    for path, is_tree in reads_of(request.tool, request.command, request.paths):
        found = _foreign(path, is_tree, request.cwd, workspace, regions)
        if found is not None:
            return Deny(_reason(*found))
    return None


def _reason(whole: str, path: str, region: str) -> str:
    top, inside = os.path.split(whole)
    text = outline_of_file(top, inside, time.time_ns()) if os.path.isfile(whole) else ""  # noqa: PTH113 - a path, not an object
    ask = "Ask for what you need by ask_parent, by name; the answer comes at once."
    start = (
        f"{path} is in the region of another agent, {region}: its interface is what you may see."
    )
    return f"{start}\n{text}\n{ask}" if text else f"{start} {ask}"


def foreign_reads(
    agent: str, data: Mapping[str, Any], cwd: str, workspace: str, regions: Regions
) -> list[ForeignRead]:
    """Return what a call, by its `tool_call_started`, read of others' regions."""
    tool, arguments = str(data.get("tool", "")), data.get("arguments")
    texts = {
        key: value
        for key, value in (arguments.items() if isinstance(arguments, dict) else ())
        if isinstance(value, str)
    }
    paths = [texts[key] for key in texts if key in _PATHS]
    found = [
        _foreign(path, is_tree, cwd, workspace, regions)
        for path, is_tree in reads_of(tool, texts.get("command"), paths)
    ]
    reads = dict.fromkeys((path, region) for _, path, region in filter(None, found))
    return [ForeignRead(agent, tool, path, region) for path, region in reads]


def reads_of(tool: str, command: str | None, paths: Iterable[str]) -> list[tuple[str, bool]]:
    """Return the paths that a call reads, each with whether all below it is read."""
    if command is not None:
        return _shell_reads(command)
    return [(path, tool == "Grep") for path in paths] if tool in _FILE_TOOLS else []


def _shell_reads(command: str) -> list[tuple[str, bool]]:
    """Return what a text reads under bash; what is only known when it runs is not known."""
    from prsm_policy.shell import read_script  # with the first command: it loads a grammar

    script = read_script(command)
    found: list[tuple[str, bool]] = []
    for one in script.commands:
        found += [_path_of(word, is_tree=False) for word in one.reads if word.text]
        found += _program_reads(one)
    for text in script.opaque:
        found += _words_read(text)
    return found


def _path_of(word: Word, *, is_tree: bool) -> tuple[str, bool]:
    """Return what a word names; of one that is known in part, all of the folder it begins in."""
    if not word.exact:
        return os.path.dirname(word.text) or ".", True  # noqa: PTH120 - a path, not an object
    return word.text, is_tree


def _program_reads(one: Command) -> list[tuple[str, bool]]:
    if one.name == "cd":
        return [_path_of(word, is_tree=False) for word in one.words[1:2] if word.text]
    if one.name not in _SHOWS:
        return []
    words = one.words[1:]
    texts = [word.text for word in words]
    if one.name == "git":
        if not texts or texts[0] not in _GIT_SHOWS:
            return []
        is_tree, words = texts[0] == "grep", words[1:]
        words = tuple(word.told(word.text.rpartition(":")[2]) for word in words)
    else:
        is_recursive = one.name in _GREPS and any(map(_RECURSIVE.fullmatch, texts))
        is_tree = one.name in _SEARCHES or is_recursive
    named = [_operand(word) for word in words]
    paths = [_path_of(word, is_tree=is_tree) for word in named if word.text]
    has_place = any("/" in path or "." in path for path, _ in paths)
    return [*paths, *([(".", True)] if is_tree and not has_place else [])]


def _operand(word: Word) -> Word:
    """Return what an option names, `--file=x`; any other word is what it is."""
    if not word.text.startswith("-"):
        return word
    return word.told(word.text.partition("=")[2])


def _words_read(text: str) -> list[tuple[str, bool]]:
    """Return the words of a text that could not be read, if one of them is a program that shows."""
    words = _WORDS.findall(text[:_MAX_TEXT])
    shows = any(word.rpartition("/")[2] in _SHOWS for word in words)
    return [(word, False) for word in words] if shows else []


def _foreign(
    path: str, is_tree: bool, cwd: str, workspace: str, regions: Regions
) -> tuple[str, str, str] | None:
    """Return a path of another's region resolved, relative to the workspace, and the region."""
    start = _GLOB.search(path)
    if start is not None:  # what it stands for is below its fixed folder
        path, is_tree = os.path.dirname(path[: start.start()]) or ".", True  # noqa: PTH120 - a path, not an object
    try:
        base = os.path.join(workspace, cwd, os.path.expanduser(path))  # noqa: PTH118, PTH111 - a path, not an object
        whole = os.path.realpath(base)
        inside = _within(whole, os.path.realpath(workspace))
    except (OSError, ValueError):
        return None
    if inside is None:
        return None
    region = regions.around(inside) if is_tree else regions.foreign(inside)
    return (whole, inside, region) if region is not None else None


def _within(path: str, workspace: str) -> str | None:
    """Return a path as one of the workspace, also from another worktree of its repository."""
    if path == workspace:
        return "."
    if path.startswith(f"{workspace}/"):
        return path[len(workspace) + 1 :]
    folder = path if os.path.isdir(path) else os.path.dirname(path)  # noqa: PTH112, PTH120 - a path, not an object
    there, here = repo_identity(Path(folder)), repo_identity(Path(workspace))
    if there.common_dir != here.common_dir:
        return None
    inside, prefix = os.path.relpath(path, there.root), os.path.relpath(workspace, here.root)
    if prefix == ".":
        return inside
    return inside[len(prefix) + 1 :] if inside.startswith(f"{prefix}/") else None


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip().strip("/") for line in text.splitlines() if line.strip())
