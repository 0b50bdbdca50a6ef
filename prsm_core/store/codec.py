"""JSON as the ledger writes it, and the hash that identifies equal tool calls."""

from __future__ import annotations

import json
import json.encoder
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, frozenset | set):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _encoder(*, sort_keys: bool = False) -> Callable[[object], str]:
    """Return an encoder that is made once instead of for every text: most values are small.

    It is json's encoder in C without its watch over circles. A value too deep for it may be a
    circle: `json` says which. Without the C encoder `json` does it all.
    """
    whole = json.JSONEncoder(
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
        sort_keys=sort_keys,
        default=_plain,
    ).encode
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return whole
    # watch, default, texts, indent, separators, then: sort keys, skip keys, allow NaN
    quote = json.encoder.encode_basestring
    pieces = make(None, _plain, quote, None, ":", ",", sort_keys, False, False)

    def encode(value: object) -> str:
        try:
            return "".join(pieces(value, 0))
        except RecursionError:
            return whole(value)

    return encode


encode = _encoder()
encode_canonical = _encoder(sort_keys=True)
decode = json.loads


@lru_cache(maxsize=256)
def encode_names(names: tuple[str, ...] | frozenset[str]) -> str:
    """Return names as JSON; most turns of a run come with the same few lists of them."""
    return encode(names)


def arguments_hash(params: Mapping[str, Any]) -> str:
    """Return the SHA-256 (hex) of the arguments as canonical JSON: sorted keys, no spaces."""
    return sha256(encode_canonical(params).encode()).hexdigest()
