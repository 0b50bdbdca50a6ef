"""A stricter contract of providers: what a vendor says to people acts on nothing.

What a vendor's program or server says of a failure is shown, logged and handed on, by whoever reads
the error. So a provider makes it harmless where it comes in, as `prsm_core.kit.one_line` does.
"""
# ruff: noqa: S101 - these are tests; a plugin author runs them

from __future__ import annotations

import sys
import unicodedata
from functools import cache
from typing import TYPE_CHECKING

import pytest

from prsm_core.domain.turns import Notice, TurnEnded
from prsm_core.errors import PrsmError
from prsm_testing.bound import bounded
from prsm_testing.doubles import RecordingHost, run_turn, session_request
from prsm_testing.provider_contract import ProviderContract
from prsm_testing.provider_scene import failure

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from prsm_core.domain.turns import ProviderEvent
    from prsm_testing.provider_contract import OpenScene

CAUSE = "scripted cause"
# Says on stderr what it is given, and ends; also when it is asked for its version.
_DIES = "import sys; sys.stderr.buffer.write(bytes.fromhex(sys.argv[1])); sys.exit(3)"
_MARKS = {"LEFT-TO-RIGHT MARK", "RIGHT-TO-LEFT MARK", "ARABIC LETTER MARK"}
_TURNING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


# Format characters that are seen, or that only say how signs stand to each other.
_SEEN = ("ARABIC ", "SYRIAC ", "KAITHI ", "EGYPTIAN ")
_UNSEEN = ("VARIATION SELECTOR-", "MONGOLIAN FREE VARIATION SELECTOR ", "KHMER VOWEL INHERENT ")
_FILLERS = {
    *("HANGUL CHOSEONG FILLER", "HANGUL JUNGSEONG FILLER", "HANGUL FILLER"),
    *("HALFWIDTH HANGUL FILLER", "COMBINING GRAPHEME JOINER"),
}


@cache
def acting_characters() -> str:
    """Return all characters that act on a terminal, turn text round or hide, without surrogates.

    By Unicode's own data: control characters, separators of lines and paragraphs, what sets the
    direction of text, and what shows nothing.
    """
    every = map(chr, range(sys.maxunicode + 1))
    return "".join(char for char in every if _acts(char) and unicodedata.category(char) != "Cs")


def _acts(char: str) -> bool:
    if (category := unicodedata.category(char)) in {"Cc", "Cs", "Zl", "Zp", "Cn"}:
        return category != "Cn"  # three of four: they have neither a name nor a direction
    name = unicodedata.name(char, "")
    if name in _MARKS or name in _FILLERS or name.startswith(_UNSEEN):
        return True
    is_turning = unicodedata.bidirectional(char) in _TURNING
    return is_turning or (category == "Cf" and not name.startswith(_SEEN))


def hostile_line() -> str:
    """Return one line that says `CAUSE`, with every acting character that ends no line."""
    kept = (char for char in acting_characters() if char not in "\n\r\0")
    return f"{CAUSE}{''.join(kept)}\x1b[31m red \x1b]0;owned\x07."


@bounded
class HarmlessContract(ProviderContract):
    """What a Provider does that makes harmless what its vendor says; ProviderContract and more."""

    async def test_what_a_program_says_at_its_end_acts_on_no_terminal(
        self, open_scene: OpenScene, tmp_path: Path
    ) -> None:
        """Neither in an error that is raised, nor in an event, nor in what `probe` tells."""
        said = hostile_line().encode().hex()
        async with open_scene() as scene:
            settings = self.without_program(scene.stage.settings)
            if "command" not in (settings or {}):
                pytest.skip("no program is set by `command`, says without_program")
            command = [sys.executable, "-I", "-S", "-c", _DIES, said]
            provider = self.build({**(settings or {}), "command": command}, scene.services)
            status = await provider.probe()
            told = [text for text in (status.reason, status.hint, status.version) if text]
            try:
                async with provider.open_session(
                    session_request(tmp_path), RecordingHost()
                ) as session:
                    told += _told(await run_turn(session, "Hello."))
            except PrsmError as error:
                told += [error.message, error.hint or ""]
            finally:
                await provider.aclose()
        assert any(CAUSE in text for text in told), told
        assert not _acting(told)

    async def test_what_a_server_says_of_a_failure_acts_on_no_terminal(
        self, open_scene: OpenScene
    ) -> None:
        """Neither in the turn's error, nor in a notice."""
        refused = failure(400, message=hostile_line(), times="always")  # some ask twice
        async with open_scene(refused) as scene, scene.session() as session:
            told = _told(await run_turn(session, "Hello."))
        assert told
        assert not _acting(told)


def _told(events: Sequence[ProviderEvent]) -> list[str]:
    """Return what events tell people of a failure."""
    told: list[str] = []
    for event in events:
        if isinstance(event, Notice):
            told += event.text.split("\n")  # the end of a stderr has some lines
        elif isinstance(event, TurnEnded) and event.error is not None:
            told.append(event.error.message)
    return told


def _acting(told: Sequence[str]) -> set[str]:
    return {char for text in told for char in text if _acts(char)}
