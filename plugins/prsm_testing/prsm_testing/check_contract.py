"""The contract of every permission check, as a pytest class to subclass.

class TestMyCheck(PermissionCheckContract):
    spec = next(iter(prsm_permission_checks()))

    async def test_force_pushes_are_denied(self):
        assert isinstance(await self.ask("git push --force"), Deny)
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import time
from abc import ABC
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import ASK_OPTIONS, Allow, Ask, Deny, PermissionRequest
from prsm_testing.bound import bounded
from prsm_testing.doubles import tried_with
from prsm_testing.samples import sample_contexts, sample_requests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.domain.permissions import PermissionContext, Verdict
    from prsm_core.interfaces.permission import PermissionCheck, PermissionCheckSpec


@bounded
class PermissionCheckContract(ABC):
    """What every permission check does; each test's docstring is the rule."""

    spec: ClassVar[PermissionCheckSpec]  # the record that the plugin registers
    settings: ClassVar[Mapping[str, Any]] = {}  # what its entry in the configuration says
    bound_s: ClassVar[float] = 30.0  # for a test in all; one that hangs fails, and says where

    async def ask(
        self,
        command: str | None = None,
        *,
        tool: str = "Bash",
        mode: PermissionMode = PermissionMode.DEFAULT,
        **fields: Any,
    ) -> Verdict | None:
        """Return the check's verdict; `fields` are further ones of the PermissionRequest."""
        arguments = {} if command is None else {"command": command}
        given = {"agent_id": "a" * 32, "tool": tool, "arguments": arguments, "cwd": "/work"}
        request = PermissionRequest(**{**given, "command": command, **fields})
        return await self._verdict(request, replace(sample_contexts()[0], mode=mode))

    async def test_it_gives_a_verdict_or_none_and_never_raises(self) -> None:
        """Whatever it is asked: what raises counts as a denial that names the plugin."""
        for request, context in _samples():
            verdict = await self._verdict(request, context)
            assert verdict is None or isinstance(verdict, Allow | Ask | Deny), request

    async def test_it_answers_in_time(self) -> None:
        """Each answer comes within the timeout of its record, and blocks nobody for longer."""
        assert self.spec.timeout > 0
        for request, context in _samples():
            before = time.monotonic()
            await self._verdict(request, context)
            assert time.monotonic() - before < self.spec.timeout, request

    async def test_it_says_why(self) -> None:
        """A reason is told to the agent or the person, and an Ask offers a way to refuse."""
        for request, context in _samples():
            verdict = await self._verdict(request, context)
            if isinstance(verdict, Ask | Deny):
                assert verdict.reason.strip(), request
            if isinstance(verdict, Ask):
                assert set(verdict.options) <= set(ASK_OPTIONS)
                assert "deny" in verdict.options

    async def test_the_same_request_gets_the_same_verdict(self) -> None:
        """One after the other, and many at the same time."""
        first = [await self._verdict(*sample) for sample in _samples()]
        second = await asyncio.gather(*(self._verdict(*sample) for sample in _samples()))
        assert second == first

    async def test_it_changes_nothing_of_what_it_is_asked(self) -> None:
        """The broker and the other checks look at the same objects."""
        for request, context in _samples():
            before = copy.deepcopy((request, context))
            await self._verdict(request, context)
            assert (request, context) == before

    @property
    def _check(self) -> PermissionCheck:
        check: PermissionCheck = tried_with(self.spec, self.settings)
        return check

    async def _verdict(
        self, request: PermissionRequest, context: PermissionContext
    ) -> Verdict | None:
        async with asyncio.timeout(self.spec.timeout):
            given = self._check(request, context)
            return await given if inspect.isawaitable(given) else given


def _samples() -> list[tuple[PermissionRequest, PermissionContext]]:
    return list(product(sample_requests(), sample_contexts()))
