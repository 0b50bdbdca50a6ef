"""Installs the vendors' CLIs by npm, each into a folder of its own, for the live tests.

Without npm, or where the registry cannot be reached, it says so and succeeds: the live tests then
skip. Whatever else goes wrong is an error.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

INSTALL_TIMEOUT_S = 900  # one of the packages holds a 400 MB binary

_UNREACHABLE = re.compile(
    r"\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ENETUNREACH|EHOSTUNREACH|ETIMEDOUT"
    r"|ERR_SOCKET_TIMEOUT|E50[0-4])\b"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cli:
    """A program of a vendor, and the versions the live tests were written for."""

    name: str
    package: str
    tested: str  # "0.169": any patch level of it

    @property
    def range(self) -> str:
        """What npm is asked for."""
        return f"~{self.tested}.0"

    @property
    def variable(self) -> str:
        """The environment variable that tells the live tests where the program is."""
        return f"PRSM_LIVE_{self.name.upper()}"

    def binary(self, folder: Path) -> Path:
        """Return where the program is once `folder` holds it."""
        return folder / "node_modules" / ".bin" / self.name


CODEX = Cli(name="codex", package="@openai/codex", tested="0.169")
GEMINI = Cli(name="gemini", package="@google/gemini-cli", tested="0.61")
CLIS = {cli.name: cli for cli in (CODEX, GEMINI)}


def is_unreachable(npm_output: str) -> bool:
    """Return whether npm failed because it could not talk to its registry."""
    return bool(_UNREACHABLE.search(npm_output))


def installed_version(binary: Path) -> str | None:
    """Return what the installed CLI says it is, or None where there is none that runs."""
    try:
        done = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=60)
    except OSError:
        return None
    found = re.search(r"\d+\.\d+\.\d+", done.stdout)
    return found[0] if done.returncode == 0 and found else None


def run_npm(npm: str, cli: Cli, folder: Path) -> tuple[int, str]:
    """Run `npm install` in `folder`; return its exit code and output."""
    folder.mkdir(parents=True, exist_ok=True)
    package = f"{cli.package}@{cli.range}"
    argv = [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", package]
    try:
        done = subprocess.run(
            argv,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return 1, "ETIMEDOUT: npm install did not end in time"
    return done.returncode, done.stdout


def install(cli: Cli, folder: Path) -> int:
    """Make sure that `folder` holds a tested version of the CLI; return the exit code."""
    binary = cli.binary(folder)
    version = installed_version(binary)
    if version is not None and version.startswith(cli.tested + "."):
        sys.stdout.write(f"{cli.name} {version} is installed in {folder}\n")
        return 0
    npm = shutil.which("npm")
    if npm is None:
        sys.stdout.write(f"{cli.name} is not installed: npm is missing; its live tests will skip\n")
        return 0
    code, output = run_npm(npm, cli, folder)
    if code != 0:
        sys.stdout.write(output)
        if not is_unreachable(output):
            sys.stdout.write(f"npm install {cli.package} failed with exit code {code}\n")
            return code
        sys.stdout.write(
            f"{cli.name} is not installed: npm cannot reach its registry; its live tests skip\n"
        )
        return 0
    version = installed_version(binary)
    sys.stdout.write(f"npm installed {cli.name} {version} in {folder}\n")
    return 0 if version is not None else 1


def main(folder: Path) -> int:
    """Install every CLI below `folder`; return the first exit code that is not 0."""
    codes = [install(cli, folder / cli.name) for cli in CLIS.values()]
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]).absolute()))
