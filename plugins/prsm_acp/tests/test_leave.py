"""What an agent asks leave for, and the files it reads and writes through PRSM."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from prsm_testing.doubles import RecordingHost, answers, only, run_turn
from prsm_testing.provider_scene import call

from plugins.prsm_acp.tests.fake_manifest import MANIFEST
from prsm_core.domain.permissions import Allow, Deny, PermissionRequest
from prsm_core.domain.turns import ToolCallFinished, ToolCallStarted

if TYPE_CHECKING:
    from collections.abc import Iterator


def deny(why="not here"):
    return RecordingHost(verdict=lambda _: Deny(why))


def write(path, content, **fields):
    return {"call": call("write_file", "w", path=str(path), content=content, **fields)}


def read(path, **fields):
    return {"call": call("read_file", "r", path=str(path), **fields)}


async def test_a_write_is_asked_for_once_with_its_diff_and_done_by_us(scene, tmp_path):
    host, path = RecordingHost(), tmp_path / "work" / "deep" / "new.txt"
    async with (
        scene(write(path, "hello\n"), {"say": "done"}) as played,
        played.session(host) as session,
    ):
        events = await run_turn(session, "Write.")
        assert played.outputs("w") == ["written"]
    assert path.read_text() == "hello\n"
    (asked,) = host.requests
    assert asked == PermissionRequest(
        agent_id="a" * 32,
        tool="Write",
        arguments={
            "paths": [str(path)],
            "diff": f"--- {path}\n+++ {path}\n@@ -0,0 +1 @@\n+hello\n",
        },
        cwd=str(played.cwd),
        paths=(str(path),),
    )
    (started,) = only(ToolCallStarted, events)
    assert (started.tool, started.arguments) == ("Write", asked.arguments)
    assert [finished.status for finished in only(ToolCallFinished, events)] == ["completed"]


async def test_a_write_that_differs_from_its_diff_is_asked_for_again(scene, tmp_path):
    path = tmp_path / "new.txt"
    verdicts: Iterator[Allow | Deny] = iter([Allow(), Deny("that is not what was shown")])
    host = RecordingHost(verdict=lambda _: next(verdicts))
    async with (
        scene(write(path, "harmless", other="evil"), {"say": "done"}) as played,
        played.session(host) as session,
    ):
        events = await run_turn(session, "Write.")
        (told,) = played.outputs("w")
    assert "refused: that is not what was shown" in told
    assert not path.exists()
    assert [(asked.tool, asked.paths) for asked in host.requests] == [("Write", (str(path),))] * 2
    assert len({asked.call_id for asked in host.requests}) == 1, "it is the same call"
    assert [finished.status for finished in only(ToolCallFinished, events)] == ["failed"]


async def test_a_refused_write_changes_nothing_and_is_told_as_denied(scene, tmp_path):
    path = tmp_path / "new.txt"
    async with (
        scene(write(path, "x"), {"say": "done"}) as played,
        played.session(deny()) as session,
    ):
        events = await run_turn(session, "Write.")
        assert played.outputs("w") == ["the user said no"]
    assert not path.exists()
    (finished,) = only(ToolCallFinished, events)
    assert (finished.status, finished.error) == ("denied", "not here")


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_file_is_read_by_us_once_that_is_allowed(scene, tmp_path, allowed):
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\nthree\n")
    host = RecordingHost() if allowed else deny()
    async with (
        scene(read(path, line=2, limit=1), {"say": "done"}) as played,
        played.session(host) as session,
    ):
        events = await run_turn(session, "Read.")
        (told,) = played.outputs("r")
    assert told == ("two\n" if allowed else "refused: not here")
    (asked,) = host.requests
    assert (asked.tool, asked.paths) == ("Read", (str(path),))
    (started,) = only(ToolCallStarted, events)
    assert asked.call_id == started.call_id, "it is part of the call that the agent tells of"


@pytest.mark.parametrize(
    ("name", "verdict", "status"),
    [
        ("a.txt", Allow(), "completed"),
        ("none", Allow(), "failed"),
        ("a.txt", Deny("not here"), "denied"),
    ],
)
async def test_a_file_that_is_read_without_a_call_is_a_call_of_its_own(
    scene, tmp_path, name, verdict, status
):
    (tmp_path / "a.txt").write_text("text")
    host = RecordingHost(verdict=lambda _: verdict)
    async with (
        scene(read(tmp_path / name, untold=True), {"say": "done"}) as played,
        played.session(host) as session,
    ):
        events = await run_turn(session, "Read.")
    (asked,) = host.requests
    (started,), (finished,) = only(ToolCallStarted, events), only(ToolCallFinished, events)
    assert (started.tool, started.arguments) == ("Read", {"file_path": str(tmp_path / name)})
    assert {asked.call_id, started.call_id} == {finished.call_id}
    assert finished.status == status


async def test_a_link_out_of_the_folder_is_shown_to_whoever_decides(scene, tmp_path):
    outside, link = tmp_path / "outside", tmp_path / "link"
    outside.mkdir()
    (outside / "a.txt").write_text("x")
    link.symlink_to(outside)
    host = RecordingHost()
    async with (
        scene(read(link / "a.txt"), {"say": "done"}) as played,
        played.session(host) as session,
    ):
        await run_turn(session, "Read.")
    assert host.requests[0].paths == (str(link / "a.txt"), str(outside / "a.txt"))


async def test_a_missing_file_is_told_or_is_empty_for_an_agent_that_cannot_be_told(scene, tmp_path):
    for empty, expected in ((False, "Resource not found"), (True, "")):
        steps = (read(tmp_path / "none"), {"say": "done"})
        async with (
            scene(*steps, missing_is_empty=empty) as played,
            played.session() as session,
        ):
            await run_turn(session, "Read.")
            (told,) = played.outputs("r")
        assert told.startswith(expected)


async def test_without_files_in_its_manifest_an_agent_gets_none(scene, tmp_path):
    manifest = replace(MANIFEST, files=False)
    async with (
        scene(read(tmp_path / "a"), {"say": "done"}, manifest=manifest) as played,
        played.session() as session,
    ):
        await run_turn(session, "Read.")
        (told,) = played.outputs("r")
    assert told == "fs/read_text_file is not supported"


async def test_prsms_own_server_is_allowed_for_good_and_asked_about_once(scene):
    host = RecordingHost(note=answers("noted"))
    calls = [{"call": call("note", name, text="x")} for name in "ab"]
    async with (
        scene(*calls, {"say": "done"}) as played,
        played.session(host) as session,
    ):
        events = await run_turn(session, "Note.")
    assert [asked.name for asked in host.calls] == ["note", "note"]
    assert host.requests == []
    assert only(ToolCallStarted, events) == []
