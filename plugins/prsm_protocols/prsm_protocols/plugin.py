"""What this distribution contributes: a check, and a sink of measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core import EventSinkSpec, PermissionCheckSpec, hookimpl

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
