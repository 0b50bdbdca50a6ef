"""Each case of the table of loading: it ends, its name is told, and no check is lost in silence."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from prsm_core import PermissionCheckSpec
from tests.sabotage.loading import CHECK, HANGS, TABLE, Loading
from tests.site_folder import Site, provider

SLOW = {"PRSM_PLUGIN_TIMEOUT": "60"}  # the machine may be busy
pytestmark = pytest.mark.requirement("C5", "C6", "F9")


@pytest.fixture
def site(tmp_path, monkeypatch):
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    go = threading.Event()
    monkeypatch.setitem(sys.modules, "go", SimpleNamespace(wait=go.wait))
    site = Site(folder)
    yield site
    go.set()
    for module in site.modules:
        sys.modules.pop(module, None)


def install(site: Site, case: Loading) -> None:
    code = case.code.replace("target=go.wait", "target=__import__('go').wait")
    module = site.add("bad", code, requires=case.requires)
    info = site.folder / "prsm_bad-1.0.dist-info"
    if case.entry is not None:
        value = case.entry.format(module=module)
        (info / "entry_points.txt").write_text(f"[prsm]\nbad = {value}\n")
    for name, content in case.files:
        (info / name).write_bytes(content)


def surroundings() -> tuple[object, ...]:
    return (
        *(sys.stdout, sys.stdin, sys.stderr, sys.excepthook, sys.unraisablehook),
        threading.excepthook,
        asyncio.get_event_loop_policy(),
        Path.cwd(),
        os.umask(0o022),
        sys.getrecursionlimit(),
        *(logging.root.level, logging.root.manager.disable, tuple(logging.root.handlers)),
    )


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_a_plugin_that_is_loaded(site, caplog, monkeypatch, case):
    if case in HANGS:  # its thread goes on: what it prints then is told for as long as there is one
        monkeypatch.setattr(sys, "stdout", sys.stdout)
    install(site, case)
    if case not in HANGS:  # else the other one would have moments only, too
        site.add("good", provider("good"))
    os.umask(0o022)
    before = surroundings()
    manager = site.load({"PRSM_PLUGIN_TIMEOUT": f"{case.seconds:g}"})
    assert surroundings()[case in HANGS :] == before[case in HANGS :]
    records = {record.name: record for record in manager.records}
    bad = records.pop("bad")
    assert [(record.state, record.error) for record in records.values()] in ([], [("active", None)])
    if case.error is None:
        assert (bad.state, bad.error) == ("active", None)
        assert list(manager.collect(PermissionCheckSpec)) == ["guard"]
    else:
        assert bad.is_quarantined
        assert case.error in (bad.error or "")
        assert case.lost in bad.fault
        assert "guard" not in manager.collect(PermissionCheckSpec)
    told = [text for text in caplog.messages if "plugin bad " in text and case.told in text]
    assert told or not case.told


def test_the_table_has_all_kinds():
    assert len(TABLE) >= 70
    assert len({case.name for case in TABLE}) == len(TABLE)


def test_one_that_hangs_keeps_no_other_out(site):
    install(site, HANGS[0])
    site.add("good", provider("good"))
    records = {
        record.name: record.state for record in site.load({"PRSM_PLUGIN_TIMEOUT": "5"}).records
    }
    assert records == {"bad": "slow", "good": "active"}


def test_two_packages_with_one_check_are_both_kept_out(site):
    install(site, Loading(name="", code=TABLE[-1].code))
    site.add("other", TABLE[-1].code)
    manager = site.load(SLOW)
    assert {record.name for record in manager.quarantined} == {"bad", "other"}
    for record in manager.quarantined:
        assert "prsm-bad 1.0 and prsm-other 1.0" in (record.error or "")
        assert "checks are missing" in record.fault


def test_two_packages_with_one_name_are_both_kept_out(site):
    for distribution in ("prsm-one", "prsm-two"):
        site.add("twin", TABLE[-1].code, distribution=distribution)
    records = site.load(SLOW).records
    assert [record.is_quarantined for record in records] == [True, True]
    assert all("prsm-one 1.0 and prsm-two 1.0" in (record.error or "") for record in records)


def test_the_name_of_a_builtin_is_nobody_elses(site):
    ours = site.builtin("face", provider("face"))
    site.add("face", TABLE[-1].code)
    records = {record.distribution: record for record in site.load(SLOW, builtins=[ours]).records}
    assert records["prsm-core"].state == "active"
    assert records["prsm-face"].is_quarantined
    assert "registered by prsm-core" in (records["prsm-face"].error or "")


def test_a_plugin_is_named_before_its_code_runs(site, caplog):
    """What ends the process at once cannot be caught; `prsm --debug` shows who was the last."""
    caplog.set_level(logging.DEBUG, "prsm_core.plugins")
    site.add("bad", f"import logging\nlogging.getLogger('bad').critical('its code runs')\n{CHECK}")
    site.load(SLOW)
    before = caplog.messages[: caplog.messages.index("its code runs")]
    assert before[-1] == "plugin bad of prsm-bad 1.0 is loaded"
