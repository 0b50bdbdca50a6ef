"""Whether lines are written rather than drawn, and which switch says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "PRSM_LINEAR"


def switched_on_by(environ: Mapping[str, str], *, setting: bool) -> str | None:
    """Return what turned the linear mode on, None where it is off; the environment comes first.

    Raises ConfigError for a value of the variable that is neither 1 nor 0.
    """
    value = environ.get(VARIABLE, "").strip()
    if value not in {"", "0", "1"}:
        raise ConfigError(f"{VARIABLE} is {value!r}", hint="1 turns the linear mode on, 0 off")
    if value:
        return f"{VARIABLE}=1" if value == "1" else None
    return "frontends.tui.linear: true" if setting else None
