"""The programs that print their version and read nothing of the repository first.

A program is here because its documentation says that the option ends it before it looks for a
project, a plugin or a configuration below the folder it starts in. Others are not: yarn runs what
`yarnPath` of a `.yarnrc.yml` names, pnpm downloads what `packageManager` of a package.json wants,
jest, webpack, eslint, prettier, mocha and next load their configuration, pytest its conftest.py,
flake8 and pylint their plugins, nest, ng, nx, gulp and grunt what lies in `node_modules`, mvn its
`.mvn/extensions.xml`, gradle its properties, bazel `tools/bazel`, bundle and composer the versions
and plugins of a lock file, poetry, pdm and hatch plugins, hg the extensions of `.hg/hgrc`, ansible
the plugins of an ansible.cfg, gemini the settings and `.env` of the folder.
"""

from __future__ import annotations

import stat
from os import lstat
from typing import TYPE_CHECKING

from prsm_core.policies import word_set

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_policy.places import Place

_PYTHON = "python python3 pip pip3 uv uvx ruff mypy pyright black isort"
_JAVASCRIPT = "node npm npx deno bun tsc"
_COMPILERS = (
    "gcc g++ cc c++ clang clang++ ld as nasm make cmake ninja meson ghc swift ocaml zig nim"
    " kotlinc scalac java javac ruby gem perl php lua luajit R Rscript julia erl elixir"
)
_RUST = "cargo rustc rustup rustfmt rustdoc"
_TOOLS = (
    "git gh svn docker docker-compose podman kubectl helm bash sh zsh fish tar gzip"
    " curl wget rg fd jq yq grep egrep fgrep sed awk gawk find tree ls cat head tail wc sort uniq"
    " cut tr diff cmp cp mv mkdir touch date du df stat file xargs less openssl ssh psql mysql"
    " sqlite3 redis-cli ffmpeg shellcheck shfmt hadolint codex claude dotnet conda nvidia-smi go"
    " busybox bwrap tmux vim nano env timeout nice sha256sum md5sum base64 xz zip unzip bzip2"
)
VERSIONED = word_set(" ".join((_PYTHON, _JAVASCRIPT, _COMPILERS, _RUST, _TOOLS)))
_SHORT = word_set(
    "python:-V python3:-V node:-v npm:-v cargo:-V cargo:-vV rustc:-V rustc:-vV ruby:-v php:-v"
    " perl:-v go:version java:-version javac:-version docker:version tsc:-v"
    " mypy:-V pip:-V pip3:-V ruff:-V ruff:version black:-V kubectl:version:--client helm:version"
    " uv:-V cmake:-version lua:-v tmux:-V ssh:-V openssl:version git:version rustup:-V"
)
# Files from which version managers take which program starts: a path, or what they download.
_MANAGED = word_set(".tool-versions mise.toml .mise.toml")
_BY_SHIM = word_set(
    "python python3 pip pip3 node npm npx deno bun tsc java javac kotlinc scalac ruby gem perl php"
    " lua julia erl elixir zig nim go terraform kubectl helm"
)
_TOOLCHAINS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(_RUST.split(), word_set("rust-toolchain rust-toolchain.toml")),
    "go": word_set("go.mod go.work"),
    "dotnet": word_set("global.json"),
    "erl": word_set(".erlang"),
    "elixir": word_set(".erlang"),
}
_MAX_FOLDERS = 40  # above one another


def prints_version(texts: Sequence[str]) -> bool:
    """Return whether a command prints the version of a program that loads nothing for it."""
    if len(texts) == 2 and texts[1] == "--version":
        return texts[0] in VERSIONED
    return ":".join(texts) in _SHORT


def is_its_own(program: str, place: Place) -> bool:
    """Return whether no file of the workspace chooses what starts under the name of a program."""
    if not place.is_seen:
        return True
    names = _TOOLCHAINS.get(program, frozenset())
    if program in _BY_SHIM:
        names |= _MANAGED
    return not names or not any(_has_any(folder, names, place) for folder in place.folders)


def _has_any(folder: str, names: frozenset[str], place: Place) -> bool:
    """Return whether a folder, or one above it in the workspace, has a file of these names."""
    for _ in range(_MAX_FOLDERS):
        if any(_exists(f"{folder}/{name}", place) for name in names):
            return True
        if folder == place.root or len(folder) <= 1:
            return False
        folder = folder.rpartition("/")[0]
    return True


def _exists(path: str, place: Place) -> bool:
    if not place.looks.spend():
        return True
    try:
        return not stat.S_ISDIR(lstat(path).st_mode)
    except OSError:
        return False
