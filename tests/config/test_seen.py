"""What a person was shown is remembered: by its text, within bounds, and only where it can be."""

from __future__ import annotations

import json

import pytest

from prsm_core.config.seen import FILE, MOST, SeenWarnings
from tests.plain_user import as_plain_user


def shown(state, *texts):
    """Return which of the texts a run shows."""
    seen = SeenWarnings(state)
    new = [text for text in texts if seen.is_new(text)]
    seen.save()
    return new


def test_a_text_is_new_once_and_again_when_it_changes(tmp_path):
    state = tmp_path / "not" / "there" / "yet"
    assert shown(state, "a", "a", "b") == ["a", "b"]
    assert shown(state, "a", "b", "c") == ["c"]
    assert "a" not in json.loads((state / FILE).read_text())
    assert (state / FILE).stat().st_mode & 0o777 == 0o600


def test_runs_at_the_same_time_keep_what_the_others_kept(tmp_path):
    first, second = SeenWarnings(tmp_path), SeenWarnings(tmp_path)
    assert first.is_new("a")
    assert second.is_new("b")
    first.save()
    second.save()
    assert shown(tmp_path, "a", "b") == []


def test_the_newest_are_kept(tmp_path):
    texts = [str(number) for number in range(MOST + 1)]
    assert shown(tmp_path, *texts) == texts
    assert shown(tmp_path, texts[-1]) == []
    assert len(json.loads((tmp_path / FILE).read_text())) == MOST
    assert shown(tmp_path, texts[0]) == ["0"]


@pytest.mark.parametrize("data", [b"", b"[", b"{}", b"[1, null]", b"\xff", b"[" * 60_000, b"1"])
def test_a_file_that_is_torn_is_as_good_as_none(tmp_path, data):
    (tmp_path / FILE).write_bytes(data)
    assert shown(tmp_path, "a") == ["a"]
    assert shown(tmp_path, "a") == []


@as_plain_user
def test_where_nothing_can_be_written_a_text_is_shown_again(tmp_path):
    tmp_path.chmod(0o500)
    try:
        assert shown(tmp_path, "a") == ["a"]
        assert shown(tmp_path, "a") == ["a"]
        assert shown(tmp_path / "below", "a") == ["a"]
    finally:
        tmp_path.chmod(0o700)
    assert list(tmp_path.iterdir()) == []
