"""Permission requests and questions that wait for a person.

Each ends once: by an answer, the agent's death, or the deadline (denied, or no answer). Without a
person it ends at once, by the user's rule.
"""

from __future__ import annotations

import asyncio
import math
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec
from msgspec import Struct, field

from prsm_core.domain.permissions import RULE_ANSWERS, Allow, Answer, Deny
from prsm_core.domain.record import Record
from prsm_core.domain.steps import HumanRequest
from prsm_core.domain.writes import RequestOpened, RequestResolved
from prsm_core.door import RequestOutcome
from prsm_core.errors import ConfigError, ToolInputError
from prsm_core.kit.clocks import first_of
from prsm_core.kit.sanitize import UNFIT_CURE, sanitize
from prsm_core.store.codec import encode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence

    from prsm_core.config.own_rules import OwnRules
    from prsm_core.domain.permissions import Ask, PermissionRequest, Question, Verdict
    from prsm_core.domain.writes import EffectNoted
    from prsm_core.engine.journal.unit import AgentSteps, Journal
    from prsm_core.engine.state import AgentRecord
    from prsm_core.interfaces.clock import Clock
    from prsm_core.kit.background import Background
    from prsm_core.permissions import PermissionBroker

    Words = tuple[str, ...]


ANSWERS = ("once", "always", "allow_project", "allow_global", "deny", "deny_project", "deny_global")
SETTLE_SECONDS = 2.0  # how long the end of a run waits for its rules


class RuleKeeper(Struct, eq=False):
    """Offers the answers to a request, and keeps the rules that some of them make."""

    own: OwnRules | None  # where rules are written; None: nobody can make any
    broker: PermissionBroker
    background: Background
    journal: Journal
    clock: Clock
    _writing: set[asyncio.Task[None]] = field(default_factory=set)

    def answers(self, ask: Ask) -> tuple[str, ...]:
        """Return the answers that a request takes, in the order they are offered."""
        return tuple(answer for answer in ANSWERS if self._is_offered(answer, ask))

    def rules(self, ask: Ask) -> Mapping[str, Sequence[str]]:
        """Return the rules that the answers to a request make, as text by verdict."""
        made = {RULE_ANSWERS[name][0] for name in self.answers(ask) if name in RULE_ANSWERS}
        return {verdict: _texts(_rules(verdict, ask)) for verdict in sorted(made)}

    def keep(self, agent_id: str, answer: str, ask: Ask) -> None:
        """Apply and store the rules of an answer; most answers make none."""
        if answer not in RULE_ANSWERS or self.own is None:
            return
        verdict, project = RULE_ANSWERS[answer]
        rules = _rules(verdict, ask)
        for rule in rules:
            self.broker.add_rule(verdict, rule)
        work = self._write(self.own, agent_id, verdict, rules, project=project)
        task = self.background.start(work, name="keep a rule")
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def settle(self) -> None:
        """Wait for the rules of a run that is about to end."""
        if tasks := set(self._writing):
            seconds = self.background.parting.most(SETTLE_SECONDS)
            await first_of(self.clock, seconds, lambda: asyncio.wait(tasks))

    def _is_offered(self, answer: str, ask: Ask) -> bool:
        if answer not in RULE_ANSWERS:
            return answer == "deny" or answer in ask.options
        verdict, project = RULE_ANSWERS[answer]
        rules = _rules(verdict, ask)
        if self.own is None or not rules or f"{verdict}_rule" not in ask.options:
            return False
        if verdict == "allow" and project and not self.own.may_allow_for_project:
            return False
        return all(self.journal.redact(text) == text for text in _texts(rules))

    async def _write(
        self, own: OwnRules, agent_id: str, verdict: str, rules: Sequence[Words], *, project: bool
    ) -> None:
        what = "; ".join(f"{verdict} {text}" for text in _texts(rules))
        try:
            path = await asyncio.to_thread(own.add, verdict, rules, project=project)
        except ConfigError as error:
            level, text = "error", f"{what}: holds for this run only: {error.message}"
        else:
            level, text = "info", f"{path}: added {what}"
        self.journal.tell("notice", agent_id, level=level, text=text)


def _rules(verdict: str, ask: Ask) -> tuple[Words, ...]:
    return ask.allow_rules if verdict == "allow" else ask.deny_rules


def _texts(rules: Sequence[Words]) -> list[str]:
    return [shlex.join(rule) for rule in rules]


ARGUMENT_LIMIT = 8 * 1024  # characters of one text among the arguments that a person is shown
ARGUMENTS_LIMIT = 64 * 1024  # characters of all of them
DATA_LIMIT = 64 * 1024  # bytes of JSON that are drawn beside a question
REMEMBERED = 1000  # ended requests, for those who answer too late
NO_HUMAN = "no person is attached to this run; do without it or finish with what you have"
NO_ANSWER = "nobody answered in time"
NOBODY_CHOSE = "no person is attached: the first option or an empty text stands in for an answer"
UNATTENDED = "nobody was attached; `prsm attach` in a terminal lets a person answer"
WHY_UNANSWERED = {"headless": NO_HUMAN, "unattended": UNATTENDED}
ON_ASK = "on_ask"  # who answered, where the user's rule stood in for a person


class Asking(Protocol):
    """A call that asks."""

    @property
    def is_left(self) -> bool:
        """Whether the call will be made again, so that what it asked stays asked."""

    def effect(self, name: str, ref: str | None = None, **data: Any) -> EffectNoted:
        """Return the write that notes an effect."""


class HumanPolicy(Record, frozen=True, kw_only=True):
    """Whether a person is there, and what stands in for one."""

    interactive: bool
    on_ask: str = "deny"  # allow | deny
    timeout_s: float = 3600.0
    unattended_s: float | None = None  # a request ends when nobody has attended for so long


class _Open(Struct):
    id: str
    record: AgentRecord
    kind: str
    options: tuple[str, ...] = ()  # verdicts that may be given
    choices: tuple[str, ...] = ()  # what a question offers
    ask: Ask | None = None
    again: Callable[[], Awaitable[Verdict]] | None = None  # decides it once more
    answer: dict[str, Any] | None = None
    by: str = ""
    via: str = ""
    row: HumanRequest | None = None  # as the ledger has it
    call: Asking | None = None
    is_kept: bool = False  # for the call to be made again: nobody waits for the answer meanwhile
    recorded: bool = False  # some step carries its end
    done: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)  # nothing more is written of it

    def settle(self, answer: dict[str, Any], by: str, via: str = "") -> bool:
        if self.answer is not None:
            return False
        self.answer, self.by, self.via = answer, by, via
        self.done.set()
        return True

    def outcome(self) -> dict[str, Any]:
        said = {"verdict": self.verdict} if self.options else {"answer": self.answer or {}}
        return {"by": self.by, "via": self.via, **said}

    @property
    def verdict(self) -> str:
        return str((self.answer or {}).get("verdict", "deny"))

    def noted(self, name: str, **data: Any) -> tuple[EffectNoted, ...]:
        return () if self.call is None else (self.call.effect(name, self.id, **data),)

    def end(self) -> RequestResolved:
        """Return the write of the request's end, for one step."""
        self.recorded = True
        return RequestResolved(
            request_id=self.id,
            kind=self.kind,
            answer=self.answer or {},
            by=self.by,
            via=self.via,
            check=None if self.ask is None else self.ask.check,
        )


class HumanRequests(Struct, eq=False):
    """Owns the open requests of a run."""

    policy: HumanPolicy
    clock: Clock
    journal: Journal
    steps: AgentSteps
    rules: RuleKeeper
    workspace: str
    _open: dict[str, _Open] = field(default_factory=dict)
    # By an earlier engine, and not waited for yet.
    _left: dict[str, HumanRequest] = field(default_factory=dict)
    # Of those that have ended, newest last.
    _outcomes: dict[str, dict[str, Any]] = field(default_factory=dict)
    _is_hint_told: bool = False
    _attended_at: float = -math.inf  # when somebody last said that they are there

    def attend(self) -> None:
        """Note that a person is there."""
        self._attended_at = self.clock.now()

    async def permission(
        self,
        record: AgentRecord,
        request_id: str,
        request: PermissionRequest,
        ask: Ask,
        again: Callable[[], Awaitable[Verdict]] | None = None,
    ) -> tuple[str, str]:
        """Have a person decide; return the option and who chose it. New rules decide `again`."""
        options = self.rules.answers(ask)
        asked = {
            "request": request_id,
            "tool": request.tool,
            "command": request.command,
            "paths": list(request.paths),
            "reason": self._reason(ask),
            "parts": list(ask.parts),
            "options": list(options),
            "rules": self.rules.rules(ask),
            "call": request.call_id,
            "arguments": shown_arguments(request.arguments, self.journal.redact),
            "cwd": request.cwd,
            **({} if ask.check is None else {"check": ask.check}),
            **_edit(request, self.workspace),
        }
        opened = _Open(request_id, record, "permission", options, ask=ask, again=again)
        asking = await self._ask(opened, asked)
        return asking.verdict, asking.by

    def _reason(self, ask: Ask) -> str:
        """Return why a person is asked; the first time also how to avoid such questions."""
        if ask.hint is None or self._is_hint_told or not self.policy.interactive:
            return ask.reason
        self._is_hint_told = True
        return f"{ask.reason} ({ask.hint})"

    async def question(
        self, record: AgentRecord, request_id: str, question: Question, call: Asking | None = None
    ) -> tuple[Answer | None, str]:
        """Ask a person; return None for no answer, and who or what ended the request.

        For a `call` its question and answer are noted. A request that an earlier engine left open,
        or of a call made again, continues to wait.
        """
        asked = {
            "request": request_id,
            "question": question.text,
            "options": list(question.options),
            "call": question.call_id,
            "multiple": question.multiple,
            **_shown(question.data),
        }
        opened = _Open(request_id, record, "question", choices=question.options, call=call)
        asking = await self._ask(opened, asked)
        return answer_of(asking.answer or {}), asking.by

    def take_over(self, left_open: Iterable[HumanRequest]) -> None:
        """Note requests that an earlier engine left open and calls wait for."""
        self._left.update((row.request_id, row) for row in left_open)

    async def give(self, request_id: str, kind: str, answer: dict[str, Any], via: str = "") -> bool:
        """Answer an open request as `resolve` does; return once the ledger has it."""
        request = self._open.get(request_id)
        if request is None or not self.resolve(request_id, kind, answer, via=sanitize(via)):
            return False
        await request.over.wait()
        return request.recorded

    def resolve(
        self, request_id: str, kind: str, answer: dict[str, Any], by: str = "user", via: str = ""
    ) -> bool:
        """Answer an open request; False if it is unknown, of another kind, or answered.

        A rule that the answer makes holds from now on; `via` says where the answer came from.
        Raises ConfigError for a verdict or choice that was not offered, and for what no ledger can
        keep (code `unfit`).
        """
        request = self._open.get(request_id)
        if request is None or request.kind != kind:
            return False
        if request.options and answer.get("verdict") not in request.options:
            raise ConfigError(
                f"{answer.get('verdict')!r} is no answer to this request",
                hint=f"choose one of: {', '.join(request.options)}",
            )
        if request.row is not None:  # what it offered is what was shown, which may be redacted
            asked = request.row.payload
            several = bool(asked.get("multiple"))
            check_choices(answer.get("choices", ()), asked.get("options", ()), multiple=several)
        if sanitize(answer) != answer:  # else its end could not be written, and it would stay open
            raise ConfigError("the answer is no Unicode text", hint=UNFIT_CURE, code="unfit")
        if not request.settle(answer, by, via):
            return False
        if request.ask is not None:
            self.rules.keep(request.record.agent_id, answer["verdict"], request.ask)
        return True

    async def reconsider(self) -> None:
        """End the requests that a new rule or grant decides."""
        for request in tuple(self._open.values()):
            if request.again is None or request.answer is not None:
                continue
            verdict = await request.again()
            if isinstance(verdict, Allow):
                request.settle({"verdict": "once"}, "rule")
            elif isinstance(verdict, Deny):
                request.settle({"verdict": "deny"}, "rule")

    def outcome(self, prefix: str) -> RequestOutcome | None:
        """Return how the request with this id prefix ended, if known."""
        ended = {
            **self._outcomes,
            **{name: one.outcome() for name, one in self._open.items() if one.answer is not None},
        }
        found = [name for name in ended if prefix and name.startswith(prefix)]
        if len(found) != 1:
            return None
        return msgspec.convert({"request": found[0], **ended[found[0]]}, RequestOutcome)

    def waiting(self) -> tuple[HumanRequest, ...]:
        """Return what still waits for a person, oldest first."""
        return tuple(
            request.row
            for request in self._open.values()
            if request.row is not None and request.answer is None
        )

    def close_agent(self, agent_id: str, by: str) -> tuple[RequestResolved, ...]:
        """End an agent's open requests; the caller's next step must carry the result."""
        ends = []
        for request in tuple(self._open.values()):
            if request.record.agent_id == agent_id and not request.recorded:
                request.settle({}, by)
                ends.append(request.end())
                if request.is_kept:
                    self._forget(request)
                    request.over.set()
        for row in [row for row in self._left.values() if row.agent_id == agent_id]:
            del self._left[row.request_id]
            ends.append(RequestResolved(request_id=row.request_id, kind=row.kind, answer={}, by=by))
        return tuple(ends)

    def leave(self, agent_id: str) -> None:
        """Stop waiting for an agent's kept answers: the next engine gets them."""
        for request in tuple(self._open.values()):
            if request.record.agent_id == agent_id and request.is_kept:
                self._forget(request)
                request.over.set()

    def _stand_in(self, request: _Open) -> None:
        is_question, allows = request.kind == "question", self.policy.on_ask == "allow"
        if allows and is_question:
            first = list(request.choices[:1])
            request.settle({"choices": first, "text": None if first else ""}, ON_ASK)
        elif allows and "once" in request.options:
            request.settle({"verdict": "once"}, ON_ASK)
        else:
            request.settle({} if is_question else {"verdict": "deny"}, "headless")

    async def _ask(self, request: _Open, asked: dict[str, Any]) -> _Open:
        if not self.policy.interactive:
            self._stand_in(request)
        kept = self._open.get(request.id)
        if kept is not None:  # the call that asked is made again
            request, kept.call, kept.is_kept = kept, request.call, False
        left = self._left.pop(request.id, None) or request.row
        row = request.row = left or self._row(request, asked)
        self._open[request.id] = request
        try:
            if left is None:
                opened = RequestOpened(request=row)
                await self.steps.write(request.record, opened, *request.noted("request"))
            await self._until_settled(request, row)
        finally:
            request.is_kept = request.call is not None and request.call.is_left
            if not request.is_kept:
                await self._end(request)
        return request

    async def _end(self, request: _Open) -> None:
        request.settle({}, "turn_ended")  # whoever asked has been cancelled
        self._forget(request)
        try:
            if not request.recorded and not self.journal.is_suspended:
                told = {**(request.answer or {}), "by": request.by}
                noted = request.noted("answer", **told)
                await self.steps.write(request.record, request.end(), *noted)
        finally:
            request.over.set()

    def _row(self, request: _Open, asked: dict[str, Any]) -> HumanRequest:
        opened_at = self.clock.time()
        asked["expires_at"] = opened_at + self.policy.timeout_s
        return HumanRequest(
            request_id=request.id,
            agent_id=request.record.agent_id,
            kind=request.kind,
            payload=self.journal.redact(asked),  # people see it, too
            opened_at=opened_at,
        )

    def _forget(self, request: _Open) -> None:
        del self._open[request.id]
        self._outcomes[request.id] = request.outcome()
        if len(self._outcomes) > REMEMBERED:
            del self._outcomes[next(iter(self._outcomes))]

    async def _until_settled(self, request: _Open, row: HumanRequest) -> None:
        policy, opened = self.policy, self.clock.now()
        waited = max(0.0, self.clock.time() - row.opened_at)  # by an earlier engine
        patience = math.inf if policy.unattended_s is None else policy.unattended_s
        while not request.done.is_set():
            now = self.clock.now()
            left = opened + policy.timeout_s - waited - now
            alone = max(opened, self._attended_at) + patience - now
            if min(left, alone) <= 0:
                request.settle({}, "unattended" if alone <= 0 else "timeout")
            else:
                await first_of(self.clock, min(left, alone), request.done.wait)


def answer_of(told: Mapping[str, Any]) -> Answer | None:
    """Return an answer as it was given, or None."""
    if "choices" not in told:
        return None
    return Answer(choices=tuple(told["choices"]), text=told["text"])


def shown_arguments(
    arguments: Mapping[str, Any], redact: Callable[[Any], Any]
) -> Mapping[str, Any]:
    """Return a call's arguments as a person sees them: without secrets, then cut."""
    left = ARGUMENTS_LIMIT

    def cut(value: Any) -> Any:
        nonlocal left
        if isinstance(value, Mapping):
            return {cut(str(key)): cut(item) for key, item in value.items() if left > 0}
        if isinstance(value, (list, tuple)):
            return [cut(item) for item in value if left > 0]
        left -= 1
        if not isinstance(value, str):
            return value
        shown = value[: max(min(ARGUMENT_LIMIT, left), 0)]
        left -= len(shown)
        return shown if shown == value else f"{shown}… [{len(value) - len(shown)} more characters]"

    return cast("Mapping[str, Any]", cut(redact(dict(arguments))))


def _shown(data: Mapping[str, Any] | None) -> dict[str, Any]:
    if data is None:
        return {}
    if not isinstance(data, Mapping):
        raise ToolInputError(
            f"the question's data are a {type(data).__name__}", hint="give a mapping of JSON values"
        )
    size = len(encode(data).encode())
    if size > DATA_LIMIT:
        raise ToolInputError(
            f"the question's data take {size} bytes of JSON",
            hint=f"{DATA_LIMIT} are the most: say less, and let the text tell where the rest is",
        )
    return {"data": data}


def _edit(request: PermissionRequest, workspace: str) -> dict[str, Any]:
    from prsm_core.permissions.edits import WorkspaceFiles, find_change

    files = WorkspaceFiles(request.cwd, workspace)
    change = find_change(request.tool, request.arguments, files)
    return {} if change is None else {"change": change.to_dict()}


def check_choices(choices: Collection[object], offered: Collection[str], *, multiple: bool) -> None:
    """Raise ConfigError for a choice that was not offered, or several where one is allowed."""
    odd = [choice for choice in choices if choice not in offered]
    if odd:
        raise ConfigError(
            f"{odd[0]!r} is none of what this question offers",
            hint=f"choose of: {', '.join(offered)}" if offered else "it offers none: give a text",
            code="not_offered",
        )
    if len(choices) > 1 and not multiple:
        raise ConfigError(
            f"this question takes one choice, not {len(choices)}",
            hint=f"choose one of: {', '.join(offered)}",
            code="one_choice",
        )
