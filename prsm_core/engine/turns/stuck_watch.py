"""Watches one agent for going round in circles: warns the user and the agent, then fails it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.engine.turns.stuck import StuckDetector
from prsm_core.kit.outcomes import with_notice
from prsm_core.permissions.polling import looks_up
from prsm_core.store.codec import encode_canonical

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from prsm_core.config.schema import StuckSettings
    from prsm_core.domain.tools import ToolOutcome
    from prsm_core.domain.turns import AgentToolCall
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.ports import Acts, Life
    from prsm_core.engine.turns.call import Call
    from prsm_core.engine.turns.stuck import Finding
    from prsm_core.kit.background import Background

KIND = "stuck"  # the error kind of an agent that failed for it

# They ask how others are doing, so that the same answer may be right for a long time.
_POLLS = frozenset(
    {"wait_for_message", "check_child_status", "get_children_status", "get_child_history"}
)
_ADVICE = "Do something else; if you cannot go on, call task_complete and say what is missing."


class StuckWatch:
    """Owns the detector of one incarnation and what the agent has not been told yet."""

    __slots__ = (
        "_acts",
        "_background",
        "_detector",
        "_journal",
        "_life",
        "_notice",
    )

    def __init__(
        self,
        life: Life,
        limits: StuckSettings | None,
        *,
        acts: Acts,
        background: Background,
        journal: Journal,
    ) -> None:
        self._life = life
        self._acts = acts
        self._background = background
        self._journal = journal
        self._detector = StuckDetector(limits) if limits is not None and limits.enabled else None
        self._notice: str | None = None

    def begin_turn(self, prompt: str | None) -> str | None:
        """Take note of a turn; return its prompt, with what the agent has to be told."""
        if self._detector is not None:
            self._detector.turn_began(None if prompt is None else hash(prompt))
        if prompt is None or self._notice is None:
            return prompt
        notice, self._notice = self._notice, None
        return f"{prompt}\n\n{notice}"

    def said(self, text: str) -> None:
        """Take note of a message that has ended; one that only thinks is none."""
        if self._detector is not None and text.strip():
            self._act(self._detector.said(hash(text.strip())))

    def ended(self, call: AgentToolCall, *, denied: bool = False) -> None:
        """Take note of a vendor's call that has ended, or was not allowed."""
        if self._detector is not None:
            result = hash((call.status, call.result, call.error))
            polls = not denied and _looks_up(call)  # who does so too often is denied it
            name, arguments = call.tool_name, _hash(call.params)
            self._act(self._detector.called(name, arguments, result, polls=polls))

    def answered(self, call: Call, outcome: ToolOutcome) -> ToolOutcome:
        """Take note of an orchestration call; return its answer, with a notice if there is one."""
        if self._detector is None:
            return outcome
        polls = call.name in _POLLS
        self._act(
            self._detector.called(call.name, _hash(call.args), _hash_answer(outcome), polls=polls)
        )
        if self._notice is None:
            return outcome
        notice, self._notice = self._notice, None
        return with_notice(outcome, notice)

    def _act(self, finding: Finding | None) -> None:
        record = self._life.record
        if finding is None or record.is_over:
            return
        name, what = record.descriptor.name, f"{finding.pattern}: {finding.text}"
        if finding.is_final:
            self._background.launch(self._fail(f"stuck ({what})"), name=f"{name} is stuck")
            return
        self._journal.note(
            "notice", record.agent_id, level="warning", text=f"{name} may be stuck ({what})"
        )
        self._notice = f"You may be stuck ({what}). {_ADVICE}"

    async def _fail(self, message: str) -> None:
        if not self._life.is_over:  # else another life may have begun, which is not to be stopped
            await self._acts.stop_and_fail(self._life.record, message, KIND)


def _looks_up(call: AgentToolCall) -> bool:
    command = call.params.get("command")
    return call.tool_name == "Bash" and isinstance(command, str) and looks_up(command)


def _hash(arguments: Mapping[str, Any]) -> int:
    return hash(encode_canonical(arguments))


def _hash_answer(outcome: ToolOutcome) -> int:
    """Hash an answer; the token of a wait that came to nothing is no news."""
    data = outcome.data
    if isinstance(data, dict) and data.get("type") == "pending":
        return hash(encode_canonical({**data, "token": None}))
    return hash(outcome.text)
