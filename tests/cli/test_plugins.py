"""`prsm plugins`: every record of every plugin, and the packages that `new` writes."""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
import tomllib
from pathlib import Path

import prsm_testing
import pytest

import prsm_core
import prsm_core.kit
from prsm_core.cli import plugins as command
from prsm_core.errors import PluginError
from prsm_core.version import __version__
from tests.site_folder import Site, provider

KINDS = command.KINDS
ALL = """
async def ask(request, context): ...

@hookimpl
def prsm_providers():
    yield ProviderSpec(name="p", summary="Runs.", factory="x:p", selectable=False)

@hookimpl
def prsm_permission_checks():
    yield PermissionCheckSpec(
        name="late", summary="Looks twice.", priority=90, check=ask, orchestration=True
    )
    yield PermissionCheckSpec(
        name="early", summary="Looks.", priority=-1, check="x:c", in_bypass=True, timeout=2.5
    )

@hookimpl
def prsm_model_scorers():
    yield ModelScorerSpec(name="m", summary="Scores.", weight=0.5, score=lambda model, task: 1)

@hookimpl
def prsm_event_sinks():
    yield EventSinkSpec(name="s", summary="Keeps.", factory="x:s", kinds=frozenset({"notice"}))

@hookimpl
def prsm_frontends():
    yield FrontendSpec(name="f", summary="Shows.", interactive=True, priority=3, factory="x:f")

@hookimpl
def prsm_tools():
    yield ToolContribution(
        name="t", summary="Moves.", description="", arguments=Struct,
        roles=frozenset({"worker", "master"}), handler="x:t", when="x:w", labels="pre"
    )
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of distributions, of which the plugins named `mine…` are loaded."""
    made = Site(tmp_path / "site")
    made.folder.mkdir()
    monkeypatch.syspath_prepend(str(made.folder))
    monkeypatch.setenv("PYTHONPATH", str(made.folder))
    monkeypatch.setenv("PRSM_PLUGINS", "mine,mine-too,acme")
    return made


def records(out: str) -> dict[str, list[dict[str, object]]]:
    return {row["name"]: row["records"] for row in json.loads(out)}


@pytest.mark.requirement("C6", "F12")
def test_json_tells_every_record_and_what_decides_when_a_check_is_asked(site, prsm_process):
    site.add("mine", ALL)
    done = prsm_process("plugins", "--json")
    assert done.code == 0, done.err
    found = {(r["kind"], r["name"]): r for r in records(done.out)["mine"]}
    assert list(found) == [
        ("event sink", "s"),
        ("frontend", "f"),
        ("model scorer", "m"),
        ("permission check", "early"),
        ("permission check", "late"),
        ("provider", "p"),
        ("tool", "t"),
    ]
    early, late = found["permission check", "early"], found["permission check", "late"]
    assert (early["priority"], early["in_bypass"], early["timeout"]) == (-1, True, 2.5)
    assert (late["priority"], late["in_bypass"], late["orchestration"]) == (90, False, True)
    assert (early["summary"], early["check"], "check" in late) == ("Looks.", "x:c", False)
    assert found["event sink", "s"]["kinds"] == ["notice"]
    assert found["model scorer", "m"]["weight"] == 0.5
    assert (found["provider", "p"]["selectable"], found["frontend", "f"]["priority"]) == (False, 3)
    told = found["tool", "t"]
    assert (told["handler"], told["when"], told["labels"]) == ("x:t", "x:w", "pre")


@pytest.mark.requirement("C6", "F12")
def test_the_table_has_a_line_for_every_record(site, prsm_process):
    site.add("mine", ALL)
    done = prsm_process("plugins")
    assert done.code == 0, done.err
    lines = [re.split(r"\s{2,}", line) for line in done.out.splitlines()]
    assert ["RECORD", "NAME", "PLUGIN", "DETAILS", "SUMMARY"] in lines
    for line in (
        ["permission check", "early", "mine", "priority -1, in bypass too", "Looks."],
        [
            "permission check",
            "late",
            "mine",
            "priority 90, not in bypass, PRSM's own tools too",
            "Looks twice.",
        ],
        ["event sink", "s", "mine", "1 types of events", "Keeps."],
        ["frontend", "f", "mine", "priority 3, interactive", "Shows."],
        ["model scorer", "m", "mine", "weight 0.5", "Scores."],
        ["provider", "p", "mine", "by name only", "Runs."],
        ["tool", "t", "mine", "for master, worker, sets labels pre/", "Moves."],
        ["provider", "script", "demo", "by name only", lines[-1][-1]],
    ):
        assert line[:4] in [found[:4] for found in lines]


@pytest.mark.requirement("C6")
def test_what_a_refused_plugin_would_contribute_is_told_as_not_used(site, prsm_process):
    site.add("mine", provider("twin"))
    site.add("mine-too", provider("twin"))
    done = prsm_process("plugins")
    assert done.code == 1
    assert "mine (broken: not used)" in done.out
    told = records(prsm_process("plugins", "--json").out)
    assert [record["name"] for record in told["mine"] + told["mine-too"]] == ["twin", "twin"]


@pytest.mark.requirement("C5")
@pytest.mark.parametrize("kind", KINDS)
def test_new_writes_a_package_for_public_names_and_tells_three_commands(
    kind, tmp_path, prsm, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    done = prsm("plugins", "new", kind, "acme-audit")
    assert done.code == 0, done.err
    folder = tmp_path / "prsm-acme-audit"
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["name"] == "prsm-acme-audit"
    major, minor, _ = __version__.split(".")
    assert f"prsm-core>={major}.{minor},<{major}.{int(minor) + 1}" in project["dependencies"]
    assert project["entry-points"]["prsm"] == {"acme-audit": "prsm_acme_audit.plugin"}
    assert project["optional-dependencies"]["test"] == ["prsm-testing"]
    written = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    assert written == {
        "README.md",
        "pyproject.toml",
        "prsm_acme_audit/__init__.py",
        f"prsm_acme_audit/{kind}.py",
        "prsm_acme_audit/plugin.py",
        "prsm_acme_audit/py.typed",
        "tests/test_prsm_acme_audit.py",
    }
    assert not [path for path in written if re.search(r"\$\w", (folder / path).read_text())]
    install, test, look = [shlex.split(line) for line in done.out.splitlines()]
    assert install[1:] == ["-m", "pip", "install", "-e", "prsm-acme-audit[test]"]
    assert test[1:] == ["-m", "pytest", "prsm-acme-audit"]
    assert (Path(look[0]).name, look[1:]) == ("prsm", ["plugins"])
    for program in (install[0], test[0], look[0]):  # what is told can be typed as it stands
        assert shutil.which(program), program


@pytest.mark.requirement("C5")
@pytest.mark.parametrize("kind", KINDS)
def test_a_new_package_takes_nothing_but_public_names(kind, tmp_path):
    folder = command.write_skeleton(kind, "acme", tmp_path)
    rooms = (prsm_core, prsm_core.kit, prsm_testing)
    public = {room.__name__: room for room in rooms}
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("prsm_core"):
                names = {alias.name for alias in node.names}
                assert names <= set(public[str(node.module)].__all__), path


@pytest.mark.parametrize(
    "name",
    ["", "Acme", "1st", "a b", "../up", "a/b", "-x", "x-", "a--b", "a_-b", "core", "ä", "x" * 65],
)
def test_a_name_that_a_package_cannot_have_is_refused(name, tmp_path, prsm):
    done = prsm("plugins", "new", "check", "--dir", str(tmp_path), "--", name)
    assert done.code == 2
    assert done.out == ""
    assert list(tmp_path.glob("**/pyproject.toml")) == []


@pytest.mark.parametrize("kind", ["policy", "", "providers"])
def test_a_kind_that_there_is_not_is_refused_with_those_there_are(kind, tmp_path, prsm):
    done = prsm("plugins", "new", kind, "acme", "--dir", str(tmp_path))
    assert done.code == 2
    assert all(known in done.err for known in KINDS)


@pytest.mark.parametrize("there", ["file", "folder", "link", "dangling"])
def test_what_is_there_already_is_not_written_over(there, tmp_path, prsm):
    place = tmp_path / "prsm-acme"
    match there:
        case "file":
            place.write_text("mine")
        case "folder":
            place.mkdir()
        case "link":
            place.symlink_to(tmp_path)
        case "dangling":
            place.symlink_to(tmp_path / "nowhere")
    before = sorted(tmp_path.iterdir())
    done = prsm("plugins", "new", "check", "acme", "--dir", str(tmp_path))
    assert done.code == 2
    assert "exists already, and nothing was written" in done.err
    assert sorted(tmp_path.iterdir()) == before
    assert there != "file" or place.read_text() == "mine"
    assert there != "folder" or list(place.iterdir()) == []


@pytest.mark.requirement("C6")
@pytest.mark.parametrize(
    ("kind", "name"),
    [("provider", "script"), ("frontend", "console"), ("sink", "jsonl"), ("check", "builtin")],
)
def test_a_name_that_would_clash_with_what_is_built_in_is_refused(kind, name, tmp_path, prsm):
    done = prsm("plugins", "new", kind, name, "--dir", str(tmp_path))
    assert done.code == 2
    assert f"'{name}' is taken" in done.err


@pytest.mark.requirement("C6")
def test_a_name_that_an_installed_plugin_has_is_refused(site, tmp_path):
    site.add("mine", ALL)
    installed = site.load()
    for kind, name in [("check", "early"), ("provider", "p"), ("sink", "mine")]:
        with pytest.raises(PluginError, match=f"'{name}' is taken: prsm-mine 1.0 has"):
            command.check_free(kind, name, installed)
    command.check_free("check", "p", installed)


def test_a_folder_that_cannot_be_written_is_an_error_and_no_traceback(tmp_path, prsm):
    (tmp_path / "file").write_text("")
    done = prsm("plugins", "new", "check", "acme", "--dir", str(tmp_path / "file" / "below"))
    assert done.code in (1, 2)
    assert "Traceback" not in done.err
