"""Asks the permission checks of plugins; whatever goes wrong with one is a Deny that names it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import Allow, Ask, Deny
from prsm_core.plugins import load_object

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from prsm_core.domain.permissions import PermissionContext, PermissionRequest, Verdict
    from prsm_core.interfaces.permission import PermissionCheckSpec


class PluginChecks:
    """The checks in order of priority, then name; those in `trusted` may replace an Ask."""

    def __init__(self, specs: Iterable[PermissionCheckSpec], trusted: Collection[str] = ()) -> None:
        self._specs = sorted(specs, key=lambda spec: (spec.priority, spec.name))
        self._of_calls = tuple(spec for spec in self._specs if spec.orchestration)
        self._others = tuple(spec for spec in self._specs if not spec.orchestration)
        self._trusted = frozenset(trusted)

    @property
    def watch_calls(self) -> bool:
        """Whether any of them is asked about orchestration calls."""
        return bool(self._of_calls)

    async def strongest(
        self, request: PermissionRequest, context: PermissionContext, *, own_tool: bool = False
    ) -> Verdict | None:
        """Return the strongest verdict; an Allow only from a trusted check, None for no opinion.

        A vendor that asks leave for an `own_tool` of PRSM asks before the call is made: the checks
        on orchestration are left out, for they see the call itself.
        """
        specs = self._others if own_tool else self._specs
        if context.mode is PermissionMode.BYPASS:
            specs = [spec for spec in specs if spec.in_bypass]
        return await self._strongest(specs, request, context)

    async def of_call(
        self, request: PermissionRequest, context: PermissionContext
    ) -> Verdict | None:
        """Return the strongest verdict on an orchestration call of the checks that see them."""
        return await self._strongest(self._of_calls, request, context)

    async def _strongest(
        self,
        specs: Iterable[PermissionCheckSpec],
        request: PermissionRequest,
        context: PermissionContext,
    ) -> Verdict | None:
        strongest: Verdict | None = None
        for spec in specs:
            verdict = await _ask(spec, request, context)
            if isinstance(verdict, Deny):
                return verdict
            if isinstance(verdict, Ask):
                strongest = strongest if isinstance(strongest, Ask) else verdict
            elif spec.name in self._trusted:
                strongest = strongest or verdict
        return strongest


async def _ask(
    spec: PermissionCheckSpec, request: PermissionRequest, context: PermissionContext
) -> Verdict | None:
    try:
        check = load_object(spec.check, plugin=spec.name)
        async with asyncio.timeout(spec.timeout):
            verdict = await check(request, context)
    except TimeoutError:
        return _failed(spec, f"gave no verdict within {spec.timeout:g} s")
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return _failed(spec, "cancelled itself")
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a check that fails is a refusal
        return _failed(spec, f"failed: {str(error) or type(error).__name__}")
    if isinstance(verdict, Ask | Deny):
        return replace(verdict, check=spec.name)
    if verdict is None or isinstance(verdict, Allow):
        return verdict
    return _failed(spec, f"gave a {type(verdict).__name__}, which is no verdict")


def _failed(spec: PermissionCheckSpec, what: str) -> Deny:
    return Deny(f"the permission check {spec.name} {what}", check=spec.name)
