"""A tree whose ledger cannot be written ends by an error that helps, and goes on later.

The kernel refuses to let the log grow, in the midst of a page: what SQLite then says is its own.
"""

from __future__ import annotations

import pytest

from tests.crash.trees import Home, check_sound, check_whole

FEW = [(9, "full"), (15, "once")]  # a run has some twenty writes
MOST = 60  # more writes than a run has


def fails(home: Home, fault: str, *, again: bool = False) -> bool:
    """Run or go on while the ledger cannot be written; whether that was ever so."""
    ended = home.resume(fault) if again else home.run(fault)
    if ended.code == 0:
        check_whole(home, ended)
        return False
    assert ended.code == 1, ended.err
    assert "nothing was written: " in ended.err
    assert "check the disk: space, permissions, health" in ended.err
    assert "Traceback" not in ended.err
    check_sound(home)
    return True


def failed_and_resumed(home: Home, number: int, kind: str) -> bool:
    """Fail the same write of a run and of what goes on with it; whether the run had as many."""
    if not fails(home, f"{kind}:{number}"):
        return False
    if not home.query("SELECT 1 FROM runs"):  # it never began, and is begun again
        check_whole(home, home.run())
    elif fails(home, f"{kind}:{number}", again=True):
        check_whole(home, home.resume())
    return True


@pytest.mark.parametrize(("number", "kind"), FEW)
def test_a_tree_goes_on_whose_write_has_failed(tmp_path, number, kind):
    assert failed_and_resumed(Home(tmp_path), number, kind)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["full", "once"])
@pytest.mark.parametrize("number", range(1, MOST))
def test_a_tree_goes_on_whichever_write_has_failed(tmp_path, number, kind):
    failed_and_resumed(Home(tmp_path), number, kind)
