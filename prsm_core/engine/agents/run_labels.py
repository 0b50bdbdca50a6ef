"""Labels of a run: whether its master works itself by them, and those that nothing reads."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from prsm_core.domain.turns import Notice
from prsm_core.errors import PrsmError
from prsm_core.plugins.guard import Guest
from prsm_core.plugins.records import WORDS, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prsm_core.interfaces.permission import PermissionCheckSpec
    from prsm_core.interfaces.provider import ProviderSpec
    from prsm_core.interfaces.sink import EventSinkSpec
    from prsm_core.interfaces.tool import ToolContribution

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


def tell_unread(
    labels: Iterable[str],
    specs: Iterable[ProviderSpec | ToolContribution | EventSinkSpec],
    checks: Iterable[PermissionCheckSpec],
) -> list[Notice]:
    """Return one warning on the names of labels that no active plugin declares to read.

    The core reads none. One that is like a name that is read is told in each run, since what it was
    to switch on is off. Others may be a person's own notes, and are to be shown once.
    """
    names = (*(spec.reads_labels for spec in specs), *(check.labels for check in checks))
    read = sorted(name for name in set(chain.from_iterable(names)) if "/" not in name)
    unread = {name: nearest(name, read) for name in sorted(set(labels).difference(read))}
    if not unread:
        return []
    listed = ", ".join(f"{name}{_meant(near)}" for name, near in unread.items())
    text = f"no active plugin says that it reads the label{'s' * (len(unread) > 1)} {listed}"
    return [Notice("warning", text, once=not any(unread.values()))]


def _meant(near: str | None) -> str:
    return f" (did you mean {near}?)" if near else ""
