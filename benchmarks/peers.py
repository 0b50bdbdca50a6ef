"""peers: what a person waits for and pays, beside the vendors' own tools on the same model.

Each row runs the real CLI of a vendor, and `prsm run` with that vendor's provider, in turns. All
packages of PRSM are installed and all vendors configured. Both sides ask a scripted model on
loopback. Its script goes by what an agent has seen and not by a count of requests, so that the same
lead waits as often as its results need.

The reference for a lead with eight children is the vendor's own way to do that in one process, with
the settings it is installed with: `spawn_agent` and `wait_agent` of `codex exec`, which has six
agents at one time, closes them, and then begins the other two; the tool `Agent` of `claude -p`,
which has all eight in the background and is notified of each. The lead asks for all children in one
answer, and each child answers once.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from prsm_testing.playback import Step

from benchmarks.first import ANSWER, KEY, PROMPT, PRSM, make_places, open_folder
from benchmarks.first_turn import environment
from benchmarks.harness import Absent, Finding
from benchmarks.scripted import complete_task, edit_and_test, lead_by_prsm, lead_by_vendor, serve
from benchmarks.side import CannotRunError, Side

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.harness import Plan
    from benchmarks.scripted import Request, Served
    from benchmarks.side import Cost

    # Words and environment of a program.
    Command = tuple[list[str], dict[str, str]]

VENDORS = ("codex", "claude", "gemini")
# Codex offers plain tools to a model that it does not know, and a programming tool to its own.
MODEL = "scripted-1"
LEAD_PROMPT = "Give each part to an agent of its own."
EDIT_PROMPT = "Write the file and test it."
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
}
SOLO = ("--solo", "--mode", "bypass")


def measure(plan: Plan) -> list[Finding | Absent]:
    """Measure every row; a row whose CLI is not there is told as absent."""
    with open_folder() as folder:
        bench = Bench(folder=folder, plan=plan, clis=find_clis())
        return [line for row in ROWS for line in row.measure(bench)]


def find_clis() -> dict[str, str]:
    """Return the vendors' programs: named by PRSM_LIVE_…, on the PATH, or in Claude's SDK."""
    found = {}
    for vendor in VENDORS:
        path = os.environ.get(f"PRSM_LIVE_{vendor.upper()}") or shutil.which(vendor)
        if path is None and vendor == "claude":
            path = _bundled_claude()
        if path is not None and importlib.util.find_spec(f"prsm_{vendor}") is not None:
            found[vendor] = path
    return found


def _bundled_claude() -> str | None:
    spec = importlib.util.find_spec("claude_agent_sdk")
    path = Path(spec.origin).with_name("_bundled") / "claude" if spec and spec.origin else None
    return str(path) if path is not None and path.is_file() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Where rows are measured, and with which CLIs."""

    folder: Path
    plan: Plan
    clis: Mapping[str, str]

    def prsm(self, row: Row, served: Served) -> Side:
        """Return `prsm run` with every vendor configured; `row` says which one leads."""
        home, workspace = make_places(self.folder / f"{row.case} of prsm")
        section = {"api_key_env": next(iter(KEY))}
        providers = {
            vendor: {"command": [path], "base_url": served.urls[vendor], **section}
            for vendor, path in self.clis.items()
        }
        (home / "config.yaml").write_text(json.dumps({"providers": providers}), encoding="utf-8")
        env = environment(self.folder) | {"PRSM_HOME": str(home), "HOME": str(home), **KEY}
        env.pop("PRSM_PLUGINS", None)
        argv = [sys.executable, "-c", PRSM, "run", "--provider", row.vendor, *row.options]
        return Side(
            argv=[*argv, row.prompt], folder=workspace, env=env, served=served, weigh=row.weigh
        )

    def vendor(self, row: Row, served: Served) -> Side:
        """Return the vendor's own tool."""
        home, workspace = make_places(self.folder / f"{row.case} of the vendor")
        own = {"codex": _codex, "claude": _claude}[row.vendor]
        argv, env = own(self.clis[row.vendor], home, served, row.prompt)
        env = {**os.environ, "HOME": str(home), **env}
        return Side(argv=argv, folder=workspace, env=env, served=served, weigh=row.weigh)


def _codex(program: str, home: Path, served: Served, prompt: str) -> Command:
    server = {"name": "loopback", "base_url": served.urls["codex"], "env_key": next(iter(KEY))}
    table = "".join(f"{key} = {json.dumps(value)}\n" for key, value in server.items())
    (home / "config.toml").write_text(
        f'model = "{MODEL}"\nmodel_provider = "loopback"\ncheck_for_update_on_startup = false\n'
        f"[analytics]\nenabled = false\n"
        f'[model_providers.loopback]\n{table}wire_api = "responses"\n'
    )
    options = ("--skip-git-repo-check", "--sandbox", "workspace-write", "--disable", "plugins")
    return [program, "exec", *options, prompt], {"CODEX_HOME": str(home), **KEY}


def _claude(program: str, home: Path, served: Served, prompt: str) -> Command:
    env = {**QUIET, "CLAUDE_CONFIG_DIR": str(home), "ANTHROPIC_API_KEY": "loopback"}
    env["ANTHROPIC_BASE_URL"] = served.urls["claude"]
    return [program, "-p", prompt, "--model", MODEL, "--allowedTools", "Agent"], env


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row: a job, who does it, and which costs are told with which goal.

    costs: The goals, by the field of Cost; one without a goal is told only.
    theirs: How the model answers the vendor's own tool; None where only PRSM is looked at.
    """

    case: str
    vendor: str
    prompt: str
    ours: Callable[[Request], Step]
    theirs: Callable[[Request], Step] | None
    costs: Mapping[str, float | None]
    options: Sequence[str] = ()
    weigh: bool = False

    def measure(self, bench: Bench) -> list[Finding | Absent]:
        """Measure both sides in turns, after one pair that warms up."""
        if self.vendor not in bench.clis:
            why = f"{self.vendor} or prsm-{self.vendor} is not installed"
            return [self._absent(f"{why}; PRSM_LIVE_{self.vendor.upper()} may name the program")]
        with contextlib.ExitStack() as stack:
            ours = bench.prsm(self, stack.enter_context(serve(self.ours))).run
            theirs = None
            if self.theirs is not None:
                theirs = bench.vendor(self, stack.enter_context(serve(self.theirs))).run
            try:
                pairs = [
                    (ours(), theirs() if theirs else None) for _ in range(bench.plan.pairs + 1)
                ][1:]
            except CannotRunError as error:
                return [self._absent(str(error))]
        return [self._finding(cost, goal, pairs) for cost, goal in self.costs.items()]

    def _absent(self, why: str) -> Absent:
        return Absent(benchmark="peers", case=self.case, why=why)

    def _finding(
        self, cost: str, goal: float | None, pairs: list[tuple[Cost, Cost | None]]
    ) -> Finding:
        """Tell one cost: a ratio where it has one, the mean of what comes too late."""
        unit, is_ratio = UNITS[cost]
        values = [(getattr(a, cost), getattr(b, cost) if b else None) for a, b in pairs]
        bases = [base for _, base in values if base is not None and is_ratio]
        mean = sum(value for value, _ in values) / len(values)
        return Finding(
            benchmark="peers",
            case=f"{self.case}: {cost}",
            unit=unit,
            value=mean if cost == "late" else median(value for value, _ in values),
            reference=median(bases) if bases else None,
            ratio=median(v / b for v, b in values if b) if bases else None,
            goal=goal,
        )


# The unit of each cost, and whether the two sides are compared by it.
UNITS = {
    "cpu": ("ms", True),
    "wall": ("ms", True),
    "first": ("ms", True),
    "peak": ("MB", True),
    "kilobytes": ("kB", True),
    "requests": ("", False),
    "lead": ("", False),
    "late": ("", False),
}


ROWS = (
    *(
        Row(
            case=f"{vendor}, one request",
            vendor=vendor,
            prompt=PROMPT,
            ours=lambda _: complete_task(ANSWER),
            theirs=lambda _: Step(say=ANSWER),
            options=("--model", MODEL),
            costs={"cpu": cpu, "first": first},
        )
        for vendor, cpu, first in (("codex", 2.7, 2.4), ("claude", 2.0, 2.0))
    ),
    Row(
        case="codex, one edit and one test",
        vendor="codex",
        prompt=EDIT_PROMPT,
        options=(*SOLO, "--model", MODEL),
        ours=lambda request: edit_and_test(request, complete_task(ANSWER)),
        theirs=lambda request: edit_and_test(request, Step(say=ANSWER)),
        costs={"requests": 3, "kilobytes": 1.1},
    ),
    Row(
        case="codex, a lead and eight",
        vendor="codex",
        prompt=LEAD_PROMPT,
        options=("--model", MODEL),
        ours=lead_by_prsm,
        theirs=lead_by_vendor("codex"),
        costs={"wall": 1.5, "lead": 4, "late": 0},
    ),
    Row(
        case="claude, a lead and eight",
        vendor="claude",
        prompt=LEAD_PROMPT,
        options=("--model", MODEL),
        ours=lead_by_prsm,
        theirs=lead_by_vendor("claude"),
        costs={"cpu": 5.4, "peak": None, "late": 0},
        weigh=True,
    ),
    Row(
        case="gemini, one request",
        vendor="gemini",
        prompt=PROMPT,
        ours=lambda _: complete_task(ANSWER),
        theirs=None,
        costs={"late": 0},
    ),
)
