"""Looks at bytes, at sums and at the machine, whose command lines have rules of their own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_core.policies import word_set
from prsm_policy.safe.options import Syntax, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from prsm_policy.places import Place
    from prsm_policy.shell.words import Word

_SUM = Syntax(flags="btz", long=word_set("binary text tag zero"), tame=True)
_JOINED = Syntax(
    flags="izv", valued="12jtaeo", long=word_set("check-order nocheck-order header ignore-case")
)

MACHINE: Mapping[str, Syntax] = {
    "hexdump": Syntax(flags="bcCdoxv", valued="ns"),
    "hd": Syntax(flags="bcCdoxv", valued="ns"),
    "od": Syntax(
        flags="abcdfilosvx",
        valued="AjNtSw",
        long=word_set("address-radix= skip-bytes= read-bytes= format= output-duplicates width="),
    ),
    "base64": Syntax(flags="di", valued="w", long=word_set("decode ignore-garbage wrap=")),
    "base32": Syntax(flags="di", valued="w", long=word_set("decode ignore-garbage wrap=")),
    **dict.fromkeys(("sha1sum", "sha224sum", "sha384sum", "sha512sum", "b2sum"), _SUM),
    "cksum": Syntax(),
    "sum": Syntax(flags="rs"),
    "shasum": Syntax(flags="btU", valued="a", long=word_set("binary text algorithm=")),
    "fold": Syntax(flags="bs", valued="w", long=word_set("bytes spaces width=")),
    "fmt": Syntax(flags="cstu", valued="wp", long=word_set("width= split-only")),
    "expand": Syntax(flags="i", valued="t", long=word_set("initial tabs=")),
    "unexpand": Syntax(flags="a", valued="t", long=word_set("all first-only tabs=")),
    "join": _JOINED,
    "nproc": Syntax(long=word_set("all ignore="), max_operands=0),
    "free": Syntax(
        flags="bkmghtwlv", long=word_set("human bytes kilo mega giga total wide si"), max_operands=0
    ),
    "uptime": Syntax(flags="ps", long=word_set("pretty since"), max_operands=0),
    "arch": Syntax(max_operands=0),
    "groups": Syntax(texts=-1),
    "tty": Syntax(flags="s", max_operands=0),
    "lscpu": Syntax(flags="aeJ", long=word_set("all json"), max_operands=0),
    "pgrep": Syntax(flags="acflnovwxi", valued="uUPgs", long=word_set("full"), texts=-1),
    "pidof": Syntax(flags="sx", texts=-1),
    "ss": Syntax(flags="tulnpaesxw46mio", max_operands=0),
    "netstat": Syntax(flags="tulnpaersiW46", max_operands=0),
}

_PLAIN_VALUE = re.compile(r"[\w,:=%.@+/-]*")
_PS_ALL = re.compile(r"-[eAafFljwyLHTdN]*(?P<valued>[opuUCGgts])?")
_PS_OLD = re.compile(r"[auxfjlwrTh]+")
_PS_LONG = re.compile(
    r"--(?:no-headers?|headers?|forest|sort=[\w,+%-]+|pid=[\d,]+|ppid=[\d,]+|width=\d+)"
)


def _ps(arguments: Sequence[Word], _place: Place) -> bool:
    """Return whether ps tells no environment, which an old-style `e` and a column do."""
    rest = [word.text for word in arguments]
    if not all(word.known for word in arguments):
        return False
    while rest:
        text = rest.pop(0)
        match = _PS_ALL.fullmatch(text)
        if match and match["valued"]:
            value = rest.pop(0) if rest else ""
            if not value or "env" in value.casefold() or not _PLAIN_VALUE.fullmatch(value):
                return False
        elif text in {"-p", "--pid", "--ppid"}:
            if not rest or not rest.pop(0).replace(",", "").isdigit():
                return False
        elif not (
            (match and text != "-")
            or _PS_OLD.fullmatch(text)
            or _PS_LONG.fullmatch(text)
            or text.isdigit()
        ):
            return False
    return True


_LSOF_ALONE = re.compile(
    r"-[nPtlwUia]+|-i[46]?(?:TCP|UDP|tcp|udp)?(?:[:@][\w.,:-]+)?|-s(?:TCP|UDP):[A-Z,^]+"
)
_LSOF_PORT = re.compile(r"(?:TCP|UDP|tcp|udp)?:[\d,-]+")
_LSOF_VALUED = frozenset({"-p", "-u", "-c", "-s"})


def _lsof(arguments: Sequence[Word], _place: Place) -> bool:
    rest = [word.text for word in arguments]
    if not all(word.known for word in arguments):
        return False
    before = ""
    while rest:
        text = rest.pop(0)
        if text in _LSOF_VALUED:
            if not rest or not re.fullmatch(r"[\w,:.^]+", rest.pop(0)):
                return False
        elif not _LSOF_ALONE.fullmatch(text) and not (
            before.endswith("i") and _LSOF_PORT.fullmatch(text)
        ):
            return False
        before = text
    return True


MAX_SLEEP = 300  # seconds; who waits longer than that may as well ask
_SLEEP = re.compile(r"(\d{1,3}(?:\.\d+)?)([sm]?)")


def _sleep(arguments: Sequence[Word], _place: Place) -> bool:
    if len(arguments) != 1 or not arguments[0].known:
        return False
    match = _SLEEP.fullmatch(arguments[0].text)
    return match is not None and float(match[1]) * (60 if match[2] == "m" else 1) <= MAX_SLEEP


# Its second operand is written.
_XXD = Syntax(flags="abeipuEC", valued="cglos", max_operands=1)


def _xxd(arguments: Sequence[Word], place: Place) -> bool:
    # It knows no end of options, and no option behind a file: that would be written.
    parsed = parse(arguments, _XXD, place)
    if parsed is None or any(word.text == "--" for word in arguments):
        return False
    return not parsed.operands or arguments[-1] is parsed.operands[0]


_STRINGS = Syntax(flags="afo", valued="nte", long=word_set("all print-file-name bytes= radix="))


def _strings(arguments: Sequence[Word], place: Place) -> bool:
    # Such a word names a file with more arguments.
    if any(word.text.startswith("@") for word in arguments):
        return False
    return parse(arguments, _STRINGS, place) is not None


_TAR_LISTS = re.compile(r"-?[zjJv]*t[zjJv]*f")
_ARCHIVE = re.compile(r"[\w./+-]+")  # a colon would name another machine


def _tar(arguments: Sequence[Word], place: Place) -> bool:
    if len(arguments) != 2 or not _TAR_LISTS.fullmatch(arguments[0].text):
        return False
    file = arguments[1]
    is_near = file.known and not file.may_be_option and _ARCHIVE.fullmatch(file.text) is not None
    return is_near and place.is_ordinary(file)


def _unzip(arguments: Sequence[Word], place: Place) -> bool:
    if len(arguments) != 2 or arguments[0].text not in {"-l", "-v", "-Z"}:
        return False
    file = arguments[1]
    return file.known and not file.may_be_option and place.is_ordinary(file)


SPECIAL: Mapping[str, Callable[[Sequence[Word], Place], bool]] = {
    "ps": _ps,
    "lsof": _lsof,
    "sleep": _sleep,
    "strings": _strings,
    "xxd": _xxd,
    "tar": _tar,
    "unzip": _unzip,
}
