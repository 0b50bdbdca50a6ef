"""What this distribution contributes: a check, a sink of measurements, and programs as agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core import EventSinkSpec, PermissionCheckSpec, ProviderSpec, hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterator


@hookimpl
def prsm_permission_checks() -> Iterator[PermissionCheckSpec]:
    """Contribute the check; it has no opinion on agents without a protocol."""
    yield PermissionCheckSpec(
        name="protocol-states",
        summary="Denies what the state of an agent's protocol does not list.",
        priority=400,
        check="prsm_protocols.enforcing:check",
        in_bypass=True,
        orchestration=True,
    )


@hookimpl
def prsm_event_sinks() -> Iterator[EventSinkSpec]:
    """Contribute the sink; it writes of agents under a protocol alone."""
    yield EventSinkSpec(
        name="measurements",
        summary="Writes what agents under a protocol do, as records by day and run.",
        factory="prsm_protocols.measurement:MeasurementSink",
        settings="prsm_protocols.section:MEASUREMENTS",
        kinds=frozenset(
            {
                *("agent_spawned", "agent_labels_changed", "agent_state_changed", "turn_finished"),
                *("tool_call_started", "tool_call_finished", "check_denied", "message_routed"),
            }
        ),
    )


@hookimpl
def prsm_providers() -> Iterator[ProviderSpec]:
    """Contribute the provider `program`; its code is imported when it is used."""
    yield ProviderSpec(
        name="program",
        summary="Any program as an agent: prompted on stdin, it acts by the command aism.",
        good_for="work that a script or another agent's CLI does, by a protocol",
        factory="prsm_protocols.program.provider:build",
        settings="prsm_protocols.program.section:SETTINGS",
        selectable=False,  # it has no model of its own
        program=True,
    )
