"""The workspace where lists of commands are judged: ordinary files, secrets, traps.

It holds what such folders hold: links that leave it, names that look like options, environments of
a project, and repositories that start a program when git looks at them.
"""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILES = {
    "README.md": "# A project\n\nIt has two parts.\n",
    "CHANGELOG.md": "## 1.1\n\n- a fix\n\n## 1.0\n",
    "LICENSE": "Do what you like.\n",
    "Makefile": "all build test lint check deploy install clean:\n\techo ok\n",
    "pyproject.toml": '[project]\nname = "a"\nversion = "1.0"\n[tool.pytest.ini_options]\n',
    "package.json": '{"name": "a", "version": "1.0.0", "scripts": {"test": "x", "lint": "x"}}\n',
    "tsconfig.json": "{}\n",
    "Cargo.toml": '[package]\nname = "a"\nversion = "0.1.0"\n',
    "go.mod": "module a\n",
    ".editorconfig": "root = true\n",
    ".env.example": "KEY=\n",
    ".gitignore": ".env\n.env.local\nignored/\nbuild/\n",
    ".github/workflows/ci.yml": "on: push\n",
    "a.txt": "b\na\n",
    "b.txt": "a\nc\n",
    "names.txt": ".env\ndeploy/id_rsa\n",
    "data.csv": "name,size\na,1\nb,2\n",
    "data.json": '{"a": [1, 2]}\n',
    "build.log": "error: one\nwarning: two\n",
    "src/app.py": "import os\n\n\ndef f():\n    return os\n",
    "src/util.py": "def f():\n    return 2\n",
    "src/index.ts": "export const a = 1;\n",
    "src/models/user.py": "class User:\n    name = ''\n",
    "src/models/order.py": "class Order:\n    size = 1\n",
    "tests/test_app.py": "def test():\n    assert True\n",
    "tests/test_util.py": "def test():\n    assert True\n",
    "tests/conftest.py": "",
    "tests/fixtures/sample.json": '["a", "b"]\n',
    "docs/guide.md": "# Guide\n\ninstall it\n",
    "docs/api.md": "# API\n",
    "docs/img/logo.svg": "<svg/>\n",
    "scripts/build.sh": "#!/bin/sh\nchmod +x a\n",
    "scripts/release.sh": "#!/bin/sh\nexit\n",
    "lib/a.js": "let a = 1;\n",
    "lib/b.js": "let b = 1;\n",
    "logs/app.log": "one\n",
    "logs/err.log": "two\n",
    "one/only.txt": "a\na\n",
    "two/in.txt": "a\na\n",
    "two/out.txt": "kept\n",
    "pkg/lib.py": "a = 1\n",
    "node_modules/.bin/tsc": "#!/bin/sh\n",
    # Names that are no words: options of a program that gets them, patterns, substitutions.
    "odd/-n": "",
    "odd/-rf": "",
    "odd/-exec": "",
    "odd/--files0-from=list": "",
    "odd/list": "../.env\0../deploy/id_rsa\0",
    "odd/a b.txt": "",
    "odd/[x].txt": "",
    "odd/$(touch made)": "",
    "gaps/a /etc/x.py": "",
    # What bears secrets.
    ".env": "KEY=canary\n",
    ".env.local": "KEY=canary\n",
    "deploy/.env": "KEY=canary\n",
    "deploy/id_rsa": "canary\n",
    "deploy/server.pem": "canary\n",
    "../outside/notes.txt": "canary\n",
    "../.ssh/id_rsa": "canary\n",
    # Folders that git takes for repositories, and whose configuration starts a program.
    "vendor/bare/HEAD": "ref: refs/heads/main\n",
    "vendor/bare/config": "[core]\n\tbare = false\n\tworktree = .\n\tfsmonitor = ./evil.sh\n",
    "vendor/bare/objects/info/x": "",
    "vendor/bare/refs/heads/x": "",
    "vendor/repo/.git/HEAD": "ref: refs/heads/main\n",
    "vendor/repo/.git/config": "[core]\n\tfsmonitor = ./evil.sh\n\tpager = ./evil.sh\n",
    "vendor/repo/.git/objects/info/x": "",
    "vendor/repo/.git/refs/heads/x": "",
}
LINKS = {
    "links/inside": "../src/app.py",
    "links/env": "../.env",
    "links/notes": "../../outside/notes.txt",
    "links/out": "../../outside",
    "pkg/lnk": "../.env",
    "pkg/log": "../../outside/notes.txt",
}
# The environments of a project, as its tools make them.
ENVIRONMENTS = {
    ".venv/pyvenv.cfg": "home = /usr/bin\n",
    ".venv/bin/activate": "VIRTUAL_ENV=.venv\n",
    **{
        f".venv/bin/{name}": "#!/bin/sh\n"
        for name in ("pytest", "mypy", "ruff", "black", "flake8", "pylint", "isort", "pip", "prsm")
    },
    **{f"node_modules/.bin/{name}": "#!/bin/sh\n" for name in ("eslint", "jest", "prettier")},
    **{f"node_modules/.bin/{name}": "#!/bin/sh\n" for name in ("vitest", "mocha", "evil")},
    **{f"vendor/bin/{name}": "#!/bin/sh\n" for name in ("phpunit", "phpstan", "phpcs", "pint")},
    "vendor/bin/psalm": "#!/bin/sh\n",
    "gradlew": "#!/bin/sh\n",
    "gradle/wrapper/gradle-wrapper.properties": "distributionUrl=https://services.gradle.org/x\n",
    "build.gradle": "\n",
    "mvnw": "#!/bin/sh\n",
    ".mvn/wrapper/maven-wrapper.properties": "distributionUrl=https://repo.maven.apache.org/x\n",
    "pom.xml": "<project/>\n",
    "manage.py": "import django\n",
    "app/tests.py": "\n",
    "tox.ini": "[tox]\n",
    "noxfile.py": "import nox\n",
    ".pre-commit-config.yaml": "repos: []\n",
    "uv.lock": "version = 1\n",
    "poetry.lock": "\n",
    "Gemfile": "source 'https://rubygems.org'\n",
    "Gemfile.lock": "GEM\n",
    "Rakefile": "task :test\n",
    "composer.json": "{}\n",
    "pnpm-workspace.yaml": "packages: ['packages/*']\n",
    "packages/a/package.json": '{"name": "app", "scripts": {"test": "x", "lint": "x"}}\n',
    "evil.sh": '#!/bin/sh\n: > "${0%/*}/ran"\n',
}
SECRETS = (
    *(".env", ".env.local", "deploy/.env", "deploy/id_rsa", "deploy/server.pem"),
    *("../outside/notes.txt", "../.ssh/id_rsa"),
)
TRACKED = ("README.md", "CHANGELOG.md", "pyproject.toml", "package.json", "src", "tests", "docs")
EXECUTABLE = ("evil.sh", "gradlew", "mvnw", ".venv/bin/", "node_modules/.bin/", "vendor/bin/")


def lay_ground(work: Path) -> None:
    """Make the workspace, with the repositories of `HOSTILE` and `ORDINARY` in it."""
    for name, text in {**FILES, **ENVIRONMENTS}.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text)
        if name.startswith(EXECUTABLE):
            (work / name).chmod(0o755)
    for name, target in LINKS.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).symlink_to(target)
    (work / ".venv/bin/python").symlink_to("/usr/bin/python3")
    _git(work, "init", "-q", "-b", "main", "--template=")
    _git(work, "add", *TRACKED)
    _git(work, "commit", "-q", "-m", "first")
    plain = work.with_name("plain")
    _lay_repository(plain)
    for kind, layouts in (("hostile", HOSTILE), ("ordinary", ORDINARY)):
        for name, lay in layouts.items():
            folder = work / kind / name
            shutil.copytree(plain, folder, symlinks=True)
            lay(folder, work / "evil.sh")


def _git(folder: Path, *words: str, text: str | None = None) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgSign=false")
    done = subprocess.run(
        ["git", *who, *words],
        cwd=folder,
        input=text,
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
    )
    return done.stdout.strip()


def _lay_repository(folder: Path) -> None:
    folder.mkdir()
    (folder / "a.txt").write_text("a\n")
    (folder / "deep/er").mkdir(parents=True)
    (folder / "deep/er/b.txt").write_text("b\n")
    _git(folder, "init", "-q", "-b", "main", "--template=")
    _git(folder, "add", ".")
    _git(folder, "commit", "-q", "-m", "first")
    (folder / "a.txt").write_text("changed\n")


def _configure(folder: Path, text: str, name: str = ".git/config") -> None:
    with (folder / name).open("a") as file:
        file.write(text)


def _config(text: str) -> Callable[[Path, Path], None]:
    """Return what adds a text to the configuration; `{trap}` is the program."""
    return lambda folder, trap: _configure(folder, text.format(trap=trap))


def _attribute(line: str, config: str) -> Callable[[Path, Path], None]:
    def lay(folder: Path, trap: Path) -> None:
        (folder / ".gitattributes").write_text(line + "\n")
        _configure(folder, config.format(trap=trap))

    return lay


_MONITOR = "[core]\n\tfsmonitor = {trap}\n"


def _moved(target: str, written: str) -> Callable[[Path, Path], None]:
    """Return what moves the repository elsewhere, and writes where it is."""

    def lay(folder: Path, trap: Path) -> None:
        _configure(folder, _MONITOR.format(trap=trap))
        (folder / target).parent.mkdir(parents=True, exist_ok=True)
        (folder / ".git").rename(folder / target)
        (folder / ".git").write_text(written)

    return lay


def _linked(folder: Path, trap: Path) -> None:
    _configure(folder, _MONITOR.format(trap=trap))
    (folder / ".git").rename(folder / "store")
    (folder / ".git").symlink_to("store")


def _common(folder: Path, trap: Path) -> None:
    (folder / ".git").rename(folder / "common")
    (folder / ".git").mkdir()
    (folder / ".git/commondir").write_text("../common\n")
    shutil.copy(folder / "common/HEAD", folder / ".git/HEAD")
    shutil.copy(folder / "common/index", folder / ".git/index")
    _configure(folder, _MONITOR.format(trap=trap), "common/config")


def _included(path: str) -> Callable[[Path, Path], None]:
    def lay(folder: Path, trap: Path) -> None:
        (folder / "extra.cfg").write_text(_MONITOR.format(trap=trap))
        _configure(folder, path.format(folder=folder))

    return lay


def _of_worktree(folder: Path, trap: Path) -> None:
    _git(folder, "config", "extensions.worktreeConfig", "true")
    _git(folder, "config", "core.repositoryFormatVersion", "1")
    (folder / ".git/config.worktree").write_text(_MONITOR.format(trap=trap))


def _hook(path: str) -> Callable[[Path, Path], None]:
    def lay(folder: Path, trap: Path) -> None:
        if path != ".git/hooks":
            _configure(folder, f"[core]\n\thooksPath = {path}\n")
        (folder / path).mkdir()
        (folder / path / "post-index-change").symlink_to(trap)
        (folder / "deep/er/b.txt").touch()

    return lay


def _submodule(folder: Path, trap: Path) -> None:
    shutil.copytree(folder / ".git", folder / "sub/.git", symlinks=True)
    commit = _git(folder, "rev-parse", "HEAD")
    _git(folder, "update-index", "--add", "--cacheinfo", f"160000,{commit},sub")
    (folder / ".gitmodules").write_text('[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n')
    _configure(folder, _MONITOR.format(trap=trap), "sub/.git/config")


def _signed(config: str) -> Callable[[Path, Path], None]:
    """Return what makes each look at the history check a signature."""

    def lay(folder: Path, trap: Path) -> None:
        head, _, rest = _git(folder, "cat-file", "-p", "HEAD").partition("\n\n")
        mark = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----"
        text = f"{head}\n{mark}\n\n{rest}\n"
        commit = _git(folder, "hash-object", "-w", "-t", "commit", "--stdin", text=text)
        _git(folder, "update-ref", "refs/heads/main", commit)
        _configure(folder, config.format(trap=trap))

    return lay


def _promised(folder: Path, trap: Path) -> None:
    """Leave out an object that git then fetches, with a program of the repository."""
    blob = _git(folder, "rev-parse", "HEAD:a.txt")
    (folder / ".git/objects" / blob[:2] / blob[2:]).unlink()
    _configure(
        folder,
        "[core]\n\trepositoryFormatVersion = 1\n[extensions]\n\tpartialClone = origin\n"
        '[remote "origin"]\n\tpromisor = true\n\turl = .\n'
        f"\tuploadpack = {trap}\n",
    )


# How a repository starts a program when git looks at it, with the command that proves it. git
# itself runs these in the tests of the field.
HOSTILE: dict[str, Callable[[Path, Path], None]] = {
    "monitor": _config(_MONITOR),
    "monitor-case": _config("[CORE]\n\tFsMonitor={trap}\n"),
    "monitor-line": _config("[core]fsmonitor={trap}\n"),
    "monitor-parts": _config('[core]\n\tfsmonitor = "{trap}" ; a comment\n'),
    "monitor-folded": _config("[core]\n\tfsmonitor = \\\n{trap}\n"),
    "monitor-crlf": _config("[core]\r\n\tfsmonitor = {trap}\r\n"),
    "blank-before": _moved(" x", "gitdir:  x\n"),
    "blank-behind": _moved("x ", "gitdir: x \n"),
    "elsewhere": _moved("store/x", "gitdir: store/x\n"),
    "elsewhere-dots": _moved("store/x", "gitdir: ./deep/../store/x\n\n"),
    "elsewhere-crlf": _moved("store", "gitdir: store\r\n"),
    "linked": _linked,
    "common": _common,
    "include": _included("[include]\n\tpath = ../extra.cfg\n"),
    "include-full": _included("[include]\n\tpath = {folder}/extra.cfg\n"),
    "include-case": _included("[InClude]\n\tPATH = ../extra.cfg\n"),
    "include-prefix": _included("[include]\n\tpath = %(prefix)/..{folder}/extra.cfg\n"),
    "include-if": _included('[includeIf "gitdir:**"]\n\tpath = ../extra.cfg\n'),
    "include-branch": _included('[includeIf "onbranch:main"]\n\tpath = ../extra.cfg\n'),
    "of-worktree": _of_worktree,
    "hook": _hook(".git/hooks"),
    "hook-path": _hook("scripts"),
    "filter": _attribute("* filter=x", '[filter "x"]\n\tclean = {trap}\n'),
    "filter-process": _attribute("* filter=x", '[filter "x"]\n\tprocess = {trap}\n'),
    "external": _config("[diff]\n\texternal = {trap}\n"),
    "driver": _attribute("* diff=x", '[diff "x"]\n\tcommand = {trap}\n'),
    "textconv": _attribute("* diff=x", '[diff "x"]\n\ttextconv = {trap}\n'),
    "submodule": _submodule,
    "signed": _signed("[log]\n\tshowSignature = true\n[gpg]\n\tprogram = {trap}\n"),
    "signed-format": _signed('[log]\n\tshowSignature = 1\n[gpg "openpgp"]\n\tprogram = {trap}\n'),
    "promised": _promised,
}


def _worktree(folder: Path, _trap: Path) -> None:
    (folder / ".git").rename(folder / "main.git")
    (folder / ".git").write_text("gitdir: main.git\n")


# Repositories like these, which start nothing.
ORDINARY: dict[str, Callable[[Path, Path], None]] = {
    "plain": lambda _folder, _trap: None,
    "elsewhere": _worktree,
    "configured": _config("[user]\n\tname = a\n[color]\n\tui = auto\n[pull]\n\trebase = true\n"),
    "attributes": _attribute("*.txt text eol=lf", "[core]\n\tautocrlf = false\n"),
}
