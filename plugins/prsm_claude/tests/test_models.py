"""Which models there are."""

from __future__ import annotations

import pytest
from prsm_claude.provider import current, is_known, listed, scanned

from prsm_core.domain.models import ModelInfo


def test_models_are_taken_from_the_greeting():
    info = {
        "models": [
            {"value": "default", "displayName": "Default", "supportedEffortLevels": ["low"]},
            {"value": "opus"},
            {"displayName": "no id"},
            "odd",
        ]
    }
    assert listed(info) == [
        ModelInfo(model_id="default", display_name="Default", reasoning_efforts=("low",)),
        ModelInfo(model_id="opus"),
    ]
    assert listed({"models": 5}) == listed({}) == []


@pytest.mark.requirement("E94")
def test_a_program_is_searched_for_names_and_old_ones_are_left_out(tmp_path):
    program = tmp_path / "claude"
    names = (
        b"\0claude-opus-5-5\0claude-sonnet-4-5@20250929 claude-haiku-4-5-20251001,"
        b"claude-3-opus claude-opus-3-1 claude-sonnet-3.7 claude-sonnet-4-v1:0 claude-haiku-4-5\xff"
        b"claude-sonnet-5-5\nclaude-opus-4- claude-opus-x"
    )
    program.write_bytes(b"\x7fELF\0" + names)
    program.chmod(0o755)
    assert [model.model_id for model in scanned(str(program))] == [
        "claude-haiku-4-5",
        "claude-opus-5-5",
        "claude-sonnet-5-5",
    ]


def test_a_program_that_is_not_there_or_empty_names_none(tmp_path):
    empty = tmp_path / "claude"
    empty.touch(mode=0o755)
    assert scanned(str(empty)) == scanned(str(tmp_path / "none")) == []


def test_names_are_sorted_and_told_once():
    assert current(["claude-opus-5", "claude-haiku-5"]) == ["claude-haiku-5", "claude-opus-5"]


@pytest.mark.requirement("E64", "E94")
@pytest.mark.parametrize(
    ("model", "is_taken"),
    [
        ("claude-opus-4-1-20250805", True),
        ("claude-fable-5[1m]", True),
        ("opus", True),
        ("sonnet[1m]", True),
        ("claude-opus-4", False),  # only a part of one
        ("claude-opus-4-1-2025080", False),
        ("claude-nope", False),
        ("nope", False),
        ("ELF", False),
        ("", False),
    ],
)
def test_a_name_that_is_not_listed_is_known_if_the_program_holds_it(tmp_path, model, is_taken):
    program = tmp_path / "claude"
    program.write_bytes(b"\x7fELF\0claude-opus-4-1-20250805\0x-claude-opus-4-1 claude-fable-5")
    program.chmod(0o755)
    assert is_known(str(program), model) is is_taken
    assert is_known(str(tmp_path / "none"), "claude-fable-5") is False


def test_the_long_id_of_a_short_name_is_its_alias():
    (model,) = listed({"models": [{"value": "opus", "resolvedModel": "claude-opus-5-5"}]})
    assert model.is_called("claude-opus-5-5")
    assert listed({"models": [{"value": "opus", "resolvedModel": 7}]})[0].aliases == ()
