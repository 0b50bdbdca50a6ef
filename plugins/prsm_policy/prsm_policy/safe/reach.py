"""How far tools read through folders, by their options; in doubt more is read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_core.policies import UntoldError, part_of, word_set
from prsm_policy.tree import Reach, alternatives

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prsm_core.policies import Part
    from prsm_policy.safe.options import Parsed
    from prsm_policy.shell.words import Word

_LITERAL = re.compile(r"[A-Za-z0-9_.-]+")
_INCLUDES = frozenset({"--include", "--exclude"})
_GLOBS = frozenset({"-g", "--glob", "--iglob"})
_TYPES = frozenset({"-t", "--type"})
# No file of these kinds has the name of a secret.
_SOURCE = word_set(
    "py python js ts typescript rust go java kotlin scala c cpp h cs csharp swift ruby php lua perl"
    " html css sass less md markdown rst tex vue svelte haskell elixir erlang clojure r julia dart"
)


def untracked_reach(parsed: Parsed) -> Reach | None:
    """Return how `git grep` reads files that git does not know, None unless it does."""
    return Reach() if "--untracked" in parsed.options else None


def grep_reach(parsed: Parsed) -> Reach | None:
    """Return how grep reads folders, None unless it goes through them."""
    follows = not parsed.options.isdisjoint({"-R", "--dereference-recursive"})
    if not follows and parsed.options.isdisjoint({"-r", "--recursive"}):
        return None
    chosen = [(option, value) for option, value in parsed.values if option in _INCLUDES]
    # A file that no pattern matches is read unless the first of them is to include.
    includes = chosen if chosen and chosen[0][0] == "--include" else []
    skips = (value for option, value in parsed.values if option == "--exclude-dir")
    excludes = [value.text for option, value in chosen if option == "--exclude"]
    return Reach(
        follows=follows,
        narrow=_parts(value.text for option, value in includes if option == "--include") or (),
        skips=frozenset(
            value.text for value in skips if value.known and _LITERAL.fullmatch(value.text)
        ),
        # Where both are given the last that matches counts.
        leaves_out=() if len(excludes) < len(chosen) else _parts(excludes) or (),
    )


def rg_reach(parsed: Parsed) -> Reach | None:
    """Return how rg reads folders: hidden names only if an option or a pattern brings them back."""
    options = parsed.options
    if "--type-list" in options:
        return None
    follows = "-L" in options
    if "--files" in options:
        return Reach(follows=True, names_only=True) if follows else None
    globs = [value for option, value in parsed.values if option in _GLOBS]
    wanted = [value for value in globs if not value.text.startswith("!")]
    types = [value for option, value in parsed.values if option in _TYPES]
    if not wanted and types and all(value.text in _SOURCE for value in types):
        return Reach(follows=True, names_only=True) if follows else None
    hidden = bool(wanted or types) or not options.isdisjoint({"--hidden", "-u"})
    narrow = _parts(map(_last_of, wanted))
    return Reach(hidden=hidden, follows=follows, narrow=narrow or ())


def diff_reach(parsed: Parsed) -> Reach | None:
    """Return how diff reads folders: links as well. With -q it shows no more than names."""
    return None if parsed.options & {"-q", "--brief"} else Reach(follows=True)


def ls_reach(parsed: Parsed) -> Reach | None:
    """Return how ls reads folders: names, of what links lead to where it is told so."""
    is_deep = parsed.options & {"-R", "--recursive"} and parsed.options & {"-L", "--dereference"}
    return Reach(follows=True, names_only=True) if is_deep else None


def link_reach(parsed: Parsed) -> Reach | None:
    """Return how fd and du read folders: names, of what links lead to where it is told so."""
    follows = parsed.options & {"-L", "--follow"}
    return Reach(follows=True, names_only=True) if follows else None


def _last_of(word: Word) -> str:
    """Return what the last part of a path must match; anything for the pattern of a folder."""
    last = word.text.lower().rpartition("/")[2]  # some of them take capitals for small letters
    is_folder = last in {"", "**"}
    # Brackets and backslashes are not what they are for a shell.
    return "*" if is_folder or not {"[", "\\"}.isdisjoint(word.text) else last


def _parts(patterns: Iterable[str]) -> tuple[Part, ...] | None:
    try:
        return tuple(part_of(each) for text in patterns for each in alternatives(text))
    except UntoldError:
        return None
