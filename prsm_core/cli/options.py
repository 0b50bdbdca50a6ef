"""Options that several commands share; light, because every --help imports them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


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
    return words[0] if words else None


workspace_option = click.option(
    "-C",
    "--workspace",
    type=click.Path(exists=True, file_okay=False, resolve_path=True),
    default=".",
    show_default=True,
    metavar="DIR",
    help="The folder to work in.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
