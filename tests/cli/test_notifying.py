"""`notify` of a person's own configuration tells them of a run; that of a workspace never does."""

import asyncio
import json
import sys

import pytest

from tests.place import DEADLINE, Place

WRITE = "import os, sys; open(sys.argv[1], 'a').write(os.environ['PRSM_NOTIFY_KIND'] + '\\n')"


@pytest.fixture
async def place(tmp_path):
    """A scripted run that asks a person; whatever is left of it ends with the test."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    place = Place(folder)
    place.home.mkdir(mode=0o700)
    place.script(master=[{"ask_user": "Which?"}, {"ask_user": "Why?"}, {"say": "done"}])
    yield place
    place.kill()


async def finished(place, *options):
    """Run the script without a terminal, nobody answering; return its one end."""
    script = ("--provider", "script", "--set", f"providers.script.scenario={place.scenario}")
    code, _, err = await place.run(
        "run", "choose", "--detach", "--unattended", "1", *script, *options
    )
    assert code == 0, err
    async with asyncio.timeout(DEADLINE):
        await place.until_gone()
    [end] = await place.events("run_finished")
    return end, err


def notify(path, command):
    path.write_text(json.dumps({"notify": {"command": command}}))


@pytest.mark.requirement("U34")
async def test_a_run_that_asks_and_ends_tells_its_person(place, tmp_path):
    told = tmp_path / "told"
    notify(place.home / "config.yaml", [sys.executable, "-c", WRITE, str(told)])
    await finished(place)
    assert told.read_text().split() == ["needs_you", "needs_you", "ended"]


@pytest.mark.requirement("U34")
async def test_a_workspace_that_is_trusted_starts_no_command_by_notify(place, tmp_path):
    told = tmp_path / "told"
    (place.workspace / ".prism").mkdir()
    notify(place.workspace / ".prism" / "config.yaml", [sys.executable, "-c", WRITE, str(told)])
    end, err = await finished(place, "--trust")
    assert end["status"] == "completed"
    assert not told.exists()
    assert "notify has no effect here: it is read from your own configuration alone" in err


@pytest.mark.requirement("U34")
async def test_a_way_that_fails_is_told_once_and_the_run_goes_on(place):
    notify(place.home / "config.yaml", [sys.executable, "-c", "raise SystemExit(3)"])
    end, _ = await finished(place)
    assert end["status"] == "completed"
    texts = [event["text"] for event in await place.events("notice")]
    [text] = [text for text in texts if "notify" in text]
    assert text.endswith("failed in write: notify.command ended with 3")


def test_the_address_of_a_webhook_is_shown_to_nobody(prsm, tmp_path):
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    address = "https://chat.example.org/hooks/T0123/B4567"
    (home / "config.yaml").write_text(json.dumps({"notify": {"webhook": address}}))
    shown = prsm("config", "show")
    assert shown.code == 0
    assert "webhook" in shown.out
    assert "T0123" not in shown.out
