"""What this distribution contributes: tools, a check, a sink of measurements, and programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from prsm_core import (
    AgentRole,
    EventSinkSpec,
    PermissionCheckSpec,
    ProviderSpec,
    ToolContribution,
    hookimpl,
)
from prsm_protocols.places import MEASUREMENTS

if TYPE_CHECKING:
    from collections.abc import Iterator

_STATE = "a state of your protocol; leave it out to be told where you are and what is open"
_SECONDS = "how long to wait for one; null: as long as one may come"
_Anything = Annotated[Any, Meta(description="anything worth keeping, as JSON")]
_Text = Annotated[str, Meta(min_length=1)]
_Limit = Annotated[float, Meta(ge=0)] | None


class _Transition(Struct, forbid_unknown_fields=True):
    to: Annotated[str, Meta(description=_STATE)] | UnsetType = UNSET
    context: _Anything | UnsetType = UNSET


class _Send(Struct, forbid_unknown_fields=True):
    to: _Text
    text: _Text


class _Next(Struct, forbid_unknown_fields=True):
    seconds: Annotated[_Limit, Meta(description=_SECONDS)] | UnsetType = UNSET


class _Measure(Struct, forbid_unknown_fields=True):
    name: _Text
    value: float | UnsetType = UNSET
    data: _Anything | UnsetType = UNSET


@hookimpl
def prsm_tools() -> Iterator[ToolContribution]:
    """Contribute the tools of agents under a protocol; no other agent has them."""
    yield _tool(
        "state_transition",
        "Moves you to another state of the protocol that you are held to, or says where you are. "
        "A state allows what its page says; the answer has the moves that are open.",
        _Transition,
    )
    yield _tool(
        "message_send",
        "Sends a message to another agent of the run, by its name; no answer is waited for.",
        _Send,
        sends_messages=True,
    )
    yield _tool(
        "message_next",
        "Takes the oldest message that another agent has sent you, or null.",
        _Next,
        programs=True,
        takes_messages=True,
        waits=True,
    )
    yield _tool("measure", "Notes a measurement of your work. Nobody acts on it.", _Measure)


def _tool(name: str, description: str, arguments: type[Struct], **fields: Any) -> ToolContribution:
    return ToolContribution(
        name=name,
        summary=description.partition(".")[0] + ".",
        description=description,
        arguments=arguments,
        roles=frozenset(role.value for role in AgentRole),
        handler=f"prsm_protocols.tools:{name}",
        when="prsm_protocols.labels:is_under_protocol",
        labels="protocols",
        **fields,
    )


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
        level="pre_tool",
        labels=frozenset({"protocol", "protocols/protocol"}),
        solo="prsm_protocols.enforcing:is_solo",
    )


@hookimpl
def prsm_event_sinks() -> Iterator[EventSinkSpec]:
    """Contribute the sink; it writes of agents under a protocol alone."""
    yield EventSinkSpec(
        name="measurements",
        summary="Writes what agents under a protocol do, as records by day and run.",
        factory="prsm_protocols.measurement:MeasurementSink",
        settings="prsm_protocols.measurement:MEASUREMENTS",
        unseen=MEASUREMENTS,
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
        settings="prsm_protocols.program.config:SETTINGS",
        selectable=False,  # it has no model of its own
        program=True,
        handed=("agents/*/home", "agents/*/run"),
    )
