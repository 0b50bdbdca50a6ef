"""Command lines of sed, awk and jq that do no more than print.

Their programs are judged in `prsm_policy.shell`: a program is allowed if every implementation reads
it alike and finds nothing in it but printing, or if a sandbox of its own leaves it nothing else.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_core.policies import word_set
from prsm_policy.safe.options import Syntax, parse
from prsm_policy.shell import awk, jq, sed
from prsm_policy.shell.words import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prsm_policy.places import Place
    from prsm_policy.shell.words import Word

_SED_LONG = word_set(
    "quiet silent regexp-extended separate null-data unbuffered expression= posix sandbox"
)
_SCRIPTS = frozenset({"-e", "--expression"})
_SED = Syntax(
    flags="nErsuz", valued="e", long=_SED_LONG, texts=1, all_paths=_SCRIPTS, free=_SCRIPTS
)
_SED_OPTION = re.compile(r"-[nErsuz]*e|--expression")


def sed_prints(arguments: Sequence[Word], place: Place) -> bool:
    """Return whether sed with these arguments only prints."""
    if not _told(arguments, _SED_OPTION):
        return False
    parsed = parse(arguments, _SED, place)
    if parsed is None:
        return False
    texts = [word.text for word in arguments]
    if not parsed.options & _SCRIPTS:
        if not parsed.operands or not parsed.operands[0].known:
            return False
    elif parsed.operands and _has_script_behind(parsed.operands[0], arguments):
        # Where options end at the first operand, that operand is the script.
        return False
    scripts = sed.scripts_of(texts)
    if any(script.endswith("\\") for script in scripts):
        return False
    # The scripts before it are read without it.
    judge = sed.only_edits_in_sandbox if texts[0] == "--sandbox" else sed.only_edits
    return judge("\n".join(scripts))


def _has_script_behind(operand: Word, arguments: Sequence[Word]) -> bool:
    """Return whether a script is given behind the first operand."""
    at = next(at for at, word in enumerate(arguments) if word is operand)
    return any(_SED_OPTION.match(word.text) for word in arguments[at:])


def _told(arguments: Sequence[Word], option: re.Pattern[str]) -> bool:
    """Return whether all but names of files is known."""
    before = ""
    for word in arguments:
        if not word.exact and (word.kind is not Kind.NAME or option.fullmatch(before)):
            return False
        if word.glob and option.fullmatch(before):
            return False
        before = word.text
    return True


_AWK_VALUE = re.compile(r"[a-z_]\w*=[^\\]*|O?[FR]S=[^\\]*(?:\\[tn])?")


def awk_prints(arguments: Sequence[Word], place: Place) -> bool:
    """Return whether awk, whichever it is, only prints with these arguments."""
    return _awk_prints(arguments, place, awk.only_prints)


def gawk_prints(arguments: Sequence[Word], place: Place) -> bool:
    """Return whether gawk with these arguments only prints; it has a sandbox."""
    if arguments and arguments[0].text in {"--sandbox", "-S"}:
        return _awk_prints(arguments[1:], place, awk.only_prints_in_sandbox)
    return awk_prints(arguments, place)


def _awk_prints(
    arguments: Sequence[Word], place: Place, only_prints: Callable[[str], bool]
) -> bool:
    words = list(arguments)
    while words and words[0].text.startswith("-"):
        option = words.pop(0)
        if not option.known or option.text[:2] not in {"-F", "-v"}:
            if option.known and option.text == "--":
                break
            return False
        value = option.text[2:]
        if not value:
            if not words or not words[0].known:
                return False
            value = words.pop(0).text
        if option.text[1] == "v" and not _AWK_VALUE.fullmatch(value):
            return False
    if not words or not words[0].known or not only_prints(words[0].text):
        return False
    return all(
        "=" not in word.text
        and (word.exact or word.kind is Kind.NAME)
        and not word.may_be_option
        and place.is_ordinary(word)
        for word in words[1:]
    )


_JQ_ARGUMENTS = frozenset({"--arg", "--argjson"})
_JQ = Syntax(
    flags="rcsneSaMCj",
    long=word_set(
        "raw-output compact-output slurp null-input exit-status sort-keys tab join-output"
    ),
    texts=1,
)


def jq_prints(arguments: Sequence[Word], place: Place) -> bool:
    """Judge jq, which takes options behind operands, too.

    What it makes of `--`, and of what stands behind it, differs between its versions.
    """
    rest = list(reversed(arguments))
    left: list[Word] = []
    while rest:
        word = rest.pop()
        if word.text == "--":
            return False
        if word.text in _JQ_ARGUMENTS:
            if len(rest) < 2 or not (rest.pop().known and rest.pop().known):
                return False
        elif word.text == "--indent":
            if not rest or not rest.pop().text.isdigit():
                return False
        else:
            left.append(word)
    parsed = parse(left, _JQ, place)
    if parsed is None or not parsed.operands or not parsed.operands[0].known:
        return False
    return jq.only_shows_input(parsed.operands[0].text)
