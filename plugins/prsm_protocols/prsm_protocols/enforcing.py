"""Holds agents to what the state of their protocol lists, in every mode and whatever the tool."""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING

from prsm_core import Deny, PrsmError
from prsm_protocols.labels import chosen, is_under_protocol, pin_of
from prsm_protocols.tool_names import ALWAYS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from prsm_core import PermissionContext, PermissionRequest
    from prsm_protocols.validator import Standing, Validator


class Enforcing:
    """Decides about calls by the labels of the agent as they are now."""

    def __init__(self, validator: Validator, now: Callable[[], float] = time.time) -> None:
        self.validator = validator
        self._now = now  # Unix seconds

    def decide(
        self, request: PermissionRequest, context: PermissionContext
    ) -> Awaitable[Deny | None] | Deny | None:
        """Return what `check` does: at once, unless something has to be read first."""
        if not is_under_protocol(context.labels) or request.tool in ALWAYS:
            return None
        pin = pin_of(context.labels, request.agent_id)
        try:
            standing = None if pin is None else self.validator.pinned_now(pin)
        except PrsmError as error:
            return _unreadable(error)
        if standing is None:
            return self.check(request, context)
        return self._verdict(standing, request.tool, self._now())

    async def check(self, request: PermissionRequest, context: PermissionContext) -> Deny | None:
        """Deny what the state does not list; no opinion on the rest, and on other agents.

        Where the protocol cannot be read nothing is allowed but what each state allows.
        """
        labels = context.labels
        if not is_under_protocol(labels) or request.tool in ALWAYS:
            return None
        now, pin = self._now(), pin_of(labels, request.agent_id)
        try:
            if pin is not None:
                standing = await self.validator.pinned_soon(pin)
            else:
                standing = await self.validator.begun_soon(
                    labels, context.workspace, trusted=context.trusted, now=now
                )
        except PrsmError as error:
            return _unreadable(error)
        return self._verdict(standing, request.tool, now)

    def _verdict(self, standing: Standing, tool: str, now: float) -> Deny | None:
        why = self.validator.denial(standing, tool, now)
        return None if why is None else Deny(why)


def check(
    request: PermissionRequest, context: PermissionContext
) -> Awaitable[Deny | None] | Deny | None:
    """Deny what the state of an agent's protocol does not list."""
    if not is_under_protocol(context.labels):
        return None
    return _enforcing().decide(request, context)


async def is_solo(labels: Mapping[str, str], workspace: str) -> bool:
    """Return whether the page of a trusted workspace's master makes it solo."""
    name = chosen(labels)
    protocol = await _enforcing().validator.newest_soon(name, workspace, trusted=True)
    return protocol.start.page.solo


def _unreadable(error: PrsmError) -> Deny:
    return Deny(f"{error.message}\n{error.hint or ''}".strip())


@cache
def _enforcing() -> Enforcing:
    from prsm_protocols.tools import VALIDATOR  # it reads markdown: only who needs it pays for that

    return Enforcing(VALIDATOR)
