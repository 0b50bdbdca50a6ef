"""Images that models are shown."""

from __future__ import annotations

from prsm_core.domain.record import Record


class Image(Record, frozen=True, gc=False, kw_only=True):
    """An image that a text of a turn cites by its `mark`; `path` is a file that is never changed.

    `media_type` is image/png, image/jpeg, image/gif or image/webp.
    """

    mark: str
    name: str
    media_type: str
    path: str
