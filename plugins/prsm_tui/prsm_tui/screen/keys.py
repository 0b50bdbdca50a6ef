"""The keys of the table as bindings of Textual."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.binding import Binding

from prsm_tui.keys import EVERYWHERE, KEYS, all_keys

if TYPE_CHECKING:
    from textual.binding import BindingType


def bindings(place: str) -> list[BindingType]:
    """Return the bindings of a place; those of everywhere come before whoever has the focus."""
    return [
        binding(key.name, key.action, has_priority=place == EVERYWHERE)
        for key in KEYS[place]
        if key.action
    ]


def binding(name: str, action: str, *, has_priority: bool = False) -> BindingType:
    """Return what binds the keys of a name to an action; a keymap finds it by that name."""
    key = next(key for key in all_keys() if key.name == name)
    return Binding(key.keys, action, key.does, show=False, priority=has_priority, id=name)
