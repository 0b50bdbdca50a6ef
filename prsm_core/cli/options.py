"""Options that several commands share; light, because every --help imports them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from prsm_core.cli.launch import Launch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike


def text_argument(
    name: str, metavar: str, *, required: bool = True
) -> Callable[[click.decorators.FC], click.decorators.FC]:
    """Return the decorator of an argument that is one text, also where it is of many words."""
    return click.argument(name, nargs=-1, required=required, metavar=metavar, callback=_only_text)


def _only_text(ctx: click.Context, param: click.Parameter, words: Sequence[str]) -> str | None:
    if len(words) > 1:
        raise click.UsageError(
            f"{str(param.name).upper()} is one text, but {len(words)} words were given: "
            "put it in quotes",
            ctx,
        )
    if words and not is_utf8(words[0]):
        raise click.UsageError(f"{str(param.name).upper()} is not UTF-8 text", ctx)
    return words[0] if words else None


image_option = click.option(
    "--image",
    "images",
    multiple=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, readable=True, resolve_path=True),
    help="Show the agent an image with the text: PNG, JPEG, GIF or WebP of up to 5 MiB.",
)


def is_utf8(text: str) -> bool:
    """Return whether a word of the command line was UTF-8; only then can it be kept."""
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


class _Folder(click.Path):
    def convert(
        self, value: str | PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Return its path without links; fails for a device, and for a name that is not UTF-8."""
        try:
            path = str(super().convert(value, param, ctx))
        except FileNotFoundError:  # resolving a relative path
            self.fail("The current folder does not exist any more; go to another one.", param, ctx)
        if not os.path.isdir(path):  # noqa: PTH112 - of a text
            self.fail(f"{path!r} is no folder.", param, ctx)
        if not is_utf8(path):
            self.fail(f"{path!r} is not UTF-8 text; rename it.", param, ctx)
        return path


def _swept(ctx: click.Context, _param: click.Parameter, folder: str) -> str:
    """Remove what an act that was killed has left beside files of the folder."""
    if not ctx.resilient_parsing:  # a shell that completes a line runs no command
        from prsm_core.cli.places import has_strays  # not for --help

        if has_strays(folder):
            from prsm_core.cli.sessions.keepers import sweep_strays  # few acts are killed

            sweep_strays(ctx.ensure_object(Launch), folder)
    return folder


workspace_option = click.option(
    "-C",
    "--workspace",
    type=_Folder(exists=True, file_okay=False, resolve_path=True),
    default=".",
    show_default=True,
    metavar="DIR",
    help="The folder to work in.",
    callback=_swept,
)
"""-C, --workspace DIR: the folder of the command, without links."""
last_option = click.option(
    "--last", type=click.IntRange(min=1), metavar="N", help="Only the last N of them."
)
"""--last N: at least 1."""
follow_option = click.option("--follow", is_flag=True, help="Wait for more until interrupted.")
"""--follow: a flag."""
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
"""--json: a flag, the parameter `as_json`."""
