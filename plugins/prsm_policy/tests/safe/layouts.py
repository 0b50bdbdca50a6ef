"""Repositories that start a program when somebody looks at them, laid out in every known way.

A layout is where git finds a configuration, a payload is a setting that starts a program, and a
style is how the setting is written. `hostile` puts one of each together, by a seed.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    Wanted = Callable[[Path], str]

COMMANDS = (
    "git status", "git status --short", "git diff", "git diff HEAD", "git diff HEAD~1 HEAD",
    "git log -3", "git log -p", "git show", "git show HEAD~1:a.txt", "git grep hello",
    "git blame a.txt", "git ls-files", "git ls-files -m", "git stash list", "git stash show -p",
    "git describe --always --dirty", "git branch -a", "git remote -v", "git submodule status",
    "git diff-files", "git diff-index HEAD", "git whatchanged -1", "git worktree list",
    "git rev-parse HEAD", "git for-each-ref", "git check-ignore a.txt", "git cat-file -p HEAD",
    "git rev-list HEAD", "git reflog", "git shortlog -s HEAD", "git config --get user.name",
)  # fmt: skip
# The seed of a layout takes some of them; these are tried on each.
MAIN_COMMANDS = ("git status", "git diff HEAD", "git log -p", "git ls-files", "git blame a.txt")
_SIGNED = """tree {tree}
parent {parent}
author a <a@b> 0 +0000
committer a <a@b> 0 +0000
gpgsig -----BEGIN PGP SIGNATURE-----
 x
 -----END PGP SIGNATURE-----

signed
"""


@dataclass
class Scene:
    """A workspace with a repository, and a program beside it that notes that it ran."""

    root: Path
    cwd: str = "."  # of the commands, in the workspace

    @property
    def work(self) -> Path:
        """The workspace."""
        return self.root / "work"

    @property
    def canary(self) -> Path:
        """The program that notes."""
        return self.root / "canary"

    @property
    def folder(self) -> Path:
        """Where commands run."""
        return self.work / self.cwd

    def git(self, folder: Path, *words: str, stdin: str | None = None) -> str:
        """Run git as the one who lays it out."""
        setting = ("-c", "protocol.file.allow=always", "-c", "core.fsmonitor=false")
        done = subprocess.run(
            ["git", *setting, *words],
            cwd=folder, env=environment(self.root), check=True, capture_output=True, text=True,
            input=stdin,
        )  # fmt: skip
        return done.stdout.strip()

    def touch(self) -> None:
        """Make what git knows of the files older than they are, so that it reads them again."""
        for path in self.work.rglob("*.txt"):
            if path.is_file() and ".git" not in path.parts:
                os.utime(path, (0, path.stat().st_mtime + 1))

    def ran(self, command: str) -> bool:
        """Run a command as a shell without any setting of PRSM's does; whether the canary ran."""
        note = self.root / "ran"
        note.unlink(missing_ok=True)
        self.touch()
        subprocess.run(
            ["bash", "--noprofile", "--norc", "-c", command],
            cwd=self.folder, env=environment(self.root), stdin=subprocess.DEVNULL,
            capture_output=True, timeout=20, check=False,
        )  # fmt: skip
        return note.exists()


def environment(home: Path) -> dict[str, str]:
    """Return the variables of a shell: those that everything inherits."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TERM": "dumb",
        **{
            f"GIT_{who}_{what}": value
            for who in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", "a"), ("EMAIL", "a@b"), ("DATE", "@0 +0000"))
        },
    }


def build_template(root: Path) -> Scene:
    """Make a workspace with a plain repository of three commits; the last one is signed."""
    scene = Scene(root)
    scene.work.mkdir(parents=True)
    scene.canary.write_text(f'#!/bin/sh\necho "$@" >> "{root}/ran"\n')
    scene.canary.chmod(0o755)
    work = scene.work
    scene.git(work, "init", "-q", "-b", "main")
    (work / "same.txt").write_text("stays\n")
    for text in ("hello\n", "hello, you\n"):
        (work / "a.txt").write_text(text)
        scene.git(work, "add", ".")
        scene.git(work, "commit", "-q", "-m", text.strip())
    tree, parent = (scene.git(work, "rev-parse", name) for name in ("HEAD^{tree}", "HEAD"))
    commit = _SIGNED.format(tree=tree, parent=parent)
    signed = scene.git(work, "hash-object", "-t", "commit", "-w", "--stdin", stdin=commit)
    scene.git(work, "update-ref", "refs/heads/main", signed)
    (work / "a.txt").write_text("hello, stash\n")
    scene.git(work, "stash", "-q")
    (work / "a.txt").write_text("hello, world\n")
    return scene


def copied(template: Scene, root: Path) -> Scene:
    """Return a copy of a template."""
    shutil.copytree(template.root, root, symlinks=True)
    scene = Scene(root)
    scene.canary.write_text(scene.canary.read_text().replace(str(template.root), str(root)))
    return scene


# Payloads: what is written into the configuration; `top` is the folder of the files.


def fsmonitor(scene: Scene, _top: Path) -> str:
    return f'[core]\n\tfsmonitor = "{scene.canary}"\n'


def external_diff(scene: Scene, _top: Path) -> str:
    return f'[diff]\n\texternal = "{scene.canary}"\n'


def textconv(scene: Scene, top: Path) -> str:
    (top / ".gitattributes").write_text("*.txt diff=x\n")
    return f'[diff "x"]\n\ttextconv = "{scene.canary}"\n'


def diff_driver(scene: Scene, top: Path) -> str:
    (top / ".gitattributes").write_text("*.txt diff=X.y\n")
    return f'[diff "X.y"]\n\tcommand = "{scene.canary}"\n'


def clean_filter(scene: Scene, top: Path) -> str:
    (top / ".gitattributes").write_text("*.txt filter=x\n")
    return f'[filter "x"]\n\tclean = "{scene.canary}"\n'


def process_filter(scene: Scene, top: Path) -> str:
    (top / ".gitattributes").write_text("*.txt filter=lfs\n")
    return f'[filter "lfs"]\n\tprocess = "{scene.canary}"\n'


def hooks_path(scene: Scene, _top: Path) -> str:
    folder = scene.root / "hooks"
    folder.mkdir(exist_ok=True)
    shutil.copy(scene.canary, folder / "post-index-change")
    return f'[core]\n\thooksPath = "{folder}"\n'


def signature(scene: Scene, _top: Path) -> str:
    return f'[log]\n\tshowSignature = true\n[gpg]\n\tprogram = "{scene.canary}"\n'


def promisor(scene: Scene, top: Path) -> str:
    first = scene.git(top, "rev-parse", "HEAD~1:a.txt")
    for store in (*scene.root.rglob("objects"),):
        (store / first[:2] / first[2:]).unlink(missing_ok=True)
    remote = '[remote "x"]\n\turl = ssh://host/x\n\tpromisor = true\n'
    return f'{remote}[core]\n\tsshCommand = "{scene.canary}"\n'


PAYLOADS = (
    fsmonitor, external_diff, textconv, diff_driver, clean_filter, process_filter, hooks_path,
    signature, promisor,
)  # fmt: skip


# Styles: how a setting is written.


def _upper(text: str) -> str:
    return "\n".join(
        line
        if '"' in line and line[0] == "["
        else line.partition("=")[0].upper() + line[len(line.partition("=")[0]) :]
        for line in text.split("\n")
    )


STYLES: Sequence[Callable[[str], str]] = (
    lambda text: text,
    lambda text: text.replace("\n", "\r\n"),
    lambda text: text.replace("]\n\t", "] "),
    lambda text: text.replace(" = ", "="),
    lambda text: text.replace(" = ", " = \\\n"),
    lambda text: text.replace("\n\t", "\n# [x\n;\n \t "),
    lambda text: text.replace('"\n', '" ; "no\n'),
    lambda text: f'[x]\n\ty\n\tz = "\\n\\"\\\\"\n{text}[x] w = \n',
    _upper,
)


# Layouts: where git finds the configuration. Each gets a function that returns what to write for
# the folder with the files.


def _append(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.read_bytes() if path.exists() else b""
    path.write_bytes(before + text.encode())


def plain(scene: Scene, wanted: Wanted) -> None:
    _append(scene.work / ".git/config", wanted(scene.work))


def with_mark(scene: Scene, wanted: Wanted) -> None:
    path = scene.work / ".git/config"
    text = wanted(scene.work)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes() + text.encode())


def link(scene: Scene, wanted: Wanted) -> None:
    (scene.work / ".git").rename(scene.work / "inside")
    (scene.work / ".git").symlink_to("inside")
    _append(scene.work / "inside/config", wanted(scene.work))


def above(scene: Scene, wanted: Wanted) -> None:
    _append(scene.work / ".git/config", wanted(scene.work))
    (scene.work / "deep/er").mkdir(parents=True)
    shutil.copy(scene.work / "a.txt", scene.work / "deep/er/a.txt")
    scene.cwd = "deep/er"


def hooks_of_the_repository(scene: Scene, wanted: Wanted) -> None:
    text = wanted(scene.work)
    folder = scene.work / ".git/hooks"
    folder.mkdir(exist_ok=True)
    shutil.copy(scene.canary, folder / "post-index-change")
    _append(scene.work / ".git/config", text)


def hooks_of_the_work_tree(scene: Scene, wanted: Wanted) -> None:
    text = wanted(scene.work)
    (scene.work / "h h").mkdir()
    shutil.copy(scene.canary, scene.work / "h h/post-index-change")
    _append(scene.work / ".git/config", f'{text}[core]\n\thooksPath = "h h"\n')


def nothing(_scene: Scene, _top: Path) -> str:
    return "[a]\n\tb = c\n"


def config_of_work_tree(scene: Scene, wanted: Wanted) -> None:
    extension = "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tworktreeConfig = true\n"
    _append(scene.work / ".git/config", extension)
    _append(scene.work / ".git/config.worktree", wanted(scene.work))


def _behind_file(written: str, meant: str, decoy: str | None) -> Callable[[Scene, Wanted], None]:
    def lay(scene: Scene, wanted: Wanted) -> None:
        text = wanted(scene.work)
        target, file = scene.work / meant, scene.work / ".git"
        if decoy is not None:
            shutil.copytree(file, scene.work / decoy)
        target.parent.mkdir(parents=True, exist_ok=True)
        file.rename(target)
        file.write_bytes(written.replace("WORK", str(scene.work)).encode())
        _append(target / "config", text)

    lay.__name__ = f"file {written!r}"
    return lay


FILES = [
    _behind_file(*row)
    for row in (
        ("gitdir: inside\n", "inside", None),
        ("gitdir: inside", "inside", None),
        ("gitdir:  x\n", " x", "x"),
        ("gitdir: \tx\n", "\tx", "x"),
        ("gitdir: x \n", "x ", "x"),
        ("gitdir: x\t\r\n\n", "x\t", "x"),
        ("gitdir: x\ny\n", "x\ny", "x"),
        ("gitdir: x\x0b\n", "x\x0b", "x"),
        ("gitdir: x\xa0\n", "x\xa0", "x"),
        ("gitdir: x\r\r\n", "x", "x\r"),
        ("gitdir: WORK/in/side\n", "in/side", None),
        ("gitdir: ./in/../in/side\n", "in/side", None),
    )
]


def _shared(written: str, meant: str, decoy: str | None) -> Callable[[Scene, Wanted], None]:
    def lay(scene: Scene, wanted: Wanted) -> None:
        text = wanted(scene.work)
        own, target = scene.work / ".git", scene.work / meant
        target.parent.mkdir(parents=True, exist_ok=True)
        if decoy is not None:
            shutil.copytree(own, scene.work / decoy)
        own.rename(target)
        own.mkdir()
        for name in ("HEAD", "index"):
            shutil.copy(target / name, own / name)
        (own / "commondir").write_bytes(written.replace("WORK", str(scene.work)).encode())
        _append(target / "config", text)

    lay.__name__ = f"commondir {written!r}"
    return lay


COMMON = [
    _shared(*row)
    for row in (
        ("../inside\n", "inside", None),
        ("../inside", "inside", None),
        ("../x \n", "x ", "x"),
        ("../x\ny\n", "x\ny", "x"),
        ("../x\r\n", "x", "x\r"),
        ("WORK/in/side\n", "in/side", None),
        ("../ x\n", " x", "x"),
    )
]


def _includes(
    written: str, meant: str, section: str = "include", decoy: str | None = None
) -> Callable[[Scene, Wanted], None]:
    def lay(scene: Scene, wanted: Wanted) -> None:
        text = wanted(scene.work)
        path = written.replace("WORK", str(scene.work)).replace("ROOT", str(scene.root))
        where = section.replace("WORK", str(scene.work))
        if decoy is not None:
            (scene.root / decoy).write_text("[a]\n\tb = c\n")
        _append(scene.work / ".git/config", f"[{where}]\n\tpath = {path}\n")
        _append(scene.root / meant, text)

    lay.__name__ = f"{section} {written}"
    return lay


INCLUDED = [
    _includes(*row)
    for row in (
        ("../extra", "work/extra"),
        ("ROOT/work/extra", "work/extra"),
        ("~/work/extra", "work/extra"),
        ("%(prefix)/../../../../../../..ROOT/work/extra", "work/extra"),
        ('"../extra "', "work/extra ", "include", "work/extra"),
        ('" ../extra"', "work/.git/ ../extra", "include", "work/extra"),
        ("../ex\\\ntra ; no", "work/extra"),
        ("../extra", "work/extra", 'includeIf "gitdir:.git"'),
        ("../extra", "work/extra", 'includeIf "gitdir/i:WORK/"'),
        ("../extra", "work/extra", 'includeIf "gitdir:~/"'),
        ("../extra", "work/extra", 'includeIf "onbranch:m*"'),
    )
]


def nested_includes(scene: Scene, wanted: Wanted) -> None:
    text = wanted(scene.work)
    _append(scene.work / ".git/config", "[include]\n\tpath = ../one\n")
    _append(scene.work / "one", "[include]\n\tpath = in/two\n")
    _append(scene.work / "in/two", '[include]\n\tpath = "../thr\\"ee"\n')
    _append(scene.work / 'thr"ee', text)


def of_a_remote(scene: Scene, wanted: Wanted) -> None:
    text = wanted(scene.work)
    section = '[includeIf "hasconfig:remote.*.url:https://**"]\n\tpath = ../extra\n'
    remote = '[remote "origin"]\n\turl = https://host/x\n'
    _append(scene.work / ".git/config", section + remote)
    _append(scene.work / "extra", text)


def link_to_a_config(scene: Scene, wanted: Wanted) -> None:
    text = wanted(scene.work)
    path = scene.work / ".git/config"
    path.rename(scene.work / "extra")
    path.symlink_to("../extra")
    _append(scene.work / "extra", text)


def bare(scene: Scene, wanted: Wanted) -> None:
    fake = scene.work / "fake"
    shutil.copytree(scene.work / ".git", fake)
    for name in ("a.txt", "same.txt"):
        shutil.copy(scene.work / name, fake / name)
    setting = '[core]\n\tbare = false\n\tworktree = "."\n'
    _append(fake / "config", setting + wanted(fake))
    scene.cwd = "fake"


def bare_beside_an_empty_one(scene: Scene, wanted: Wanted) -> None:
    bare(scene, wanted)
    (scene.work / "fake/.git").mkdir()


def bare_above(scene: Scene, wanted: Wanted) -> None:
    bare(scene, wanted)
    (scene.work / "fake/deep").mkdir()
    shutil.copy(scene.work / "a.txt", scene.work / "fake/deep/a.txt")
    scene.cwd = "fake/deep"


def behind_an_empty_one(scene: Scene, wanted: Wanted) -> None:
    _append(scene.work / ".git/config", wanted(scene.work))
    inner = scene.work / "inner"
    (inner / ".git").mkdir(parents=True)
    (inner / ".git/config").write_text("[a]\n\tb = c\n")
    shutil.copy(scene.work / "a.txt", inner / "a.txt")
    scene.cwd = "inner"


def behind_a_broken_one(scene: Scene, wanted: Wanted) -> None:
    inner = scene.work / "inner"
    inner.mkdir()
    shutil.copytree(scene.work / ".git", inner / ".git")
    (inner / ".git/HEAD").write_text("nothing\n")
    shutil.copy(scene.work / "a.txt", inner / "a.txt")
    _append(scene.work / ".git/config", wanted(scene.work))
    scene.cwd = "inner"


def work_tree_elsewhere(scene: Scene, wanted: Wanted) -> None:
    files = scene.work / "files"
    files.mkdir()
    for name in ("a.txt", "same.txt"):
        shutil.copy(scene.work / name, files / name)
    text = wanted(scene.work) + wanted(files)
    _append(scene.work / ".git/config", f'[core]\n\tworktree = "../files"\n{text}')


def linked_work_tree(scene: Scene, wanted: Wanted) -> None:
    scene.git(scene.work, "worktree", "add", "-q", "inner")
    inner = scene.work / "inner"
    (inner / "a.txt").write_text("else\n")
    _append(scene.work / ".git/config", wanted(inner))
    scene.cwd = "inner"


def config_of_linked_work_tree(scene: Scene, wanted: Wanted) -> None:
    scene.git(scene.work, "worktree", "add", "-q", "inner")
    scene.git(scene.work, "config", "extensions.worktreeConfig", "true")
    inner = scene.work / "inner"
    (inner / "a.txt").write_text("else\n")
    _append(scene.work / ".git/worktrees/inner/config.worktree", wanted(inner))
    scene.cwd = "inner"


def _embedded(scene: Scene, name: str, folder: Path | None = None) -> Path:
    """Make a repository in a folder and have the one around know it as a submodule."""
    around = folder or scene.work
    inner = around / name
    inner.mkdir(parents=True)
    scene.git(inner, "init", "-q", "-b", "main")
    (inner / "a.txt").write_text("sub\n")
    scene.git(inner, "add", ".")
    scene.git(inner, "commit", "-q", "-m", "sub")
    scene.git(around, "add", name)
    (inner / "a.txt").write_text("other\n")
    return inner


def _submodule(name: str, *settings: str) -> Callable[[Scene, Wanted], None]:
    def lay(scene: Scene, wanted: Wanted) -> None:
        inner = _embedded(scene, name)
        for words in settings:
            scene.git(scene.work, *words.split())
        _append(inner / ".git/config", wanted(inner))

    lay.__name__ = f"submodule {name!r} {settings}"
    return lay


SUBMODULES = [
    _submodule(*row)
    for row in (
        ("sub",), ("a deep/su b",), ("s\u00fcb",), ("s\nb",), ('s"\\b',),
        ("sub", "update-index --index-version 4"),
        ("sub", "update-index --split-index"),
        ("sub", "update-index --split-index", "update-index --assume-unchanged same.txt"),
        ("sub", "commit -q -m sub"),
    )
]  # fmt: skip


def submodule_of_a_submodule(scene: Scene, wanted: Wanted) -> None:
    outer = _embedded(scene, "one")
    inner = _embedded(scene, "two", outer)
    _append(inner / ".git/config", wanted(inner))


def submodule_behind_a_file(scene: Scene, wanted: Wanted) -> None:
    inner = _embedded(scene, "sub")
    modules = scene.work / ".git/modules"
    modules.mkdir()
    (inner / ".git").rename(modules / " sub")
    shutil.copytree(modules / " sub", modules / "sub")
    (inner / ".git").write_text("gitdir:  sub\n".replace(" sub", f"{modules}/ sub"))
    _append(modules / " sub/config", wanted(inner))


def inside_a_submodule(scene: Scene, wanted: Wanted) -> None:
    inner = _embedded(scene, "sub")
    _append(inner / ".git/config", wanted(inner))
    scene.cwd = "sub"


LAYOUTS: Sequence[Callable[[Scene, Wanted], None]] = (
    plain, with_mark, link, above, hooks_of_the_repository, hooks_of_the_work_tree,
    config_of_work_tree, *FILES, *COMMON, *INCLUDED,
    nested_includes, of_a_remote, link_to_a_config, bare, bare_beside_an_empty_one, bare_above,
    behind_an_empty_one, behind_a_broken_one, work_tree_elsewhere, linked_work_tree,
    config_of_linked_work_tree, *SUBMODULES, submodule_of_a_submodule, submodule_behind_a_file,
    inside_a_submodule,
)  # fmt: skip


def _payloads(layout: Callable[[Scene, Wanted], None]) -> Sequence[Callable[[Scene, Path], str]]:
    """Return what a layout surely makes some command start."""
    if layout in {hooks_of_the_repository, hooks_of_the_work_tree}:
        return (nothing,)
    if layout in {*SUBMODULES, submodule_of_a_submodule, submodule_behind_a_file}:
        return fsmonitor, hooks_path  # a look from outside does not compare the files inside
    if layout is of_a_remote:  # what is included by remotes may name none
        return tuple(each for each in PAYLOADS if each is not promisor)
    return PAYLOADS


@dataclass(frozen=True)
class Hostile:
    """One repository that would start a program."""

    layout: Callable[[Scene, Wanted], None]
    payload: Callable[[Scene, Path], str]
    style: Callable[[str], str]
    commands: tuple[str, ...]

    def __str__(self) -> str:
        """Name it for a test."""
        style = STYLES.index(self.style)
        return f"{self.layout.__name__}, {self.payload.__name__}, style {style}"

    @property
    def is_bare(self) -> bool:
        """Whether there is no `.git` where commands run, so that git need not be asked."""
        return self.layout in {bare, bare_above}

    def lay(self, scene: Scene) -> None:
        """Lay it out over a copy of the template."""
        self.layout(scene, lambda top: self.style(self.payload(scene, top)))


def hostile(count: int) -> Iterator[Hostile]:
    """Yield as many hostile repositories: each layout in turn, the rest by the seed."""
    chance = random.Random(45)
    for number in range(count):
        layout = LAYOUTS[number % len(LAYOUTS)]
        # A monitor runs whatever is looked at; so each layout is once proven to be read.
        payloads = _payloads(layout)
        yield Hostile(
            layout=layout,
            payload=payloads[0] if number < len(LAYOUTS) else chance.choice(payloads),
            style=STYLES[0] if number < len(LAYOUTS) else chance.choice(STYLES),
            commands=(*MAIN_COMMANDS, *chance.sample(COMMANDS, 5)),
        )
