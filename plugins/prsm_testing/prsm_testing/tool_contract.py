"""The contract of every tool of a plugin, as a pytest class to subclass.

class TestMyTool(ToolContract):
    spec = next(iter(prsm_tools()))
    labels = {"protocol": "inbox"}              # of an agent that has it
    samples = ({"to": "work"}, {"to": "nowhere"})  # arguments of calls

    async def test_it_moves_its_agent(self):
        call = self.call({"to": "work"})
        await self.answer(call)
        assert call.changes == {"mine/state": "work"}
"""
# ruff: noqa: S101 - these are tests; a plugin author runs them

from __future__ import annotations

import asyncio
import copy
import inspect
import json
from abc import ABC
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from prsm_core.domain.structs import find_fault, json_schema
from prsm_core.domain.tools import ORCHESTRATION_TOOLS
from prsm_core.errors import OrchestrationError
from prsm_core.plugins.objects import load_object
from prsm_core.plugins.settings import tried_with
from prsm_testing.bound import bounded
from prsm_testing.tool_double import RecordingToolCall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core.interfaces.tool import ToolContribution, WhenLabels

__all__ = ["ToolContract"]

OTHER_LABELS: Sequence[Mapping[str, str]] = ({}, {"team": "blue"}, {"a/b": "", "ü": "x" * 4096})


@bounded
@pytest.mark.asyncio
class ToolContract(ABC):
    """What every tool of a plugin does; each test's docstring is the rule."""

    spec: ClassVar[ToolContribution]  # the record that the plugin registers
    settings: ClassVar[Mapping[str, Any]] = {}  # what its entry in the configuration says
    labels: ClassVar[Mapping[str, str]]  # of an agent that has the tool
    samples: ClassVar[Sequence[Mapping[str, Any]]]  # arguments of calls, good and bad ones
    bound_s: ClassVar[float] = 30.0  # for a test in all; one that hangs fails, and says where

    def call(
        self, args: Mapping[str, Any], *, labels: Mapping[str, str] | None = None, **fields: Any
    ) -> RecordingToolCall:
        """Return a call of an agent that has the tool; see RecordingToolCall."""
        said = self.labels if labels is None else labels
        return RecordingToolCall(self.spec, args, labels=said, **fields)

    async def answer(self, call: RecordingToolCall) -> Mapping[str, Any]:
        """Return what the handler answers; raises what it raises."""
        answer: Any = tried_with(self.spec, self.settings)(call)
        answered: Mapping[str, Any] = await answer if inspect.isawaitable(answer) else answer
        return answered

    async def test_its_name_is_its_own(self) -> None:
        """None of PRSM's own tools is called so, and the model is told what it does."""
        assert self.spec.name not in ORCHESTRATION_TOOLS
        assert self.spec.description.strip()

    async def test_its_arguments_take_the_samples(self) -> None:
        """A model is shown a JSON Schema that is made of them; the samples fit them."""
        schema = json_schema(self.spec.arguments)
        assert json.loads(json.dumps(schema)) == schema
        for args in self.samples:
            assert find_fault(self.spec.arguments, dict(args)) is None, args

    async def test_it_says_who_has_it(self) -> None:
        """With True or False, by the labels alone, whatever these are; it changes none of them."""
        for before in (self.labels, *OTHER_LABELS):
            labels = dict(before)
            asked = [self._when(labels) for _ in range(2)]
            assert labels == before
            assert asked[0] is asked[1]
            assert isinstance(asked[0], bool)
            assert asked[0] or before is not self.labels, "these are of an agent that has it"

    async def test_it_answers_with_json_or_an_error_with_a_hint(self) -> None:
        """What a model can do nothing about is an error of the plugin: it raises nothing else."""
        for args in self.samples:
            call = self.call(args)
            answered = self.answer(call)
            answer: object = (await asyncio.gather(answered, return_exceptions=True))[0]
            if isinstance(answer, OrchestrationError):
                assert answer.hint, answer.message
                assert answer.code != "bad_labels", answer.message  # which no model can mend
            else:
                assert isinstance(answer, Mapping), (args, answer)
                assert json.loads(json.dumps(dict(answer), allow_nan=False)) == answer, args

    async def test_one_that_is_repeatable_does_nothing(self) -> None:
        """A crash may lose such a call, and nobody can tell."""
        for args in self.samples if self.spec.is_repeatable else ():
            call = self.call(args)
            await asyncio.gather(self.answer(call), return_exceptions=True)
            assert (call.changes, call.sent, call.asked) == ({}, [], [])

    async def test_it_changes_nothing_of_what_it_is_given(self) -> None:
        """The ledger has the arguments as they were."""
        for args in self.samples:
            call, before = self.call(args), copy.deepcopy(dict(args))
            await asyncio.gather(self.answer(call), return_exceptions=True)
            assert dict(call.args) == before

    def _when(self, labels: Mapping[str, str]) -> bool:
        when: WhenLabels = load_object(self.spec.when, plugin=self.spec.name)
        return when(labels)
