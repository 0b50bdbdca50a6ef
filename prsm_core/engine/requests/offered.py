"""What a question offers, and who chooses something else is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection


def check_choices(choices: Collection[object], offered: Collection[str], *, multiple: bool) -> None:
    """Raise ConfigError for a choice that a question does not offer, or several of one."""
    odd = [choice for choice in choices if choice not in offered]
    if odd:
        raise ConfigError(
            f"{odd[0]!r} is none of what this question offers",
            hint=f"choose of: {', '.join(offered)}" if offered else "it offers none: give a text",
            code="not_offered",
        )
    if len(choices) > 1 and not multiple:
        raise ConfigError(
            f"this question takes one choice, not {len(choices)}",
            hint=f"choose one of: {', '.join(offered)}",
            code="one_choice",
        )
