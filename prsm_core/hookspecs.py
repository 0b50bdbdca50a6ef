"""The contract with plugins: hooks, each asked once at start-up.

A plugin is a module named by an entry point of group `prsm`. It implements any of these
functions, marked with `hookimpl`, and returns frozen records; building a record imports nothing
heavy (a factory may be an import string "package.module:attribute").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prsm_core.executors import ExecutorSpec
    from prsm_core.interfaces.files import WorkspaceFilesSpec
    from prsm_core.interfaces.frontend import FrontendSpec
    from prsm_core.interfaces.permission import PermissionCheckSpec
    from prsm_core.interfaces.provider import ProviderSpec
    from prsm_core.interfaces.scorer import ModelScorerSpec
    from prsm_core.interfaces.sink import EventSinkSpec
    from prsm_core.interfaces.tool import ToolContribution
    from prsm_core.policies.port import CommandPolicySpec

hookspec = pluggy.HookspecMarker("prsm")
hookimpl = pluggy.HookimplMarker("prsm")
"""Marks a function of a plugin as the hook of its name."""


@hookspec
def prsm_providers() -> Iterable[ProviderSpec]:  # type: ignore[empty-body]
    """Contribute providers: adapters that run one vendor's coding agent.

    The configuration decides later which is used. A name may be registered once; a second
    registration is an error that names both distributions.

    Example::

        from prsm_core import ProviderSpec, hookimpl

        @hookimpl
        def prsm_providers():
            yield ProviderSpec(
                name="echo",
                summary="Repeats the prompt.",
                factory="my_package.provider:build",
            )

    Returns:
        Records; `factory(settings, services)` returns a `Provider`.
    """


@hookspec
def prsm_permission_checks() -> Iterable[PermissionCheckSpec]:  # type: ignore[empty-body]
    """Contribute permission checks, asked after the broker's first four rules.

    A check runs per decision, in order of `priority`, with a timeout. The strongest verdict of the
    broker and all checks wins. With `orchestration=True` it also decides about calls of PRSM's own
    tools, such as `spawn_child`.

    Example::

        from prsm_core import Deny, PermissionCheckSpec, hookimpl

        async def no_force_push(request, context):
            if request.command and "push --force" in request.command:
                return Deny("force pushes are not allowed here")
            return None

        @hookimpl
        def prsm_permission_checks():
            yield PermissionCheckSpec(
                name="no-force-push", summary="Denies force pushes.", priority=50,
                check=no_force_push, in_bypass=True,
            )

    Returns:
        Records; `await check(request, context)` returns a verdict or None for no opinion. With
        `settings` in the record it is `check(request, context, settings)`.
    """


@hookspec
def prsm_command_policies() -> Iterable[CommandPolicySpec]:  # type: ignore[empty-body]
    """Contribute command policies: each reads shell commands and says what becomes of them.

    `permissions.command_policy` of the configuration names the one that decides; without it every
    command is asked about. The broker asks it what deny rules say, then what is safe.

    Example::

        from prsm_core import hookimpl
        from prsm_core.policies import CommandPolicySpec

        @hookimpl
        def prsm_command_policies():
            yield CommandPolicySpec(
                name="strict", summary="Allows what a list names, and asks about the rest.",
                factory="my_package.policy:build",
            )

    Returns:
        Records; `factory(rules)` returns a `CommandPolicy`. It is called with the first command.
    """


@hookspec
def prsm_model_scorers() -> Iterable[ModelScorerSpec]:  # type: ignore[empty-body]
    """Contribute model scorers; the choice of a model is their weighted mean.

    Example::

        from prsm_core import ModelScorerSpec, hookimpl

        @hookimpl
        def prsm_model_scorers():
            yield ModelScorerSpec(
                name="cheap", summary="Prefers cheap models.", weight=1.0,
                score=lambda model, task: 1.0 / (1.0 + model.cost_factor),
            )

    Returns:
        Records; `score(capability, profile)` returns 0..1 or None for no opinion. With `settings`
        in the record it is `score(capability, profile, settings)`.
    """


@hookspec
def prsm_event_sinks() -> Iterable[EventSinkSpec]:  # type: ignore[empty-body]
    """Contribute event sinks: readers of the committed events of a run.

    Each sink has a bounded queue and a task of its own, so that a slow or raising sink never
    touches the engine. What it loses is counted in `sink_dropped`.

    Example::

        from prsm_core import EventSinkSpec, hookimpl

        @hookimpl
        def prsm_event_sinks():
            yield EventSinkSpec(
                name="audit", summary="Writes denials to a file.",
                factory="my_package.audit:AuditSink",
                kinds=frozenset({"check_denied", "permission_resolved"}),
            )

    Returns:
        Records; `factory(run, settings)` returns an `EventSink`: a mapping, or with `settings` in
        the record an instance of that model.
    """


@hookspec
def prsm_frontends() -> Iterable[FrontendSpec]:  # type: ignore[empty-body]
    """Contribute frontends: user interfaces that drive an engine through an `AppHandle`.

    Example::

        from prsm_core import FrontendSpec, hookimpl

        @hookimpl
        def prsm_frontends():
            yield FrontendSpec(
                name="plain", summary="Prints the summary.", interactive=False, priority=0,
                factory="my_package.plain:PlainFrontend",
            )

    Returns:
        Records; `factory(options)` returns a `Frontend`; options are a mapping. With `settings`
        in the record it is `factory(options, settings)`.
    """


@hookspec
def prsm_tools() -> Iterable[ToolContribution]:  # type: ignore[empty-body]
    """Contribute tools that agents may call beside PRSM's own.

    A name may be registered once, and none of PRSM's own: an error names both distributions. Only
    agents whose labels ask for a tool have it. What a handler does by its `ToolCall` is written
    with the answer, in one step. Checks with `orchestration=True` decide about its calls too.

    Example::

        from msgspec import Struct

        from prsm_core import ToolContribution, hookimpl

        class LookUp(Struct):
            word: str

        async def look_up(call):
            return {"meaning": GLOSSARY.get(call.args["word"])}

        @hookimpl
        def prsm_tools():
            yield ToolContribution(
                name="look_up", summary="Looks a word up.", handler=look_up,
                when=lambda labels: "glossary" in labels,
                reads_labels=frozenset({"glossary"}),
                description="What a word means here.", arguments=LookUp,
                roles=frozenset({"master", "worker"}),
            )

    Returns:
        Records; `await handler(call)` returns a mapping of JSON values. With `settings` in the
        record it is `handler(call, settings)`.
    """


@hookspec
def prsm_workspace_files() -> Iterable[WorkspaceFilesSpec]:  # type: ignore[empty-body]
    """Contribute what keeps the files that agents work on.

    An engine opens one, which `workspace.files` names unless it is the only one. Without any, runs
    work without snapshots, changes and worktrees, and no gate can pass.

    Example::

        from prsm_core import hookimpl
        from prsm_core.files import WorkspaceFilesSpec

        @hookimpl
        def prsm_workspace_files():
            yield WorkspaceFilesSpec(
                name="copies", summary="Copies the folder before each prompt.",
                factory="my_package.copies:keep_files",
            )

    Returns:
        Records; `factory(paths)` returns an `OpenFiles`, which opens the `WorkspaceFiles` of an
        engine by its `FilesContext`.
    """


@hookspec
def prsm_executors() -> Iterable[ExecutorSpec]:  # type: ignore[empty-body]
    """Contribute executors, which shut in what agents run: shell commands, gates, programs.

    `sandbox.executor` of the configuration names the one that is used.

    Example::

        from prsm_core import hookimpl
        from prsm_core.executors import ExecutorSpec

        @hookimpl
        def prsm_executors():
            yield ExecutorSpec(
                name="firejail", summary="Shuts commands in by firejail.",
                factory="my_package.jail:Firejail",
            )

    Returns:
        Records; `factory()` returns an `Executor`.
    """
