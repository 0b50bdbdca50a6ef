"""The plugins and their records, as `prsm plugins` shows them."""

from __future__ import annotations

from typing import Any

import click

from prsm_core.cli.saying import print_table
from prsm_core.executors import ExecutorSpec
from prsm_core.interfaces.files import WorkspaceFilesSpec
from prsm_core.interfaces.frontend import FrontendSpec
from prsm_core.interfaces.permission import PermissionCheckSpec
from prsm_core.interfaces.provider import ProviderSpec
from prsm_core.interfaces.scorer import ModelScorerSpec
from prsm_core.interfaces.sink import EventSinkSpec
from prsm_core.interfaces.tool import ToolContribution
from prsm_core.plugins import PluginManager, PluginRecord, PluginState
from prsm_core.plugins.records import WORDS, Spec
from prsm_core.policies.port import CommandPolicySpec

_PLAIN = (str, int, float, bool, type(None))


def plugin_values(manager: PluginManager) -> list[dict[str, Any]]:
    """Return the plugins as `prsm plugins --json` prints them.

    `records` has what an active plugin contributes. Of one that is not active it has what it would
    contribute, as far as that is known: none of it is used.
    """
    return [
        {
            "name": record.name,
            "distribution": record.distribution,
            "version": record.version,
            "state": record.state.value,
            "hooks": list(record.hooks),
            "error": record.error,
            "records": [_record_values(spec) for spec in _sorted(manager, record)],
        }
        for record in manager.records
    ]


def _record_values(spec: Spec) -> dict[str, Any]:
    values: dict[str, Any] = {"kind": WORDS[type(spec)]}
    for name in spec.__struct_fields__:
        value = getattr(spec, name)
        if isinstance(value, frozenset | tuple):
            value = sorted(map(str, value))
        if isinstance(value, (*_PLAIN, list)):
            values[name] = value
    return values


def print_plugins(manager: PluginManager) -> None:
    """Print a table of the plugins, and below it one of their records."""
    headers = ("NAME", "DISTRIBUTION", "VERSION", "STATE", "HOOKS", "ERROR")
    rows = [
        (r.name, r.distribution, r.version, r.state, " ".join(r.hooks) or None, r.error)
        for r in manager.records
    ]
    print_table(headers, rows)
    below = [
        (WORDS[type(spec)], str(spec.name), _plugin(record), _details(spec), str(spec.summary))
        for record in manager.records
        for spec in _sorted(manager, record)
    ]
    if below:
        click.echo()
        print_table(("RECORD", "NAME", "PLUGIN", "DETAILS", "SUMMARY"), below)


def _sorted(manager: PluginManager, record: PluginRecord) -> list[Spec]:
    """Return the records of a plugin by kind; checks in the order in which they are asked."""

    def place(spec: Spec) -> tuple[str, float, str]:
        first = spec.priority if isinstance(spec, PermissionCheckSpec) else 0
        return WORDS[type(spec)], first, spec.name

    return sorted(manager.contributions(record), key=place)


def _plugin(record: PluginRecord) -> str:
    is_used = record.state is PluginState.ACTIVE
    return record.name if is_used else f"{record.name} ({record.state}: not used)"


def _details(spec: Spec) -> str | None:
    match spec:
        case PermissionCheckSpec():
            where = "in bypass too" if spec.in_bypass else "not in bypass"
            tools = ", PRSM's own tools too" if spec.orchestration else ""
            return f"priority {spec.priority}, {where}{tools}"
        case FrontendSpec():
            return f"priority {spec.priority}, {'' if spec.interactive else 'not '}interactive"
        case ModelScorerSpec():
            return f"weight {spec.weight}"
        case EventSinkSpec():
            return "all events" if spec.kinds is None else f"{len(spec.kinds)} types of events"
        case ToolContribution():
            sets = f", sets labels {spec.labels}/" if spec.labels else ""
            return f"for {', '.join(sorted(spec.roles))}{sets}"
        case WorkspaceFilesSpec() | CommandPolicySpec():
            return None
        case ProviderSpec():
            return None if spec.selectable else "by name only"
        case ExecutorSpec():
            return "by name only"
