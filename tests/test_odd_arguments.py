"""Whatever is given to a door, it answers, or refuses with an error of PRSM's that has a cure."""

from __future__ import annotations

import asyncio
import inspect
import math
from operator import attrgetter
from typing import Any

import pytest

from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import Answer
from prsm_core.door import Comment
from prsm_core.errors import ConfigError, PrsmError
from prsm_core.interfaces.app_handle import (
    Agents,
    AppHandle,
    Changes,
    Requests,
    Runs,
    Sessions,
    Snapshots,
)
from prsm_core.interfaces.frontend import RunOptions
from prsm_core.interfaces.hub import Hub
from prsm_core.kit.arguments import _KINDS
from tests.engine.door.scenes import double_scene, local_scene, remote_scene
from tests.engine.harness import DEADLINE
from tests.test_hub import place  # noqa: F401 - a fixture

ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**70, 1.5, math.nan, math.inf, b"x", object(), int, {}, {1: 2}),
    *("", " ", "\0", "a\0b", "\ud800", "\x1b[2J", "x" * 5000, "/", "*", "../..", "~nobody/x"),
    *([], [1], ["\0"], ["\ud800"], (None,), {"a": 1}, {"a"}, Answer(text="\0")),
    *(Answer(choices=("\0",)), Answer(choices=(1,)), RunOptions(session="\0")),  # type: ignore[arg-type]
    *([Comment(change="\0", text="x")], [Comment(change=1, text="x")]),  # type: ignore[arg-type]
)
PLAIN = {
    "str": "master",
    "Sequence[str]": (),
    "Sequence[Comment]": (),
    "Answer": Answer(text="x"),
    "PermissionMode": PermissionMode.PLAN,
    "RunOptions": RunOptions(session="01AAAAAAAAAAAAAAAAAAAAAAAA"),
}
SCENES = {"local": local_scene, "remote": remote_scene, "double": double_scene}


GROUPS = (Runs, Agents, Requests, Changes, Snapshots, Sessions)


def methods(*doors):
    """Yield each method of doors, and its name from the handle."""
    for door in doors:
        prefix = f"{door.__name__.lower()}." if door in GROUPS else ""
        for name, method in inspect.getmembers(door, inspect.isfunction):
            if not name.startswith("_"):
                yield prefix + name, method


def calls(*doors):
    """Yield each method, and arguments for it of which one is odd."""
    for name, method in methods(*doors):
        wanted = [
            one for one in inspect.signature(method).parameters.values() if one.name != "self"
        ]
        needed = {
            one.name: PLAIN[one.annotation]
            for one in wanted
            if one.default is one.empty and one.kind is not one.VAR_KEYWORD
        }
        for one in wanted:
            fields = RunOptions.__struct_fields__ if one.kind is one.VAR_KEYWORD else (one.name,)
            for field in (*fields, "nonsense") if len(fields) > 1 else fields:
                for odd in ODD:
                    if (
                        name != "events" or type(odd) is not int or odd > 0
                    ):  # of these there are none yet
                        yield name, {**needed, field: odd}


async def done(call):
    """Await what a method gives, or enter it, or take the first thing of it."""
    if hasattr(call, "__aenter__"):
        async with call:
            return
    elif hasattr(call, "__anext__"):
        await anext(call)
        await call.aclose()
    else:
        await call


async def judged(door, name, arguments):
    """Return what is wrong with how a door takes these arguments, if anything."""
    try:
        async with asyncio.timeout(DEADLINE):
            await done(attrgetter(name)(door)(**arguments))
    except PrsmError as error:
        lacks = error.code == "bad_argument" and not error.hint
        return f"{name}({arguments}): {error.message} has no cure" if lacks else None
    except Exception as error:  # noqa: BLE001 - which is what is looked for
        return f"{name}({arguments}): {type(error).__name__}: {error}"
    return None


@pytest.mark.parametrize("scene", SCENES)
async def test_an_application_takes_or_refuses_whatever_it_is_given(scene, tmp_path):
    async with SCENES[scene](tmp_path) as opened:
        bad = []
        for name, arguments in calls(AppHandle, *GROUPS):
            wrong = await judged(opened.app, name, arguments)
            bad += [wrong] if wrong else []
            await opened.app.runs.interrupt()
        assert not bad, "\n".join(one[:300] for one in bad)


async def test_a_hub_takes_or_refuses_whatever_it_is_given(place):  # noqa: F811
    async with place.hub() as hub:
        bad = []
        for name, arguments in calls(Hub):
            wrong = await judged(hub, name, arguments)
            bad += [wrong] if wrong else []
        for field in RunOptions.__struct_fields__:
            for odd in ODD:
                options = {"options": RunOptions(**{"workspace": place.one, field: odd})}
                wrong = await judged(hub, "open", options)
                bad += [wrong] if wrong else []
        assert not bad, "\n".join(one[:300] for one in bad)


async def test_what_is_of_a_wrong_kind_is_named_with_what_is_right(tmp_path):
    async with local_scene(tmp_path) as scene:
        for act, names in (
            (scene.app.runs.start(None), "`task` is of type NoneType"),
            (scene.app.runs.start("x", model=7), "`model` is of type int"),
            (scene.app.runs.start("x", nonsense=7), "no option `nonsense`"),
            (scene.app.agents.prompt("master", "x", images="ab"), "`images` is of type str"),
        ):
            with pytest.raises(ConfigError) as refused:
                await act
            assert names in refused.value.message
            assert (refused.value.code, bool(refused.value.hint)) == ("bad_argument", True)
        assert (await scene.app.view()).run is None


def test_every_annotation_of_a_door_is_known():
    told = {
        one.annotation.removesuffix(" | None")
        for _, method in methods(AppHandle, *GROUPS, Hub)
        for one in inspect.signature(method).parameters.values()
        if one.name not in {"self", "overrides"}
    }
    assert told <= _KINDS.keys()
