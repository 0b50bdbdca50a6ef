"""Those who follow a session of another process: what each is told when its owner ends."""

import asyncio
import json
import signal
import subprocess

import pytest
from prsm_console.console import KILLED

from prsm_core.cli.places import workspace_paths
from prsm_core.domain.account import FAILED, INTERRUPTED
from prsm_core.engine.control.remote import open_remote
from prsm_core.errors import ControlError

pytestmark = pytest.mark.usefixtures("puppets")

DEADLINE = 60.0  # seconds; a test that needs them has failed


async def follow(app, begun):
    """Read to the end; return the last committed event, and the code of what ended it."""
    last = None
    try:
        async for event in app.events():
            last = last if event.seq is None else event
            if event.type == "message_completed":
                begun.release()
    except ControlError as error:
        return last, error.code
    return last, None


@pytest.fixture
def session(start_prsm, workspace):
    """Start a run whose master hangs; give its process and its session."""
    owner = start_prsm("run", "hang", "--json")
    for line in owner.stdout:
        event = json.loads(line)
        if event["type"] == "message_completed":
            return owner, event["session"]
    raise AssertionError("the run has not begun")


# A snapshot of the files is taken beside the model's first words.
SAID_OR_KEPT = {"message_completed", "snapshot_taken"}


def attached(start_prsm):
    """Start `prsm attach` without a terminal; it has shown its first line."""
    process = start_prsm("attach", stderr=subprocess.PIPE)
    assert b"attached to session" in process.stderr.readline()
    return process


@pytest.mark.requirement("D7")
@pytest.mark.parametrize(
    ("number", "code", "last", "told", "exit_code"),
    [
        (signal.SIGKILL, "no_answer", SAID_OR_KEPT, f"the session has ended{KILLED}", FAILED),
        (signal.SIGTERM, None, {"run_finished"}, "the session has ended", INTERRUPTED),
    ],
    ids=["killed", "told to end"],
)
async def test_an_owner_that_ends_ends_each_of_five_followers_with_its_reason(
    session, start_prsm, workspace, number, code, last, told, exit_code
):
    owner, name = session
    terminals = [await asyncio.to_thread(attached, start_prsm) for _ in range(2)]
    begun = asyncio.Semaphore(0)
    async with (
        asyncio.timeout(DEADLINE),
        open_remote(workspace_paths(str(workspace)).state, name) as app,
    ):
        async with asyncio.TaskGroup() as group:
            readers = [group.create_task(follow(app, begun)) for _ in range(3)]
            for _ in readers:
                await begun.acquire()
            owner.send_signal(number)
        for reader in readers:
            event, why = reader.result()
            assert event.type in last
            assert why == code
        for terminal in terminals:
            _, shown = await asyncio.to_thread(terminal.communicate, timeout=DEADLINE)
            assert terminal.returncode == exit_code
            assert shown.decode().splitlines()[-1] == f"prsm: {told}"
            ended = "the run has ended: interrupted" in shown.decode()
            assert ended == (number is signal.SIGTERM)
