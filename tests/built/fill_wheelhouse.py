"""Fills a folder with wheels of all that our packages need from others, for tests/built.

It needs an index only as long as what the packages ask for has not been fetched. Where no index
can be reached it says so and succeeds: the tests then skip. Whatever else goes wrong is an error.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILL_TIMEOUT_S = 1800  # one of the wheels holds a 100 MB program
DONE = "complete.txt"  # what the folder was filled for

_UNREACHABLE = re.compile(
    r"Temporary failure in name resolution|Name or service not known|Network is unreachable"
    r"|Failed to establish a new connection|Connection (refused|reset)|timed out|No route to host"
)


def requirements() -> list[str]:
    """Return what the core and every plugin ask for, but for each other."""
    found: set[str] = set()
    for path in (ROOT / "pyproject.toml", *ROOT.glob("plugins/*/pyproject.toml")):
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        found.update(project["dependencies"])
    return sorted(name for name in found if not name.startswith("prsm-"))


def stamp() -> str:
    """Return what a folder that is filled for these requirements says."""
    asked = f"{sys.version_info[:2]} {requirements()}"
    return f"{hashlib.sha256(asked.encode()).hexdigest()}\n"


def is_complete(folder: Path) -> bool:
    """Return whether a folder holds what is asked for now."""
    done = folder / DONE
    return done.is_file() and done.read_text(encoding="utf-8") == stamp()


def fill(folder: Path) -> int:
    """Fill a folder; return the exit code."""
    if is_complete(folder):
        sys.stdout.write(f"{folder} is filled\n")
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    argv = [sys.executable, "-m", "pip", "wheel", "--wheel-dir", str(folder), *requirements()]
    done = subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=FILL_TIMEOUT_S,
        check=False,
    )
    if done.returncode == 0:
        (folder / DONE).write_text(stamp(), encoding="utf-8")
        sys.stdout.write(f"{folder} holds {len(list(folder.glob('*.whl')))} wheels\n")
        return 0
    sys.stdout.write(done.stdout)
    if _UNREACHABLE.search(done.stdout):
        sys.stdout.write(f"{folder} is not filled: no index can be reached; its tests skip\n")
        return 0
    return done.returncode


if __name__ == "__main__":
    raise SystemExit(fill(Path(sys.argv[1]).absolute()))
