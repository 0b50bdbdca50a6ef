"""How many of the commands that agents write every day run unasked in a trusted workspace."""

from __future__ import annotations

from collections import Counter

import pytest

from plugins.prsm_policy.tests.judging import DATA, decide
from prsm_core.policies.rule_classes import BUILDS, LOOK_UPS
from tests.command_policies import make_policy

FILES = """
    .github/workflows/ci.yml .gitignore .venv/bin/activate .venv/bin/mypy .venv/bin/pytest
    .venv/bin/ruff CHANGELOG.md Cargo.toml Makefile README.md bin/rails cmd/server/main.go
    crates/core/Cargo.toml crates/core/src/lib.rs docs/guide.md go.mod gradlew
    internal/server/handler.go logs/app.json manage.py mvnw node_modules/.bin/eslint
    node_modules/.bin/jest node_modules/.bin/next node_modules/.bin/prettier
    node_modules/.bin/tsc node_modules/.bin/vite node_modules/.bin/vitest package-lock.json
    package.json packages/api/Makefile packages/api/package.json packages/api/src/server.test.ts
    packages/ui/node_modules/.bin/vitest packages/ui/package.json
    packages/ui/src/button.test.tsx pyproject.toml requirements-dev.txt requirements.txt
    src/app/config.py src/app/main.py src/app/models.py tests/test_config.py tsconfig.json
    vendor/bin/phpstan vendor/bin/phpunit venv/bin/activate
"""
CLASSES = make_policy(allow=[LOOK_UPS, BUILDS])
LOOKS, CHECKS, ALL = "look", "check", "all"


def everyday():
    """Return the kinds and the commands of the list; an indented line goes on with its command."""
    rows: list[list[str]] = []
    for line in (DATA / "everyday_new.txt").read_text().splitlines():
        if line.startswith("    "):
            rows[-1][1] += f"\n{line[4:]}"
        else:
            rows.append(line.split(": ", 1))
    return rows


@pytest.fixture
def ground(tmp_path):
    for name in FILES.split():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x\n")
    return tmp_path


@pytest.mark.requirement("E18", "U9")
def test_most_everyday_commands_run_unasked_and_checks_above_all(ground, report):
    rows = [(kind, command.replace("{ws}", str(ground))) for kind, command in everyday()]
    assert len({command for _, command in rows}) == 400
    counts = Counter(kind for kind, _ in rows)
    assert counts[LOOKS] == 200
    assert counts[CHECKS] == 133
    unasked = Counter(kind for kind, text in rows if decide(text, ground) == "allow")
    classes = sum(decide(text, ground, policy=CLASSES) == "allow" for _, text in rows)
    told = ", ".join(f"{unasked[kind]} of {counts[kind]} {kind}" for kind in counts)
    report(
        f"everyday commands: {unasked.total()} of 400 run unasked ({told});"
        f" {classes} with {LOOK_UPS} and {BUILDS}"
    )
    assert unasked[CHECKS] >= 0.85 * counts[CHECKS]
    assert unasked.total() >= 0.75 * 400
    assert classes >= 0.88 * 400


def test_what_edits_or_installs_asks_also_with_the_classes(ground):
    rows = [command for kind, command in everyday() if kind in {"edit", "install"}]
    assert rows
    assert not [text for text in rows if decide(text, ground, policy=CLASSES) == "allow"]
