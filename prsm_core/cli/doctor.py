"""`prsm doctor`: what may keep PRSM from working here, and how to mend it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from prsm_core.cli.callers import agents_may
from prsm_core.cli.options import json_option, workspace_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core.cli.checkup.finding import Finding
    from prsm_core.cli.launch import Launch


NARROWEST = 20  # columns of text; in less it is left to the terminal to break lines


@click.command(short_help="Check what PRSM needs, and say how to mend it.")
@workspace_option
@json_option
@click.pass_obj
@agents_may
def doctor(launch: Launch, workspace: str, as_json: bool) -> int:
    """Check what PRSM needs to work in a folder, and say how to mend what is wrong.

    Nothing is changed, and PRSM itself uses no network; the programs of vendors may, to list their
    models. Exits with 1 if something is broken.
    """
    import os
    from dataclasses import asdict, replace

    from prsm_core.cli.checkup.examination import examine
    from prsm_core.cli.logs import configure_logging
    from prsm_core.cli.saying import stdout_width
    from prsm_core.config.secrets import environment_secrets
    from prsm_core.permissions import Redactor

    configure_logging(debug=launch.debug)
    # A vendor's program may quote the address of its proxy, password and all.
    redact = Redactor(environment_secrets(os.environ)).text
    findings = [
        replace(found, message=redact(found.message), cure=found.cure and redact(found.cure))
        for found in examine(workspace, load_plugins=launch.load_plugins)
    ]
    if as_json:
        click.echo(json.dumps(list(map(asdict, findings)), indent=2))
    else:
        # Its encoding may be what is wrong.
        encoding = sys.stdout.encoding or "utf-8"
        text = _lines(findings, stdout_width())
        click.echo(text.encode(encoding, "backslashreplace").decode(encoding))
    return 1 if any(finding.status == "broken" for finding in findings) else 0


def _lines(findings: Sequence[Finding], columns: int | None) -> str:
    from prsm_core.kit.text import escape_exact

    width = max(len(finding.check) for finding in findings)
    lines = []
    for finding in findings:
        head = f"{finding.status:<7}  {finding.check:<{width}}  "
        lines += _wrapped(head, escape_exact(finding.message), columns)
        if finding.cure is not None:
            lines += _wrapped(" " * len(head), f"cure: {escape_exact(finding.cure)}", columns)
    return "\n".join(lines)


def _wrapped(head: str, text: str, columns: int | None) -> list[str]:
    """Return the lines of a text beside its head; paths stay whole, so that they can be copied."""
    if columns is None or columns < len(head) + NARROWEST:
        return [head + text]
    import textwrap

    return textwrap.wrap(
        text,
        columns,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )
