"""The read-only tools: programs that look at files or text and change nothing.

What a command line holds beside the options that are known to be harmless makes it one that is
asked about. A program of sed, awk or jq is allowed if every implementation reads it alike and finds
nothing in it but printing, or if a sandbox of its own leaves it nothing else.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import dropwhile
from math import inf
from typing import TYPE_CHECKING

from prsm_core.policies import word_set
from prsm_policy.safe.options import Syntax, parse, read_syntax
from prsm_policy.safe.reach import diff_reach, grep_reach, link_reach, ls_reach, rg_reach
from prsm_policy.shell import awk, jq, sed
from prsm_policy.shell.words import UNKNOWN, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from prsm_policy.places import Place
    from prsm_policy.shell.script import Command
    from prsm_policy.shell.words import Word

    Check = Callable[[Sequence[Word], Place], bool]

MAX_LINES = 10_000_000  # of seq
MAX_SECONDS = 3_600
_FOLLOWS = re.compile(r"-[A-Za-z0-9]*[fF].*|--(?:follow|retry).*")
_NUMBER = re.compile(r"-?\d{1,12}(?:\.\d{1,9})?")
_DURATION = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)([smh]?)")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3_600}
# Other signals may leave the reader running.
_ENDING = word_set("HUP INT QUIT KILL TERM SIGHUP SIGINT SIGQUIT SIGKILL SIGTERM 1 2 3 9 15")
_SEQ_VALUED = word_set("-s -f --separator --format")
_SED_LONG = word_set(
    "quiet silent regexp-extended separate null-data unbuffered expression= posix sandbox"
)
_SCRIPTS = frozenset({"-e", "--expression"})
_SED = Syntax(
    flags="nErsuz", valued="e", long=_SED_LONG, texts=1, all_paths=_SCRIPTS, free=_SCRIPTS
)
_SED_OPTION = re.compile(r"-[nErsuz]*e|--expression")
_PLAIN_VALUE = re.compile(r"[\w,:=%.@+/-]*")
_PS_ALL = re.compile(r"-[eAafFljwyLHTdN]*(?P<valued>[opuUCGgts])?")
_PS_OLD = re.compile(r"[auxfjlwrTh]+")
_PS_LONG = re.compile(
    r"--(?:no-headers?|headers?|forest|sort=[\w,+%-]+|pid=[\d,]+|ppid=[\d,]+|width=\d+)"
)
_SYNTAX = read_syntax(
    "readers",
    {
        "diff": diff_reach,
        "fd": link_reach,
        "grep": grep_reach,
        "link": link_reach,
        "ls": ls_reach,
        "rg": rg_reach,
    },
)
_AWK_VALUE = re.compile(r"[a-z_]\w*=[^\\]*|O?[FR]S=[^\\]*(?:\\[tn])?")
_JQ_ARGUMENTS = frozenset({"--arg", "--argjson"})
_JQ = Syntax(
    flags="rcsneSaMCj",
    long=word_set(
        "raw-output compact-output slurp null-input exit-status sort-keys tab join-output"
    ),
    texts=1,
)
_LSOF_ALONE = re.compile(
    r"-[nPtlwUia]+|-i[46]?(?:TCP|UDP|tcp|udp)?(?:[:@][\w.,:-]+)?|-s(?:TCP|UDP):[A-Z,^]+"
)
_LSOF_PORT = re.compile(r"(?:TCP|UDP|tcp|udp)?:[\d,-]+")
_LSOF_VALUED = frozenset({"-p", "-u", "-c", "-s"})
MAX_SLEEP = 300  # seconds; who waits longer than that may as well ask
_SLEEP = re.compile(r"(\d{1,3}(?:\.\d+)?)([sm]?)")
# Its second operand is written.
_XXD = Syntax(flags="abeipuEC", valued="cglos", max_operands=1)
_STRINGS = Syntax(flags="afo", valued="nte", long=word_set("all print-file-name bytes= radix="))
_PRINTF_ASSIGNS = re.compile(r"%[^%a-zA-Z]*[hjlLqtz]*n")
_TEST_FILE = word_set(
    "-e -f -d -r -w -x -s -h -L -n -z -b -c -p -S -t -g -k -u -G -N -O -nt -ot -ef"
)
_TEST_BETWEEN = frozenset({"-a", "-o"})  # at the beginning -o asks for an option of the shell
_TEST_NUMBER = word_set("-eq -ne -lt -le -gt -ge")
_TEST_TEXT = frozenset({"=", "==", "!="})
_TEST_ONE = _TEST_FILE - {"-nt", "-ot", "-ef"}
_DOUBLE_ONE = _TEST_ONE | {"-n", "-z"}
_DOUBLE_TWO = _TEST_TEXT | {"=~", "<", ">"}
_FIND_NUMBER = re.compile(r"[-+]?\d+[a-zA-Z]?")
_FIND_ALONE = word_set(
    "-empty -ls -true -false -readable -writable -executable -not ! -o -or -a -and -print -print0"
    " -prune ( ) -depth -mount -xdev -daystart -quit -nouser -nogroup -noleaf"
)
_FIND_VALUED = word_set(
    "-name -iname -path -ipath -wholename -regex -iregex -regextype -type -maxdepth -mindepth -size"
    " -mtime -mmin -atime -amin -ctime -cmin -printf -inum -newer -perm -user -group -links"
    " -newermt -newerct -newerat -newermm -anewer -cnewer -used -samefile -lname -ilname"
    " -iwholename -iregex -xtype -fstype -uid -gid"
)
_DATE_PRECISION = re.compile(r"-I(?:date|hours|minutes|seconds|ns)")
# A bare operand sets the clock.
_DATE = Syntax(
    flags="uRI",
    valued="dr",
    long=word_set("utc date= iso-8601 iso-8601= rfc-3339= reference="),
    texts=-1,
)
# What these do with an operand that is only known when they run can be told.
TAKES_UNKNOWN = frozenset(_SYNTAX) | word_set(
    "echo printf test [ [[ jq find sed gsed awk gawk mawk nawk git"
)


def is_endless(name: str, words: Sequence[Word]) -> bool:
    """Return whether a reader, told these words, may go on without an end."""
    if name == "tail":
        return any(_FOLLOWS.fullmatch(word.text) for word in words)
    return name == "seq" and counts_to(words) > MAX_LINES


def counts_to(words: Sequence[Word]) -> float:
    """Return how many lines `seq` prints at most."""
    numbers: list[float] = []
    is_value = False
    for word in words:
        text = word.text
        if is_value or (text[:1] == "-" and not _NUMBER.fullmatch(text)):
            is_value = not is_value and text in _SEQ_VALUED
        elif not word.exact:
            if word.kind is not Kind.NUMBER:
                return inf
            numbers.append(0)
        elif not _NUMBER.fullmatch(text):
            return inf
        else:
            numbers.append(float(text))
    first = numbers[0] if len(numbers) > 1 else 1.0
    step = numbers[1] if len(numbers) > 2 else 1.0
    last = numbers[-1] if numbers else 1.0
    return abs((last - first) / step) if step else inf


def ends_in_time(command: Command) -> bool:
    """Return whether a command is `timeout` with a duration that ends what it runs."""
    if command.texts[0].rpartition("/")[2] != "timeout":
        return False
    texts = list(reversed(command.texts[1:]))
    while texts:
        text = texts.pop()
        name, equals, value = text.partition("=")
        if text[:1] != "-":
            match = _DURATION.fullmatch(text)
            seconds = float(match[1]) * _UNITS[match[2]] if match else 0
            return 0 < seconds <= MAX_SECONDS
        if name in {"-s", "--signal"}:
            value = value if equals else (texts.pop() if texts else "")
            if value.upper() not in _ENDING:
                return False
        elif text.startswith("-s") or name.startswith("--sig"):
            return False
        elif name in {"-k", "--kill-after"} and not equals and texts:
            texts.pop()
    return False


def _sed_prints(arguments: Sequence[Word], place: Place) -> bool:
    if not _told(arguments, _SED_OPTION):
        return False
    parsed = parse(arguments, _SED, place)
    if parsed is None:
        return False
    texts = [word.text for word in arguments]
    if not parsed.options & _SCRIPTS:
        if not parsed.operands or not parsed.operands[0].known:
            return False
    elif parsed.operands:
        # Where options end at the first operand, and a script is behind it, it is the script.
        behind = dropwhile(lambda word: word is not parsed.operands[0], arguments)
        if any(_SED_OPTION.match(word.text) for word in behind):
            return False
    scripts = sed.scripts_of(texts)
    if any(script.endswith("\\") for script in scripts):
        return False
    # The scripts before it are read without it.
    judge = sed.only_edits_in_sandbox if texts[0] == "--sandbox" else sed.only_edits
    return judge("\n".join(scripts))


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


def _gawk_prints(arguments: Sequence[Word], place: Place) -> bool:
    if arguments and arguments[0].text in {"--sandbox", "-S"}:
        return _awk_prints(arguments[1:], place, awk.only_prints_in_sandbox)
    return _awk_prints(arguments, place)


def _awk_prints(
    arguments: Sequence[Word], place: Place, only_prints: Callable[[str], bool] = awk.only_prints
) -> bool:
    words = list(arguments)
    while words and words[0].text.startswith("-"):
        option = words.pop(0)
        if option.known and option.text == "--":
            break
        if not option.known or option.text[:2] not in {"-F", "-v"}:
            return False
        value = option.told(option.text[2:])
        if not value.text:
            value = words.pop(0) if words else UNKNOWN
        if not value.known or (option.text[1] == "v" and not _AWK_VALUE.fullmatch(value.text)):
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


def _jq_prints(arguments: Sequence[Word], place: Place) -> bool:
    """Return whether jq, which takes options behind operands too, only prints its input."""
    rest = list(reversed(arguments))
    left: list[Word] = []
    while rest:
        word = rest.pop()
        if word.text == "--":
            return False  # versions differ about it
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


def _sleep(arguments: Sequence[Word], _place: Place) -> bool:
    if len(arguments) != 1 or not arguments[0].known:
        return False
    match = _SLEEP.fullmatch(arguments[0].text)
    return match is not None and float(match[1]) * (60 if match[2] == "m" else 1) <= MAX_SLEEP


def _xxd(arguments: Sequence[Word], place: Place) -> bool:
    # It knows no end of options, and no option behind a file: that would be written.
    parsed = parse(arguments, _XXD, place)
    if parsed is None or any(word.text == "--" for word in arguments):
        return False
    return not parsed.operands or arguments[-1] is parsed.operands[0]


def _strings(arguments: Sequence[Word], place: Place) -> bool:
    # A word with an @ names a file with more arguments.
    reads_more = any(word.text.startswith("@") for word in arguments)
    return not reads_more and parse(arguments, _STRINGS, place) is not None


def _lists_archive(option: str, name: str) -> Check:
    """Return a check that an archiver lists one archive of the workspace."""
    fits_option, fits_name = re.compile(option).fullmatch, re.compile(name, re.DOTALL).fullmatch

    def check(arguments: Sequence[Word], place: Place) -> bool:
        if len(arguments) != 2 or not fits_option(arguments[0].text):
            return False
        file = arguments[1]
        is_file = file.known and not file.may_be_option and fits_name(file.text) is not None
        return is_file and place.is_ordinary(file)

    return check


def paths_of(name: str, arguments: Sequence[Word], place: Place) -> Sequence[Word]:
    """Return the operands of a tool that are paths, nothing where its arguments are not known."""
    rules = _SYNTAX[name]
    parsed = parse(arguments, rules, place)
    if parsed is None:
        return ()
    return parsed.operands[0 if parsed.options & rules.all_paths else rules.texts :]


def _fits(name: str) -> Check:
    rules = _SYNTAX[name]
    return lambda arguments, place: parse(arguments, rules, place) is not None


def _echo(arguments: Sequence[Word], place: Place) -> bool:
    # A tilde or pattern becomes names of files, which is all that echo could tell.
    return all(
        place.is_ordinary(word, is_read=False) for word in arguments if word.glob or word.tilde
    )


def _printf(arguments: Sequence[Word], place: Place) -> bool:
    # -v and %n assign to a variable, and the name of a variable can run code.
    if arguments and arguments[0].text == "--":
        arguments = arguments[1:]
    elif arguments and arguments[0].may_be_option:
        return False
    if not arguments or arguments[0].glob:
        return False
    text = arguments[0].text.replace("%%", "")
    return arguments[0].exact and not _PRINTF_ASSIGNS.search(text) and _echo(arguments, place)


def _test(arguments: Sequence[Word], place: Place) -> bool:
    # An operand of a comparison of numbers must be one: elsewhere in bash it is evaluated.
    if not all(word.exact for word in arguments):
        return _fits_shape(arguments, place)
    texts = [word.text for word in arguments]
    numbers = _TEST_NUMBER & set(texts)
    for before, word in zip(["!", *texts], arguments, strict=False):
        if word.text in _TEST_BETWEEN and before not in _TEST_BETWEEN | {"!"}:
            continue
        if word.text in _TEST_FILE | _TEST_NUMBER | {"!", "=", "==", "!="}:
            continue
        if word.may_be_option or (numbers and not word.text.isdigit()):
            return False
        if not place.is_ordinary(word, is_read=False):
            return False
    return True


def _fits_shape(arguments: Sequence[Word], place: Place) -> bool:
    """Return whether a test of texts that are not known yet can be only one kind of test."""
    words = list(arguments)
    while len(words) > 1 and words[0].known and words[0].text == "!":
        del words[0]
    unknown = [word for word in words if not word.exact]
    if any(word.kind is None or word.glob for word in unknown):
        return False
    if not all(place.is_ordinary(word) for word in words if word.exact):
        return False
    if len(words) == 3 and words[1].known:
        if words[1].text in _TEST_NUMBER:
            return all(_is_number(word) for word in (words[0], words[2]))
        return words[1].text in _TEST_TEXT
    if len(words) == 2:
        return words[0].known and words[0].text in _TEST_ONE
    return len(words) == 1


def _is_number(word: Word) -> bool:
    return word.text.isdigit() if word.exact else word.kind is Kind.NUMBER and not word.text


def _double_bracket(arguments: Sequence[Word], place: Place) -> bool:
    if not arguments or arguments[-1].text != "]]":
        return False
    words = arguments[:-1]
    for at, word in enumerate(words):
        if not word.exact:
            if word.kind is None:
                return False
        elif word.text in _TEST_NUMBER:
            if not 0 < at < len(words) - 1:
                return False
            if not _is_number(words[at - 1]) or not _is_number(words[at + 1]):
                return False
        elif word.text in _DOUBLE_ONE | _DOUBLE_TWO | {"!", "(", ")", "&&", "||"}:
            continue
        elif word.text.startswith("-") or not place.is_ordinary(replace(word, glob=False)):
            return False
    return True


def _bracket(arguments: Sequence[Word], place: Place) -> bool:
    return bool(arguments) and arguments[-1].text == "]" and _test(arguments[:-1], place)


def _find(arguments: Sequence[Word], place: Place) -> bool:
    words = list(reversed(arguments))
    in_expression = False
    while words:
        word = words.pop()
        if word.text in _FIND_VALUED:
            value = words.pop() if words else UNKNOWN
            is_number = _FIND_NUMBER.fullmatch(value.text) is not None
            if (value.may_be_option and not is_number) or not place.is_ordinary(value):
                return False
        elif word.text not in _FIND_ALONE:
            if in_expression or word.may_be_option or not place.is_ordinary(word):
                return False
            continue
        in_expression = True
    return True


def _date(arguments: Sequence[Word], place: Place) -> bool:
    arguments = [word for word in arguments if not _DATE_PRECISION.fullmatch(word.text)]
    parsed = parse(arguments, _DATE, place)
    return parsed is not None and all(word.text.startswith("+") for word in parsed.operands)


def _command(arguments: Sequence[Word], place: Place) -> bool:
    tells = bool(arguments) and arguments[0].text in {"-v", "-V"}
    return tells and parse(arguments[1:], Syntax(texts=-1), place) is not None


READ_ONLY: Mapping[str, Check] = {
    **{name: _fits(name) for name in _SYNTAX},
    "echo": _echo,
    "printf": _printf,
    "expr": _echo,
    "test": _test,
    "[": _bracket,
    "[[": _double_bracket,
    "sed": _sed_prints,
    "gsed": _sed_prints,
    **dict.fromkeys(("awk", "mawk", "nawk"), _awk_prints),
    "gawk": _gawk_prints,
    "jq": _jq_prints,
    "find": _find,
    "date": _date,
    "command": _command,
    "ps": _ps,
    "lsof": _lsof,
    "sleep": _sleep,
    "strings": _strings,
    "xxd": _xxd,
    # A colon would name another machine.
    "tar": _lists_archive(r"-?[zjJv]*t[zjJv]*f", r"[\w./+-]+"),
    "unzip": _lists_archive("-[lvZ]", ".*"),
}
