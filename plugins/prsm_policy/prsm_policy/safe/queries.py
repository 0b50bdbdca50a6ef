"""Look-ups of build tools: what is in a project, by the tools that build it.

They load the project's configuration, and may start a toolchain that it chooses. So they are safe
only where the user trusts the workspace, and without options that run, write or fetch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.policies import PYTHON_MANIFESTS, word_set
from prsm_policy.safe.environment import NODE, RUNNERS, inner_check
from prsm_policy.safe.options import Syntax, parse
from prsm_policy.safe.packagers import in_packages

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_policy.places import Place
    from prsm_policy.shell.words import Word

_CARGO_TREE = Syntax(
    flags="dqv",
    valued="piefF",
    long=word_set(
        "depth= invert= package= edges= duplicates no-dedupe prefix= format= workspace exclude="
        " all-features features= no-default-features target= charset= locked offline frozen"
        " manifest-path= quiet color="
    ),
    max_operands=0,
    free=word_set("-f --format"),
)
_CARGO_METADATA = Syntax(
    flags="qv",
    valued="F",
    long=word_set(
        "no-deps format-version= locked offline frozen all-features features= no-default-features"
        " filter-platform= manifest-path= quiet color="
    ),
    max_operands=0,
)
_NO_OPERANDS = Syntax(max_operands=0)
_ONE_FILE = Syntax(max_operands=1)
_FILES = Syntax(flags="q")
_JSON_TOOL = Syntax(
    long=word_set("sort-keys no-ensure-ascii json-lines indent= tab no-indent compact"),
    max_operands=1,  # a second one is written
)
_LISTS = Syntax(flags="v", long=word_set("tree outdated all depth= top-level only= without="))
# By the words that come first.
_QUERIES: Mapping[tuple[str, ...], Syntax] = {
    ("go", "doc"): Syntax(flags="ucs", long=word_set("all short src"), texts=-1),
    ("go", "mod", "graph"): _NO_OPERANDS,
    ("go", "mod", "why"): Syntax(flags="m", texts=-1),
    ("go", "mod", "verify"): _NO_OPERANDS,
    ("go", "version", "-m"): _FILES,
    ("cargo", "tree"): _CARGO_TREE,
    ("cargo", "metadata"): _CARGO_METADATA,
    ("cargo", "pkgid"): Syntax(valued="p", long=word_set("offline locked frozen")),
    ("cargo", "locate-project"): Syntax(long=word_set("workspace message-format=")),
    ("cargo", "verify-project"): _NO_OPERANDS,
    ("cargo", "--list"): _NO_OPERANDS,
    **{(python, "-m", "json.tool"): _JSON_TOOL for python in ("python", "python3")},
    **{(python, "-m", "py_compile"): _FILES for python in ("python", "python3")},
    **{
        (python, "-m", "compileall"): Syntax(flags="qf", valued="j")
        for python in ("python", "python3")
    },
    ("node", "--check"): _ONE_FILE,
    ("node", "-c"): _ONE_FILE,
    ("php", "-l"): _ONE_FILE,
    ("ruby", "-c"): _ONE_FILE,
    ("bash", "-n"): _ONE_FILE,
    ("sh", "-n"): _ONE_FILE,
    ("tox", "-l"): _NO_OPERANDS,
    ("tox", "list"): _NO_OPERANDS,
    ("nox", "-l"): _NO_OPERANDS,
    ("nox", "--list"): _NO_OPERANDS,
    ("bundle", "list"): _NO_OPERANDS,
    ("bundle", "show"): Syntax(texts=-1),
    ("bundle", "info"): Syntax(texts=-1),
    ("composer", "show"): Syntax(flags="iDt", long=_LISTS.long, texts=-1),
    ("composer", "validate"): Syntax(long=word_set("strict no-check-all no-check-publish")),
    ("poetry", "show"): Syntax(flags="to", long=_LISTS.long, texts=-1),
    ("poetry", "check"): _NO_OPERANDS,
    ("poetry", "env", "info"): Syntax(flags="pe", long=word_set("path executable")),
    ("uv", "pip", "list"): Syntax(long=word_set("format= outdated")),
    ("uv", "pip", "show"): Syntax(texts=-1),
    ("uv", "pip", "freeze"): _NO_OPERANDS,
    ("uv", "pip", "tree"): Syntax(long=word_set("depth= package= invert")),
    ("uv", "pip", "check"): _NO_OPERANDS,
    ("uv", "tree"): Syntax(valued="d", long=word_set("depth= package= invert frozen locked")),
    ("pip", "check"): _NO_OPERANDS,
    ("rake", "-T"): Syntax(texts=-1),
    ("rails", "routes"): Syntax(valued="cg", long=word_set("controller= grep=")),
    ("gradle", "tasks"): Syntax(flags="q", long=word_set("all quiet console=")),
    ("gradle", "projects"): Syntax(flags="q", long=word_set("quiet console=")),
    ("dotnet", "--info"): _NO_OPERANDS,
    ("pnpm", "ls"): Syntax(long=word_set("depth= json long parseable prod dev"), texts=-1),
    ("pnpm", "list"): Syntax(long=word_set("depth= json long parseable prod dev"), texts=-1),
    ("pnpm", "why"): Syntax(texts=-1),
    ("yarn", "why"): Syntax(texts=1, max_operands=1),
    ("npm", "explain"): Syntax(texts=-1),
    ("npm", "why"): Syntax(texts=-1),
    ("npm", "pkg", "get"): Syntax(texts=-1),
}
# What these read that an agent must not have written, since it is run or fetched by.
_READS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(word_set("npm pnpm yarn bun"), NODE),
    **dict.fromkeys(word_set("uv poetry tox nox"), PYTHON_MANIFESTS),
}
_GO_LIST_FLAGS = word_set("-m -json -deps -test -e -find --json --deps")
_GO_LIST_VALUED = word_set("-f --f -tags")
_SIMPLE_JSON = "-json="
_RUN = word_set("run run-script --json")
_SCRIPT_LISTERS = word_set("npm pnpm bun")

_PROGRAMS = {words[0] for words in _QUERIES} | _SCRIPT_LISTERS | RUNNERS


def is_query(words: Sequence[Word], place: Place) -> bool:
    """Return whether a build tool only tells what is in the project."""
    program = words[0].text
    if program not in _PROGRAMS and "/" not in program:
        return False
    if program in _SCRIPT_LISTERS and words[-1].text in _RUN:
        return not place.was_written(NODE) and _lists_scripts(words, place)
    inner = inner_check(words, place)
    if inner is not None:
        return bool(inner) and is_query(inner, place)
    texts = tuple([word.text for word in words[:3]])
    for length in (3, 2):
        rules = _QUERIES.get(texts[:length])
        if rules is not None:
            is_known = all(word.exact for word in words)
            return is_known and _is_told_by(program, words[length:], rules, place)
    return texts[:2] == ("go", "list") and _go_list(words[2:], place)


def _is_told_by(program: str, words: Sequence[Word], rules: Syntax, place: Place) -> bool:
    """Return whether a tool has such options, and reads nothing that an agent wrote to be run."""
    if rules is _FILES and any(word.text == "-" for word in words):
        return False  # the names of files come from the input
    is_own = not place.was_written(_READS.get(program, ()))
    return is_own and parse(words, rules, place) is not None


def _lists_scripts(words: Sequence[Word], place: Place) -> bool:
    """Return whether a package manager is told to run a script, and not which."""
    chosen = in_packages(words, place) if all(word.exact for word in words) else None
    if chosen is None:
        return False
    texts = [word.text for word in chosen[0][1:] if word.text != "--json"]
    return len(texts) == 1 and texts[0] in _RUN


def _go_list(words: Sequence[Word], place: Place) -> bool:
    own = iter(words)
    for word in own:
        if word.text in _GO_LIST_VALUED:
            if (value := next(own, None)) is None or not value.known:
                return False
        elif word.may_be_option:
            is_named = word.text.startswith((_SIMPLE_JSON, "-f=", "-tags="))
            if not is_named and word.text not in _GO_LIST_FLAGS:
                return False
        elif not word.exact or "@" in word.text or not place.is_ordinary(word):
            return False  # a version is fetched
    return True
