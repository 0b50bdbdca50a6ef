"""`prsm trust`: lets a workspace's own configuration count."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from prsm_core.cli.options import workspace_option

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@click.command(short_help="Trust the .prism folder of a workspace.")
@click.option("--revoke", is_flag=True, help="Take the trust back.")
@workspace_option
def trust(revoke: bool, workspace: str) -> None:
    """Show the files of the workspace's .prism folder and trust them as they are now.

    Until then only its deny and ask rules hold. Any change of a file takes the trust away.
    """
    from prsm_core.builtin.text import escape_exact
    from prsm_core.cli.places import workspace_paths
    from prsm_core.config.trust import trust as trust_content
    from prsm_core.config.trust import untrust

    paths = workspace_paths(workspace)
    folder = escape_exact(str(paths.workspace_dir))
    if revoke:
        had = untrust(paths)
        click.echo(f"{folder}: {'no longer trusted' if had else 'was not trusted'}")
        return
    digest = trust_content(paths)
    for file in sorted(_files(paths.workspace_dir)):
        click.echo(escape_exact(str(file.relative_to(paths.workspace))))
    click.echo(f"{folder}: trusted as {digest}")


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
