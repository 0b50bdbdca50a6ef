"""Every screen looks as its picture says, at each size, without colours and in high contrast.

Of each screen there is an SVG, to be looked at in a browser; of it and of all states that a screen
can be in a text, in which a difference is read. A default run takes the SVG where there is one.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from plugins.prsm_tui.tests.pictures import FOLDER, SCENES, SCREENS, VARIANTS, picture_of, shown

DEADLINE = 60.0
AGAIN = "look at it, then write them anew: python -m plugins.prsm_tui.tests.pictures"
DRAWINGS = Path(__file__).with_name("__snapshots__") / "test_pictures"


OFTEN = ("team", "needs-you", "change", "sessions")  # which are looked at in each variant


def cases(names, *, often):
    """Return scenes in all variants; a default run takes those at 80x24, and all of some."""
    return [
        pytest.param(name, kind, marks=() if often(name, kind) else pytest.mark.long)
        for name in names
        for kind in VARIANTS
    ]


@pytest.mark.parametrize(
    ("name", "kind"),
    cases(SCENES, often=lambda name, kind: kind == "80x24" and name not in SCREENS),
)
async def test_a_screen_looks_as_its_picture(name, kind):
    async with asyncio.timeout(DEADLINE), shown(SCENES[name], VARIANTS[kind]) as eyes:
        seen = picture_of(eyes)
    assert seen == (FOLDER / f"{name}-{kind}.txt").read_text(encoding="utf-8"), AGAIN
    check_style(seen, VARIANTS[kind])


@pytest.mark.parametrize(
    ("name", "kind"),
    cases(SCREENS, often=lambda name, kind: kind == "80x24" or name in OFTEN),
)
async def test_a_screen_is_drawn_as_its_svg(name, kind, request):
    """Not by `snap_compare`, which runs an application that nobody tells events."""
    found = pytest.importorskip("pytest_textual_snapshot", reason="pip install --group screens")
    drawing = type("Drawing", (found.SVGImageExtension,), {"file_extension": "svg"})

    async with asyncio.timeout(DEADLINE), shown(SCENES[name], VARIANTS[kind]) as eyes:
        seen, drawn = picture_of(eyes), eyes.tui.export_screenshot()
    expected = request.getfixturevalue("snapshot")(extension_class=drawing)
    assert drawn == expected, "look at it, then: pytest --snapshot-update"
    check_style(seen, VARIANTS[kind])


def check_style(seen, variant):
    """Raise unless a screen has the colours that it may have."""
    legend = seen.rsplit("-\n", 1)[1].split(": ", 1)[1]
    if not variant.has_colours:
        assert "#" not in legend
    if variant.theme == "high-contrast":
        assert "dim" not in legend.replace("not dim", "")


def test_no_picture_is_left_of_a_screen_that_is_gone():
    known = {f"{name}-{kind}" for name in SCENES for kind in VARIANTS}
    assert {path.stem for path in FOLDER.iterdir()} == known
    test = test_a_screen_is_drawn_as_its_svg.__name__
    drawn = {f"{test}[{name}-{kind}].svg" for name in SCREENS for kind in VARIANTS}
    assert {path.name for path in DRAWINGS.iterdir()} == drawn
