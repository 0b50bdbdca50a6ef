"""Takes secrets out of text: the values that are known, and whatever looks like a key."""

from __future__ import annotations

import base64
import re
from string import hexdigits
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus

from prsm_core.permissions.secret_shapes import MARK, may_hold_shape, without_named, without_shapes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_BETWEEN_TEXTS = "\n\0\n"  # nothing that a secret can be made of goes on across it
MIN_SECRET = 8  # characters; a shorter value would take ordinary words with it
_REMEMBERED = 512 * 1024  # bytes of clean texts, about
_EACH = 100  # bytes of a text beside its characters
_SHORT = 64  # characters of a text by itself that is worth that: an id, a name, a state
_LARGEST = _REMEMBERED // 4  # bytes of what comes at once and is remembered
_BY_LINE = 256  # characters of texts whose lines are worth to be told apart
_LINE = 32  # characters of a line that is worth to be remembered
_TEXTLESS = frozenset({type(None), bool, int, float})

_LAST_WORD = re.compile(r"\S+\Z")
_OPEN_KEY = re.compile(  # one that has begun, as far as can be told, and has not ended
    r"-----BEGIN(?:[A-Z ]*-{0,4}\Z"
    r"|[A-Z ]*PRIVATE KEY-----(?!(?s:.*)-----END [A-Z ]*PRIVATE KEY-----\s))"
)
_BETWEEN = r"[\s:,-]{0,3}(?:0x|\\x|%)?"  # two digits of a number of bytes
_HEX_RUN = re.compile(rf"[0-9A-Fa-f](?:{_BETWEEN}[0-9A-Fa-f]){{{2 * MIN_SECRET - 1},}}")
_NO_DIGIT = re.compile(r"0x|[^0-9a-f]")
_NO_DIGITS = bytes(set(range(128)) - set(b"0123456789abcdef"))
_IN_HEX = frozenset("0123456789abcdefABCDEFx\\%:,- \t\r\n\v\f")
_LONGEST_IN_HEX = 256  # characters of a secret that is looked for so
_PER_DIGIT = 6  # characters at most
_CONTEXT = 64  # characters that tell what the text behind them is: "password = "
_LONGEST_WORD = 8 * 1024
_LONGEST_KEY = 64 * 1024


class Redactor:
    """Replaces known secret values, also encoded ones, and common shapes of keys."""

    def __init__(self, secrets: Iterable[str]) -> None:
        known = {secret for secret in secrets if len(secret) >= MIN_SECRET}
        forms = {form for secret in known for form in _forms(secret)}
        # Longer ones first: a secret may hold another.
        self._secrets = sorted(forms, key=lambda form: (-len(form), form))
        # A text's last word may not be all of these.
        self._spaced = [form for form in self._secrets if any(map(str.isspace, form))]
        self._hex = _Hex(secret for secret in known if len(secret) <= _LONGEST_IN_HEX)
        # Texts that hold none, a blank one among them; most come by again, in the same turn.
        self.clean: set[str] = {""}
        self._plain: set[str] = set()  # lines that are part of none that has a shape
        self._size = 0  # bytes of those

    def text(self, text: str) -> str:
        """Return the text without secrets."""
        if len(text) < MIN_SECRET or text in self.clean:
            return text
        redacted = self._redacted(text)
        is_worth = len(text) <= _SHORT and redacted == text  # not each piece of a stream
        if is_worth and self._has_room(len(text) + _EACH):
            self.clean.add(text)
        return redacted

    def _has_room(self, size: int) -> bool:
        """Return whether so many bytes more are to be remembered; for them all else may go."""
        if size > _LARGEST:
            return False
        self._size += size
        if self._size > _REMEMBERED:
            self.clean.clear()
            self.clean.add("")
            self._plain.clear()
            self._size = size
        return True

    def _redacted(self, text: str) -> str:
        if self._secrets:
            text = self._without_known(text)
        return without_named(without_shapes(text)) if may_hold_shape(text) else text

    def _without_known(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, MARK)
        return self._hex.redacted(text)

    def finds(self, texts: Sequence[str]) -> bool:
        """Return whether any text may hold a secret: never wrong about "no".

        They are looked at as one, which is far faster; texts of `clean` need not be among them. Of
        a long text only new lines are looked at: the prompts of agents differ in few.
        """
        whole = _BETWEEN_TEXTS.join(texts)
        length = len(whole)
        if length > _BY_LINE:
            return self._finds_by_line(texts, whole)
        if length >= MIN_SECRET and (
            (may_hold_shape(whole) and without_named(without_shapes(whole)) != whole)
            or (self._secrets and self._holds_known(texts))
        ):
            return True
        if self._has_room(length + _EACH * len(texts)):
            self.clean.update(texts)
        return False

    def _holds_known(self, texts: Sequence[str]) -> bool:
        whole = _BETWEEN_TEXTS.join([text for text in texts if len(text) >= MIN_SECRET])
        may_hold = self._hex.may_be_in(whole) or any(map(whole.__contains__, self._secrets))
        return may_hold and self._without_known(whole) != whole

    def _finds_by_line(self, texts: Sequence[str], whole: str) -> bool:
        rest, plain = self._not_plain(texts)
        if may_hold_shape("\n".join(rest)):
            plain = []  # what is clean here may be part of a secret elsewhere
            if without_named(without_shapes(whole)) != whole:
                return True
        if self._secrets and self._holds_known(texts):
            return True
        if self._has_room(len(whole) + _EACH * len(texts)):
            self.clean.update(texts)
        if plain and self._has_room(sum(map(len, plain)) + _EACH * len(plain)):
            self._plain.update(plain)
        return False

    def _not_plain(self, texts: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return what is not known to be plain, and what to remember if it is.

        Long texts differ most at their beginning, as by a name: if nothing else was new, all behind
        the first line is remembered as one.
        """
        rest, plain = [], []
        for text in texts:
            if len(text) <= _BY_LINE:
                rest.append(text)
                continue
            head, _, tail = text.partition("\n")
            rest.append(head)
            if tail not in self._plain:
                lines = set(tail.split("\n")).difference(self._plain)
                rest += lines
                plain += [line for line in lines if len(line) >= _LINE] or [tail]
            if len(head) >= _LINE:
                plain.append(head)
        return rest, plain

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
        end = self._hex.unfinished(text, end)
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
            clean = self.clean
            return {
                (key if key in clean else self.value(key)): (
                    item if type(item) is str and item in clean else self.value(item)
                )
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            items = [self.value(item) for item in value]
            return items if isinstance(value, list) else tuple(items)
        return value


class _Hex:
    """Finds secrets that are written as the numbers of their bytes: 736b, 73:6B, 0x73 0x6b."""

    def __init__(self, secrets: Iterable[str]) -> None:
        data = {secret.encode("utf-8", "surrogatepass").hex() for secret in secrets}
        self._digits = sorted(data, key=lambda digits: (-len(digits), digits))
        self._data = [digits.encode() for digits in self._digits]
        self._shapes: dict[str, re.Pattern[str]] = {}
        self._longest = max(map(len, self._digits), default=0) * _PER_DIGIT

    def may_be_in(self, text: str) -> bool:
        """Return whether one may be in a text: never wrong about "no".

        Anything may stand between two digits, so all of it is left out, but 0x: its 0 may be a
        digit.
        """
        lowered = text.lower()
        if "0x" in lowered:
            return True
        told = lowered.encode("ascii", "ignore").translate(None, _NO_DIGITS)
        return any(map(told.__contains__, self._data))

    def redacted(self, text: str) -> str:
        if not self._digits:
            return text
        return _HEX_RUN.sub(self._cleaned, text)

    def unfinished(self, text: str, end: int) -> int:
        """Return where the part of `text` begins that more text may turn into such a secret."""
        if not self._digits:
            return end
        end = min(end, self._begun(text))
        for run in _HEX_RUN.finditer(text, max(end - self._longest, 0)):  # not to be cut in two
            if run.start() < end < run.end():
                end = min(self._begin(run, end), end)
        return end

    def _begun(self, text: str) -> int:
        """Return where the digits at the end of a text begin that may be the first of a secret."""
        limit, start = max(len(text) - self._longest, 0), len(text)
        while start > limit and text[start - 1] in _IN_HEX:
            start -= 1
        for begin in range(start, len(text)):
            if text[begin] in hexdigits:
                digits = _NO_DIGIT.sub("", text[begin:].lower())
                if self._begins(digits) or (digits[-1:] == "0" and self._begins(digits[:-1])):
                    return begin  # a 0 may be that of 0x
        return len(text)

    def _begins(self, digits: str) -> bool:
        return bool(digits) and any(secret.startswith(digits) for secret in self._digits)

    def _cleaned(self, run: re.Match[str]) -> str:
        told = run[0]
        for digits in self._held(told):
            told = self._shape(digits).sub(MARK, told)
        return told

    def _begin(self, run: re.Match[str], end: int) -> int:
        """Return where a secret of a run begins that goes on behind `end`, else `end`."""
        for digits in self._held(run[0]):
            for found in self._shape(digits).finditer(run[0]):
                if run.start() + found.start() < end < run.start() + found.end():
                    end = run.start() + found.start()
        return end

    def _held(self, run: str) -> list[str]:
        told = _NO_DIGIT.sub("", run.lower())
        return [digits for digits in self._digits if digits in told]

    def _shape(self, digits: str) -> re.Pattern[str]:
        """Return the pattern of a secret; made when it is first seen, for most never are."""
        if digits not in self._shapes:
            self._shapes[digits] = re.compile(_BETWEEN.join(digits), re.IGNORECASE)
        return self._shapes[digits]


class StreamRedactor:
    """Redacts a text that comes in pieces, with secrets across the cuts.

    A piece is held back as far as it may begin a secret, mostly its last word. A word longer than 8
    KiB is not shown at all.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""
        self._before = ""
        self._swallowing = False  # the rest of an overlong word

    def feed(self, text: str) -> str:
        """Return what can be shown now."""
        if self._swallowing:
            blank = re.search(r"\s", text)
            if blank is None:
                return ""
            self._swallowing, text = False, text[blank.start() :]
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


def _forms(secret: str) -> Iterator[str]:
    """Yield a secret as it is and as it looks in URLs, JSON and base64."""
    data = secret.encode("utf-8", "surrogatepass")
    yield secret
    yield secret.replace("\\", "\\\\").replace('"', '\\"')
    yield quote(data, safe="")
    yield quote_plus(data)
    yield base64.b64encode(data).decode().rstrip("=")
    yield base64.urlsafe_b64encode(data).decode().rstrip("=")
