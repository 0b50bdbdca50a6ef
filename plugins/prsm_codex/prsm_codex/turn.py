"""One running turn of Codex, with its pending requests and decisions."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from prsm_codex import approvals
from prsm_core.kit import Turn, as_object

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prsm_codex.rpc import ServerRequest


class CodexTurn(Turn):
    """State of one turn. The session decides, this keeps."""

    def __init__(self) -> None:
        super().__init__()
        self._requests: dict[ServerRequest, asyncio.Task[object] | None] = {}
        self._hooked: set[asyncio.Task[object]] = set()  # decide about calls of the vendor
        self.id: str | None = None
        self.known = asyncio.Event()  # the id is known, or nobody needs it any more
        self.completing: str | None = None  # the accepted call that ends the turn
        self.is_counted = False  # the tokens of the response with that call were reported
        # The response with the newest calls is complete; only raw events show that.
        self.has_responded = asyncio.Event()

    def begin(self, turn_id: str) -> None:
        """Note the vendor's id."""
        self.id = turn_id
        self.known.set()

    def concerns(self, turn_id: object) -> bool:
        """Return whether something with this turn id belongs here.

        A turn is announced before anything else of it. Until then all is of the last turn.
        """
        return turn_id is None or turn_id == self.id

    def takes(self, turn_id: object) -> bool:
        """Return whether a request with this turn id is still to be worked on."""
        return self.concerns(turn_id) and not (self.over.is_set() or self.completing)

    def hear(self, method: str, params: Mapping[str, Any]) -> None:
        """Note whether the response with the newest call is complete, and counted."""
        if method == "thread/tokenUsage/updated":
            self.is_counted = True
        elif method == "rawResponse/completed":
            self.is_counted = bool(params.get("usage"))
            self.has_responded.set()
        elif method == "rawResponseItem/completed":
            kind = as_object(params.get("item")).get("type")
            if str(kind).endswith("_call"):
                self.is_counted = False
                self.has_responded.clear()

    def close(self) -> None:
        """End all work for a turn that nobody reads any more."""
        self.known.set()  # somebody may wait for the id of a turn that never began
        self.ended()

    def opened(self, request: ServerRequest) -> None:
        """Note a request that the current task works on."""
        self._requests[request] = asyncio.current_task()

    def closed(self, request: ServerRequest) -> None:
        """Forget a request."""
        self._requests.pop(request, None)

    @contextlib.contextmanager
    def deciding(self) -> Iterator[None]:
        """Cancel the block when the turn ends: the call it decides about does not run then."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a decision needs a task")
        self._hooked.add(task)
        try:
            yield
        finally:
            self._hooked.discard(task)

    async def refuse_others(self, request: ServerRequest, why: str) -> None:
        """Answer every pending request but one with a refusal."""
        self.cancel_decisions()
        for other in tuple(self._requests):
            refusal = approvals.refusal(other.method, why)
            if other is not request and refusal is not None:
                await other.answer(refusal)

    def cancel_decisions(self) -> None:
        """Let no call run that is still undecided."""
        for task in self._hooked:
            if task is not asyncio.current_task():
                task.cancel()
        self._hooked.clear()

    def ended(self) -> None:
        """End all work for a turn that is over: the vendor does not say so."""
        self.cancel_decisions()
        for task in self._requests.values():
            if task is not None and task is not asyncio.current_task():
                task.cancel()
        self._requests.clear()
