"""What a program has decided, on disk: added to line by line, and whole after any end."""

from __future__ import annotations

import pytest
from prsm_regions.notes import Notes

from prsm_core import ProviderNotAvailableError


def as_it_is(value):
    return value


async def decide(notes, key, value):
    """Return what is noted of a key; `value` where nothing is."""

    async def made():
        return value

    return await notes.once(key, made)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "agent.json"


async def begun(path):
    notes = Notes(path, as_it_is)
    notes.begin("build auth")
    await decide(notes, "plan", {"subtasks": ["web", "api"]})
    await decide(notes, "answer", "yes\nplease")
    return notes


def read(path):
    notes = Notes(path, as_it_is)
    notes.read()
    return notes


async def test_what_was_decided_is_not_decided_again(path):
    assert await decide(await begun(path), "plan", "another") == {"subtasks": ["web", "api"]}
    notes = read(path)
    assert (notes.intent, notes.number) == ("build auth", 1)
    assert await decide(notes, "plan", "another") == {"subtasks": ["web", "api"]}
    assert await decide(notes, "answer", "no") == "yes\nplease"


async def test_to_note_something_writes_that_alone(path):
    notes = await begun(path)
    before = path.read_bytes()
    await decide(notes, "s0", "web")
    assert path.read_bytes() == before + b'\n{"s0":"web"}'


async def test_a_turn_begins_without_what_was_decided_in_the_one_before(path):
    await begun(path)
    notes = read(path)
    notes.begin("go on")
    again = read(path)
    assert (again.intent, again.number) == ("go on", 2)
    assert await decide(again, "plan", "another") == "another"


async def test_wherever_an_end_cuts_a_line_off_all_before_it_is_known(path):
    notes = await begun(path)
    before = path.read_bytes()
    await decide(notes, "s0", "web")
    whole = path.read_bytes()
    for end in range(len(before), len(whole)):
        path.write_bytes(whole[:end])
        notes = read(path)
        assert await decide(notes, "answer", "no") == "yes\nplease"
        assert await decide(notes, "s0", "made anew") == "made anew"
        assert await decide(read(path), "s0", "another") == "made anew"


async def test_notes_that_are_spoilt_in_their_midst_are_not_gone_on_with(path):
    await begun(path)
    path.write_bytes(path.read_bytes().replace(b'"subtasks"', b"subtasks"))
    with pytest.raises(ProviderNotAvailableError, match="cannot be read"):
        read(path)


async def test_notes_that_were_written_as_one_are_gone_on_with(path):
    path.parent.mkdir()
    path.write_text('{"intent":"build auth","number":3,"known":{"plan":"old"}}')
    notes = read(path)
    assert (notes.intent, notes.number) == ("build auth", 3)
    await decide(notes, "s0", "web")
    assert await decide(read(path), "plan", "another") == "old"
    assert await decide(read(path), "s0", "another") == "web"


async def test_no_secret_is_noted(path):
    notes = Notes(path, lambda value: dict.fromkeys(value, "[redacted]"))
    notes.begin("the key is s3cret")
    await decide(notes, "plan", "use s3cret")
    assert "s3cret" not in path.read_text()


async def test_notes_that_were_taken_away_are_not_begun_in_their_midst(path):
    notes = await begun(path)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        await decide(notes, "s0", "web")
    assert not path.exists()
