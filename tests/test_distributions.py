"""Installed distributions, read as `importlib.metadata` reads them."""

from __future__ import annotations

import importlib.metadata
import json
import sys

import pytest

from prsm_core.distributions import distribution_of, distributions, entry_points, installed

HEADERS = "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{more}\n\nName: of the text\n"


def write(folder, name, version="1.0", *, points="", more="", suffix="dist-info", file="METADATA"):
    info = folder / f"{name.replace('-', '_')}-{version}.{suffix}"
    info.mkdir(parents=True)
    (info / file).write_text(HEADERS.format(name=name, version=version, more=more))
    (info / "entry_points.txt").write_text(points)
    return info


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(tmp_path / "first"), str(tmp_path / "second")])
    return tmp_path


def test_what_is_installed_here_is_what_the_standard_library_says():
    theirs = importlib.metadata.entry_points(group="prsm")
    assert {
        (point.name, point.place, point.distribution.version) for point in entry_points("prsm")
    } == {(point.name, point.value, point.dist and point.dist.version) for point in theirs}
    requires = {dist.name: dist.requires for dist in installed()}
    assert {name: tuple(importlib.metadata.requires(name) or ()) for name in requires} == requires


def test_of_one_that_is_there_twice_the_first_counts(site):
    write(site / "first", "acme-x", points="[prsm]\nx = first\n")
    write(site / "second", "acme-x", "2.0", points="[prsm]\nx = second\n")
    assert [point.place for point in entry_points("prsm")] == ["first"]
    assert [dist.version for dist in distributions(sys.path)] == ["1.0", "2.0"]


def test_a_development_install_of_setuptools_counts(site):
    write(
        site / "first",
        "acme-x",
        points="[prsm]\nx = json:loads\n",
        suffix="egg-info",
        file="PKG-INFO",
    )
    [point] = entry_points("prsm")
    assert point.load() is json.loads
    assert distribution_of("json.decoder") == "acme-x 1.0"


def test_what_has_nothing_for_us_is_not_read(site):
    info = write(site / "first", "acme-x", points="[console_scripts]\nx = y\n")
    (info / "METADATA").unlink()
    assert list(installed()) == []


def test_requirements_and_the_summary_are_headers(site):
    more = "Requires-Dist: prsm-core<2\nSummary: Says\x1b[2J hello.\nRequires-Dist: click"
    write(site / "first", "acme-x", points="[prsm]\nx = y\n", more=more)
    [found] = installed()
    assert found.requires == ("prsm-core<2", "click")
    assert found.summary == "Says [2J hello."


@pytest.mark.parametrize("place", ["", "not a module!", "a:b:c", ":attribute"])
def test_a_place_that_names_no_module_is_told(site, place):
    write(site / "first", "acme-x", points=f"[prsm]\nx = {place}\n")
    [point] = entry_points("prsm")
    assert point.module == ""
    with pytest.raises(ImportError, match="names no module"):
        point.load()
