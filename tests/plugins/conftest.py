"""A folder for throw-away distributions, on the path for one test."""

import sys

import pytest

from tests.site_folder import Site


@pytest.fixture
def site(tmp_path, monkeypatch):
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    site = Site(folder)
    yield site
    for module in site.modules:
        sys.modules.pop(module, None)
