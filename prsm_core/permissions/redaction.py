"""Takes secrets out of text: the values that are known, and whatever looks like a key."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MARK = "[redacted]"
MIN_SECRET = 8  # characters; a shorter value would take ordinary words with it
_SHORT = 64  # characters of a text worth remembering: an id, a name, a state
_REMEMBERED = 4096  # texts
_TEXTLESS = frozenset({type(None), bool, int, float})

_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-[A-Za-z0-9_-]{16,}"
    r"|gh[pousr]_[A-Za-z0-9]{16,}"
    r"|github_pat_[A-Za-z0-9_]{16,}"
    r"|glpat-[A-Za-z0-9_-]{16,}"
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}"
    r"|AIza[0-9A-Za-z_-]{30,}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,}"
    r"|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+"
    r")"
)
_BEARER = re.compile(r"(?i:(?<=bearer)|(?<=bearer:))([ \t]+)[A-Za-z0-9._~+/=-]{16,}")
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[A-Za-z0-9+/=\s\\]*(?:-----END [A-Z ]*PRIVATE KEY-----)?"
)


class Redactor:
    """Replaces known secret values, also encoded ones, and common shapes of keys."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets if len(secret) >= MIN_SECRET for form in _forms(secret)}
        # Longer ones first: a secret may hold another.
        self._secrets = sorted(forms, key=lambda form: (-len(form), form))
        self._clean: set[str] = set()  # short texts that hold none; the same ones come by often

    def text(self, text: str) -> str:
        """Return the text without secrets."""
        if len(text) < MIN_SECRET or text in self._clean:
            return text
        redacted = self._redacted(text)
        if len(text) <= _SHORT and redacted == text:
            if len(self._clean) >= _REMEMBERED:
                self._clean.clear()
            self._clean.add(text)
        return redacted

    def _redacted(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, MARK)
        if _may_hold_key(text):
            text = _SHAPES.sub(MARK, text)
        if "PRIVATE KEY-----" in text:
            text = _PRIVATE_KEY.sub(MARK, text)
        if "bearer" in text.lower():
            text = _BEARER.sub(rf"\1{MARK}", text)
        return text

    def value(self, value: Any) -> Any:
        """Return JSON values with every text in them redacted, keys included."""
        if type(value) in _TEXTLESS:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.value(key): self.value(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            items = [self.value(item) for item in value]
            return items if isinstance(value, list) else tuple(items)
        return value


def _may_hold_key(text: str) -> bool:
    """Return whether any of _SHAPES can match: looking for their beginnings is far faster.

    Every text of every event comes by, hence no loop.
    """
    return (
        "sk-" in text
        or "gh" in text
        or "github_pat_" in text
        or "glpat-" in text
        or "AKIA" in text
        or "ASIA" in text
        or "AIza" in text
        or "xox" in text
        or "eyJ" in text
    )


def _forms(secret: str) -> Iterator[str]:
    """Yield a secret as it is and as it looks in URLs, JSON and base64."""
    data = secret.encode("utf-8", "surrogatepass")
    yield secret
    yield secret.replace("\\", "\\\\").replace('"', '\\"')
    yield quote(data, safe="")
    yield quote_plus(data)
    yield base64.b64encode(data).decode().rstrip("=")
    yield base64.urlsafe_b64encode(data).decode().rstrip("=")
