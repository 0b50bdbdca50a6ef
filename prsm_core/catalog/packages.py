"""The packages that `prsm install` installs: never a misspelt one, nor somebody else's."""

from __future__ import annotations

from pathlib import Path

import prsm_core
from prsm_core.domain.record import Record

PUBLISHED = False  # whether the names below are this project's on the public index
_PREFIX = "prsm-"


class OwnPackage(Record, frozen=True):
    """One package beside the core: a plugin, and the provider of its name if there is one."""

    name: str  # of the plugin; its package is `distribution`
    login: str  # what a person does once the program is there
    needs: tuple[str, ...] = ()  # own packages that have to be there first
    program: str | None = None  # of the vendor, if the plugin brings none
    npm: str | None = None  # what npm is asked for to get that, in the versions that were tested
    is_provider: bool = True

    @property
    def distribution(self) -> str:
        """The name of the package."""
        return _PREFIX + self.name


_CODEX_NPM = "@openai/codex@>=0.160.0 <0.175.0"
_GEMINI_NPM = "@google/gemini-cli@>=0.61.0 <0.62.0"

_PACKAGES = (
    OwnPackage("acp", "its README lists the agents, and what each of them needs", needs=("mcp",)),
    OwnPackage(
        "alibaba",
        "set DASHSCOPE_API_KEY; masters need `prsm install claude` too",
        needs=("codex",),
        program="codex",
        npm=_CODEX_NPM,
    ),
    OwnPackage("claude", "`prsm providers` says whether it is logged in, or how to"),
    OwnPackage("codex", "run `codex login`, or set `api_key_env`", program="codex", npm=_CODEX_NPM),
    OwnPackage("console", 'prsm run "…"', is_provider=False),
    OwnPackage("demo", "`prsm demo`", is_provider=False),
    OwnPackage("files", "`prsm snapshot create`", is_provider=False),
    OwnPackage(
        "gemini",
        "set GEMINI_API_KEY, or run `gemini` and log in",
        needs=("mcp", "acp"),
        program="gemini",
        npm=_GEMINI_NPM,
    ),
    OwnPackage(
        "mcp",
        "claude mcp add --scope user prsm -- prsm mcp, if Claude Code is to lead",
        is_provider=False,
    ),
    OwnPackage(
        "minimax",
        "set MINIMAX_API_KEY; masters need `prsm install claude` too",
        needs=("codex",),
        program="codex",
        npm=_CODEX_NPM,
    ),
    OwnPackage(
        "protocols",
        'write .prism/protocols/NAME.md, and prsm run --label protocol=NAME "…"',
        is_provider=False,
    ),
    OwnPackage("policy", '`prsm policy check "ls"`', is_provider=False),
    OwnPackage("regions", "it needs a provider whose models plan and work"),
    OwnPackage("sandbox", "`prsm doctor` says what can be shut in", is_provider=False),
    OwnPackage("testing", "prsm sim, or the contracts in a plugin's tests", is_provider=False),
    OwnPackage("tui", 'prsm run --ui tui "…", or `prsm demo --ui tui`', is_provider=False),
)
OWN_PACKAGES = {package.name: package for package in _PACKAGES}
OWN_PROVIDERS = tuple(name for name, package in OWN_PACKAGES.items() if package.is_provider)

EXAMPLE = "prsm install codex"  # of a command that leads to a provider


def how_to_get(kind: str) -> str:
    """Return what to do about a provider that is not there, as the end of a hint."""
    if kind in OWN_PROVIDERS:
        return f"; prsm install {kind}"
    from difflib import get_close_matches

    near = get_close_matches(kind, OWN_PROVIDERS, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def find_own(name: str) -> OwnPackage | None:
    """Return the package of a plugin's or a package's name, None if it is not of this project."""
    return OWN_PACKAGES.get(name.lower().replace("_", "-").removeprefix(_PREFIX))


def with_needs(package: OwnPackage) -> tuple[OwnPackage, ...]:
    """Return a package behind those it needs."""
    return (*(OWN_PACKAGES[name] for name in package.needs), package)


def find_clone(core: Path | None = None) -> Path | None:
    """Return the clone of the repository that the core runs from, None if it is installed."""
    root = (core or Path(prsm_core.__file__).parent).resolve().parent
    return root if _names(root) == "prsm-core" and (root / "plugins").is_dir() else None


def folder_in(clone: Path, package: OwnPackage) -> Path | None:
    """Return where a clone has a package, None if it has it not."""
    folder = clone / "plugins" / package.distribution.replace("-", "_")
    return folder if _names(folder) == package.distribution else None


def _names(folder: Path) -> str | None:
    import tomllib  # only who installs needs it

    try:
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        return str(project["name"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
