"""Whether the master of a run works itself because of its labels: checks of plugins say so."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from prsm_core.domain.turns import Notice
from prsm_core.errors import PrsmError
from prsm_core.plugins.guard import Guest
from prsm_core.plugins.records import WORDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prsm_core.interfaces.permission import PermissionCheckSpec

_WHAT = "its answer to whether the master is solo"


async def ask_checks(
    labels: Mapping[str, str], workspace: str, checks: Iterable[PermissionCheckSpec]
) -> tuple[bool, list[Notice]]:
    """Return whether any check says so of these labels, and what kept others from an answer."""
    troubles: list[Notice] = []
    for spec in checks:
        if spec.solo is None or spec.labels.isdisjoint(labels):
            continue
        try:
            if await _ask(spec, labels, workspace):
                return True, troubles
        except PrsmError as error:
            troubles.append(Notice("warning", f"the master only delegates: {error.message}"))
    return False, troubles


async def _ask(spec: PermissionCheckSpec, labels: Mapping[str, str], workspace: str) -> bool:
    guest = Guest(WORDS[type(spec)], spec.name, spec.solo)
    ask = partial(guest.load(), dict(labels), workspace)
    answer = await guest.asked(spec.timeout, _WHAT, ask, (PrsmError,))
    if not isinstance(answer, bool):
        what = f"it gave a {type(answer).__name__}, which is neither True nor False"
        raise guest.wrong(_WHAT, what)
    return answer
