"""first: what a person waits for first: the imports of a run, and one agent on the real Codex."""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import shutil
import subprocess
import sys
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.first_turn import environment, imported_by_the_first_turn
from benchmarks.harness import Absent, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from benchmarks.harness import Plan

IMPORTS, AGENTS = 5, 2  # processes of one measurement
PROMPT = "Say hello."
ANSWER = "It is done and all is well."
KEY = {"LOOPBACK_KEY": "none"}  # of a model server that does not look at it
LIBRARIES = """
import asyncio, sqlite3
import click, msgspec, yaml
"""
IMPORT = """
import importlib, json, sys
for name in json.load(open(sys.argv[1])):
    importlib.import_module(name)
"""
PRSM = "import sys; from prsm_core.cli import main; sys.exit(main())"  # as the installed command


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of CPU, that of all processes, and of the wall's clock: milliseconds, or a ratio."""

    cpu: float
    wall: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program that is measured, `runs` times in a row, in the workspace `folder`."""

    argv: list[str]
    folder: Path
    runs: int
    env: Mapping[str, str]

    def cost(self) -> Cost:
        """Return the mean cost of one run."""
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        for _ in range(self.runs):
            subprocess.run(
                self.argv,
                cwd=self.folder,
                env=self.env,
                check=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Cost(cpu=1000 * spent / self.runs, wall=1000 * wall / self.runs)


# Modules with all packages installed, to those without any: each has one that says what it brings.
PACKAGES_GOAL = 1.1
IMPORTS_GOAL = Cost(cpu=2.0, wall=2.0)
AGENT_GOAL = Cost(cpu=2.5, wall=2.0)


def measure(plan: Plan) -> list[Finding | Absent]:
    """Compare the imports with those of the libraries, and a run with `codex exec`."""
    with open_folder() as folder:
        return [*_imports(folder, plan), _packages(folder), *_agent(folder, plan)]


def _imports(folder: Path, plan: Plan) -> list[Finding]:
    names = folder / "imports.json"
    names.write_text(json.dumps(imported_by_the_first_turn(folder)), encoding="utf-8")
    runs, env = plan.count(IMPORTS), environment(folder)
    ours, libraries = (
        Program(argv=[sys.executable, "-c", *arguments], folder=folder, runs=runs, env=env)
        for arguments in ((IMPORT, str(names)), (LIBRARIES,))
    )
    return _both("imports, beside the libraries", ours, libraries, plan, IMPORTS_GOAL)


def _packages(folder: Path) -> Finding:
    """Count the modules of a run that uses none of the packages that are installed."""
    alone = json.loads((folder / "imports.json").read_text(encoding="utf-8"))
    place = folder / "packages"
    place.mkdir()
    value = len(imported_by_the_first_turn(place, with_packages=True))
    return Finding(
        benchmark="first",
        case="imports, with all packages installed and none used",
        unit="modules",
        value=value,
        reference=len(alone),
        ratio=value / len(alone),
        goal=PACKAGES_GOAL,
    )


def _agent(folder: Path, plan: Plan) -> Sequence[Finding | Absent]:
    case = "an agent, beside codex exec"
    codex = os.environ.get("PRSM_LIVE_CODEX") or shutil.which("codex")
    if codex is None:
        why = "codex is not installed, and PRSM_LIVE_CODEX names none"
        return [Absent(benchmark="first", case=case, why=why)]
    if importlib.util.find_spec("prsm_codex") is None:
        return [Absent(benchmark="first", case=case, why="prsm-codex is not installed")]
    runs = plan.count(AGENTS)
    ends = {"call": {"tool": "task_complete", "arguments": {"summary": ANSWER}}}
    turns = runs * (plan.pairs + 1)
    with (
        _model(folder / "ours.json", ends, turns) as ours,
        _model(folder / "bare.json", {"say": ANSWER}, turns) as bare,
    ):
        return _both(
            case,
            _prsm(folder, codex, ours, runs),
            codex_exec(folder, codex, bare, runs),
            plan,
            AGENT_GOAL,
        )


def _prsm(folder: Path, codex: str, url: str, runs: int) -> Program:
    """Return `prsm run` where Codex is the only provider that is installed."""
    section = {"command": [codex], "base_url": url, "api_key_env": next(iter(KEY))}
    home, workspace = make_places(folder / "ours")
    (home / "config.yaml").write_text(json.dumps({"providers": {"codex": section}}))
    env = {**environment(folder), "PRSM_HOME": str(home), "PRSM_PLUGINS": "codex", **KEY}
    return Program(
        argv=[sys.executable, "-c", PRSM, "run", PROMPT], folder=workspace, runs=runs, env=env
    )


def codex_exec(folder: Path, codex: str, url: str, runs: int) -> Program:
    """Return `codex exec` with the same request."""
    home, workspace = make_places(folder / "bare")
    server = {
        "name": "loopback",
        "base_url": url,
        "env_key": next(iter(KEY)),
        "wire_api": "responses",
    }
    table = "".join(f"{key} = {json.dumps(value)}\n" for key, value in server.items())
    (home / "config.toml").write_text(
        'model_provider = "loopback"\ncheck_for_update_on_startup = false\n'
        f"[analytics]\nenabled = false\n[model_providers.loopback]\n{table}"
    )
    argv = [codex, "exec", "--skip-git-repo-check", "--disable", "plugins", PROMPT]
    env = {**os.environ, "CODEX_HOME": str(home), **KEY}
    return Program(argv=argv, folder=workspace, runs=runs, env=env)


def make_places(folder: Path) -> tuple[Path, Path]:
    """Make and return a home and a workspace."""
    home, workspace = folder / "home", folder / "workspace"
    home.mkdir(parents=True)
    workspace.mkdir()
    return home, workspace


def _both(case: str, subject: Program, reference: Program, plan: Plan, goal: Cost) -> list[Finding]:
    """Measure in turns, in pairs after one that warms up, and tell the medians of both costs."""
    subject.cost(), reference.cost()
    pairs = [(subject.cost(), reference.cost()) for _ in range(plan.pairs)]
    return [_finding(case, kind, pairs, getattr(goal, kind)) for kind in ("cpu", "wall")]


def _finding(case: str, kind: str, pairs: list[tuple[Cost, Cost]], goal: float) -> Finding:
    costs = [(getattr(ours, kind), getattr(theirs, kind)) for ours, theirs in pairs]
    return Finding(
        benchmark="first",
        case=f"{case}: {kind}",
        unit="ms",
        value=median(cost for cost, _ in costs),
        reference=median(base for _, base in costs),
        ratio=median(cost / base for cost, base in costs),
        goal=goal,
    )


@contextmanager
def open_folder() -> Iterator[Path]:
    """Yield a folder that is gone afterwards; not below TMPDIR, where Codex has no sandbox."""
    folder = Path.home() / ".cache" / "prsm-benchmarks" / uuid.uuid4().hex
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def _model(path: Path, step: Mapping[str, Any], turns: int) -> Iterator[str]:
    """Serve a model in a process of its own, so that its CPU time is not counted."""
    lane = {"marker": "", "steps": [step] * turns}
    path.write_text(json.dumps({"lanes": {"agent": lane}}), encoding="utf-8")
    argv = [sys.executable, "-m", "prsm_testing.model_server", str(path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as server:
        try:
            if server.stdout is None:
                raise RuntimeError("the model server has no stdout")
            yield json.loads(server.stdout.readline())["base_url"]
        finally:
            server.terminate()
            server.communicate()
