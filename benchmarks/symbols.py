"""symbols: the index of names against bare parsing, a later look, one lookup, and outlines."""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_regions.symbols.answers import Found, best, render
from prsm_regions.symbols.definitions import definitions
from prsm_regions.symbols.grammars import grammar_of, loaded
from prsm_regions.symbols.index import Index
from prsm_regions.symbols.outlines import outline

from benchmarks.harness import Finding, compared, cpu_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.harness import Plan

SECOND = 1e6  # µs
INDEX_GOAL, LOOK_GOAL, LOOKUP_GOAL, OUTLINE_GOAL = 2.2, 1.5, 2.0, 0.3
_LOOKUPS = 300
_NAMES = ("Machine", "MessageRouter", "PermissionContext", "read_script", "AgentSession")
_ROW = (
    "SELECT path, kind, name, scope, start, stop, text FROM symbol CROSS JOIN file"
    " ON file.blob = symbol.blob AND file.tree = 1 WHERE name = ?"
)


def measure(plan: Plan) -> list[Finding]:
    """Measure on the sources of this repository, as they are in the folder it is started in."""
    root = str(Path.cwd())
    files = [path for path in _listed(root) if grammar_of(path) and Path(root, path).is_file()]
    files = files[: plan.count(len(files))]
    texts = [(grammar_of(path), Path(root, path).read_bytes()) for path in files]
    with tempfile.TemporaryDirectory() as folder:
        numbers = count()
        index = Index(Path(folder, "kept"))
        index.refresh(root, files)
        time.sleep(0.05)  # until then a file that was just written is read again
        index.refresh(root, files)
        found = [
            compared(
                "symbols",
                f"index of {len(files)} files",
                lambda: _indexed(Path(folder, f"index{next(numbers)}"), root, files),
                lambda: cpu_seconds(lambda: _parsed(texts)),
                plan,
                goal=INDEX_GOAL,
                unit="s",
            ),
            compared(
                "symbols",
                "a later look",
                lambda: _with_children(lambda: index.refresh(root, _listed(root))),
                lambda: _with_children(lambda: _looked_at(root)),
                plan,
                goal=LOOK_GOAL,
            ),
            _lookup(index, root, plan),
        ]
        index.close()
    return [*found, _outlines(files, texts)]


def _listed(root: str) -> list[str]:
    said = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"],
        cwd=root,
        stdout=subprocess.PIPE,
        check=True,
    )
    return [os.fsdecode(path) for path in said.stdout.split(b"\0") if path]


def _indexed(place: Path, root: str, files: list[str]) -> float:
    index = Index(place)
    cost = cpu_seconds(lambda: index.refresh(root, files))
    index.close()
    return cost


def _parsed(texts: list[tuple[Any, bytes]]) -> None:
    from tree_sitter import Parser

    for grammar, text in texts:
        Parser(loaded(grammar)[0]).parse(text)


def _looked_at(root: str) -> int:
    return sum(os.lstat(f"{root}/{path}").st_size for path in _listed(root))


def _with_children(work: Callable[[], object]) -> float:
    """Return the CPU time in µs of some work and of the processes that it waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = cpu_seconds(work)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (own + spent) * SECOND


def _lookup(index: Index, root: str, plan: Plan) -> Finding:
    import sqlite3

    db = sqlite3.connect(index.path)

    def ours() -> float:
        return cpu_seconds(lambda: _looked_up(index, root)) * SECOND / (_LOOKUPS * len(_NAMES))

    def bare() -> float:
        def reads() -> None:
            for _ in range(_LOOKUPS):
                for name in _NAMES:
                    db.execute(_ROW, (name,)).fetchall()

        return cpu_seconds(reads) * SECOND / (_LOOKUPS * len(_NAMES))

    try:
        return compared("symbols", "one lookup", ours, bare, plan, goal=LOOKUP_GOAL)
    finally:
        db.close()


def _looked_up(index: Index, root: str) -> None:
    for _ in range(_LOOKUPS):
        for name in _NAMES:
            render(best([Found(*each) for each in index.with_name(root, name, 200)], ()))


def _outlines(files: list[str], texts: list[tuple[Any, bytes]]) -> Finding:
    made = [
        len(outline(path, len(text), definitions(text, grammar)).encode())
        for path, (grammar, text) in zip(files, texts, strict=True)
    ]
    source = sum(len(text) for _, text in texts)
    return Finding(
        benchmark="symbols",
        case="outlines of all files",
        unit="bytes",
        value=sum(made),
        reference=source,
        ratio=sum(made) / source,
        goal=OUTLINE_GOAL,
    )
