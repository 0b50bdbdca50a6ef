"""Where PRSM's own state lies, by the environment and by what plugins say."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_core.kit.places import own_folders, unseen_folders
from prsm_core.policies.own_state import OwnState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prsm_core.interfaces.provider import ProviderSpec
    from prsm_core.interfaces.sink import EventSinkSpec

_HANDED = ("images",)  # below the state: agents are shown them


def own_state(
    providers: Iterable[ProviderSpec] = (),
    sinks: Iterable[EventSinkSpec] = (),
    sink_settings: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
) -> OwnState:
    """Return PRSM's own paths, by the environment and the plugins. Raises ConfigError."""
    environ = os.environ if environ is None else environ
    handed = sorted({pattern for spec in providers for pattern in spec.handed})
    unseen = map(str, unseen_folders(sinks, sink_settings or {}, environ))
    return _built(*own_folders(environ), tuple(handed), tuple(unseen))


@lru_cache(8)
def _built(
    config: Path,
    data: Path,
    state: Path,
    trees: Path,
    home: Path | None,
    handed: tuple[str, ...],
    unseen: tuple[str, ...],
) -> OwnState:
    kept = (config, data, state) if home is None else (home,)
    # A login of its own is beside the folder of its provider: `NAME@1`.
    patterns = [str(state / "providers" / "*" / each) for each in handed]
    patterns += [str(state / each) for each in _HANDED]
    own, hidden = _both(map(str, kept)), _both(unseen)
    return OwnState(
        kept=own,
        handed=re.compile("|".join(map(_pattern, _both((str(trees), *patterns))))),
        unseen=hidden,
        roots=(*hidden, *own),
        above=frozenset(str(folder) for root in (*hidden, *own) for folder in Path(root).parents),
    )


def _both(paths: Iterable[str]) -> tuple[str, ...]:
    """Return paths as they are written and as they are resolved."""
    written = [os.path.normpath(path) for path in paths]
    return tuple(dict.fromkeys((*written, *map(os.path.realpath, written))))


def _pattern(path: str) -> str:
    return f"(?:{re.escape(path).replace(re.escape('*'), '[^/]*')})(?:/|$)"
