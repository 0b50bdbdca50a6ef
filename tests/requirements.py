"""The requirements by id, and which tests prove them.

`python tests/requirements.py` prints the record; `--sync` writes what the tests prove to
tests/data/requirements.txt, where the difference shows each requirement won or lost.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.sources import ROOT, calls, suite_files, where

MANIFEST = ROOT / "tests" / "data" / "requirements.txt"
_ROW = re.compile(r"([A-Z]\d+) (built|open) (\S.*)")


class Requirement(NamedTuple):
    """One row: what must come true, and whether it has."""

    text: str
    state: str  # built | open


def load(text: str) -> dict[str, Requirement]:
    """Return the rows of a manifest by id; raise ValueError for one that is malformed or twice."""
    rows: dict[str, Requirement] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line or line.startswith("#"):
            continue
        match = _ROW.fullmatch(line)
        if match is None or match[1] in rows:
            raise ValueError(f"line {number} is not a row or repeats an id: {line!r}")
        rows[match[1]] = Requirement(text=match[3], state=match[2])
    return rows


REQUIREMENTS = load(MANIFEST.read_text(encoding="utf-8"))


def marked() -> dict[str, list[str]]:
    """Return for each id the places in the test sources that are marked with it."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in suite_files():
        if not path.name.startswith("test_"):
            continue
        for call, name in calls(path):
            if name == "pytest.mark.requirement":
                for identifier in call.args:
                    places[_literal(path, identifier)].append(where(path, call))
    return dict(places)


def _literal(path: Path, node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise TypeError(f"{where(path, node)}: a requirement id must be a literal string")


def synced(text: str, proven: set[str]) -> str:
    """Return the manifest with the rows that tests prove marked as built and all others as open."""
    return re.sub(
        r"^([A-Z]\d+) (?:open|built) ",
        lambda row: f"{row[1]} {'built' if row[1] in proven else 'open'} ",
        text,
        flags=re.MULTILINE,
    )


def main(argv: list[str]) -> int:
    """Print the record, and with --sync make the manifest say what the tests prove."""
    places = marked()
    for identifier, (text, state) in REQUIREMENTS.items():
        tests = places.get(identifier, [])
        flag = {("open", True): "<- proven, still open", ("built", False): "<- built, NO TEST"}
        note = flag.get((state, bool(tests)), "")
        sys.stdout.write(f"{identifier:4} {state:5} {len(tests):3} {text[:60]:60} {note}\n")
    unknown = sorted(set(places) - set(REQUIREMENTS))
    for identifier in unknown:
        sys.stdout.write(f"unknown id {identifier}: {', '.join(places[identifier])}\n")
    built = sum(bool(places.get(identifier)) for identifier in REQUIREMENTS)
    sys.stdout.write(f"{built} of {len(REQUIREMENTS)} requirements are proven by a test\n")
    if "--sync" in argv:
        before = MANIFEST.read_text(encoding="utf-8")
        MANIFEST.write_text(synced(before, set(places)), encoding="utf-8")
    return 1 if unknown else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
