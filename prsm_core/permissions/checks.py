"""Asks the permission checks of plugins; whatever goes wrong with one is a Deny that names it.

So is an answer that is no verdict or late, also from a check that blocked the thread or swallowed
its cancellation.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import ASK_OPTIONS, RULE_ANSWERS, Allow, Ask, Deny
from prsm_core.errors import PluginError
from prsm_core.plugins.guard import Guest, PluginFaultError, TooLateError
from prsm_core.plugins.values import TEXT, TEXTS, Kind, first_problem, many, one_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from prsm_core.domain.permissions import PermissionContext, PermissionRequest, Verdict
    from prsm_core.interfaces.permission import PermissionCheckSpec


class PluginChecks:
    """The checks in order of priority, then name; those in `trusted` may replace an Ask."""

    def __init__(self, specs: Iterable[PermissionCheckSpec], trusted: Collection[str] = ()) -> None:
        self._specs = sorted(specs, key=lambda spec: (spec.priority, spec.name))
        self._guests = {spec.name: Guest.of(spec) for spec in self._specs}
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

        For an `own_tool` of PRSM, which a vendor asks leave for, checks on orchestration are left
        out: they see the call itself.
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
            verdict = await _ask(spec, self._guests[spec.name], request, context)
            if isinstance(verdict, Deny):
                return verdict
            if isinstance(verdict, Ask):
                strongest = strongest if isinstance(strongest, Ask) else verdict
            elif spec.name in self._trusted:
                strongest = strongest or verdict
        return strongest


async def _ask(
    spec: PermissionCheckSpec, guest: Guest, request: PermissionRequest, context: PermissionContext
) -> Verdict | None:
    now = asyncio.get_running_loop().time
    began = now()
    try:
        check = guest.load()
        answer = partial(check, request, context)
        verdict = await guest.asked(spec.timeout, "its answer", answer)
    except TooLateError:
        return _late(spec, guest)
    except PluginFaultError as error:
        return _failed(spec, guest, f"failed: {error.why}")
    except PluginError as error:
        return _failed(spec, guest, f"failed: {error.message}")
    if now() - began > spec.timeout:
        return _late(spec, guest)  # it has blocked the thread, its own deadline included
    if verdict is None:
        return None
    problem = first_problem(verdict, VERDICTS)
    if problem is not None:
        return _failed(spec, guest, f"gave {problem}")
    return verdict if isinstance(verdict, Allow) else replace(verdict, check=spec.name)


_RULES = many(TEXTS)
VERDICTS: Mapping[type, Mapping[str, Kind]] = {
    Allow: {"reason": TEXT},
    Deny: {"reason": TEXT},
    Ask: {
        "reason": TEXT,
        "options": Kind(
            "some of the options of an Ask",
            lambda value: many(one_of(*ASK_OPTIONS, *RULE_ANSWERS)).fits(value) and bool(value),
        ),
        "parts": TEXTS,
        "allow_rules": _RULES,
        "deny_rules": _RULES,
    },
}


def _late(spec: PermissionCheckSpec, guest: Guest) -> Deny:
    return _failed(spec, guest, f"gave no verdict within {spec.timeout:g} s")


def _failed(spec: PermissionCheckSpec, guest: Guest, what: str) -> Deny:
    return Deny(f"the {guest} {what}", check=spec.name)
