"""`prsm trust`: lets a workspace's own configuration count."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from prsm_core.cli.options import workspace_option

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prsm_core.cli.launch import Launch
    from prsm_core.config import Paths
    from prsm_core.config.effects import Effect
    from prsm_core.config.trust import Review
    from prsm_core.plugins import PluginManager

NEW, GONE, SAME = "+ ", "- ", "  "


@click.command(short_help="Trust the .prism folder of a workspace.")
@click.option("--revoke", is_flag=True, help="Take the trust back.")
@click.option("--yes", "-y", is_flag=True, help="Trust what is shown without being asked.")
@workspace_option
@click.pass_obj
def trust(launch: Launch, revoke: bool, yes: bool, workspace: str) -> None:
    """Show what a workspace's .prism folder would run or allow, and trust it as it is now.

    Lines that begin with + or - are what has changed since it was trusted last. Until it is
    trusted only its deny and ask rules hold. Any change of a file takes the trust away, and so
    does a .prism folder that appears where there was none. Exits with 1 if the answer is no, with
    2 where nobody can be asked.
    """
    from prsm_core.cli.places import workspace_paths
    from prsm_core.cli.setup import load_plugins
    from prsm_core.config.trust import NOTHING, review, untrust
    from prsm_core.config.trust import trust as trust_content
    from prsm_core.kit.text import escape_exact

    paths = workspace_paths(workspace)
    folder = escape_exact(str(paths.workspace_dir))
    if revoke:
        had = untrust(paths)
        click.echo(f"{folder}: {'no longer trusted' if had else 'was not trusted'}")
        return
    found = review(paths)
    for line in _lines(found, paths, load_plugins(launch, workspace)):
        click.echo(line)
    if not (yes or found.trusted or _agrees(folder)):
        click.echo(f"{folder}: not trusted")
        click.get_current_context().exit(1)
    trusted = trust_content(paths, found.snapshot)
    how = "with nothing in it" if trusted == NOTHING else f"as {trusted}"
    click.echo(f"{folder}: trusted {how}")


def _agrees(folder: str) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError("nobody can be asked here: `prsm trust --yes` trusts what is shown")
    return click.confirm(f"Trust {folder} as it is now?", default=False)


def _lines(found: Review, paths: Paths, plugins: PluginManager) -> Iterator[str]:
    from prsm_core.config.paths import written_path
    from prsm_core.kit.text import escape_exact
    from prsm_core.permissions import Redactor
    from prsm_core.permissions.kept_names import KeptNames

    redact = Redactor(()).text
    if found.snapshot.is_empty:
        yield escape_exact(f"{paths.workspace_dir}: there is nothing in it")
    else:
        yield escape_exact(f"{paths.workspace_dir}: {_since(found)}")
    for group, effects in _by_group(found):
        yield f"{group}:"
        for effect in effects:
            mark = GONE if effect in found.gone else NEW if effect in found.added else SAME
            yield escape_exact(f"{mark}{redact(effect.text)}")
    yield "project checks that run without asking:"
    yield from (f"{SAME}{line}" for line in project_checks(plugins))
    if written := KeptNames(written_path(paths)).names():
        yield "what agents may have written of what these run, and you would trust as it is now:"
        yield from (f"{SAME}{name}" for name in written)


def project_checks(plugins: PluginManager) -> Sequence[str]:
    """Return what a trusted workspace may run unasked though it runs the workspace's own code."""
    from prsm_core.policies.port import CommandPolicySpec

    policies = plugins.collect(CommandPolicySpec).values()
    checks = [f"{name}: {what}" for spec in policies for name, what in spec.project_checks.items()]
    if not checks:
        return ("none",)
    return (*checks, "these run the code of the workspace, also what agents have written into it")


def _since(found: Review) -> str:
    if found.trusted:
        return "trusted already, as it is now"
    if found.before is None:
        return found.lost or "not trusted so far"
    if told := len(found.added) + len(found.gone):
        return f"{told} lines differ from what was trusted last (+ new, - gone)"
    return f"does what was trusted last: {found.lost or 'that was taken back'}"


def _by_group(found: Review) -> Iterator[tuple[str, Sequence[Effect]]]:
    from prsm_core.config.effects import GROUPS

    for group in GROUPS:
        effects = [e for e in (*found.effects, *found.gone) if e.group == group]
        if effects:
            yield group, sorted(effects, key=lambda effect: effect.text)
