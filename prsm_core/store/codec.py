"""JSON as the ledger writes it, and the hash that identifies equal tool calls."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, frozenset | set):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} is not a JSON value")


# Built once: json.dumps with arguments makes a new encoder for every call.
encode = json.JSONEncoder(
    separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_plain
).encode
encode_canonical = json.JSONEncoder(
    separators=(",", ":"), ensure_ascii=False, allow_nan=False, sort_keys=True, default=_plain
).encode
decode = json.loads


@lru_cache(maxsize=256)
def encode_names(names: tuple[str, ...] | frozenset[str]) -> str:
    """Return names as JSON; most turns of a run come with the same few lists of them."""
    return encode(names)


def encode_optional(value: object | None) -> str | None:
    """Return `value` as JSON, or None for None (SQL NULL)."""
    return None if value is None else encode(value)


def arguments_hash(params: Mapping[str, Any]) -> str:
    """Return the SHA-256 (hex) of the arguments as canonical JSON: sorted keys, no spaces."""
    return hash_text(encode_canonical(params))


def hash_text(canonical: str) -> str:
    """Return the SHA-256 (hex) of JSON that is canonical already."""
    return hashlib.sha256(canonical.encode()).hexdigest()
