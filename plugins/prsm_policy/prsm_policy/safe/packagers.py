"""What package managers of JavaScript are told about which packages of the workspace they work in.

Without that a command line is one of the root package: `pnpm --filter ui test` is `pnpm test`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_core.policies import word_set

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prsm_policy.places import Place
    from prsm_policy.shell.words import Word

# Options without a value, those that take the name of a package, and those that take a folder.
_FLAGS: Mapping[str, frozenset[str]] = {
    "npm": word_set("--workspaces -ws --if-present --include-workspace-root --silent -s"),
    "pnpm": word_set(
        "-r --recursive -w --workspace-root --if-present --silent -s --parallel --stream --no-bail"
        " --aggregate-output"
    ),
    "yarn": word_set("--silent -s"),
    "bun": word_set("--silent"),
}
_NAMED: Mapping[str, frozenset[str]] = {
    "npm": word_set("--workspace -w"),
    "pnpm": word_set("--filter -F"),
    "yarn": frozenset(),
    "bun": word_set("--filter"),
}
_FOLDERS: Mapping[str, frozenset[str]] = {
    "npm": word_set("--prefix"),
    "pnpm": word_set("-C --dir"),
    "yarn": word_set("--cwd"),
    "bun": word_set("--cwd"),
}
_OF_YARN = word_set("workspace workspaces")
_PACKAGE = re.compile(r"[\w@.!{\[][\w@./*{}\[\]^~-]*")
_FOREACH = word_set("-A --all -p --parallel -t --topological -v --verbose -i --interlaced -R")


def in_packages(words: Sequence[Word], place: Place) -> tuple[Sequence[Word], bool] | None:
    """Return a command line without what chooses packages, and whether anything did.

    None is for one that chooses what is not in the workspace.
    """
    if not any(word.text[:1] == "-" or word.text in _OF_YARN for word in words):
        return words, False
    program, rest = words[0].text, list(words[1:])
    if program == "yarn":
        rest = _behind_workspace(rest)
    end = next((at for at, word in enumerate(rest) if word.text == "--"), len(rest))
    kept: list[Word] = []
    own = iter(rest[:end])
    for word in own:
        name, equals, value = word.text.partition("=")
        if word.text in _FLAGS[program]:
            continue
        if name not in _NAMED[program] | _FOLDERS[program]:
            kept.append(word)
            # What a script is told begins behind its name, and is not for the package manager.
            if program != "npm" and len(kept) > 1 + (kept[0].text in {"run", "exec"}):
                kept += own
            continue
        told = word.told(value) if equals else next(own, None)
        if told is None or not _is_chosen(name, told, program, place):
            return None
    is_chosen = len(kept) < end or len(rest) < len(words) - 1
    return (words[0], *kept, *rest[end:]), is_chosen


def _is_chosen(option: str, told: Word, program: str, place: Place) -> bool:
    if option in _FOLDERS[program]:
        return place.has_one_of(told, ("package.json",))
    is_ordinary = told.known and place.is_ordinary(told)
    return is_ordinary and _PACKAGE.fullmatch(told.text) is not None


def _behind_workspace(words: list[Word]) -> list[Word]:
    """Return what yarn does in one workspace, or in each."""
    texts = [word.text for word in words]
    if texts[:1] == ["workspace"] and len(words) > 2 and _PACKAGE.fullmatch(texts[1]):
        return words[2:]
    if texts[:2] == ["workspaces", "foreach"]:
        return list(_behind(words[2:], _FOREACH))
    return words[2:] if texts[:2] == ["workspaces", "run"] else words


def _behind(words: Sequence[Word], options: frozenset[str]) -> Iterator[Word]:
    is_behind = False
    for word in words:
        is_behind = is_behind or word.text not in options
        if is_behind:
            yield word
