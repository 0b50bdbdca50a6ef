"""Installs the vendors' CLIs by npm, each into a folder of its own, for the live tests.

Without npm, or where the registry cannot be used, it says so and succeeds: the live tests then
skip, and say the same, which is in a file beside where the program would be. Whatever else goes
wrong is an error.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_WHY = "not-installed.txt"  # in the folder of a CLI
INSTALL_TIMEOUT_S = 900  # one of the packages holds a 400 MB binary

_RETRIES = ("--fetch-retries=1", "--fetch-retry-mintimeout=1000")  # npm's own take minutes
# The code that npm names where it could not talk to a registry, or that one would not talk to it.
_UNREACHABLE = re.compile(
    r"\b(EAI_\w+|ENOTFOUND|ECONN\w+|ENET\w+|EHOST\w+|ETIMEDOUT|EPIPE|EPROTO|ENOTCACHED"
    r"|ERR_SOCKET_\w+|ERR_SSL_\w+|ERR_TLS_\w+|\w*CERT_\w+|CERT_\w+|UNABLE_TO_\w+|E40[1378]|E429|E5\d\d)\b"
)
# npm's own word for it, whatever the code, and that of the library that it asks with.
_NETWORK = re.compile(
    r"^npm (?:error|ERR!) (?:network\b|.*\brequest to \S+ failed, reason:)", re.MULTILINE
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

    def why_missing(self, binary: Path) -> str:
        """Return why there is no program at `binary`, as far as its installation has told."""
        try:
            told = (binary.parents[2] / _WHY).read_text(encoding="utf-8").strip()
        except (OSError, IndexError):
            told = f"{self.variable} names no program"
        return f"the {self.name} CLI is not installed: {told}"


CODEX = Cli(name="codex", package="@openai/codex", tested="0.169")
GEMINI = Cli(name="gemini", package="@google/gemini-cli", tested="0.61")
CLIS = {cli.name: cli for cli in (CODEX, GEMINI)}


def unreachable(npm_output: str) -> str | None:
    """Return by what code or word npm told that it cannot use its registry; None if it did not."""
    for pattern in (_UNREACHABLE, _NETWORK):
        found = pattern.search(_told_by_npm(npm_output))
        if found:
            return found[1] if pattern is _UNREACHABLE else "network"
    return None


def _told_by_npm(output: str) -> str:
    """Return the lines of npm's errors; a warning about a certificate stops nothing."""
    lines = (line for line in output.splitlines() if line.startswith(("npm error", "npm ERR!")))
    return "\n".join(lines)


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
    argv = [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", *_RETRIES, package]
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
        return _goes_without(cli, folder, "npm is missing")
    code, output = run_npm(npm, cli, folder)
    if code != 0:
        sys.stdout.write(output)
        if (told := unreachable(output)) is not None:
            return _goes_without(cli, folder, f"npm cannot reach its registry ({told})")
        sys.stdout.write(f"npm install {cli.package} failed with exit code {code}\n")
        return code
    (folder / _WHY).unlink(missing_ok=True)
    version = installed_version(binary)
    sys.stdout.write(f"npm installed {cli.name} {version} in {folder}\n")
    return 0 if version is not None else 1


def _goes_without(cli: Cli, folder: Path, why: str) -> int:
    """Tell, here and to the live tests, why a CLI is missing; return the exit code."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _WHY).write_text(f"{why}\n", encoding="utf-8")
    sys.stdout.write(f"{cli.name} is not installed: {why}; its live tests skip\n")
    return 0


def main(folder: Path) -> int:
    """Install every CLI below `folder`; return the first exit code that is not 0."""
    codes = [install(cli, folder / cli.name) for cli in CLIS.values()]
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]).absolute()))
