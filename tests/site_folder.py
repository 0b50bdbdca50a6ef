"""A folder of real installed distributions, each with one plugin module."""

from __future__ import annotations

import importlib
import sys
import sysconfig
from itertools import count
from pathlib import Path
from textwrap import dedent

from prsm_core.distributions import GROUP, distributions
from prsm_core.plugins import PluginManager

NUMBERS = count()
HEAD = "from msgspec import Struct\nfrom prsm_core import *\nfrom prsm_core import hookimpl\n"


def provider(*names):
    """Return code that contributes providers."""
    lines = [
        f'    yield ProviderSpec(name={name!r}, summary="", factory="json:loads")' for name in names
    ]
    return "\n".join(["@hookimpl", "def prsm_providers():", *lines, ""])


def path_without(folder, project):
    """Return the path of this interpreter as if a project, by its module, were not installed."""
    folder.mkdir()
    installed = Path(sysconfig.get_path("purelib"))
    for path in installed.iterdir():
        if project not in path.name:
            (folder / path.name).symlink_to(path)
    return [str(folder) if Path(entry) == installed else entry for entry in sys.path]


class Site:
    """The folder; whoever has it on the path sees its distributions as installed."""

    def __init__(self, folder):
        self.folder = folder
        self.modules = []

    def add(self, name, code, *, distribution=None, version="1.0", requires=()):
        """Install a distribution whose entry point `name` is a module with `code`."""
        distribution = distribution or f"prsm-{name}"
        module = f"plugin_{next(NUMBERS)}_{name.replace('-', '_')}"
        self.modules.append(module)
        (self.folder / f"{module}.py").write_text(HEAD + dedent(code))
        info = self.folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: {distribution}", f"Version: {version}"]
        lines += [f"Requires-Dist: {requirement}" for requirement in requires]
        (info / "METADATA").write_text("\n".join(lines) + "\n")
        (info / "entry_points.txt").write_text(f"[prsm]\n{name} = {module}\n")
        importlib.invalidate_caches()
        return module

    def builtin(self, name, code):
        """Write a module that no distribution names; return it as `load` wants it."""
        module = f"builtin_{next(NUMBERS)}_{name}"
        self.modules.append(module)
        (self.folder / f"{module}.py").write_text(HEAD + dedent(code))
        importlib.invalidate_caches()
        return (name, module)

    def load(self, environ=None, **options):
        """Load the plugins of this folder and no others."""
        found = distributions([str(self.folder)])
        points = [point for dist in found for point in dist.entry_points(GROUP)]
        return PluginManager.load(environ=environ or {}, entry_points=points, **options)
