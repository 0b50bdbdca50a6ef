"""aism alone: what it needs, what it says, and how it ends."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from prsm_protocols.aism import AGENT, BY_REDIS, BY_SOCKET, REQUEST_ID, TIMEOUT, TOKEN

from plugins.prsm_protocols.tests.acting import AISM, aism

HELD = {"AGENT_ID": "a" * 32, "PRSM_TOKEN": "t", "PRSM_TIMEOUT": "0.3"}
VARIABLES = (AGENT, BY_REDIS, BY_SOCKET, REQUEST_ID, TIMEOUT, TOKEN)
OLD = Path("~/.pyenv/versions").expanduser()


def test_it_is_one_file_for_python_3_8_of_the_standard_library_alone():
    tree = ast.parse(AISM.read_text(), feature_version=(3, 8))
    imported = {
        ((node.module or "") if isinstance(node, ast.ImportFrom) else alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported <= set(sys.stdlib_module_names)


async def test_the_oldest_python_runs_it():
    found = sorted(OLD.glob("3.8.*/bin/python"))
    if not found:
        pytest.skip("no Python 3.8 in ~/.pyenv/versions")
    code, out, _ = await aism({}, "help", python=str(found[0]))
    assert code == 0
    assert "aism state transition STATE" in out


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("fly",),
        ("state", "transition"),
        ("state", "transition", "x", "--context", "[1]"),
        ("state", "transition", "x", "--context", "{"),
        ("message",),
        ("measure", "n", "many"),
        ("measure", "n", "inf"),
        ("message", "next", "--wait", "x"),
    ],
)
async def test_wrong_usage_ends_with_2_and_says_what_is_right(words):
    code, out, err = await aism(HELD, *words)
    assert code == 2
    assert "aism state transition STATE" in out + err


async def test_outside_of_a_program_it_says_where_it_works():
    code, _, err = await aism({}, "state")
    assert code == 5
    assert "neither PRSM_SOCKET nor PRSM_REDIS is set (aism works in a program" in err
    code, _, err = await aism({}, "--json", "state")
    assert json.loads(err)["error"]["hint"]


async def test_an_engine_that_is_away_is_waited_for_and_then_told(tmp_path):
    code, _, err = await aism({**HELD, "PRSM_SOCKET": str(tmp_path / "none")}, "state")
    assert code == 5
    assert "the engine does not answer" in err


async def test_a_request_is_made_again_with_its_id_where_the_connection_breaks(tmp_path):
    seen: list[dict[str, object]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(json.loads(await reader.readline()))
        if len(seen) == 3:
            writer.write(b'{"id": "x", "ok": true, "result": {"id": "m1"}}\n')
        elif len(seen) == 2:
            writer.write(b'{"id": "x", "o')  # half an answer
        writer.close()

    path = tmp_path / "s"
    server = await asyncio.start_unix_server(serve, str(path))
    async with server:
        environment = {**HELD, "PRSM_TIMEOUT": "20", "PRSM_SOCKET": str(path)}
        code, out, _ = await aism(environment, "message", "send", "bob", "hi", "--json")
    assert (code, json.loads(out)) == (0, {"id": "m1"})
    assert len({request["id"] for request in seen}) == 1
    assert len(seen) == 3


async def test_a_socket_may_lie_at_a_path_of_any_length(tmp_path):
    folder = tmp_path / ("d" * 120)
    folder.mkdir()
    held = os.open(folder, os.O_RDONLY)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b'{"id": "x", "ok": true}\n')
        writer.close()

    async with await asyncio.start_unix_server(serve, f"/proc/self/fd/{held}/s"):
        code, out, _ = await aism({**HELD, "PRSM_SOCKET": str(folder / "s")}, "heartbeat")
    os.close(held)
    assert (code, out) == (0, "ok")


def test_each_variable_that_it_reads_is_told_in_its_document():
    told = (AISM.parents[3] / "docs" / "programs.md").read_text()
    assert [name for name in VARIABLES if f"`{name}`" not in told] == []
