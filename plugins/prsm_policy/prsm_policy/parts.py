"""The parts of a plain text, each where it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_policy.safe import all_acceptable

if TYPE_CHECKING:
    from collections.abc import Callable

    from prsm_policy.places import Place
    from prsm_policy.shell import Command, Script

MAX_WORDS = 500  # a longer text is not plain


def every_part(
    script: Script, place: Place | None, is_acceptable: Callable[[Command, Place], bool]
) -> bool:
    """Return whether a text is plain and each of its commands acceptable where it runs."""
    commands = script.commands[: script.own]
    if not script.plain or not commands or place is None:
        return False
    if sum(len(command.words) for command in commands) > MAX_WORDS:
        return False
    return all_acceptable(commands, place, is_acceptable)
