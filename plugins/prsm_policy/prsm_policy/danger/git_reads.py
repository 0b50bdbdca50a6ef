"""What git reads beside the history of the workspace: other folders, files that it does not know.

What git shows of the repository's own history is for whoever may read the repository.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_core.policies import word_set
from prsm_policy.danger.walk import Walk, loosely_parsed
from prsm_policy.safe.git import shows_untracked
from prsm_policy.tree import Reach

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_policy.shell import Command, Word

_UNTRACKED = "it shows what git does not know: files in a stash may hold secrets"
# They show what files hold, or held, in whatever folder they are told to look.
_SHOWS = word_set(
    "show diff grep blame annotate cat-file archive stash format-patch bundle whatchanged"
    " range-diff diff-tree diff-index diff-files fast-export log rev-list"
)
_PATCH = re.compile(
    r"-(?:[a-zA-Z]*[pu][a-zA-Z]*|U\d+|[cm]+|[SGL].*|-patch.*|-unified.*|-raw-patch|-full-diff)"
)
_COPIES = word_set("clone fetch pull submodule subtree")
_NAMES_ONLY = re.compile(
    r"-[a-zA-Z]*[lLcq][a-zA-Z]*|--(?:files-with(?:out)?-match(?:es)?|name-only|name-status|count"
    r"|quiet|stat.*|shortstat|numstat)"
)
_GREP_VALUED, _GREP_LONG = "ABCefmO", word_set("max-depth max-count threads context")


def git_walk(command: Command) -> Walk | None:
    """Return what git reads of folders, None if it is the history of the workspace."""
    words = list(command.words[1:])
    moves: list[Word] = []
    while words and words[0].text.startswith("-"):
        option = words.pop(0).text
        if option in {"-C", "-c"} and words:
            value = words.pop(0)
            moves += [value] if option == "-C" else []
    if not words:
        return None
    name, arguments = words[0].text, words[1:]
    texts = [word.text for word in arguments]
    if shows_untracked([name, *texts]):
        return Walk(always=_UNTRACKED)
    found = _walk(name, arguments, texts)
    if not moves or not _shows_files(name, texts):
        return found
    others = found.words if found is not None else ()
    return Walk(words=(*moves, *others), is_here=False, inside=found is not None, is_foreign=True)


def _walk(name: str, arguments: Sequence[Word], texts: Sequence[str]) -> Walk | None:
    if name in _COPIES:
        sources = [word for word in arguments if word.text[:1] != "-"]
        return Walk(words=tuple(sources), is_here=False, inside=False)
    if any(map(_NAMES_ONLY.fullmatch, texts)):
        return None
    if name == "grep" and {"--no-index", "--untracked"} & set(texts):
        parsed = loosely_parsed(arguments, _GREP_VALUED, _GREP_LONG)
        is_given = {"-e", "-f"} & parsed.options
        words = parsed.operands[0 if is_given else 1 :]
        return Walk(words=words, is_here=not words, searches=True)
    if name == "diff":
        compared = tuple(word for word in arguments if word.text[:1] != "-")
        is_whole = "--no-index" in texts
        # Outside a repository, or for a path that leads out of it, it compares any two folders.
        return Walk(words=compared, is_here=False, inside=is_whole, reach=Reach(follows=is_whole))
    return None


def _shows_files(name: str, texts: Sequence[str]) -> bool:
    """Return whether a subcommand shows what files hold, and not only which there are."""
    if name not in _SHOWS or (name == "stash" and "show" not in texts[:1]):
        return False
    is_short = name in {"log", "rev-list"} or any(map(_NAMES_ONLY.fullmatch, texts))
    return not is_short or any(map(_PATCH.fullmatch, texts))
