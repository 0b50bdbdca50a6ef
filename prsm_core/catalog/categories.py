"""Which kind of work a task is, by the words that it is written in."""

from __future__ import annotations

GENERAL = "general"

# Beginnings of words that speak for a category; where two have as many, the first one counts.
_WORDS = {
    "code-review": ("review", "audit", "critique", "pull request"),
    "architecture": ("architect", "design", "decouple", "data model", "schema", "boundar"),
    "complex-reasoning": (
        "prove",
        "proof",
        "algorithm",
        "root cause",
        "deadlock",
        "race condition",
    ),
    "planning": ("plan", "roadmap", "break down", "milestone", "estimate", "prioriti"),
    "documentation": ("document", "docstring", "readme", "changelog", "tutorial", "manual"),
    "simple-tasks": ("rename", "typo", "reformat", "bump", "trivial", "one-line"),
    "agentic": ("orchestrat", "coordinat", "delegat", "autonomous", "end to end", "multi-step"),
    "search": ("search", "find", "grep", "locate", "look up", "where is"),
    "exploration": ("explor", "understand", "investigat", "survey", "overview", "get to know"),
    "tool-use": ("run", "execute", "install", "deploy", "command", "shell"),
    "coding": ("implement", "fix", "bug", "refactor", "code", "function", "class", "test", "add"),
    GENERAL: (),
}
CATEGORIES = tuple(_WORDS)


def categorize(description: str) -> str:
    """Return the category that most of its words speak for; `general` where none does."""
    text = description.lower()
    counts = {
        category: sum(_begins_in(text, word) for word in words)
        for category, words in _WORDS.items()
    }
    best = max(counts, key=counts.__getitem__)
    return best if counts[best] else GENERAL


def _begins_in(text: str, word: str) -> bool:
    """Return whether a word of a text begins so; to compile a pattern takes longer than to look."""
    place = text.find(word)
    while place > 0 and (text[place - 1].isalnum() or text[place - 1] == "_"):
        place = text.find(word, place + 1)
    return place >= 0
