"""The classes of checks that a trusted workspace runs unasked, and the command lines of each.

Each runs code or configuration of the workspace. An option that names another program, plugin,
configuration, project or output, or that edits files, is in none of these tables. What may stand
behind one that names a format or a reporter is in `formats`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.policies import word_set
from prsm_policy.safe.options import Syntax

if TYPE_CHECKING:
    from collections.abc import Mapping

_JEST = Syntax(
    flags="io",
    valued="tw",
    long=word_set(
        "ci coverage no-coverage silent verbose runInBand bail passWithNoTests listTests"
        " onlyFailures onlyChanged findRelatedTests testNamePattern= testPathPattern="
        " testPathPatterns= maxWorkers= colors no-cache forceExit detectOpenHandles"
    ),
    free=frozenset({"-t", "--testNamePattern"}),
)
_VITEST = Syntax(
    flags="t",
    valued="t",
    long=word_set(
        "coverage silent no-coverage passWithNoTests testNamePattern= bail= no-color changed"
        " hideSkippedTests no-watch watch=false reporter="
    ),
    free=frozenset({"-t", "--testNamePattern"}),
)
_PYLINT = Syntax(
    flags="E",
    valued="jdef",
    long=word_set("errors-only disable= enable= score= reports= output-format= jobs= recursive="),
)
_RSPEC = Syntax(flags="db", valued="etf", long=word_set("fail-fast format= tag= example= dry-run"))
_ISORT = Syntax(flags="cqv", long=word_set("check check-only diff quiet verbose profile="))
_PRETTIER = Syntax(
    flags="cl",
    long=word_set(
        "check list-different log-level= loglevel= no-color ignore-unknown"
        " no-error-on-unmatched-pattern"
    ),
)
_GRADLE = Syntax(
    flags="qi",
    long=word_set(
        "quiet info console= offline no-daemon stacktrace continue parallel tests= rerun-tasks"
    ),
    max_operands=0,
)

# By the words that come first: the class, and the rest of the command line.
MORE_CHECKS: Mapping[tuple[str, ...], tuple[str, Syntax]] = {
    ("jest",): ("tests", _JEST),
    ("vitest", "run"): ("tests", _VITEST),
    ("mocha",): (
        "tests",
        Syntax(
            flags="b",
            valued="gftR",
            long=word_set("bail grep= recursive exit timeout= dry-run reporter="),
        ),
    ),
    ("ctest",): (
        "tests",
        Syntax(
            flags="VNQ",
            valued="REjLC",
            long=word_set(
                "output-on-failure test-dir= verbose quiet stop-on-failure rerun-failed"
                " show-only parallel= tests-regex= exclude-regex= timeout="
            ),
            free=frozenset({"-R", "-E"}),
            max_operands=0,
        ),
    ),
    ("gradle", "test"): ("tests", _GRADLE),
    ("gradle", "check"): ("tests", _GRADLE),
    ("mvn", "test"): (
        "tests",
        Syntax(flags="qBoe", long=word_set("quiet batch-mode offline"), max_operands=0),
    ),
    ("mvn", "-q", "test"): ("tests", Syntax(flags="qBoe", max_operands=0)),
    ("dotnet", "test"): (
        "tests",
        Syntax(
            valued="vc", long=word_set("no-build no-restore nologo verbosity= filter= list-tests")
        ),
    ),
    ("mix", "test"): (
        "tests",
        Syntax(long=word_set("trace stale failed seed= only= exclude= cover")),
    ),
    ("swift", "test"): (
        "tests",
        Syntax(long=word_set("filter= parallel list-tests skip="), max_operands=0),
    ),
    ("rspec",): ("tests", _RSPEC),
    ("bundle", "exec", "rspec"): ("tests", _RSPEC),
    ("cargo", "nextest", "run"): (
        "tests",
        Syntax(
            valued="pj",
            long=word_set(
                "workspace all-features no-fail-fast release package= lib tests test= all-targets"
            ),
        ),
    ),
    ("python", "-m", "mypy"): ("types", Syntax(long=word_set("strict ignore-missing-imports"))),
    ("python3", "-m", "mypy"): ("types", Syntax(long=word_set("strict ignore-missing-imports"))),
    ("vue-tsc",): ("types", Syntax(long=word_set("noEmit skipLibCheck pretty"), max_operands=0)),
    ("basedpyright",): ("types", Syntax(long=word_set("stats warnings outputjson verbose"))),
    ("pylint",): ("linters", _PYLINT),
    ("oxlint",): (
        "linters",
        Syntax(flags="AWD", long=word_set("quiet max-warnings= deny-warnings")),
    ),
    ("biome", "lint"): (
        "linters",
        Syntax(long=word_set("max-diagnostics= diagnostic-level= colors=")),
    ),
    ("biome", "check"): (
        "linters",
        Syntax(long=word_set("max-diagnostics= diagnostic-level= colors=")),
    ),
    ("biome", "ci"): (
        "linters",
        Syntax(long=word_set("max-diagnostics= diagnostic-level= colors=")),
    ),
    ("golangci-lint", "run"): (
        "linters",
        Syntax(flags="v", valued="ED", long=word_set("fast timeout= enable= disable=")),
    ),
    ("staticcheck",): ("linters", Syntax()),
    ("rubocop",): (
        "linters",
        Syntax(valued="f", long=word_set("format= only= except= parallel lint")),
    ),
    ("shellcheck",): (
        "linters",
        Syntax(
            flags="ax", valued="sSefCo", long=word_set("shell= severity= exclude= format= color=")
        ),
    ),
    ("yamllint",): (
        "linters",
        Syntax(flags="s", valued="f", long=word_set("strict format= no-warnings")),
    ),
    ("hadolint",): (
        "linters",
        Syntax(valued="f", long=word_set("format= no-color no-fail ignore=")),
    ),
    ("isort",): ("formatters", _ISORT),
    ("python", "-m", "isort"): ("formatters", _ISORT),
    ("prettier",): ("formatters", _PRETTIER),
    ("gofmt",): ("formatters", Syntax(flags="lds")),
    ("goimports",): ("formatters", Syntax(flags="lde")),
    ("rustfmt",): ("formatters", Syntax(flags="lv", long=word_set("check edition="))),
    ("cargo", "fmt"): (
        "formatters",
        Syntax(flags="qv", valued="p", long=word_set("check all package=")),
    ),
    ("clang-format",): ("formatters", Syntax(flags="n", long=word_set("dry-run Werror"))),
}
# Of these a check needs at least one.
MORE_NEEDED: Mapping[str, frozenset[str]] = {
    "isort": frozenset({"--check", "--check-only", "--diff", "-c"}),
    "python -m isort": frozenset({"--check", "--check-only", "--diff", "-c"}),
    "prettier": frozenset({"--check", "--list-different", "-c", "-l"}),
    "gofmt": frozenset({"-l", "-d"}),
    "goimports": frozenset({"-l", "-d"}),
    "rustfmt": frozenset({"--check"}),
    "cargo fmt": frozenset({"--check"}),
    "clang-format": frozenset({"-n", "--dry-run"}),
    "vue-tsc": frozenset({"--noEmit"}),
}
# Programs of packages that a runner may start if they are there.
PACKAGED = word_set("tsc vue-tsc eslint prettier jest vitest mocha biome oxlint pyright")
