"""What git is told that destroys, publishes by force, runs programs, or writes outside."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_core.policies import protected_part, word_set
from prsm_policy.shell.wrappers import HARMLESS_GIT_KEYS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from prsm_policy.places import Place
    from prsm_policy.shell import Command, Word

    Check = Callable[[Sequence[str]], str | None]

_ORDINARY = word_set(
    "add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore"
    " check-mailmap check-ref-format checkout checkout-index cherry cherry-pick clean clone column"
    " commit commit-tree config count-objects describe diff diff-files diff-index diff-tree fetch"
    " fmt-merge-msg for-each-ref format-patch fsck gc grep hash-object help init"
    " log ls-files ls-remote ls-tree merge merge-base merge-file merge-tree mktag mv name-rev"
    " notes patch-id prune pull push range-diff read-tree rebase reflog remote repack replace"
    " request-pull rerere reset restore rev-list rev-parse revert rm shortlog show show-branch"
    " show-ref sparse-checkout stash status submodule switch symbolic-ref tag update-index"
    " update-ref var verify-commit verify-pack verify-tag version whatchanged worktree write-tree"
    " lfs flow --version --help -h"
)
_GLOBAL_FLAGS = word_set(
    "--no-pager -p --paginate --no-replace-objects --literal-pathspecs --glob-pathspecs"
    " --noglob-pathspecs --icase-pathspecs --no-optional-locks --bare --no-advice -P"
    " --version --help -h"
)
_RUNS = ("--upl", "--rece", "--exe", "--ext-", "--extc", "--open", "--textc", "--conf", "--templ")
_FORCED_PUSH = re.compile(
    r"--(?:force.*|mirror|delete|prune|all-force)|-[a-zA-Z]{0,8}[fd][a-zA-Z]{0,8}|[+:].*"
)
_ALL_PATHS = frozenset({".", "./", "--", "*", ":/", "-f", "--force"})
_SECRET_KEY = re.compile(r"token|password|secret|credential|extraheader", re.IGNORECASE)
_SETS_CONFIG = word_set(
    "--get --get-all --get-regexp --get-urlmatch --get-color get list -l --list"
)


_RUNS_FOR_EACH = "runs a program for each of something"
# By subcommand: the options whose value is written, and the first operand that may be.
_WRITTEN: Mapping[str, tuple[frozenset[str], int | None]] = {
    "apply": (word_set("--directory --build-fake-ancestor"), None),
    "am": (word_set("--directory"), None),
    "archive": (word_set("-o --output"), None),
    "bundle": (frozenset(), 1),
    "checkout-index": (word_set("--prefix"), None),
    "clone": (word_set("--separate-git-dir --reference --reference-if-able"), 1),
    "fast-export": (word_set("--export-marks"), None),
    "format-patch": (word_set("-o --output-directory"), None),
    "init": (word_set("--separate-git-dir"), 0),
    "mv": (frozenset(), 0),
    "push": (frozenset(), 0),
    "range-diff": (word_set("--output"), None),
    "read-tree": (word_set("--prefix --index-output"), None),
    "stash": (word_set("--output"), None),
    "submodule": (frozenset(), 2),
    "subtree": (word_set("-P --prefix"), None),
    "worktree": (frozenset(), 1),
}
_LOOKS = word_set(
    "annotate blame branch cat-file check-attr check-ignore cherry count-objects describe diff"
    " diff-files diff-index diff-tree for-each-ref grep help log ls-files ls-remote ls-tree"
    " merge-base name-rev range-diff reflog rev-list rev-parse shortlog show show-branch show-ref"
    " status var verify-commit verify-tag version whatchanged"
)
# Other programs that take a whole repository out of somewhere, and how they say so.
_TAKERS = word_set("hg svn jj scalar bzr fossil darcs gh hub glab")
_TAKES = word_set("clone checkout co export init create fork download")
_MIN_OPTION = 4  # characters of a long option that is abbreviated


def git_danger(command: Command) -> str | None:
    """Return why a git command is dangerous."""
    rest = _after_globals(command.texts[1:])
    if rest is None:
        return "an option of git can make it run other programs"
    if not rest:
        return None
    name, arguments = rest[0], rest[1:]
    if name not in _ORDINARY:
        return f"git {name} may be any program"
    if any(argument.startswith(_RUNS) or "::" in argument for argument in arguments):
        return "an option of git runs another program"
    check = _CHECKS.get(name)
    return check(arguments) if check is not None else None


def _after_globals(texts: Sequence[str]) -> Sequence[str] | None:
    """Return the words behind git's global options, None if one of those is not ordinary."""
    at = 0
    while at < len(texts) and texts[at].startswith("-"):
        if texts[at] == "-c" and at + 1 < len(texts):
            if not texts[at + 1].lower().startswith(HARMLESS_GIT_KEYS):
                return None
            at += 2
        elif texts[at] == "-C" and at + 1 < len(texts):
            at += 2
        elif texts[at] in _GLOBAL_FLAGS:
            at += 1
        else:
            return None
    return texts[at:]


def _flags(arguments: Sequence[str]) -> set[str]:
    """Return options as written, and the letters of short ones one by one."""
    found = {argument for argument in arguments if argument.startswith("-")}
    for argument in tuple(found):
        if not argument.startswith("--"):
            found |= {f"-{letter}" for letter in argument[1:]}
    return found


def _when(reason: str, *options: str) -> Check:
    """Return a check for options; long ones count when they are abbreviated, too."""

    def check(arguments: Sequence[str]) -> str | None:
        names = [flag.partition("=")[0] for flag in _flags(arguments)]
        is_given = any(
            name in options or (len(name) > 4 and any(each.startswith(name) for each in options))
            for name in names
        )
        return reason if is_given else None

    return check


def _clean(arguments: Sequence[str]) -> str | None:
    flags = _flags(arguments)
    return None if flags & {"-n", "--dry-run"} else "deletes files that git does not know"


_deletes = _when("", "--delete", "--mirror", "--prune")


def _when_begins(reason: str, words: str, most: int = 1) -> Check:
    """Return a check that none of these words is among the first arguments."""
    starts = word_set(words)
    return lambda arguments: None if starts.isdisjoint(arguments[:most]) else reason


def _push(arguments: Sequence[str]) -> str | None:
    if any(map(_FORCED_PUSH.fullmatch, arguments)) or _deletes(arguments) is not None:
        return "rewrites or deletes branches of others"
    return None


def _checkout(arguments: Sequence[str]) -> str | None:
    if _when("", "-f", "--force")(arguments) is not None or not _ALL_PATHS.isdisjoint(arguments):
        return "throws changes away"
    return None


def _restore(arguments: Sequence[str]) -> str | None:
    flags = _flags(arguments)
    only_index = flags & {"--staged", "-S"} and not flags & {"--worktree", "-W"}
    return None if only_index else "throws changes away"


def _branch(arguments: Sequence[str]) -> str | None:
    flags = _flags(arguments)
    is_forced = flags & {"-D", "-M", "-C", "-f", "--force", "--edit-description"}
    is_forced = is_forced or (flags & {"-d", "--delete"} and flags & {"-r", "--remotes"})
    return "deletes or moves a branch" if is_forced else None


def _config(arguments: Sequence[str]) -> str | None:
    operands = [argument for argument in arguments if not argument.startswith("-")]
    if _flags(arguments) & {"--edit", "-e", "--global", "--system", "--file", "-f"}:
        return "reads or changes the configuration of git outside the workspace"
    if "--list" in arguments or "-l" in arguments or "list" in operands[:1]:
        return "the configuration of git may hold secrets"
    operands = [operand for operand in operands if operand not in {"get", "set", "unset"}]
    if operands and _SECRET_KEY.search(operands[0]):
        return "it may show a secret"
    is_harmless = bool(operands) and operands[0].lower().startswith(HARMLESS_GIT_KEYS)
    reads = bool(_SETS_CONFIG & set(arguments)) or len(operands) < 2
    if {"--unset", "--unset-all", "unset", "--remove-section", "remove-section"} & set(arguments):
        reads = False
    return None if is_harmless or reads else "the configuration of git can run programs"


def _rebase(arguments: Sequence[str]) -> str | None:
    is_running = any(a.startswith(("-x", "--exec")) for a in arguments)
    return "runs a program for each commit" if is_running else None


def _clone(arguments: Sequence[str]) -> str | None:
    flags = _flags(arguments)
    return "configures what is cloned" if flags & {"-c", "-u", "--template"} else None


_CHECKS: Mapping[str, Check] = {
    "reset": _when("throws changes away", "--hard", "--merge", "--keep"),
    "clean": _clean,
    "push": _push,
    "checkout": _checkout,
    "switch": _when("throws changes away", "-f", "--force", "--discard-changes", "-C"),
    "restore": _restore,
    "stash": _when_begins("throws changes away", "drop clear"),
    "branch": _branch,
    "tag": _when("deletes or moves a tag", "-d", "-f", "--delete", "--force"),
    "remote": _when_begins("changes where git pushes to", "set-url remove rm set-head prune"),
    "config": _config,
    "worktree": _when("throws changes away", "-f", "--force"),
    "submodule": _when_begins(_RUNS_FOR_EACH, "foreach deinit", 3),
    "bisect": _when_begins(_RUNS_FOR_EACH, "run visualize view", 3),
    "rebase": _rebase,
    "clone": _clone,
    "fetch": _when("overwrites branches", "-u", "--force", "-f", "--update-head-ok"),
    "pull": _when("overwrites branches", "-f", "--force"),
    "gc": _when("deletes what could be restored", "--prune", "--aggressive"),
    "prune": lambda _arguments: "deletes what could be restored",
    "reflog": _when_begins("deletes what could be restored", "expire delete"),
    "update-ref": _when("deletes or moves a branch", "-d", "--delete", "--stdin"),
    "replace": lambda _arguments: "rewrites history",
    "lfs": _when_begins("changes the configuration of git", "install"),
    "grep": _when("runs a program", "-O", "--open-files-in-pager"),
    "log": _when("writes a file", "--output"),
    "diff": _when("writes a file, or runs a program", "--output", "--ext-diff", "--textconv"),
    "show": _when("writes a file, or runs a program", "--output", "--ext-diff", "--textconv"),
    "archive": _when("runs a program on another machine", "--remote"),
    "apply": _when("writes outside the workspace", "--unsafe-paths"),
    "rm": _when("deletes files", "-f", "--force"),
    "am": _when("runs hooks", "--exec"),
    "init": _when("installs hooks", "--template"),
}


def git_place_danger(command: Command, place: Place | None) -> str | None:
    """Return why git may write where it must not."""
    folders, rest = behind_globals(command.words[1:])
    name = rest[0].text if rest else ""
    written = list(folders) if name not in _LOOKS else []
    options, first = _WRITTEN.get(name, (frozenset(), None))
    written += _values(rest[1:], options, first)
    return next(filter(None, (_reason(word, place) for word in written)), None)


def behind_globals(words: Sequence[Word]) -> tuple[list[Word], list[Word]]:
    """Return the folders that git is told to go to, and the words from its subcommand on."""
    folders: list[Word] = []
    rest = list(words)
    while rest and rest[0].text.startswith("-"):
        option = rest.pop(0).text
        if option in {"-C", "-c"} and rest:
            value = rest.pop(0)
            folders += [value] if option == "-C" else []
    return folders, rest


def taken_danger(command: Command, place: Place | None) -> str | None:
    """Return why a program may put a repository, or what it downloads, where it must not."""
    if command.name not in _TAKERS or _TAKES.isdisjoint(command.texts[1:4]):
        return None
    words = [word for word in command.words[2:] if "://" not in word.text and word.exact]
    return next(filter(None, (_reason(word, place) for word in words)), None)


def _reason(word: Word, place: Place | None) -> str | None:
    if not word.exact:
        return "it cannot be told where git writes"
    if part := protected_part(word.text):
        return f"{part} is protected"
    if place is None or place.is_outside(word):
        return f"git writes to {word.text!r}, outside the workspace"
    return None


def _values(words: Sequence[Word], options: frozenset[str], first: int | None) -> Iterator[Word]:
    """Yield the words that name what is written, from the first such operand on."""
    operands = 0
    is_value = False
    for word in words:
        text = word.text
        if is_value:
            yield word
            is_value = False
        elif text[:1] == "-":
            name, equals, value = text.partition("=")
            if not _is_one_of(name, options):
                if text[:2] in options and len(text) > 2 and text[1] != "-":
                    yield word.told(text[2:])
            elif equals:
                yield word.told(value)
            else:
                is_value = True
        else:
            if first is not None and operands >= first and "://" not in text:
                yield word
            operands += 1


def _is_one_of(name: str, options: frozenset[str]) -> bool:
    """Return whether an option is one of these, or the beginning of a long one."""
    if name in options:
        return True
    is_long = name.startswith("--") and len(name) > _MIN_OPTION
    return is_long and any(option.startswith(name) for option in options)
