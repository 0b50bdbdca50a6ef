"""Agents in Python by aism, in Node and in bash by the wire protocol: over each transport."""

from __future__ import annotations

import shutil
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from prsm_protocols.program.provider import build
from prsm_testing import only, open_services, run_turn, session_request, until

from plugins.prsm_protocols.tests.acting import SERVERS, ProtocolHost, mostly_long, open_server
from prsm_core import StopReason, TurnEnded

CLIENTS = Path(__file__).with_name("clients")
PAGES = {
    "bootstrap": "# Protocol: bootstrap\n\n## States\n- bootstrap: Reading\n\n## Transitions\n"
    "- bootstrap -> inbox: When everything is read\n",
    "inbox": "# Protocol: inbox\n\n## States\n- inbox: Messages\n- idle: Rest\n\n## Transitions\n"
    "- inbox -> idle: When there is no more\n",
}


def write_pages(workspace: Path) -> None:
    """Write the pages of a workspace."""
    pages = workspace / ".prism" / "protocols"
    pages.mkdir(parents=True)
    for name, text in PAGES.items():
        (pages / f"{name}.md").write_text(text)


def client(name: str) -> list[str]:
    """Return the command of a client; skip where its language is missing."""
    programs = {"python": [sys.executable, "agent.py"], "node": ["node", "agent.mjs"]}
    program, script = programs.get(name, ["bash", "agent.sh"])
    for needed in (program, *(("curl",) if name == "bash" else ())):
        if shutil.which(needed) is None:
            pytest.skip(f"{needed} is missing")
    return [program, str(CLIENTS / script)]


@pytest.mark.parametrize(
    ("way", "language"),
    mostly_long(
        ("socket", *SERVERS), ("python", "node", "bash"), ("socket", "node"), ("valkey", "bash")
    ),
)
@pytest.mark.requirement("A9")
async def test_an_agent_in_any_language_goes_from_bootstrap_to_inbox_and_ends(
    tmp_path, way, language
):
    argv = client(language)
    write_pages(tmp_path)
    settings = {"command": argv, "box": False, "restarts": 0}
    async with AsyncExitStack() as stack:
        if way in SERVERS:
            server = await stack.enter_async_context(open_server(way, tmp_path / "server"))
            settings["redis"] = server.url
        services = await stack.enter_async_context(open_services(tmp_path / "state"))
        provider, host = build(settings, services), ProtocolHost()
        request = session_request(tmp_path, name="Alice", model="default")
        async with provider.open_session(request, host) as session:
            (ended,) = only(TurnEnded, await run_turn(session, "Read everything."))
        await provider.aclose()
        await until(lambda: not services.live)
    assert ended == TurnEnded(StopReason.END_TURN)
    assert host.moves == [("bootstrap", "inbox")]
    (summary,) = host.done
    assert summary.endswith("has read everything")
    moved = next(call for call in host.calls if call.arguments.get("to") == "inbox")
    assert moved.arguments["context"] == {"bootstrap": "complete"}
