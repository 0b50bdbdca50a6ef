"""A project's own checks (tests, linters, type checkers) and the version output of its tools.

The checks run the code of the workspace, so they are safe only where the user trusts it, and only
without options that name another program, configuration, project or output.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_core.permissions.options import Syntax, parse
from prsm_core.permissions.plain import word_set

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_core.permissions.paths import Place
    from prsm_core.permissions.plain import Word

_PYTEST = Syntax(
    flags="qvxsl",
    valued="kmnr",
    long=word_set(
        "maxfail= lf ff last-failed failed-first tb= verbose quiet no-header no-summary durations="
        " collect-only co exitfirst disable-warnings stepwise sw color= strict-markers"
    ),
)
_UNITTEST = Syntax(flags="vqfbc", valued="spk", long=word_set("verbose quiet failfast buffer"))

# By the words that come first: those with operands and options, then those that must stand alone.
_CHECKS: Mapping[tuple[str, ...], Syntax] = {
    ("pytest",): _PYTEST,
    ("python", "-m", "pytest"): _PYTEST,
    ("python3", "-m", "pytest"): _PYTEST,
    ("python", "-m", "unittest"): _UNITTEST,
    ("python3", "-m", "unittest"): _UNITTEST,
    ("ruff", "check"): Syntax(
        flags="qv", long=word_set("select= ignore= quiet statistics no-fix output-format= preview")
    ),
    ("ruff", "format", "--check"): Syntax(flags="qv", long=word_set("diff quiet")),
    ("black", "--check"): Syntax(flags="qv", long=word_set("diff color quiet verbose")),
    ("mypy",): Syntax(
        flags="v",
        valued="pm",
        long=word_set(
            "strict ignore-missing-imports show-error-codes pretty no-error-summary package="
            " module= explicit-package-bases warn-unreachable"
        ),
    ),
    ("pyright",): Syntax(long=word_set("stats warnings outputjson verbose")),
    ("flake8",): Syntax(
        flags="qv",
        long=word_set(
            "max-line-length= select= ignore= extend-ignore= statistics count show-source"
            " max-complexity="
        ),
    ),
    ("eslint",): Syntax(long=word_set("ext= max-warnings= quiet")),
    ("tsc", "--noEmit"): Syntax(long=word_set("strict skipLibCheck"), max_operands=0),
}
_CARGO = Syntax(
    flags="qv",
    valued="p",
    long=word_set(
        "all workspace release lib bins tests doc all-targets all-features no-fail-fast"
        " no-default-features features= package= quiet verbose locked offline frozen"
    ),
)
_CARGO_CHECKS = frozenset({("test",), ("check",), ("clippy",)})
_CARGO_PASSED_ON = word_set("--nocapture --exact --ignored --include-ignored --show-output -D -W")
_ALONE = frozenset(
    {
        ("npm", "test"),
        ("yarn", "test"),
        ("pnpm", "test"),
        ("npm", "run", "test"),
        ("npm", "run", "lint"),
        ("npm", "run", "typecheck"),
    }
)
_MAKE_TARGETS = frozenset({"test", "lint", "check"})
_GO_OPTION = re.compile(
    r"--?(?:v|race|short|cover|failfast|json|(?:count|run|timeout|parallel)=.*)"
)

_HAS_VERSION = word_set(
    "python python3 pip pip3 uv poetry node npm yarn pnpm deno bun git cargo rustc rustup go gcc"
    " g++ clang make cmake java javac ruby gem perl php docker kubectl bash zsh tar curl wget rg fd"
    " jq grep sed awk ruff black mypy pyright flake8 pytest tox tsc eslint prettier terraform"
)
_SHORT_VERSION = word_set(
    "python:-V python3:-V node:-v npm:-v yarn:-v pnpm:-v cargo:-V rustc:-V ruby:-v php:-v perl:-v"
    " go:version java:-version docker:version"
)
_PIP_LISTS = frozenset({"list", "show", "freeze"})
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@/-]*")
_GO_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")


def is_project_check(words: Sequence[Word], place: Place) -> bool:
    """Return whether a command runs one of the project's checks and nothing else."""
    texts = tuple(word.text for word in words)
    if texts in _ALONE:
        return True
    if any(text.startswith("@") for text in texts):
        return False  # several of these tools read more arguments from such a file
    for length in (3, 2, 1):
        rules = _CHECKS.get(texts[:length])
        if rules is not None:
            rest = words[length:]
            if rules is _UNITTEST and rest and rest[0].text == "discover":
                rest = rest[1:]
            return parse(rest, rules, place) is not None
    if texts[0] == "cargo":
        return texts[1:2] in _CARGO_CHECKS and _cargo(words[2:], place)
    if texts[0] == "make":
        return len(texts) > 1 and _MAKE_TARGETS.issuperset(texts[1:])
    return texts[:2] in {("go", "test"), ("go", "vet")} and _go(words[2:], place)


def is_version_output(texts: Sequence[str]) -> bool:
    """Return whether a command prints a version, a list of packages, or one setting of go."""
    program, rest = texts[0], tuple(texts[1:])
    if rest == ("--version",):
        return program in _HAS_VERSION
    if ":".join(texts) in _SHORT_VERSION:
        return True
    if program in {"pip", "pip3"} and rest and rest[0] in _PIP_LISTS:
        return all(_NAME.fullmatch(text) for text in rest[1:])
    if program == "npm" and rest and rest[0] in {"ls", "list"}:
        return all(_NAME.fullmatch(text) or _is_depth(text) for text in rest[1:])
    if (program, *rest[:1]) == ("go", "env"):
        return len(rest) > 1 and all(_GO_VARIABLE.fullmatch(text) for text in rest[1:])
    return False


def _cargo(arguments: Sequence[Word], place: Place) -> bool:
    parsed = parse(arguments, _CARGO, place)
    if parsed is None:
        return False
    # What stands behind -- goes to the test program or to the compiler.
    options = [word.text for word in parsed.operands if word.text.startswith("-")]
    return all(option in _CARGO_PASSED_ON for option in options)


def _go(arguments: Sequence[Word], place: Place) -> bool:
    return all(
        _GO_OPTION.fullmatch(word.text) if word.may_be_option else place.is_ordinary(word)
        for word in arguments
    )


def _is_depth(text: str) -> bool:
    return text in {"-g", "--global", "--all", "-a"} or text.removeprefix("--depth=").isdigit()
