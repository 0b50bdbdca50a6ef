"""How the screen is coloured: the themes of Textual, and one of black, white and strong colours."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from textual.filter import LineFilter
from textual.theme import Theme

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.color import Color as RichColor
    from textual.color import Color

_FULL = Style(dim=False)

HIGH_CONTRAST = Theme(
    name="high-contrast",
    primary="#ffff00",
    secondary="#00ffff",
    warning="#ffff00",
    error="#ff8080",
    success="#00ff00",
    accent="#00ffff",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#000000",
    boost="#000000",
    dark=True,
    text_alpha=1.0,
    variables={
        "block-cursor-text-style": "reverse",
        "input-cursor-background": "#ffffff",
        "input-cursor-foreground": "#000000",
        "input-selection-background": "#ffff00 40%",
        "border": "#ffffff",
        "scrollbar": "#ffffff",
        "scrollbar-background": "#000000",
    },
)
# The colours that texts name, on dark and on light: each of them can be read on all backgrounds.
ON_DARK = TerminalTheme(
    (18, 18, 18),
    (224, 224, 224),
    [
        (160, 160, 160),
        (255, 120, 130),
        (130, 220, 80),
        (255, 190, 80),
        (120, 180, 255),
        (235, 150, 240),
        (90, 210, 235),
        (230, 230, 230),
    ],
)
ON_LIGHT = TerminalTheme(
    (224, 224, 224),
    (31, 31, 31),
    [
        (0, 0, 0),
        (150, 0, 20),
        (0, 85, 0),
        (105, 65, 0),
        (0, 60, 140),
        (115, 0, 110),
        (0, 75, 95),
        (70, 70, 70),
    ],
)
THEMES: Mapping[str, str] = {  # as settings name them, and as Textual does
    "dark": "textual-dark",
    "light": "textual-light",
    "high-contrast": HIGH_CONTRAST.name,
}


class Undimmed(LineFilter):
    """Draws what is dimmed elsewhere in full: grey on black is no contrast."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments of a row, none of them dimmed."""
        return [
            Segment(text, style + _FULL, control) if style is not None and style.dim else segment
            for segment in segments
            for text, style, control in (segment,)
        ]


UNDIMMED = Undimmed()


class Uncoloured(LineFilter):
    """Takes all colours away, for NO_COLOR: the terminal's own are left, and what is reversed.

    Textual makes greys of colours, of which a red one cannot be read.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments of a row without their colours."""
        return [
            Segment(text, None if style is None else _without_colours(style), control)
            for text, style, control in segments
        ]


@lru_cache(1024)
def _without_colours(style: Style) -> Style:
    plain = style.without_color
    fore, back = _light(style.color), _light(style.bgcolor)
    if fore is not None and back is not None and back > fore:  # a cursor is drawn so
        plain += Style(reverse=not style.reverse)
    return plain


def _light(color: RichColor | None) -> int | None:
    """Return how light a colour is; None for the terminal's own."""
    return None if color is None or color.is_default else sum(color.get_truecolor())


UNCOLOURED = Uncoloured()
