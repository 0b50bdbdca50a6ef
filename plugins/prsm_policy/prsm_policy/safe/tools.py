"""The read-only tools: programs that look at files or text and change nothing.

For each of them the options that are known to be harmless; whatever else a command line holds
makes it one that is asked about.

Command lines of sed, awk and jq that do no more than print.

Their programs are judged in `prsm_policy.shell`: a program is allowed if every implementation reads
it alike and finds nothing in it but printing, or if a sandbox of its own leaves it nothing else.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from prsm_core.policies import word_set
from prsm_policy.safe.options import Syntax, parse
from prsm_policy.safe.reach import diff_reach, fd_reach, grep_reach, link_reach, ls_reach, rg_reach
from prsm_policy.shell import awk, jq, sed
from prsm_policy.shell.words import UNKNOWN, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from prsm_policy.places import Place
    from prsm_policy.shell.words import Word

    Check = Callable[[Sequence[Word], Place], bool]
    from collections.abc import Callable, Sequence

_SED_LONG = word_set(
    "quiet silent regexp-extended separate null-data unbuffered expression= posix sandbox"
)
_SCRIPTS = frozenset({"-e", "--expression"})
_SED = Syntax(
    flags="nErsuz", valued="e", long=_SED_LONG, texts=1, all_paths=_SCRIPTS, free=_SCRIPTS
)
_SED_OPTION = re.compile(r"-[nErsuz]*e|--expression")

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

_GREP_LONG = word_set(
    "recursive line-number ignore-case no-ignore-case files-with-matches files-without-match count"
    " only-matching invert-match word-regexp line-regexp extended-regexp fixed-strings perl-regexp"
    " file= basic-regexp no-filename with-filename quiet silent no-messages text null byte-offset"
    " color color= colour colour= include= exclude= exclude-dir= context= after-context="
    " before-context= max-count= regexp= binary-files="
)
_PATTERN_OPTIONS = frozenset({"-e", "--regexp"})
_PATTERN_FILES = frozenset({"-f", "--file"})
_GREP = Syntax(
    flags="abcEFGhHiIlLnoPqrRsvwxyzZ",
    valued="ABCefm",
    long=_GREP_LONG,
    texts=1,
    all_paths=_PATTERN_OPTIONS | _PATTERN_FILES,
    free=_PATTERN_OPTIONS,
    numeric=True,
    tame=True,
    reach=grep_reach,
)

_SYNTAX: Mapping[str, Syntax] = {
    "ls": Syntax(
        flags="aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1",
        valued="ITw",
        long=word_set(
            "all almost-all author human-readable recursive reverse size directory classify inode"
            " numeric-uid-gid group-directories-first dereference full-time color color= sort="
            " time= time-style= format= ignore= hide= width= block-size="
        ),
        names_only=True,
        tame=True,
        reach=ls_reach,
    ),
    "cat": Syntax(
        flags="AbeEnstTuv",
        long=word_set("number number-nonblank show-all show-ends show-tabs squeeze-blank"),
        tame=True,
    ),
    "head": Syntax(
        flags="qvz",
        valued="nc",
        long=word_set("lines= bytes= quiet verbose"),
        numeric=True,
        tame=True,
    ),
    "tail": Syntax(
        flags="qvzfF",
        valued="nc",
        long=word_set("lines= bytes= quiet verbose follow follow= retry"),
        numeric=True,
    ),
    "wc": Syntax(
        flags="cmlLw", long=word_set("bytes chars lines words max-line-length"), tame=True
    ),
    "nl": Syntax(valued="bdfhilnsvw", flags="p"),
    "stat": Syntax(
        flags="Lft",
        valued="c",
        long=word_set("format= printf= dereference file-system"),
        names_only=True,
    ),
    "file": Syntax(flags="bihLkr", long=word_set("brief mime mime-type mime-encoding")),
    "du": Syntax(
        flags="abchHklLmPsSx0",
        valued="dtB",
        long=word_set(
            "all human-readable summarize max-depth= total apparent-size si bytes one-file-system"
        ),
        names_only=True,
        tame=True,
        reach=link_reach,
    ),
    "df": Syntax(
        flags="ahHiklPT",
        long=word_set("human-readable inodes print-type output output= total local"),
        names_only=True,
    ),
    "tree": Syntax(
        flags="adfisDhpugFCnAStrvJX",
        valued="LIP",
        long=word_set("dirsfirst noreport gitignore prune filelimit= sort= du si charset= version"),
        names_only=True,
        apart=True,
    ),
    "basename": Syntax(
        flags="az", valued="s", long=word_set("multiple suffix="), texts=-1, tame=True
    ),
    "dirname": Syntax(flags="z", texts=-1, tame=True),
    "realpath": Syntax(
        flags="emLPqsz", long=word_set("relative-to= relative-base="), names_only=True
    ),
    "readlink": Syntax(flags="femnqsvz", names_only=True),
    "pwd": Syntax(flags="LP", max_operands=0),
    "whoami": Syntax(max_operands=0),
    "id": Syntax(flags="ugGnrza", texts=-1),
    "uname": Syntax(flags="asnrvmpio", max_operands=0),
    "hostname": Syntax(flags="sfiIdA", max_operands=0),
    "which": Syntax(flags="a", texts=-1),
    "type": Syntax(flags="atpPf", texts=-1),
    "seq": Syntax(flags="w", valued="sf", texts=-1, negative=True),
    "true": Syntax(texts=-1),
    "false": Syntax(texts=-1),
    "sort": Syntax(
        flags="bdfgiMhnRrVcCmsuz",
        valued="kt",
        long=word_set(
            "numeric-sort reverse unique key= field-separator= human-numeric-sort version-sort"
            " ignore-case ignore-leading-blanks check general-numeric-sort stable zero-terminated"
        ),
    ),
    "uniq": Syntax(
        flags="cdDiuz",
        valued="fsw",
        long=word_set("count repeated unique ignore-case skip-fields= skip-chars= check-chars="),
        max_operands=1,
    ),
    "cut": Syntax(
        flags="snz",
        valued="dfcb",
        long=word_set(
            "delimiter= fields= characters= bytes= only-delimited complement output-delimiter="
        ),
    ),
    "tr": Syntax(flags="cCdst", long=word_set("complement delete squeeze-repeats"), texts=-1),
    "rev": Syntax(),
    "tac": Syntax(),
    "paste": Syntax(flags="sz", valued="d", long=word_set("serial delimiters=")),
    "column": Syntax(
        flags="txne", valued="soc", long=word_set("table separator= output-separator=")
    ),
    "comm": Syntax(
        flags="123iz", long=word_set("check-order nocheck-order output-delimiter= total")
    ),
    "diff": Syntax(
        flags="urqbBwiNayctpdEZs",
        valued="UCWIx",
        long=word_set(
            "unified unified= brief recursive side-by-side ignore-all-space ignore-space-change"
            " ignore-blank-lines ignore-case new-file text color color= width= minimal"
            " suppress-common-lines strip-trailing-cr report-identical-files"
        ),
        reach=diff_reach,
    ),
    "cmp": Syntax(flags="lsb", valued="ni", long=word_set("silent quiet verbose print-bytes")),
    "md5sum": Syntax(flags="btz", long=word_set("binary text tag zero"), tame=True),
    "sha256sum": Syntax(flags="btz", long=word_set("binary text tag zero"), tame=True),
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "rg": Syntax(
        flags="acFhHiIlLnNopPqsSuUvwx0",
        valued="ABCdegjmMrtTE",
        long=word_set(
            "hidden no-hidden files files-with-matches files-without-match ignore-case smart-case"
            " case-sensitive word-regexp line-regexp fixed-strings count count-matches line-number"
            " no-line-number heading no-heading no-ignore no-ignore-vcs no-config with-filename"
            " no-filename only-matching invert-match multiline multiline-dotall pcre2 trim vimgrep"
            " type-list null quiet stats json text column no-messages passthru color= glob= iglob="
            " type= type-not= max-count= max-depth= max-columns= max-filesize= context="
            " after-context= before-context= replace= regexp= sort= sortr= encoding= pretty"
            " context-separator= debug"
        ),
        texts=1,
        all_paths=_PATTERN_OPTIONS | {"--files", "--type-list"},
        free=_PATTERN_OPTIONS,
        reach=rg_reach,
    ),
    "fd": Syntax(
        flags="HIgisapFu0L1",
        valued="etdE",
        long=word_set(
            "hidden no-ignore no-ignore-vcs extension= type= max-depth= min-depth= exclude= glob"
            " regex fixed-strings ignore-case case-sensitive absolute-path full-path follow size="
            " changed-within= changed-before= max-results= color= print0"
        ),
        texts=1,
        names_only=True,
        reach=fd_reach,
    ),
    **MACHINE,
}


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


_PRINTF_ASSIGNS = re.compile(r"%[^%a-zA-Z]*[hjlLqtz]*n")
_TEST_FILE = word_set(
    "-e -f -d -r -w -x -s -h -L -n -z -b -c -p -S -t -g -k -u -G -N -O -nt -ot -ef"
)
_TEST_BETWEEN = frozenset({"-a", "-o"})  # at the beginning -o asks for an option of the shell
_TEST_NUMBER = word_set("-eq -ne -lt -le -gt -ge")


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


_TEST_TEXT = frozenset({"=", "==", "!="})
_TEST_ONE = _TEST_FILE - {"-nt", "-ot", "-ef"}


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


_DOUBLE_ONE = _TEST_ONE | {"-n", "-z"}
_DOUBLE_TWO = _TEST_TEXT | {"=~", "<", ">"}


def _double_bracket(arguments: Sequence[Word], place: Place) -> bool:
    """Return whether what stands between double brackets computes nothing."""
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


_DATE_PRECISION = re.compile(r"-I(?:date|hours|minutes|seconds|ns)")


def _date(arguments: Sequence[Word], place: Place) -> bool:
    # A bare operand sets the clock.
    arguments = [word for word in arguments if not _DATE_PRECISION.fullmatch(word.text)]
    rules = Syntax(
        flags="uRI",
        valued="dr",
        long=word_set("utc date= iso-8601 iso-8601= rfc-3339= reference="),
        texts=-1,
    )
    parsed = parse(arguments, rules, place)
    return parsed is not None and all(word.text.startswith("+") for word in parsed.operands)


def _command(arguments: Sequence[Word], place: Place) -> bool:
    if not arguments or arguments[0].text not in {"-v", "-V"}:
        return False
    return parse(arguments[1:], Syntax(texts=-1), place) is not None


# What these do with an operand that is only known when they run can be told.
TAKES_UNKNOWN = frozenset(_SYNTAX) | word_set(
    "echo printf test [ [[ jq find sed gsed awk gawk mawk nawk git"
)

READ_ONLY: Mapping[str, Check] = {
    **{name: _fits(name) for name in _SYNTAX},
    "echo": _echo,
    "printf": _printf,
    "expr": _echo,
    "test": _test,
    "[": _bracket,
    "[[": _double_bracket,
    "sed": sed_prints,
    "gsed": sed_prints,
    **dict.fromkeys(("awk", "mawk", "nawk"), awk_prints),
    "gawk": gawk_prints,
    "jq": jq_prints,
    "find": _find,
    "date": _date,
    "command": _command,
    **SPECIAL,
}
