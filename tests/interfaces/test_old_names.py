"""What has gone to the kit is still to be had where it was, and told once to who takes it there."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

MOVED = {
    "deadline": ("deadlines", "deadline"),
    "hook_client": ("hook_client", "ask main"),
    "hook_gate": ("hook_gate", "HOOK_COMMAND HookAsker HookGate ANSWER_SECONDS"),
    "known_version": ("known_version", "recall remember program_stamp"),
    "local_socket": ("local_socket", "bind_private peer_credentials short_name Credentials"),
    "npm": ("npm", "packaged_version"),
    "programs": ("programs", "runnable"),
    "provider": ("starting", "proxy_missing require_folder"),
    "quotation": ("quotation", "quote unquote quote_word quote_conversation encode_data RULE"),
    "section": ("section", "read_section Parser parse_argv parse_choice parse_url argv one_of"),
    "version": ("version", "VersionRange numbers_of printed_version version_in"),
}

# Each name is taken twice, by one package; what is not there is asked for, too.
TAKE = """
import importlib, json, sys, warnings
warnings.simplefilter("always")
found = {}
for old, (new, names) in json.loads(sys.argv[1]).items():
    before = importlib.import_module(f"prsm_core.interfaces.{old}")
    now = importlib.import_module(f"prsm_core.kit.{new}")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        same = [getattr(before, n) is getattr(before, n) is getattr(now, n) for n in names.split()]
    found[old] = [all(same), [str(w.message).partition(": ")[2] for w in told]]
    assert all(issubclass(w.category, DeprecationWarning) for w in told), told
    assert not hasattr(before, "nope")
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def taken():
    """What became of each module's names in an interpreter of its own."""
    argv = [sys.executable, "-c", TAKE, json.dumps(MOVED)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.requirement("C5")
@pytest.mark.parametrize("old", MOVED)
def test_an_old_import_gives_what_the_kit_has(taken, old):
    assert taken[old][0]


@pytest.mark.requirement("C5")
@pytest.mark.parametrize("old", MOVED)
def test_who_takes_a_name_from_where_it_was_is_told_once_where_it_is(taken, old):
    names = MOVED[old][1].split()
    told = taken[old][1]
    assert [text.split()[0] for text in told] == [f"prsm_core.interfaces.{old}.{n}" for n in names]
    assert all(" goes in prsm-core 0.2: use prsm_core.kit." in text for text in told)


def test_a_public_name_of_the_kit_is_told_as_such(taken):
    told = [text for _, texts in taken.values() for text in texts]
    assert any(text.endswith("use prsm_core.kit.read_section") for text in told)
    assert any(text.endswith("use prsm_core.kit.HookGate") for text in told)
