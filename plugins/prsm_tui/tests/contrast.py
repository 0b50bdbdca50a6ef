"""How well what stands on a screen can be told from what is behind it, as WCAG 2 measures that."""

from __future__ import annotations

from typing import NamedTuple

from rich.style import Style

LEAST = 4.5  # of a text and what is behind it (WCAG 2, 1.4.3)
_DIMMED = 0.5  # of the way from what is behind a dim text to its colour: as terminals draw it
_SHAPES = frozenset(" ▁▂▃▄▅▆▇█▎▊▔─│┌┐└┘├┤┬┴┼━┃╸╺╹╻")  # lines and bars: no text is read of them


class Faint(NamedTuple):
    """A text that is hard to read."""

    text: str
    style: str
    ratio: float


def faint_texts(strips):
    """Return the texts of a screen whose contrast is too small, each kind once."""
    found: dict[str, Faint] = {}
    for strip in strips:
        for segment in strip:
            style = segment.style or Style()
            ratio = contrast_of(style)
            if ratio is not None and ratio < LEAST and not set(segment.text) <= _SHAPES:
                faint = Faint(segment.text.strip(), str(style), round(ratio, 2))
                found.setdefault(faint.style, faint)
    return list(found.values())


def coloured_texts(strips):
    """Return the texts of a screen that have any colour of their own."""
    return [
        segment.text
        for strip in strips
        for segment in strip
        if segment.style is not None and (segment.style.color or segment.style.bgcolor)
    ]


def contrast_of(style):
    """Return the ratio of a style's two colours; None where one is the terminal's own."""
    colours = (style.color, style.bgcolor)
    if any(colour is None or colour.is_default for colour in colours):
        return None
    front, back = (tuple(colour.get_truecolor()) for colour in colours)
    if style.reverse:
        front, back = back, front
    if style.dim:
        front = tuple(b + _DIMMED * (f - b) for f, b in zip(front, back, strict=True))
    light, dark = sorted(map(_luminance, (front, back)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour):
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (value / 255 for value in colour)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
