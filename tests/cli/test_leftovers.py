"""What goes with a session that is deleted, outside the ledger."""

from __future__ import annotations

import pytest

from prsm_core.cli.sessions.deleting import remove_leftovers, strangers
from prsm_core.errors import PrsmError
from prsm_core.interfaces.provider import ProviderSpec

AGENT, THREAD, OTHER = "a" * 32, "0199aa-thread-of-its-own", "b" * 32
SESSION = "S" * 26


@pytest.fixture
def state(tmp_path):
    for path in (
        f"providers/gemini/agents/{AGENT}/chats/one.json",
        f"providers/gemini/agents/{OTHER}/chats/one.json",
        f"providers/codex@1/sessions/2026/rollout-{THREAD}.jsonl",
        "providers/script/threads/play/c0ffee00c0ffee00.json",
        "providers/codex/short.json",
        f"logs/{SESSION}.log",
        "logs/prsm.log",
    ):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("said")
    return tmp_path


def left(state):
    return {str(path.relative_to(state)) for path in state.rglob("*") if path.is_file()}


def test_what_bears_the_name_of_an_agent_or_a_thread_goes_and_nothing_else(state):
    names = {AGENT, THREAD, "play/c0ffee00c0ffee00", "short", ""}
    assert remove_leftovers(state, SESSION, names) == 4
    assert left(state) == {
        f"providers/gemini/agents/{OTHER}/chats/one.json",
        "providers/codex/short.json",
        "logs/prsm.log",
    }
    assert not (state / "providers" / "script" / "threads" / "play").exists()
    assert remove_leftovers(state, SESSION, names) == 0


def test_what_a_link_leads_to_stays(state, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / AGENT).write_text("a person's own")
    (state / "providers" / "gemini" / "linked").symlink_to(elsewhere)
    (state / "providers" / "gemini" / f"{AGENT}-link").symlink_to(elsewhere)
    remove_leftovers(state, SESSION, {AGENT})
    assert (elsewhere / AGENT).exists()
    assert not (state / "providers" / "gemini" / f"{AGENT}-link").is_symlink()


def test_no_name_is_no_file(state):
    before = left(state) - {f"logs/{SESSION}.log"}
    assert remove_leftovers(state, SESSION, ()) == 1
    assert left(state) == before


def test_what_cannot_be_deleted_is_named(tmp_path):
    name = "dirty_background_ratio"  # of the kernel, which lets nobody delete it
    (tmp_path / "providers").symlink_to("/proc/sys/vm")
    with pytest.raises(PrsmError, match=f"{name} cannot be deleted: ") as refused:
        remove_leftovers(tmp_path, SESSION, {name})
    assert "tries again" in str(refused.value.hint)


def spec_that_forgets(forget):
    return ProviderSpec(name="codex", summary="", factory="json:loads", forget=forget)


def test_a_provider_forgets_for_each_login_what_no_name_of_a_file_tells(state):
    asked = []
    spec = spec_that_forgets(lambda folder, names: asked.append((folder.name, names)))
    remove_leftovers(state, SESSION, {AGENT}, [spec])
    assert asked == [("codex", {AGENT}), ("codex@1", {AGENT})]
    found = strangers(state, [spec])
    assert [folder.name for folder in found] == ["gemini", "script"]


@pytest.mark.parametrize("error", [PrsmError("it is locked"), RuntimeError("it is locked")])
def test_a_provider_that_cannot_forget_keeps_all_files(state, error):
    def forget(folder, names):
        raise error

    before = left(state)
    with pytest.raises(PrsmError, match="it is locked"):
        remove_leftovers(state, SESSION, {AGENT, THREAD}, [spec_that_forgets(forget)])
    assert left(state) == before
