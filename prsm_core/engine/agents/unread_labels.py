"""Labels of a person that nothing says it reads: most are misspelt."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from prsm_core.domain.turns import Notice
from prsm_core.plugins.records import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prsm_core.interfaces.permission import PermissionCheckSpec
    from prsm_core.interfaces.provider import ProviderSpec
    from prsm_core.interfaces.sink import EventSinkSpec
    from prsm_core.interfaces.tool import ToolContribution


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
