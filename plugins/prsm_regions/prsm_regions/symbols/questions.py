"""Questions in plain words: which symbols one is about, if any."""

from __future__ import annotations

import re

_NAME = r"[A-Za-z_$][\w$]*"
_DOTTED = rf"{_NAME}(?:(?:\.|::|#){_NAME})*"
_CODE = re.compile(rf"`({_DOTTED})(?:\(.*?\))?`")
_WORD = re.compile(rf"(?<![\w/.@-])({_DOTTED})(\(\))?(?![\w/@]|\.\w)")
_IMPORTED = re.compile(
    rf"\bimport\s+(?:type\s+)?\{{([^}}]*)\}}|\bfrom\s+[\w.]+\s+import\s+((?:{_NAME}(?:\s+as\s+{_NAME})?)"
    rf"(?:\s*,\s*{_NAME}(?:\s+as\s+{_NAME})?)*)"
)
_USED = re.compile(rf"\b(?:use|import)\s+((?:{_NAME}(?:::|\.))+{_NAME})\s*;")
_CUE = re.compile(
    r"\b(?:class|function|method|struct|enum|trait|interface|type|constant|macro|protocol|def|fn|func"
    r"|(?:type )?signatures?\s+of|definitions?\s+of|fields\s+of|parameters\s+of|arguments\s+of"
    r"|members\s+of|methods\s+of)"
    rf"\s+(?:the\s+)?(?:(?:class|function|method|struct|enum|trait|interface|type)\s+)?({_DOTTED})"
)
_BEFORE = re.compile(rf"\b({_DOTTED})\s+(?:class|function|method|struct|enum|trait|interface)\b")
_LIKE_CODE = re.compile(
    r"^(?:_*[a-z0-9]+_\w*|_+[A-Za-z]\w*|[A-Z]+_[A-Z0-9_]+|[a-z]+[A-Z]\w*|"
    r"[A-Z][a-z0-9]+[A-Z]\w*|[A-Z]{2,}[a-z]\w*)$"
)
_PROSE = frozenset(
    re.findall(
        r"\w+",
        """
        a an and any are as at by can could do does for from has have how i in is it its me my
        need of on or our please return returns returned should signature signatures definition
        definitions that the their there these this those to type types use used using want was
        we what when where which who why will with would you your exact full public look like
        takes take class function method struct github javascript typescript readme todo api json
        http https
        """,
    )
)
_PLACE = re.compile(r"\b(?:from|in|under|inside|at)\s+[`'\"]?[\w./:@~-]*$")
MOST = 8  # symbols of one question


def symbols_in(text: str) -> list[str]:
    """Return the names that a question is about, in its order; none where it is about none.

    What looks like code is a name: in backquotes, with capitals or underscores inside, called,
    imported, or behind a word such as `class`. The path behind `from` is where it is, and no name.
    """
    found: dict[str, int] = {}
    for pattern in (_CODE, _CUE, _BEFORE, _USED):
        for match in pattern.finditer(text):
            _add(found, match.group(1), match.start(1), text)
    for match in _IMPORTED.finditer(text):
        for each in re.split(r"\s*,\s*", (match.group(1) or match.group(2)).strip()):
            _add(found, each.split(" as ")[0].strip(), match.start(), text)
    for match in _WORD.finditer(text):
        name, called = match.group(1), match.group(2)
        if called or any(_LIKE_CODE.match(part) for part in _parts(name)):
            _add(found, name, match.start(), text)
    ordered = sorted(found, key=lambda name: (found[name], name))
    return [name for name in ordered if not _is_within(name, ordered)][:MOST]


def _add(found: dict[str, int], name: str, place: int, text: str) -> None:
    if name.lower() in _PROSE or len(name) < 2 or _PLACE.search(text[:place]):
        return
    found.setdefault(name, place)


def _parts(name: str) -> list[str]:
    return re.split(r"\.|::|#", name)


def _is_within(name: str, others: list[str]) -> bool:
    """Return whether another name is the same, said with what it is in."""
    return any(
        other != name and re.search(rf"(?:\.|::|#){re.escape(name)}$", other) for other in others
    )
