"""What has gone to the kit is still to be had where it was."""

from __future__ import annotations

import importlib

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


@pytest.mark.requirement("C5")
@pytest.mark.parametrize("old", MOVED)
def test_an_old_import_gives_what_the_kit_has(old):
    module, names = MOVED[old]
    before = importlib.import_module(f"prsm_core.interfaces.{old}")
    now = importlib.import_module(f"prsm_core.kit.{module}")
    assert [name for name in names.split() if getattr(before, name) is not getattr(now, name)] == []


@pytest.mark.parametrize("old", MOVED)
def test_what_was_never_there_is_an_attribute_error(old):
    with pytest.raises(AttributeError, match="has no attribute 'nope'"):
        importlib.import_module(f"prsm_core.interfaces.{old}").nope  # noqa: B018
