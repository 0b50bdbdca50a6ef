"""What stands on any screen can be read: in each theme, and where there are no colours."""

from __future__ import annotations

import asyncio

import pytest
from rich.style import Style

from plugins.prsm_tui.tests.contrast import coloured_texts, contrast_of, faint_texts
from plugins.prsm_tui.tests.pictures import SCENES, Variant, shown

DEADLINE = 60.0
THEMES = ("dark", "light", "high-contrast")
OFTEN = ("team", "needs-you", "sure")  # which are looked at in each run
ALL = [pytest.param(name, marks=() if name in OFTEN else pytest.mark.long) for name in SCENES]
IN_THEMES = [  # in each run all of them by one scene, and by one theme the others
    pytest.param(name, theme, marks=() if is_often else pytest.mark.long)
    for name in SCENES
    for theme in THEMES
    for is_often in [name == OFTEN[0] or (name in OFTEN and theme == THEMES[0])]
]


def strips_of(eyes):
    return eyes.tui.screen._compositor.render_strips()


@pytest.mark.parametrize(("name", "theme"), IN_THEMES)
async def test_each_text_can_be_told_from_what_is_behind_it(name, theme):
    variant = Variant((160, 48), theme=theme)
    async with asyncio.timeout(DEADLINE), shown(SCENES[name], variant) as eyes:
        assert faint_texts(strips_of(eyes)) == []


@pytest.mark.parametrize("name", ALL)
async def test_where_no_colours_are_wanted_no_text_has_one(name):
    variant = Variant((160, 48), has_colours=False)
    async with asyncio.timeout(DEADLINE), shown(SCENES[name], variant) as eyes:
        assert coloured_texts(strips_of(eyes)) == []


@pytest.mark.parametrize(
    ("style", "ratio"),
    [
        ("#000000 on #ffffff", 21.0),
        ("reverse #ffffff on #ffffff", 1.0),
        ("#777777 on #ffffff", 4.48),
        ("dim #ffffff on #000000", 5.28),
    ],
)
def test_a_contrast_is_the_one_of_the_standard(style, ratio):
    assert contrast_of(Style.parse(style)) == pytest.approx(ratio, abs=0.01)
