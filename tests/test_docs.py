"""What the documents show works: their code runs, their commands exist, their files load."""

from __future__ import annotations

import itertools
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import click
import pytest
import yaml

from prsm_core import errors
from prsm_core.catalog.packages import OWN_PACKAGES
from prsm_core.cli.group import COMMANDS
from prsm_core.config import Settings, load_settings, resolve_paths
from prsm_core.domain import account
from prsm_core.errors import ConfigError
from tests.documents import (
    SHELL,
    TUTORIALS,
    UNCHECKED,
    blocks,
    blocks_of,
    command_lines,
    documents,
    parse_call,
    prsm_calls,
)
from tests.sources import PLUGINS, ROOT, package_files, where

ADRS = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
MAX_ADR_LINES = 60

PAGES_OF_CODES = ("cli", "config", "guide", "policy")

# Calls that need no agent, no terminal and no network are run, not only parsed.
HARMLESS = {"--version", "config", "plugins"}

CALLS = [
    pytest.param(call, id=f"{block.place} prsm {' '.join(call)}")
    for block in blocks(*SHELL)
    for line in command_lines(block.text)
    for call in prsm_calls(line)
]


def run_python(text: str, folder: Path) -> None:
    """Run an example as a module of its own; one for a plugin that is not here is not run."""
    for plugin in PLUGINS:
        wanted = re.search(rf"^(from|import) {plugin.name}\b", text, flags=re.MULTILINE)
        if wanted and find_spec(plugin.name) is None:
            pytest.skip(f"{plugin.name} is not installed")
    script = folder / "example.py"
    script.write_text(text, encoding="utf-8")
    runpy.run_path(str(script))


def load_yaml(text: str, folder: Path) -> None:
    """Load what has a section of the settings as the user's configuration, else as any YAML."""
    data = yaml.safe_load(text)
    assert data is not None
    if isinstance(data, dict) and data.keys() & set(Settings.__struct_fields__):
        environment = {"PRSM_HOME": str(folder)}
        paths = resolve_paths(folder / "workspace", environment)
        paths.user_config.parent.mkdir(parents=True, exist_ok=True)
        paths.user_config.write_text(text, encoding="utf-8")
        load_settings(paths=paths, environ=environment, trusted=False)


def load_json(text: str, _: Path) -> None:
    """Load one value, or one value a line."""
    for document in [text] if text.startswith(("{\n", "[\n")) else text.splitlines():
        json.loads(document)


def load_toml(text: str, _: Path) -> None:
    tomllib.loads(text)


def read_commands(text: str, _: Path) -> None:
    """Find at least one command; each call of prsm among them is a test of its own."""
    assert command_lines(text)


CHECKS = {
    "python": run_python,
    "yaml": load_yaml,
    "json": load_json,
    "toml": load_toml,
    **dict.fromkeys(SHELL, read_commands),
}


def test_every_block_says_how_it_is_checked():
    unknown = [block.place for block in blocks() if block.language not in CHECKS.keys() | UNCHECKED]
    assert not unknown, f"a block that no test runs must be marked as text: {unknown}"


SINGLE = [block for block in blocks(*CHECKS) if not block.file]


def test_a_document_that_builds_a_project_is_a_tutorial():
    """Tutorials are followed step by step by tests/docs/test_tutorials.py."""
    built = {block.place.partition(":")[0] for block in blocks() if block.file}
    assert built == {str(path.relative_to(ROOT)) for path in TUTORIALS}


@pytest.mark.parametrize("block", [pytest.param(b, id=b.place) for b in SINGLE])
def test_a_block_of_the_documents_works(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    CHECKS[block.language](block.text, tmp_path)


def run_prsm(call: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run prsm as its own process, at home in an empty folder."""
    code = "import sys; from prsm_core.cli import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", code, *call],
        cwd=folder,
        env={**os.environ, "PRSM_HOME": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_pages_give_the_exit_codes_that_a_run_has():
    """docs/cli.md lists all of them; other pages name only such."""
    of_runs = {value for name, value in vars(account).items() if name.isupper()}
    of_errors = {value.exit_code for value in vars(errors).values() if hasattr(value, "exit_code")}
    pages = {name: (ROOT / "docs" / f"{name}.md").read_text("utf-8") for name in PAGES_OF_CODES}
    table = dict(re.findall(r"^\| (\d+) \| (.*) \|$", pages["cli"], flags=re.MULTILINE))
    assert {*map(int, table)} == {*of_runs, *of_errors}
    for name, text in pages.items():
        codes = re.findall(r"exit code (?:is )?(\d+)|exits with (\d+)", text)
        assert {*filter(None, itertools.chain(*codes))} <= {*table}, name
    for row in ("required gate", "work is not merged"):
        assert row in re.sub(r"[\[\]]|\(.*?\)", "", table["5"])
    assert "gate, or with work that is not merged, ends with exit code 5" in pages["guide"]
    assert "the [command line](cli.md) lists all codes" in pages["guide"]


@pytest.mark.parametrize("call", CALLS)
def test_a_command_of_the_documents_exists_and_if_harmless_succeeds(call, tmp_path):
    parse_call(call)
    if call and (call[0] in HARMLESS or "--help" in call):
        done = run_prsm(call, tmp_path)
        assert done.returncode == 0, done.stderr


def test_every_command_that_a_sentence_names_exists():
    """In documents, and in what programs and their sources say."""
    sources = [*documents(), *package_files()]
    named = {
        f"{where(path)}: {found[1]}"
        for path in sources
        for found in re.finditer(r"`prsm ([a-z][a-z-]*)", path.read_text(encoding="utf-8"))
        if found[1] not in COMMANDS
    }
    assert named == set()


def test_a_configuration_with_a_misspelt_key_is_found_out(tmp_path):
    load_yaml("engine:\n  max_agent_depth: 3\n", tmp_path)
    with pytest.raises(ConfigError, match="max_agent_dept"):
        load_yaml("engine:\n  max_agent_dept: 3\n", tmp_path)


def test_an_example_that_uses_a_name_we_do_not_have_is_found_out(tmp_path):
    run_python("from prsm_core import ProviderSpec\n", tmp_path)
    with pytest.raises(ImportError):
        run_python("from prsm_core import ProviderSpecs\n", tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        "prsm nonsense",
        "prsm --nonsense",
        "prsm plugins --nonsense",
        "prsm history",
        "prsm history master --detail everything",
        "prsm plugins extra",
    ],
)
def test_a_command_that_does_not_exist_is_found_out(line):
    (call,) = prsm_calls(line)
    with pytest.raises(click.UsageError):
        parse_call(call)


@pytest.mark.parametrize(
    "line",
    ["prsm", "prsm --help", "prsm history --help", "prsm history master --detail summary --json"],
)
def test_a_command_that_exists_is_accepted(line):
    (call,) = prsm_calls(line)
    parse_call(call)


@pytest.mark.parametrize(
    ("line", "calls"),
    [
        ("prsm run 'fix it' --json | jq .", [["run", "fix it", "--json"]]),
        ("cd x && .venv/bin/prsm tree; prsm plugins", [["tree"], ["plugins"]]),
        ("PRSM_HOME=/tmp/x prsm config path  # where", [["config", "path"]]),
        ("echo prsm run", []),
    ],
)
def test_calls_are_found_in_command_lines(line, calls):
    assert list(prsm_calls(line)) == calls


def test_a_prompt_tells_commands_from_their_output():
    assert command_lines("$ prsm tree \\\n  --json\n{}\n") == ["prsm tree    --json"]
    assert command_lines("# first\nprsm tree\n\nprsm plugins\n") == ["prsm tree", "prsm plugins"]


def test_blocks_are_found_with_their_language_and_line():
    text = (
        "# T\n\n- item\n\n  ```python\n  x = 1\n  ```\n\n````text\n```\nnot a block\n```\n````\n"
        "```toml a/b.toml\n```\n```\n```\n"
    )
    found = list(blocks_of(text, ROOT / "README.md"))
    assert [(b.language, b.text, b.file) for b in found] == [
        ("python", "x = 1\n", ""),
        ("text", "```\nnot a block\n```\n", ""),
        ("toml", "", "a/b.toml"),
        ("", "", ""),
    ]
    assert found[0].place == "README.md:5"


@pytest.mark.parametrize("path", ADRS, ids=lambda path: path.name)
def test_a_decision_fits_on_one_page_and_is_indexed(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MAX_ADR_LINES
    number = int(path.name[:4])
    assert re.fullmatch(r"\d{4}-[a-z0-9-]+\.md", path.name)
    title = re.match(rf"# {number}\. (.+)\n", text)
    assert title, f"{path.name} must begin with '# {number}. Title'"
    index = (ROOT / "docs" / "adr" / "README.md").read_text(encoding="utf-8")
    entry = f"- {number}: [{title[1]}]({path.name})\n"
    assert entry in index, f"docs/adr/README.md lacks this line: {entry}"


def test_decisions_are_numbered_without_a_repeat():
    numbers = [path.name[:4] for path in ADRS]
    assert len(numbers) == len(set(numbers))


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(path):
    said = re.sub(r"`[^`\n]+`", "", path.read_text(encoding="utf-8"))  # code is no link
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", said)
    local = [target for target in targets if "://" not in target]
    assert not [target for target in local if not (path.parent / target).exists()]


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_that_a_document_names_is_there(path):
    named = re.findall(r"`((?:plugins|tests|benchmarks|prsm_[a-z]+)/[\w./-]+)`", path.read_text())
    assert not [one for one in named if not any((at / one).exists() for at in places(path, one))]


def places(document, named):
    """Return where a path of a document may begin: beside it, at the top, or in a package."""
    return (document.parent, ROOT, ROOT / "prsm_core", ROOT / "plugins" / named.partition("/")[0])


def test_the_line_that_finds_the_sdks_claude_finds_it():
    if find_spec("claude_agent_sdk") is None:
        pytest.skip("claude-agent-sdk is not installed")
    guide = (ROOT / "docs" / "claude-code.md").read_text(encoding="utf-8")
    [line] = re.findall(r"^\$ (python -c .*)$", guide, re.MULTILINE)
    argv = [sys.executable, *shlex.split(line)[1:]]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    assert Path(done.stdout.strip()).is_file()


def test_what_a_reader_is_told_to_install_is_there():
    """`prsm install` takes each of the names that documents give it; npm is named no program."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    pages = [readme, *(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))]
    named = {
        name
        for page in pages
        for name in re.findall(r"prsm install ([a-z]+)(?: --cli)?[`\n]", page)
    }
    assert "codex" in named
    assert named - {"NAME"} <= OWN_PACKAGES.keys()
    assert "npm install" not in readme, "the newest of a vendor is not the one that was tested"
