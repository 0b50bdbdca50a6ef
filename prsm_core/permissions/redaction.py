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
    # At the beginning of a word, also behind the \n or \u000a of a JSON text.
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4}))(?:"
    r"sk-[A-Za-z0-9_-]{16,}"
    r"|[srp]k_(?:live|test)_[A-Za-z0-9]{16,}"
    r"|npm_[A-Za-z0-9]{30,}"
    r"|hf_[A-Za-z0-9]{30,}"
    r"|pypi-[A-Za-z0-9_-]{40,}"
    r"|ya29\.[A-Za-z0-9_-]{20,}"
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
_IN_A_URL = re.compile(r"(?<=://)([^\s/:@\"'<>]{0,64}):[^\s/@\"'<>]{3,256}(?=@)")
_ASSIGNED = re.compile(
    r"""(?i:((?:api_?key|secret(?:_?access)?_?key|access_?token|auth_?token|client_?secret|password)
    ["']?[ \t]{0,4}[=:][ \t]{0,4}["']?))(?=[^\s"',;]*[0-9])[^\s"',;$<>{}()]{12,}""",
    re.VERBOSE,
)
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[A-Za-z0-9+/=\s\\]*(?:-----END [A-Z ]*PRIVATE KEY-----)?"
)

_SECRET_WORDS = ("key", "token", "secret", "password")
_LAST_WORD = re.compile(r"\S+\Z")
_OPEN_KEY = re.compile(  # one that has begun, as far as can be told, and has not ended
    r"-----BEGIN(?:[A-Z ]*-{0,4}\Z"
    r"|[A-Z ]*PRIVATE KEY-----(?!(?s:.*)-----END [A-Z ]*PRIVATE KEY-----\s))"
)
_CONTEXT = 64  # characters that tell what the text behind them is: "password = "
_LONGEST_WORD = 8 * 1024
_LONGEST_KEY = 64 * 1024


class Redactor:
    """Replaces known secret values, also encoded ones, and common shapes of keys."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets if len(secret) >= MIN_SECRET for form in _forms(secret)}
        # Longer ones first: a secret may hold another.
        self._secrets = sorted(forms, key=lambda form: (-len(form), form))
        # A text's last word may not be all of these.
        self._spaced = [form for form in self._secrets if any(map(str.isspace, form))]
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
        if "://" in text:
            text = _IN_A_URL.sub(rf"\1:{MARK}", text)
        lowered = text.lower()
        if "bearer" in lowered:
            text = _BEARER.sub(rf"\1{MARK}", text)
        if any(word in lowered for word in _SECRET_WORDS):
            text = _ASSIGNED.sub(rf"\1{MARK}", text)
        return text

    def stream(self) -> StreamRedactor:
        """Return a redactor for a text that comes in pieces."""
        return StreamRedactor(self)

    def unfinished(self, text: str) -> int:
        """Return where the part of `text` begins that more text may turn into a secret."""
        starts = [_LAST_WORD.search(text), _OPEN_KEY.search(text)]
        end = min((found.start() for found in starts if found), default=len(text))
        if self._spaced:
            end = min(end, max(len(text) - max(map(len, self._spaced)), 0))
            word = _LAST_WORD.search(text, 0, end)
            end = word.start() if word else end
        for secret in self._spaced:  # what is whole must not be cut in two
            at = text.find(secret, max(end - len(secret), 0), end + len(secret))
            end = at if 0 <= at < end else end
        return end

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


class StreamRedactor:
    """Redacts a text that comes in pieces, cut anywhere; secrets may lie across the cuts.

    A piece is held back as far as it may be the beginning of a secret, mostly its last word. A word
    longer than 8 KiB is not shown at all: what it hides cannot be told before it has ended.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""
        self._before = ""
        self._swallowing = False  # the rest of an overlong word

    def feed(self, text: str) -> str:
        """Return what can be shown now."""
        if self._swallowing:
            rest = _after_word(text)
            if not rest:
                return ""
            self._swallowing, text = False, rest
        self._held += text
        end = self._redactor.unfinished(self._held)
        too_long = _LONGEST_KEY if self._held.startswith("-----BEGIN", end) else _LONGEST_WORD
        if len(self._held) - end <= too_long:
            shown, self._held = self._held[:end], self._held[end:]
            return self._redacted(shown)
        shown, self._held = self._held[:end], ""
        self._swallowing = True
        return self._redacted(shown) + MARK

    def flush(self) -> str:
        """Return what is left: the text has ended."""
        shown, self._held, self._swallowing = self._held, "", False
        shown = self._redacted(shown)
        self._before = ""
        return shown

    def _redacted(self, text: str) -> str:
        clean = self._redactor.text(self._before + text)
        if clean.startswith(self._before):
            clean = clean[len(self._before) :]
        else:  # together they are a secret that was not known to go on
            clean = self._redactor.text(text)
        self._before = (self._before + clean)[-_CONTEXT:]
        return clean


def _after_word(text: str) -> str:
    found = re.search(r"\s", text)
    return text[found.start() :] if found else ""


def _may_hold_key(text: str) -> bool:
    """Return whether any of _SHAPES can match: looking for their beginnings is far faster.

    Every text of every event comes by, hence no loop.
    """
    return (
        "sk-" in text
        or "k_" in text
        or "npm_" in text
        or "hf_" in text
        or "pypi-" in text
        or "ya29." in text
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
