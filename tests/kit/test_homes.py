"""Private homes, and the user's login linked into them."""

from __future__ import annotations

import stat

import pytest

from prsm_core.kit import link_login, make_private, write_private


@pytest.fixture
def login(tmp_path):
    path = tmp_path / "user" / "auth.json"
    path.parent.mkdir()
    path.write_text("{}")
    return path


@pytest.fixture
def link(tmp_path):
    return make_private(tmp_path / "state" / "home") / "auth.json"


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_home_is_for_its_owner_alone(tmp_path):
    home = make_private(tmp_path / "state" / "home")
    assert mode(home) == 0o700
    assert make_private(home) == home


def test_files_are_for_their_owner_alone_and_replace_what_was_there(tmp_path):
    path, other = tmp_path / "new" / "settings.json", tmp_path / "elsewhere"
    other.write_text("kept")
    path.parent.mkdir()
    path.symlink_to(other)
    write_private({path: "äöü", tmp_path / "deep" / "b": "b"})
    assert (path.read_text(), other.read_text()) == ("äöü", "kept")
    assert mode(path) == 0o600
    assert mode(tmp_path / "deep") == 0o700


def test_the_login_is_linked_and_never_copied(link, login):
    link_login(link, login)
    link_login(link, login)
    assert link.readlink() == login.resolve()


def test_a_link_goes_with_the_login_it_led_to(link, login):
    link_login(link, login)
    login.unlink()
    link_login(link, login)
    assert not link.is_symlink()
    link_login(link, None)
    assert list(link.parent.iterdir()) == []


def test_another_login_takes_its_place(link, login, tmp_path):
    other = tmp_path / "other.json"
    other.write_text("{}")
    link_login(link, login)
    link_login(link, other)
    assert link.readlink() == other.resolve()
    assert list(link.parent.iterdir()) == [link]


@pytest.mark.parametrize("has_login", [True, False])
def test_a_login_that_was_made_in_the_home_stays(link, login, has_login):
    link.write_text("made here")
    link_login(link, login if has_login else None)
    assert link.read_text() == "made here"
    assert not link.is_symlink()


def test_a_login_that_is_a_link_is_followed_to_its_file(link, login, tmp_path):
    way = tmp_path / "way"
    way.symlink_to(login)
    link_login(link, way)
    assert link.readlink() == login.resolve()
