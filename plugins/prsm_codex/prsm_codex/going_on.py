"""How a thread goes on with a turn that was cut off: what is put into it, what it holds; pure.

A call that has its answer gets it as its output, at its place: the model does not learn that
anything happened. One that nobody saw is told to have had no effect; what Codex runs itself may
have run. So each call of the thread has exactly one output before the model is asked again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from prsm_codex.rollout import PendingCall, Rollout
    from prsm_core import Carried

_NO_EFFECT = "This call was lost and had no effect. Make it again."
_MAY_HAVE_RUN = "This call was cut off: it may have run. Look first, before you make it again."


def outputs(
    carried: Carried,
    held: Rollout,
    is_orchestration: Callable[[str], bool],
    images: Mapping[str, Sequence[str]],
) -> list[dict[str, Any]]:
    """Return an output for each call of the thread that has none.

    `images` are the URLs of those that answers show, by call.
    """
    given = {call.call_id: call.outcome for call in carried.calls}

    def text(call: PendingCall) -> str:
        outcome = given.get(call.call_id)
        if outcome is not None:
            return outcome.text
        return _NO_EFFECT if is_orchestration(call.tool) else _MAY_HAVE_RUN

    def output(call: PendingCall) -> str | list[dict[str, str]]:
        shown = [{"type": "input_image", "image_url": url} for url in images.get(call.call_id, ())]
        return [{"type": "input_text", "text": text(call)}, *shown] if shown else text(call)

    return [
        {"type": call.output, "call_id": call.call_id, "output": output(call)}
        for call in held.pending.values()
    ]


def taken(carried: Carried, held: Rollout, given: list[dict[str, Any]]) -> frozenset[str]:
    """Return what of the carried the thread holds, now that these outputs were given.

    A text that was put into the running turn had no id: it is known by its words. Of Codex's own
    calls some have no output there: what was heard of those is lost only where a call waits for it.
    """
    calls = held.answered | {str(item["call_id"]) for item in given}
    calls |= {
        call.call_id
        for call in carried.calls
        if call.heard and not call.orchestration and call.call_id not in held.pending
    }
    prompts = {
        name
        for name, text in carried.prompts.items()
        if name in held.prompt_ids
        or text in (held.all_prompts if name in carried.heard else held.prompts)
    }
    return frozenset(prompts | {c.call_id for c in carried.calls if c.call_id in calls})


def last_word(carried: Carried, held: Rollout) -> str | None:
    """Return what the model said in the end, which nobody has heard; blank if it was heard.

    None: it has not come to its end. What it answers was heard once it was.
    """
    if held.said is None or held.pending:
        return None
    is_new = carried.prompts.keys() - carried.heard or not all(c.heard for c in carried.calls)
    return held.said if is_new else ""
