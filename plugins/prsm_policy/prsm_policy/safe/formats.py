"""Values of options that name a format, a reporter or an output.

Such a value is a small language of its own: a file to write (`text:x`), a class or a module to load
(`mod.Class`, `X::Y`, `./x.js`, a package). Harmless is only what the program brings along and
prints, so each program has a list.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_core.policies import word_set
from prsm_policy.tables import read_rows, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from prsm_policy.shell.words import Word

# Options that may name such a value in any program.
_NAMING = re.compile(
    r"--(?:[a-z]+-)*(?:format(?:ter)?|report(?:er|s)?|output|out|log|logger|plugin|config|profile"
    r"|render(?:er)?|style|printer|writer|loader|parser|resolver|runner|environment|template)s?"
    r"(?:-[a-z-]+)?",
    re.IGNORECASE,
)
# What most programs have, beside levels and switches.
_COMMON = word_set(
    "text json yaml plain rich short long concise full compact simple tty auto always never yes no"
    " y n on off true false trace debug info log warn warning error critical fatal silent quiet"
    " minimal normal detailed diagnostic verbose"
)


# Values that a program has of its own, by program and option.
_VALUES: Mapping[str, Mapping[str, frozenset[str]]] = {
    program: {option: words_of(fields, kind) for kind in fields for option in kind.split(",")}
    for program, fields in read_rows("formats")
}


def are_harmless(texts: Sequence[str], values: Iterable[tuple[str, Word]]) -> bool:
    """Return whether no option of a check names what would be loaded or written.

    Args:
        texts: The command line of the check, from the program on.
        values: Its options with their values, taken apart.
    """
    is_started = len(texts) > 2 and texts[1] in {"-m", "exec"}
    listed = _VALUES.get(texts[2 if is_started else 0], {})
    for option, word in values:
        allowed = listed.get(option)
        if allowed is None and _NAMING.fullmatch(option):
            allowed = _COMMON
        if allowed is not None and not _is_listed(word, allowed):
            return False
    return True


def _is_listed(word: Word, allowed: frozenset[str]) -> bool:
    return word.known and all(value in allowed or value.isdigit() for value in word.text.split(","))
