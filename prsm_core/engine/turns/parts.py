"""What turns are given: what all of them use, and whose they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from prsm_core.config import Settings
    from prsm_core.domain.ids import Ids
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.ports import Life, Steps
    from prsm_core.engine.requests.human import HumanRequests
    from prsm_core.engine.spending.budgets import BudgetLedger
    from prsm_core.engine.turns.call import CallParts, Toolbox
    from prsm_core.engine.turns.standing import Standing
    from prsm_core.engine.turns.stuck_watch import StuckWatch
    from prsm_core.engine.turns.watch import TurnWatch
    from prsm_core.interfaces.clock import Clock
    from prsm_core.kit.background import Background
    from prsm_core.permissions import PermissionBroker


class TurnParts(Record, frozen=True, kw_only=True):
    """What the turns of all agents use."""

    calls: CallParts
    settings: Settings
    workspace: str
    clock: Clock
    ids: Ids
    background: Background
    journal: Journal
    steps: Steps
    broker: PermissionBroker
    standing: Standing
    requests: HumanRequests
    budgets: BudgetLedger
    watch: TurnWatch
    window: Callable[[str, str], int | None]  # of a model, in tokens, by provider and name


class TurnSubject(Record, frozen=True, kw_only=True):
    """Whose turns they are.

    Attributes:
        life: The life that the turns belong to.
        tools: What its model may call.
        stuck: Sees whether the agent goes round in circles.
        is_external: Somebody outside the engine drives it: no clock of reasoning or silence runs.
        give_up: Fails the agent, whose provider does not end a turn.
    """

    life: Life
    tools: Toolbox
    stuck: StuckWatch
    is_external: bool
    give_up: Callable[[], Coroutine[Any, Any, None]]
