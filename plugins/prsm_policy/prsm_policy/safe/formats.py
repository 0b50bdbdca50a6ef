"""Values of options that name a format, a reporter or an output.

Such a value is a small language of its own: a file to write (`text:x`), a class or a module to load
(`mod.Class`, `X::Y`, `./x.js`, a package). Harmless is only what the program brings along and
prints, so each program has a list.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_core.policies import word_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from prsm_policy.shell.words import Word

# Options that may name such a value in any program.
_NAMING = re.compile(
    r"--(?:[a-z]+-)*(?:format(?:ter)?|report(?:er|s)?|output|out|log|logger|plugin|config|profile"
    r"|render(?:er)?|style|printer|writer|loader|parser|resolver|runner|environment|template)s?"
    r"(?:-[a-z-]+)?",
    re.IGNORECASE,
)
# What most programs have, beside levels and switches.
_COMMON = word_set(
    "text json yaml plain rich short long concise full compact simple tty auto always never yes no"
    " y n on off true false trace debug info log warn warning error critical fatal silent quiet"
    " minimal normal detailed diagnostic verbose"
)
# Programs, options, and values beside the common ones.
_ROWS = """
pylint        | -f --output-format        | text colorized json json2 parseable msvs github
pylint        | --reports --score         | y n yes no
vitest        | --reporter                | default basic verbose dot tap tap-flat hanging-process
vitest        | --reporter                | github-actions tree
mocha         | -R --reporter             | dot doc json json-stream landing list min nyan progress
mocha         | -R --reporter             | spec tap
rspec         | -f --format               | p progress d doc documentation h html j json
rspec         | -f --format               | f failures s
rubocop       | -f --format               | p progress s simple c clang e emacs q quiet w worst
rubocop       | -f --format               | o offenses fi files g github j json t tap pa pacman
rubocop       | -f --format               | fu fuubar h html ju junit m markdown
eslint        | -f --format               | stylish json json-with-metadata html compact unix
eslint        | -f --format               | visualstudio
yamllint      | -f --format               | parsable standard colored github auto
hadolint      | -f --format               | tty json checkstyle codeclimate gitlab_codeclimate gnu
hadolint      | -f --format               | codacy sonarqube sarif
shellcheck    | -f --format               | checkstyle diff gcc json json1 quiet tty
isort         | --profile                 | black django pycharm google open_stack plone attrs hug
isort         | --profile                 | wemake appnexus
ruff          | --output-format           | concise full json json-lines junit grouped github
ruff          | --output-format           | gitlab pylint rdjson azure sarif
cargo         | --message-format          | human short json json-diagnostic-short
cargo         | --message-format          | json-diagnostic-rendered-ansi json-render-diagnostics
pytest        | -n --numprocesses         | auto logical
pytest        | --cov-report              | term term-missing term:skip-covered
pytest        | --cov-report              | term-missing:skip-covered
gradle        | --console                 | plain auto rich verbose
dotnet        | -v --verbosity            | q m n d diag quiet minimal normal detailed diagnostic
biome         | --colors                  | off force
prettier      | --log-level --loglevel    | silent error warn log debug
"""


def _table() -> Mapping[str, Mapping[str, frozenset[str]]]:
    """Return the values that a program has of its own, by program and option."""
    found: dict[str, dict[str, frozenset[str]]] = {}
    for line in filter(str.strip, _ROWS.splitlines()):
        program, options, values = (part.strip() for part in line.split("|"))
        row = found.setdefault(program, {})
        for option in options.split():
            row[option] = row.get(option, frozenset()) | word_set(values)
    return found


_VALUES = _table()


def are_harmless(texts: Sequence[str], values: Iterable[tuple[str, Word]]) -> bool:
    """Return whether no option of a check names what would be loaded or written.

    Args:
        texts: The command line of the check, from the program on.
        values: Its options with their values, taken apart.
    """
    is_started = len(texts) > 2 and texts[1] in {"-m", "exec"}
    listed = _VALUES.get(texts[2 if is_started else 0], {})
    for option, word in values:
        allowed = listed.get(option)
        if allowed is None and _NAMING.fullmatch(option):
            allowed = _COMMON
        if allowed is not None and not _is_listed(word, allowed):
            return False
    return True


def _is_listed(word: Word, allowed: frozenset[str]) -> bool:
    return word.known and all(value in allowed or value.isdigit() for value in word.text.split(","))
