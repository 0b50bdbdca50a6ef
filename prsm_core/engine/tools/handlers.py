"""The handlers of all tools, by the tool's name; each group sees the call and its own ports."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.engine.tools.advice import Advice
    from prsm_core.engine.tools.budget import Spending
    from prsm_core.engine.tools.communication import Communication
    from prsm_core.engine.tools.family import Family
    from prsm_core.engine.tools.observation import Observation
    from prsm_core.engine.tools.progress import Progress
    from prsm_core.engine.tools.recommendation import Recommendation
    from prsm_core.engine.tools.shell import Shell
    from prsm_core.engine.turns.call import Handler


def handlers_of(
    *,
    communication: Communication,
    family: Family,
    advice: Advice,
    progress: Progress,
    recommendation: Recommendation,
    observation: Observation,
    shell: Shell,
    spending: Spending,
) -> Mapping[str, Handler]:
    """Return the handlers of these groups."""
    handlers: tuple[Handler, ...] = (
        communication.ask_parent,
        communication.respond_to_child,
        communication.wait_for_message,
        communication.send_child_prompt,
        family.spawn_child,
        family.spawn_children_parallel,
        family.restart_child,
        advice.consult_expert,
        advice.consult_peer,
        progress.report_progress,
        progress.task_complete,
        progress.ask_user,
        recommendation.recommend_model,
        observation.get_child_history,
        observation.check_child_status,
        observation.get_children_status,
        shell.run_bash,
        spending.get_budget,
    )
    return {handler.__name__: handler for handler in handlers}
