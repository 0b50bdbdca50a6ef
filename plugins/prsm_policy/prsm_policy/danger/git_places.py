"""Where git writes what it is told: folders outside the workspace, and protected ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.policies import protected_part, word_set

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prsm_policy.places import Place
    from prsm_policy.shell import Command, Word

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
_VALUED = word_set("-C -c")
# Other programs that take a whole repository out of somewhere, and how they say so.
_TAKERS = word_set("hg svn jj scalar bzr fossil darcs gh hub glab")
_TAKES = word_set("clone checkout co export init create fork download")
_MIN_OPTION = 4  # characters of a long option that is abbreviated


def git_place_danger(command: Command, place: Place | None) -> str | None:
    """Return why git may write where it must not."""
    at = 1
    folders: list[Word] = []
    while at < len(command.words) and command.texts[at].startswith("-"):
        is_valued = command.texts[at] in _VALUED
        folders += command.words[at + 1 : at + 2] if command.texts[at] == "-C" else ()
        at += 2 if is_valued else 1
    name = command.texts[at] if at < len(command.texts) else ""
    written = list(folders) if name not in _LOOKS else []
    options, first = _WRITTEN.get(name, (frozenset(), None))
    written += _values(command.words[at + 1 :], options, first)
    return next(filter(None, (_reason(word, place) for word in written)), None)


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
