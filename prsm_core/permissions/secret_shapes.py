"""What secrets look like by themselves, or by the words before them, and how they are taken out.

What has a shape has a sign: nearly every text has none, and is looked at no closer.
"""

from __future__ import annotations

import re
from functools import cache

MARK = "[redacted]"

_SHAPES = (
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
    r"|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"
    r"|(?i:AGE-SECRET-KEY-(?:[A-Z]+-)?1[0-9A-Z]{40,})"
    r"|SK[0-9a-f]{32}(?![0-9a-f])"
    r"|mfa\.[A-Za-z0-9_-]{20,}"
    r"|xapp-[A-Za-z0-9-]{10,}"
    r"|gl(?:ptt|dt|rt|cbt|ft|soat)-[A-Za-z0-9_-]{16,}"
    r"|do[opr]_v1_[0-9a-f]{32,}"
    r"|shp(?:at|ca|pa|ss)_[0-9A-Fa-f]{32,}"
    r"|whsec_[A-Za-z0-9+/=_-]{16,}"
    r"|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+"
    r")"
)
# What each of those has, by a character of its own; found fast, since it begins with that.
_TWILIO_KEY = re.compile(r"SK[0-9a-f]{32}")
_AFTER_DASH = re.compile(r"-[A-Za-z0-9_-]{10}")
_AFTER_UNDERSCORE = re.compile(r"_[A-Za-z0-9+/=_-]{16}")
_GITLAB = re.compile(r"gl(?:pat|ptt|dt|rt|cbt|ft|soat)-")
_GITHUB = re.compile(r"gh[pousr]_")
_AFTER_DOT = re.compile(r"\.[\w-]{6}")
_TWILIO_ACCOUNT = re.compile(r"AC[0-9a-f]{32}")
_DISCORD = (
    r"(?:(?<![A-Za-z0-9_.-])|(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4}))"
    r"[MNO][\w-]{23,27}\.[\w-]{6,7}\.[\w-]{27,}"
)
_DISCORD_MIDDLE = re.compile(r"\.[\w-]{6,7}\.")  # begins with one character: found fast
_HOOK = (
    r"(hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/"
    r"|discord(?:app)?\.com/api/(?:v\d+/)?webhooks/)[\w/-]{8,}"
)
_TWILIO = re.compile(  # the token beside the account that it is of
    r"""(AC[0-9a-f]{32}\\{0,3}["']?[\s:,;=@]{1,4}(?:["']?\w{1,24}\\{0,3}["']?[=:][ ]?)?\\{0,3}["']?)
    [0-9a-f]{32}(?![0-9a-f])""",
    re.VERBOSE,
)
_BASIC = r"""(?x)
    (?i:(authorization\\{0,3}["']?[ \t]{0,4}[:=][ \t]{0,4}\\{0,3}["']?
    (?:basic|token|apikey|key|negotiate|ntlm)[ \t]+))[A-Za-z0-9._~+/=:-]{6,}"""
_HEADER = r"""(?x)
    (?i:(\bx-[a-z-]{0,32}(?:key|token|secret)\\{0,3}["']?[ \t]{0,4}[:=][ \t]{0,4}\\{0,3}["']?))
    [^\s"',;$<>{}()\\]{8,}"""
_AZURE = (
    r"(?i:((?:account|shared_?access)_?key(?:name)?[ \t]{0,4}[=:][ \t]{0,4}[\"']?))"
    r"[A-Za-z0-9+/]{40,}={0,2}"
)
_BEARER = r"(?i:(?<=bearer)|(?<=bearer:))([ \t]+)[A-Za-z0-9._~+/=-]{16,}"
_IN_A_URL = r"(?<=://)([^\s/:@\"'<>]{0,64}):[^\s/@\"'<>]{3,256}(?=@)"
_ASSIGNED = r"""(?x)
    (?i:((?:api_?key|secret(?:_?access)?_?key|access_?token|auth_?token|client_?secret|password)
    ["']?[ \t]{0,4}[=:][ \t]{0,4}["']?))(?=[^\s"',;]*[0-9])[^\s"',;$<>{}()]{12,}"""
_PRIVATE_KEY = (
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[A-Za-z0-9+/=\s\\]*(?:-----END [A-Z ]*PRIVATE KEY-----)?"
)


@cache
def _compiled(shape: str) -> re.Pattern[str]:
    """Return a pattern, made with the first text that may hold its shape: few runs see any."""
    return re.compile(shape)


def without_shapes(text: str) -> str:
    """Return a text without what has the shape of a key; looks for beginnings, which is faster."""
    if _may_hold_key(text):
        text = _compiled(_SHAPES).sub(MARK, text)
    if "PRIVATE KEY-----" in text:
        text = _compiled(_PRIVATE_KEY).sub(MARK, text)
    if "://" in text:
        text = _compiled(_IN_A_URL).sub(rf"\1:{MARK}", text)
    if ".com/" in text:
        text = _compiled(_HOOK).sub(rf"\1{MARK}", text)
    if "AC" in text:
        text = _TWILIO.sub(rf"\1{MARK}", text)
    return _compiled(_DISCORD).sub(MARK, text) if _DISCORD_MIDDLE.search(text) else text


def without_named(text: str) -> str:
    """Return a text without what is said to be a secret by the words before it."""
    lowered = text.lower()
    if "bearer" in lowered:
        text = _compiled(_BEARER).sub(rf"\1{MARK}", text)
    if "authorization" in lowered:
        text = _compiled(_BASIC).sub(rf"\1{MARK}", text)
    if "key" in lowered or "token" in lowered or "secret" in lowered or "password" in lowered:
        for shape in (_HEADER, _AZURE, _ASSIGNED):
            text = _compiled(shape).sub(rf"\1{MARK}", text)
    return text


def may_hold_shape(text: str) -> bool:
    """Return whether a text may hold what looks like a secret: never wrong about "no".

    What has a shape has a sign in one of its lines. Every text of every event comes by, and most
    has none of the characters that tell of one: those are looked for first, which is far faster.
    """
    lowered = ""
    if ":" in text or "=" in text:
        lowered = text.lower()
        if _may_be_named(text, lowered):
            return True
    is_spaced = " " in text or "\t" in text
    return (is_spaced and "bearer" in (lowered or text.lower())) or _may_hold_key(text)


def _may_hold_key(text: str) -> bool:
    """Return whether any of _SHAPES can match, or another key that no word before it names."""
    return (
        ("_" in text and _may_hold_underscored(text))
        or ("-" in text and _may_hold_dashed(text))
        or ("." in text and _may_hold_dotted(text))
        or ("A" in text and _may_hold_upper(text))
        or ("SK" in text and _TWILIO_KEY.search(text) is not None)
    )


def _may_be_named(text: str, lowered: str) -> bool:
    """Return whether a secret may follow what says that it is one, and a colon or so."""
    return (
        ("k" in lowered and ("key" in lowered or "token" in lowered))
        or "secret" in lowered
        or "password" in lowered
        or "authorization" in lowered
        or ("@" in text and "://" in text)
    )


def _may_hold_upper(text: str) -> bool:
    return (
        "AKIA" in text
        or "ASIA" in text
        or "AIza" in text
        or ("AC" in text and _TWILIO_ACCOUNT.search(text) is not None)
    )


def _may_hold_dotted(text: str) -> bool:
    return ".com/" in text or (
        _AFTER_DOT.search(text) is not None
        and (
            "eyJ" in text
            or "ya29." in text
            or "SG." in text
            or "mfa." in text
            or _DISCORD_MIDDLE.search(text) is not None
        )
    )


def _may_hold_dashed(text: str) -> bool:
    return "PRIVATE KEY-----" in text or (
        _AFTER_DASH.search(text) is not None
        and (
            "sk-" in text
            or "pypi-" in text
            or "xox" in text
            or "SECRET-KEY-" in text
            or "secret-key-" in text
            or "xapp-" in text
            or ("gl" in text and _GITLAB.search(text) is not None)
        )
    )


def _may_hold_underscored(text: str) -> bool:
    return _AFTER_UNDERSCORE.search(text) is not None and (
        "k_live_" in text
        or "k_test_" in text
        or "npm_" in text
        or "hf_" in text
        or ("gh" in text and _GITHUB.search(text) is not None)
        or "github_pat_" in text
        or "_v1_" in text
        or "shp" in text
        or "whsec_" in text
    )
