"""Sockets of one user, at paths that may be longer than an address."""

from __future__ import annotations

import socket
import stat

import pytest

from prsm_core.kit.local_socket import ADDRESS_LIMIT, bind_private, short_name


@pytest.fixture(params=["near", "far" * ADDRESS_LIMIT], ids=["short", "long"])
def path(tmp_path, request):
    folder = tmp_path / request.param[:200]
    folder.mkdir()
    return folder / "s.sock"


def test_a_bound_socket_is_reached_by_its_name_and_only_its_owner_may(path):
    with bind_private(path) as bound, socket.socket(socket.AF_UNIX) as client:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        bound.listen()
        with short_name(path) as name:
            assert len(name) < ADDRESS_LIMIT or name == str(path)
            client.connect(name)
        peer, _ = bound.accept()
        peer.close()


def test_a_socket_takes_the_place_of_one_that_was_left(path):
    bind_private(path).close()
    assert path.exists()
    bind_private(path).close()


def test_where_nothing_can_be_bound_nothing_stays_open(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        bind_private(tmp_path / "nowhere" / "s.sock")
