"""Read-only git: the subcommands and options that only look, and start nothing by looking.

A repository's own configuration can make git run programs when it looks. What counts is what one
command would start, from what git says is configured where it runs and in the submodules it looks
into. The configuration of the user and of the system is theirs. What may be a bare repository is
refused: git is told elsewhere to ignore such folders, but an old one does not.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from prsm_core.policies import is_within, protected_part, word_set
from prsm_policy.safe.asking import recurses, starts
from prsm_policy.safe.options import Syntax, parse, read_syntax
from prsm_policy.safe.reach import untracked_reach
from prsm_policy.shell.words import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from prsm_policy.places import Place
    from prsm_policy.safe.asking import Setting
    from prsm_policy.safe.options import Parsed
    from prsm_policy.shell.words import Word

_DIFF_LONG = word_set(
    "stat stat= dirstat dirstat= numstat shortstat compact-summary name-only name-status summary"
    " patch no-patch unified= color color= no-color word-diff word-diff= color-words cached staged"
    " minimal ignore-all-space ignore-space-change ignore-blank-lines ignore-space-at-eol patience"
    " histogram diff-algorithm= find-renames find-renames= no-renames relative exit-code quiet raw"
    " check diff-filter= no-ext-diff no-textconv text full-index abbrev abbrev= function-context"
    " merge-base no-prefix find-copies find-copies= find-copies-harder"
)
_LOG_LONG = _DIFF_LONG | word_set(
    "oneline graph all decorate decorate= no-decorate author= committer= since= until= after="
    " before= grep= max-count= merges no-merges first-parent reverse follow format= pretty pretty="
    " date= branches tags remotes skip= abbrev-commit no-abbrev-commit left-right cherry-pick"
    " topo-order date-order author-date-order all-match invert-grep regexp-ignore-case"
    " extended-regexp fixed-strings parents children full-history simplify-by-decoration source"
    " relative-date count boundary ancestry-path left-only right-only cherry-mark cherry no-walk"
    " min-parents= max-parents="
)
_DIFF = Syntax(flags="puszwbRaWMCi", valued="USG", long=_DIFF_LONG)
_LOG = Syntax(flags="puszwbRaWMCiEFgmc", valued="USGLn", long=_LOG_LONG, numeric=True)
_TREES = Syntax(
    flags="rtmcpuszwbRaWMCi",
    valued="USG",
    long=_DIFF_LONG | word_set("root no-commit-id cc pretty pretty= format= always merge-base"),
)
_LISTING = word_set(
    "contains= no-contains= merged merged= no-merged no-merged= points-at= sort= format="
)

_LOOKING: Mapping[str, Syntax] = {
    **read_syntax("git", {"untracked": untracked_reach}),
    **dict.fromkeys(("log", "show", "rev-list", "whatchanged", "range-diff"), _LOG),
    **dict.fromkeys(("diff", "diff-files"), _DIFF),
    "shortlog": Syntax(flags="snec", long=_LOG_LONG | word_set("summary numbered email")),
    "for-each-ref": Syntax(long=_LISTING | word_set("count= shell ignore-case exclude=")),
    **dict.fromkeys(("diff-tree", "diff-index"), _TREES),
}
# The same, by two words.
_SHOWING: Mapping[tuple[str, ...], Syntax] = {
    ("stash", "show"): _DIFF,
    **dict.fromkeys((("stash", "list"), ("reflog", "show")), _LOG),
    ("worktree", "list"): Syntax(flags="v", long=word_set("porcelain verbose"), max_operands=0),
    ("submodule", "status"): Syntax(flags="q", long=word_set("cached quiet"), names_only=True),
    **dict.fromkeys((("notes", "list"), ("notes", "show")), Syntax()),
}
# These list; with a bare operand and without one of `_LIST` they create.
_LIST = frozenset(
    f"--{name}" for name in word_set("list contains no-contains merged no-merged points-at")
) | {"-l"}
_BRANCH = Syntax(
    flags="arvil",
    long=_LISTING | word_set("all remotes verbose list show-current color color= no-color column"),
)
_LINES = re.compile(r"-n\d*")  # of the message; asking for them asks for a list
_TAG = Syntax(flags="li", long=_LISTING | word_set("list column color color="))

# %G makes git run the program that checks signatures.
_RUNS_GPG = re.compile(r"%G|signature")
_SECRET_KEY = re.compile(r"token|password|secret|credential|helper|extraheader", re.IGNORECASE)

_MAX_REPOSITORIES = 40  # one in another
# What git did not know is the third parent of a stash.
_THIRD_PARENT = re.compile(r"(?:^|[^\w-])stash(?:@\{[^}]{0,40}\})?[~^\d]{0,40}\^(?:3|\{?/|[@!])")
_WITH_UNTRACKED = re.compile(r"--(?:inc|on)[a-z-]*|-[a-zA-Z]*u[a-zA-Z]*")
_HARMLESS_SETTING = re.compile(
    r"(?:color\.\w+|core\.quote[pP]ath|log\.(?:date|decorate)|diff\.renames|advice\.\w+)=[\w-]+"
    r"|core\.pager=(?:cat)?"
)
_REMOTE_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")  # more might be an address, and name a program
_CONFIG_OPTION = re.compile(
    r"--(?:get|get-all|local|global|system|worktree|bool|int|path|type=[a-z-]+|null|show-origin"
    r"|show-scope|includes|no-includes)|-z"
)
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9-]*\.(?:[^\s=]+\.)?[A-Za-z][A-Za-z0-9-]*")


def is_read_only_git(arguments: Sequence[Word], place: Place) -> bool:
    """Return whether git with these arguments only looks, and starts nothing of the repository.

    Raises UnaskedError where git must be asked about that and nobody may wait.
    """
    words = list(arguments)
    if [word.text for word in words] == ["--version"]:
        return True
    told = _behind_globals(words, place)
    if told is None:
        return False
    words, place = told
    if not words or any(_RUNS_GPG.search(word.text) for word in words):
        return False
    return _only_looks(words, place) and not may_start_programs(words[0].text, place)


def _only_looks(words: Sequence[Word], place: Place) -> bool:
    name, rest = words[0].text, words[1:]
    if shows_untracked([word.text for word in words]):
        return False
    if name in _LOOKING:
        return parse(rest, _LOOKING[name], place, revisions=True) is not None
    if not all(word.exact for word in words):
        return False
    rules = _SHOWING.get(tuple([word.text for word in words[:2]]))
    if rules is not None:
        return parse(rest[1:], rules, place) is not None
    check = _SPECIAL.get(name)
    return check is not None and check(rest, place)


def shows_untracked(texts: Sequence[str]) -> bool:
    """Return whether a subcommand of git shows files of a stash that it did not know before."""
    if list(texts[:2]) == ["stash", "show"] and any(map(_WITH_UNTRACKED.fullmatch, texts[2:])):
        return True
    return any(map(_THIRD_PARENT.search, texts))


def _behind_globals(words: list[Word], place: Place) -> tuple[list[Word], Place] | None:
    """Return what follows harmless global options, and where it looks; None for others."""
    is_moved = False
    while words and words[0].text.startswith("-"):
        option = words[0].text
        if option in {"--no-pager", "-P", "--no-optional-locks"}:
            words = words[1:]
        elif option == "-c" and len(words) > 1 and words[1].known:
            if not _HARMLESS_SETTING.fullmatch(words[1].text):
                return None
            words = words[2:]
        elif option == "-C" and len(words) > 1 and words[1].known and not is_moved:
            entered = place.entered(words[1])
            if entered is None:
                return None
            words, place, is_moved = words[2:], entered, True
        else:
            return None
    return words, place


def _lists(parsed: Parsed | None) -> bool:
    return parsed is not None and (not parsed.operands or bool(parsed.options & _LIST))


def _tag(arguments: Sequence[Word], place: Place) -> bool:
    rest = [word for word in arguments if not _LINES.fullmatch(word.text)]
    parsed = parse(rest, _TAG, place)
    return _lists(parsed) or (parsed is not None and len(rest) < len(arguments))


def _remote(arguments: Sequence[Word], place: Place) -> bool:
    texts = [word.text for word in arguments if word.known]
    if len(texts) < len(arguments):
        return False
    if texts[:1] == ["get-url"]:
        rest = [text for text in texts[1:] if text not in {"--push", "--all"}]
        return len(rest) == 1 and _REMOTE_NAME.fullmatch(rest[0]) is not None
    if texts[:1] == ["show"]:
        rest = [text for text in texts[1:] if text != "-n"]
        is_one = len(rest) == 1 and _REMOTE_NAME.fullmatch(rest[0]) is not None
        return not rest or (is_one and _has_remote(rest[0], place))
    return texts in ([], ["-v"], ["--verbose"])


def _reflog(arguments: Sequence[Word], place: Place) -> bool:
    # Without `show` an operand could be a subcommand that deletes.
    parsed = parse(arguments, _LOG, place)
    return parsed is not None and not parsed.operands


def _config(arguments: Sequence[Word], _place: Place) -> bool:
    # The first operand ends the options; a second word is its new value, even one like an option.
    is_get = [word.text for word in arguments[:1]] == ["get"]
    *options, key = arguments[1 if is_get else 0 :] or [UNKNOWN]
    return (
        all(_CONFIG_OPTION.fullmatch(word.text) for word in options)
        and key.known
        and _KEY.fullmatch(key.text) is not None
        and not _SECRET_KEY.search(key.text)
    )


def _symbolic_ref(arguments: Sequence[Word], place: Place) -> bool:
    rules = Syntax(flags="q", long=word_set("short quiet"), max_operands=1)
    parsed = parse(arguments, rules, place)
    return parsed is not None and len(parsed.operands) == 1


_SPECIAL: Mapping[str, Callable[[Sequence[Word], Place], bool]] = {
    "branch": lambda arguments, place: _lists(parse(arguments, _BRANCH, place)),
    "tag": _tag,
    "remote": _remote,
    "reflog": _reflog,
    "config": _config,
    "symbolic-ref": _symbolic_ref,
}


def may_start_programs(name: str, place: Place) -> bool:
    """Return whether a subcommand of git may start what a repository here configures.

    Raises UnaskedError where git must be asked and nobody may wait.
    """
    if name == "version" or not place.is_seen:
        return False
    return any(_Look(name, place).is_hostile(folder) for folder in place.folders)


def _has_remote(name: str, place: Place) -> bool:
    """Return whether a remote of that name is configured wherever a command may run.

    Without one git takes the name for a repository that lies here, and starts a program for it.
    Raises UnaskedError where git must be asked and nobody may wait.
    """
    return not place.is_seen or all(
        _is_set(f"remote.{name}.url", folder, place) for folder in place.folders
    )


def _is_set(key: str, folder: str, place: Place) -> bool:
    """Return whether the repository around a folder is configured with a key."""
    while place.looks.spend():
        if os.path.lexists(f"{folder}/.git"):
            answer = place.looks.ask_git(folder)
            return answer is not None and any(each.key == key for each in answer.settings)
        if folder == "/":
            return False
        folder = folder.rpartition("/")[0] or "/"
    return False


class _Look:
    """What one command would start, in one repository and in those it looks into."""

    def __init__(self, name: str, place: Place) -> None:
        self._name = name
        self._place = place
        self._left = _MAX_REPOSITORIES

    def is_hostile(self, folder: str) -> bool:
        """Return whether the repository around a folder makes git start a program."""
        while self._place.looks.spend():
            if os.path.lexists(f"{folder}/.git"):
                return self._starts(folder)
            if os.path.lexists(f"{folder}/HEAD"):
                return True
            if folder == "/":
                return False
            folder = folder.rpartition("/")[0] or "/"
        return True

    def _starts(self, folder: str) -> bool:
        self._left -= 1
        answer = self._place.looks.ask_git(folder) if self._left >= 0 else None
        if answer is None:
            return True
        if answer.work_tree != folder and not is_within(answer.work_tree, self._place.root):
            return True
        own = [setting for setting in answer.settings if self._is_of_repository(setting)]
        if starts(self._name, own) or os.path.lexists(answer.hook):
            return True
        if answer.submodules and recurses(self._name, answer.settings):
            return True
        return any(
            not self._place.looks.spend()
            or (os.path.lexists(f"{path}/.git") and self._starts(path))
            for path in answer.submodules
        )

    def _is_of_repository(self, setting: Setting) -> bool:
        """Return whether a setting may have come with the repository, or from an agent."""
        if not setting.is_persons:
            return True
        origin = os.path.realpath(setting.origin)
        return is_within(origin, self._place.root) and protected_part(origin) is None
