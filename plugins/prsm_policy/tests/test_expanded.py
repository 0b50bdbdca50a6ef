"""Commands with patterns are judged by the names that they get, as the folders are."""

from __future__ import annotations

import pytest

from plugins.prsm_policy.tests.judging import decide
from prsm_core.domain.agents import PermissionMode

FILES = (
    *(
        "README.md",
        "a.json",
        "src/a.py",
        "src/b.py",
        "one/only.py",
        "docs/a.md",
        ".env",
        ".gitignore",
    ),
    *("src/locales/en/auth.json", "notes/x.txt", "notes/y.txt", "keys/server.key", "c.txt"),
)


@pytest.fixture
def place(tmp_path):
    workspace = tmp_path / "workspace"
    for name in FILES:
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "passwd").write_text("x")
    (workspace / "src" / "link").symlink_to(tmp_path / "outside" / "passwd")
    (workspace / "lib").symlink_to(tmp_path / "outside")
    (workspace / "docs" / "known").symlink_to(workspace / ".env")
    (workspace / "near").symlink_to(workspace / "notes")
    return workspace


@pytest.mark.requirement("E18")
@pytest.mark.parametrize(
    "command",
    [
        "uniq src/*.py",
        "uniq *.txt src/a.py",
        "cat .en[^x]",
        "cat .en[!x]",
        "cat .[[:alpha:]]*",
        "cat .[^.]*",
        "cat .??*",
        "cat '.e'*",
        "cat .\\e[n]v",
        "cat src/l*",
        "cat src/[l]ink",
        "cat */link",
        "cat */passwd",
        "cat l*/passwd",
        "ls src/l*",
        "cat docs/k*",
        "cat docs/*",
        "cat keys/*",
        "head -n 1 */*",
        "tail -n1 < docs/k*",
        "cat < .en[^x]",
        "grep -h KEY .en[^x] README.md",
        "cd docs && cat *",
        "timeout 5 cat docs/*",
        "jq . docs/k*",
        "jq .[k]* a.json",
        "printf src/* x",
        "diff docs/* a.json",
        "md5sum .*",
        "ls .*",
        "cat [A-z]rc/a.py",
        "ls -la *",
        "ls -d */",
        "cat [[=s=]]rc/a.py",
    ],
)
def test_a_pattern_asks_for_what_it_stands_for(place, command):
    assert decide(command, place) == "ask"


@pytest.mark.requirement("E18")
@pytest.mark.parametrize(
    "command",
    [
        "wc -l src/*.py",
        "uniq one/*.py",
        "cat *.md src/*.py",
        "cat *.json",
        "cat src/locales/*/*.json",
        "head -5 notes/*",
        "cat near/*",
        "ls -la n*",
        "ls -d [dnos]*/",
        "ls -d .[a-z]*",
        "sort notes/*.txt",
        "grep -n x notes/[xy].txt",
        "grep foo* README.md",
        "cd notes && cat [xy].*",
        "cat < one/*.py",
        "git log --oneline src/*.py",
        "[ -f *.md ] && echo one",
        "find . -name '*.py'",
        "pytest src/*.py",
        "jq . *.json",
        "cat nothing/*.md",
    ],
)
def test_a_pattern_for_ordinary_files_runs(place, command):
    assert decide(command, place) == "allow"


def test_a_name_like_an_option_makes_a_pattern_ask(place):
    assert decide("wc *", place) == "ask"  # of the link to a folder outside
    assert decide("wc notes/*", place) == "allow"
    assert decide("wc *", place, cwd=place / "notes") == "allow"
    (place / "notes" / "--files0-from=x").write_text("/etc/passwd")
    assert decide("wc notes/*", place) == "allow"
    assert decide("wc *", place, cwd=place / "notes") == "ask"
    assert decide("cd notes && wc *", place) == "ask"
    assert decide("ls -- *", place / "notes") == "ask"


def test_only_the_folders_that_a_command_may_run_in_count(place):
    (place / "notes" / "key.pem").write_text("x")
    assert decide("cd notes && cat *", place) == "ask"
    assert decide("cat one/*", place) == "allow"
    assert decide("cat *", place / "one") == "allow"
    assert decide("cat *", place, cwd=place / "one") == "allow"
    assert decide("cat *", place, cwd=place / "docs") == "ask"


@pytest.mark.parametrize("command", ["cat .en[^x]", "cat .[[:alpha:]]nv", "cat .e\\n*"])
def test_a_pattern_that_may_stand_for_a_secret_asks_in_bypass_mode_too(command):
    assert decide(command, mode=PermissionMode.BYPASS) == "ask"


@pytest.mark.requirement("E18")
@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("jq . -- --arg f", "ask"),
        ("jq . -- --arg f .env", "ask"),
        ("jq . --indent --arg x .env 2", "ask"),
        ("jq . --indent x a.json", "ask"),
        ("jq -L . . a.json", "ask"),
        ("jq . a.json --from-file x", "ask"),
        ("jq --arg", "ask"),
        ("jq --indent 2 . a.json", "allow"),
        ("jq --arg v 1 '.[$v]' a.json", "allow"),
        ("jq . a.json --arg v .env", "allow"),
        ("tree -Io x README.md .", "ask"),
        ("tree -aIo x README.md", "ask"),
        ("tree -L 2 -I node_modules", "allow"),
    ],
)
def test_an_option_means_what_its_program_makes_of_it(place, command, verdict):
    assert decide(command, place) == verdict


def test_a_pattern_over_too_many_names_asks(tmp_path):
    for number in range(700):
        (tmp_path / f"{number}").mkdir()
    assert decide("ls *", tmp_path) == "allow"
    assert decide("grep -r KEY *", tmp_path) == "ask"
    assert decide("ls */*", tmp_path) == "ask"
