"""Every screen looks as its picture says, at each size, without colours and in high contrast."""

from __future__ import annotations

import asyncio

import pytest

from plugins.prsm_tui.tests.pictures import FOLDER, SCENES, VARIANTS, picture_of, shown

DEADLINE = 60.0
AGAIN = "look at it, then write them anew: python -m plugins.prsm_tui.tests.pictures"


OFTEN = ("team", "needs-you", "change", "sessions")  # which are looked at in each variant
ALL = [
    pytest.param(*(name, kind), marks=() if kind == "80x24" or name in OFTEN else pytest.mark.long)
    for name in SCENES
    for kind in VARIANTS
]


@pytest.mark.parametrize(("name", "kind"), ALL)
async def test_a_screen_looks_as_its_picture(name, kind):
    variant = VARIANTS[kind]
    async with asyncio.timeout(DEADLINE), shown(SCENES[name], variant) as eyes:
        seen = picture_of(eyes)
    assert seen == (FOLDER / f"{name}-{kind}.txt").read_text(encoding="utf-8"), AGAIN
    legend = seen.rsplit("-\n", 1)[1].split(": ", 1)[1]
    if not variant.has_colours:
        assert "#" not in legend
    if variant.theme == "high-contrast":
        assert "dim" not in legend.replace("not dim", "")


def test_no_picture_is_left_of_a_screen_that_is_gone():
    known = {f"{name}-{kind}.txt" for name in SCENES for kind in VARIANTS}
    assert {path.name for path in FOLDER.iterdir()} == known
