"""Keys of any vendor: a prefix, a separator, and random text such as `acme_live_9fXq…`.

Few letters of random text follow each other as in words, unlike names in code. Ids and digests are
told by their prefix: `toolu_`, `commit-`, `sha512-`.
"""

from __future__ import annotations

import re

from prsm_core.policies.tables import read_words, word_set

_SHORTEST = 24  # characters behind a prefix that nobody knows
_SHORTEST_KNOWN = 20
_SHORTEST_NAMED = 16
_SHORTEST_HEX = 32
_LONGEST, _LONGEST_KNOWN = 256, 1024  # characters; what is longer is data
_MOST_SEGMENTS = 4  # of a prefix: sk-or-v1-
# Characters between two separators, at least in one place: names with digits in them have fewer.
_LONGEST_RUN, _LONGEST_RUN_OF_PATH = 13, 20
# Of the letter pairs of words four fifths are common, of those of random text one fifth.
_WORDLIKE, _WORDLIKE_KNOWN = 0.52, 0.65
_FEW_TURNS = 6  # from a small letter to a capital or back: names have fewer, or more words

# Small letters, capitals, or a word with one: the beginning of random text is mostly mixed.
_SEGMENT = r"(?:[a-z][a-z0-9]{0,11}|[A-Z][A-Z0-9]{0,11}|[A-Z][a-z]{1,11})[-_.]"
# At the beginning of a word, also behind the \n or \u000a of a JSON text.
_TOKEN = re.compile(
    r"(?:(?<![A-Za-z0-9_.+\\-])(?<!sha1=)(?<!sha256=)(?<!sha384=)(?<!sha512=)"
    r"|(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4}))"
    rf"{_SEGMENT}[A-Za-z0-9_.+/=~-]{{{_SHORTEST_KNOWN},}}"
)
_PREFIX = re.compile(_SEGMENT)
_CORE = re.compile(r"[A-Za-z0-9_+/=-]+")
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_IDS = re.compile(
    rf"{_UUID}"
    r"|(?<![0-9a-z])[0-7][0-9a-hjkmnp-tv-z]{25}(?![0-9a-z])"  # ULID
    r"|k[wg]DO[a-z0-9_-]+",  # of GitHub's graph
    re.IGNORECASE,
)
_ANY_UUID = re.compile(_UUID, re.IGNORECASE)
_HEX = re.compile(r"(?<![0-9A-Za-z])(?:[0-9a-f]+|[0-9A-F]+)(?![0-9A-Za-z])")
_WORDS = re.compile(r"[A-Za-z]+")
_DIGITS = re.compile(r"[0-9]+(?=[A-Za-z])|(?<=[A-Za-z])[0-9]+")
_RUNS = re.compile(r"[A-Za-z0-9]+")
_TURNS = re.compile(r"(?<=[a-z])[A-Z]|(?<=[A-Z])[a-z]")
_FILE = re.compile(
    r"\.(?:[cm]?[jt]sx?|css|map|json|html?|txt|md|xml|ya?ml|toml|lock|log|py[cdi]?|whl|tar|t?gz|zip"
    r"|xz|zst|bz2|so|o|a|d|rlib|rmeta|dll|dylib|exe|png|jpe?g|gif|svg|webp|avif|ico|woff2?|ttf|eot"
    r"|otf|wasm|class|jar|bin|dat|db|sqlite|pack|idx|rev|tmp|pdf|mp[34]|patch|diff|snap|sock|pid)\b",
    re.IGNORECASE,
)
# The 150 commonest pairs of letters in the words of programs and their documents.
_COMMON = read_words("letter_pairs")
# Prefixes of keys. What follows needs to look less random, and may be a UUID or shorter.
_KNOWN = read_words("key_prefixes")
# Words in a prefix that tell of a key, whatever stands beside them.
_KEYS = word_set("sk key apikey token tok tkn secret pat password auth oauth signkey")
# Words in a prefix that tell of something else.
_NO_KEYS = read_words("no_key_words")


def holds_key(text: str) -> bool:
    """Return whether a text holds such a key."""
    return any(map(_is_key, _TOKEN.finditer(text)))


def without_keys(text: str, mark: str) -> str:
    """Return a text with a mark for each such key."""
    return _TOKEN.sub(lambda match: _marked(match, mark), text)


def looks_random(text: str) -> bool:
    """Return whether what stands behind the name of a key, or its known prefix, may be one."""
    if _ANY_UUID.match(text) or len(_longest_hex(text)) >= _SHORTEST_KNOWN:
        return True
    return (
        len(text) >= _SHORTEST_NAMED and _is_mixed(text, 1) and _wordlike(text) <= _WORDLIKE_KNOWN
    )


def _marked(match: re.Match[str], mark: str) -> str:
    token = match[0]
    if not _is_key(match):
        return token
    return mark + token[len(token.rstrip("./~+-")) :]  # a sentence may go on behind it


def _is_key(match: re.Match[str]) -> bool:
    token, start = match[0], 0
    if len(token) > _LONGEST_KNOWN or _FILE.search(token):
        return False
    is_in_path = match.string[match.start() - 1 : match.start()] == "/"
    for _ in range(_MOST_SEGMENTS):
        prefix = _PREFIX.match(token, start)
        if prefix is None:
            return False
        start = prefix.end()
        if token[:start] in _KNOWN and looks_random(token[start:]):
            return True
        core = _CORE.match(token, start)
        if (
            len(token) > _LONGEST
            or core is None
            or len(core[0]) < _SHORTEST
            or (prefix[0][-1] == "." and "/" in core[0])
        ):
            continue
        if _names_no_key(token[:start]):
            return False
        may_be_hex = not is_in_path and _may_precede_hex(token[:start])
        if _is_random(_IDS.sub("", core[0]), may_be_hex=may_be_hex):
            return True
    return False


def _is_random(core: str, *, may_be_hex: bool) -> bool:
    """Return whether nobody has written this: its letters follow each other as in no word."""
    if len(core) < _SHORTEST:
        return False
    if 2 * (size := len(_longest_hex(core))) >= len(core):
        return may_be_hex and size >= _SHORTEST_HEX
    shortest = _LONGEST_RUN_OF_PATH if "/" in core else _LONGEST_RUN
    if max(map(len, _RUNS.findall(core)), default=0) < shortest:
        return False
    if 2 * sum(map(len, _WORDS.findall(core))) < len(core):  # a date, a version
        return False
    places = len(_DIGITS.findall(core))
    return (
        places > 0
        and _is_mixed(core, 2)
        and _wordlike(core) <= (_WORDLIKE if places < 4 else _WORDLIKE_KNOWN)
    )


def _longest_hex(text: str) -> str:
    longest: str = max(_HEX.findall(text), key=len, default="")
    return longest


def _is_mixed(text: str, digits: int) -> bool:
    """Return whether so many digits stand beside letters, or capitals among small ones."""
    return len(_DIGITS.findall(text)) >= digits or len(_TURNS.findall(text)) >= _FEW_TURNS


def _wordlike(text: str) -> float:
    """Return how many of the letter pairs are common in words, of 1."""
    pairs = [word[n : n + 2] for word in _WORDS.findall(text.lower()) for n in range(len(word) - 1)]
    return sum(pair in _COMMON for pair in pairs) / max(len(pairs), 1)


def _may_precede_hex(prefix: str) -> bool:
    """Return whether a prefix is no word, or tells of a key: digests often follow a name."""
    words = _segments(prefix)
    return prefix[-1] != "." and bool(words & _KEYS or all(len(word) <= 4 for word in words))


def _names_no_key(prefix: str) -> bool:
    words = _segments(prefix)
    return bool(words & _NO_KEYS) and not words & _KEYS


def _segments(prefix: str) -> set[str]:
    return set(re.split(r"[-_.]", prefix.lower().rstrip("-_.")))
