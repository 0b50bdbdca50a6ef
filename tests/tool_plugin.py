"""A plugin with a tool that moves its agent, and a check that holds it to where it is."""

from __future__ import annotations

from msgspec import Struct

from prsm_core import Deny, PermissionCheckSpec, ToolContribution, ToolInputError, hookimpl

ROLES = frozenset({"master", "worker", "expert", "reviewer"})


class Move(Struct):
    """What `move` takes."""

    to: str


class Settings(Struct):
    """What `tools.move` may hold."""

    states: tuple[str, ...] = ("work",)


async def move(call, settings):
    if call.args["to"] not in settings.states:
        raise ToolInputError("no such state", hint=f"states: {', '.join(settings.states)}")
    return {"labels": dict(call.relabel({"own/state": call.args["to"]}))}


async def check(request, context):
    is_held = "steps" in context.labels and context.labels.get("own/state") != "work"
    return Deny("move to work first") if is_held and request.tool == "get_budget" else None


@hookimpl
def prsm_tools():
    yield ToolContribution(
        name="move",
        summary="Moves.",
        description="Move.",
        arguments=Move,
        roles=ROLES,
        handler="tests.tool_plugin:move",
        when="tests.tool_plugin_late:wants",
        settings="tests.tool_plugin:Settings",
        labels="own",
    )


@hookimpl
def prsm_permission_checks():
    yield PermissionCheckSpec(
        name="held", summary="Holds.", priority=1, check=check, orchestration=True, in_bypass=True
    )
