"""Languages: the suffixes of their files, their grammars, and our queries for what they define.

A query has a pattern for each way to define something. Its captures are @name, @body (what a
signature does without), @owner (the type a method belongs to, where it stands beside it), and one
that says the kind of the symbol.
"""

from __future__ import annotations

import hashlib
import importlib
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from tree_sitter import Language, Query

_QUERIES = Path(__file__).parent / "queries"
MAKING = 1  # rises with what definitions are made of a query's matches


class Grammar(msgspec.Struct, frozen=True):
    """A language: its package, the function in it, its query, and how its comments begin."""

    name: str
    package: str
    function: str
    query: str
    suffixes: tuple[str, ...]
    comment: str = "//"


GRAMMARS = (
    Grammar("python", "tree_sitter_python", "language", "python", (".py", ".pyi"), "#"),
    Grammar(
        "javascript",
        "tree_sitter_javascript",
        "language",
        "javascript",
        (".js", ".mjs", ".cjs", ".jsx"),
    ),
    Grammar(
        "typescript",
        "tree_sitter_typescript",
        "language_typescript",
        "typescript",
        (".ts", ".mts", ".cts"),
    ),
    Grammar("tsx", "tree_sitter_typescript", "language_tsx", "typescript", (".tsx",)),
    Grammar("go", "tree_sitter_go", "language", "go", (".go",)),
    Grammar("rust", "tree_sitter_rust", "language", "rust", (".rs",)),
    Grammar("java", "tree_sitter_java", "language", "java", (".java",)),
    Grammar("c", "tree_sitter_c", "language", "c", (".c",)),
    Grammar(
        "cpp",
        "tree_sitter_cpp",
        "language",
        "cpp",
        (".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".ipp"),
    ),
)
_BY_SUFFIX = {suffix: grammar for grammar in GRAMMARS for suffix in grammar.suffixes}


def grammar_of(path: str) -> Grammar | None:
    """Return the language of a file by its name, None for what no grammar is known of."""
    dot = path.rfind(".")
    return _BY_SUFFIX.get(path[dot:].lower()) if dot > path.rfind("/") else None


@cache
def loaded(grammar: Grammar) -> tuple[Language, Query]:
    """Return a grammar and its query, compiled; once a process."""
    from tree_sitter import Language, Query

    language = Language(getattr(importlib.import_module(grammar.package), grammar.function)())
    return language, Query(language, _query_text(grammar))


@cache
def fingerprint(grammar: Grammar) -> str:
    """Return what changes where the same text may have other definitions: grammar, query, code."""
    from importlib.metadata import version  # where nothing has changed nobody asks

    release = version(grammar.package.replace("_", "-"))
    told = f"{MAKING} {grammar.name} {release} {_query_text(grammar)}"
    return f"{grammar.name}-{hashlib.sha256(told.encode()).hexdigest()[:12]}"


def without_suffix(path: str) -> str:
    """Return a path without the suffix of a language."""
    return str(PurePosixPath(path).with_suffix("")) if grammar_of(path) else path


@cache
def _query_text(grammar: Grammar) -> str:
    return (_QUERIES / f"{grammar.query}.scm").read_text(encoding="utf-8")
