"""What an engine is made of: everything is given, nothing is looked up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import field

from prsm_core.domain.record import Record
from prsm_core.engine.processes.executor import NO_EXECUTOR
from prsm_core.engine.workspace_files import WorkspaceFiles
from prsm_core.permissions import Redactor
from prsm_core.plugins.absent import PRESENT, Absent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from prsm_core.config import Settings
    from prsm_core.config.own_rules import OwnRules
    from prsm_core.config.paths import SkillPlaces
    from prsm_core.domain.ids import Ids
    from prsm_core.engine.processes.executor import ChosenExecutor
    from prsm_core.engine.processes.launcher import ProcessLauncher
    from prsm_core.engine.providers.owned import Made
    from prsm_core.engine.providers.retry import RetryPolicy
    from prsm_core.engine.requests.human import HumanPolicy
    from prsm_core.engine.tools.table import ToolTable
    from prsm_core.engine.turns.host import OpenEndpoint
    from prsm_core.engine.workspace_files import OpenFiles
    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.permission import PermissionCheckSpec
    from prsm_core.interfaces.provider import ProviderSpec
    from prsm_core.interfaces.scorer import ModelScorerSpec
    from prsm_core.interfaces.sink import EventSinkSpec
    from prsm_core.interfaces.store import Store
    from prsm_core.kit.clocks import Parting
    from prsm_core.permissions import PermissionBroker


class EngineConfig(Record, frozen=True, kw_only=True):
    """What an engine is made of; everything is given, nothing is looked up.

    With `external` the masters of its runs are driven by somebody else, through that provider;
    the provider and model of a run are then those of the master's children. What is
    `absent` of the providers, and why, is told to whoever names it.
    """

    settings: Settings
    workspace: str
    session_id: str
    store: Store
    launcher: ProcessLauncher
    providers: Mapping[str, ProviderSpec]
    broker: PermissionBroker
    tools: ToolTable
    human: HumanPolicy
    clock: Clock
    ids: Ids
    state_dir: Path
    redactor: Redactor = field(default_factory=lambda: Redactor(()))
    trusted: bool = False
    external: ProviderSpec | None = None
    scorers: Sequence[ModelScorerSpec] = ()
    checks: Sequence[PermissionCheckSpec] = ()  # those that the broker asks
    sinks: Sequence[EventSinkSpec] = ()
    sink_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    command_line: Mapping[str, Any] = field(default_factory=dict)  # kept with each run, as JSON
    told_at_start: Sequence[tuple[str, Mapping[str, Any]]] = ()  # events of each run: type, fields
    shell_env: Mapping[str, str] = field(default_factory=dict)
    open_endpoint: OpenEndpoint | None = None  # of the tool server, where there is one
    absent: Absent = PRESENT
    executor: ChosenExecutor = NO_EXECUTOR  # what shuts in commands and programs
    made: Made | None = None  # of `providers`, where that is done already
    retry: RetryPolicy | None = None  # pauses of another kind than the settings'
    own_rules: OwnRules | None = None  # where the rules of a person's answers go
    files: OpenFiles = WorkspaceFiles  # opens what keeps the files
    skills: SkillPlaces | None = None  # None: agents are told of none
    parting: Parting | None = None  # None: one of its own
