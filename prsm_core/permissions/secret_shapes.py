"""What secrets look like by themselves or by the words before them, and how they are taken out.

Every shape has a sign; a text without one, as nearly all, is looked at no closer.
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
    r"|gl(?:pat|ptt|dt|rt|cbt|ft|soat)-[A-Za-z0-9_-]{16,}(?:\.[0-9a-z]{2}\.[0-9a-z]{7,})?"
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}"
    r"|AIza[0-9A-Za-z_-]{30,}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,}"
    r"|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"
    r"|(?i:AGE-SECRET-KEY-(?:[A-Z]+-)?1[0-9A-Z]{40,})"
    r"|SK[0-9a-f]{32}(?![0-9a-f])"
    r"|mfa\.[A-Za-z0-9_-]{20,}"
    r"|xapp-[A-Za-z0-9-]{10,}"
    r"|do[opr]_v1_[0-9a-f]{32,}"
    r"|shp(?:at|ca|pa|ss)_[0-9A-Fa-f]{32,}"
    r"|whsec_[A-Za-z0-9+/=_-]{16,}"
    r"|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+"
    r")"
)
# Others, each told by a sign of its own; see `_may_hold_signed`.
_SIGNED = (
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4}))(?:"
    r"AT(?:ATT3|CTT3)[A-Za-z0-9_=-]{40,}"
    r"|ATBB[A-Za-z0-9]{32}"
    r"|EZAK[A-Za-z0-9]{54}"
    r"|LTAI[A-Za-z0-9]{16,20}(?![A-Za-z0-9])"
    r"|AQVN[A-Za-z0-9_-]{35,}"
    r"|ABSK[A-Za-z0-9+/=]{80,}"
    r"|dapi[0-9a-f]{32}(?:-[0-9])?"
    r"|cio[A-Za-z0-9]{32}(?![A-Za-z0-9])"
    r"|oy2[a-z0-9]{43}(?![A-Za-z0-9])"
    r"|1//0[A-Za-z0-9_-]{40,}"
    r"|[0-9]{8,10}:AA[A-Za-z0-9_-]{33}"
    r"|[0-9a-f]{32}-us[0-9]{1,2}(?![0-9a-z])"
    r"|access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}"
    r"|[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,}"
    r"|pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"
    r"|v1\.0-[0-9a-f]{24}-[0-9a-f]{146}"
    r"|sha256~[A-Za-z0-9_-]{43}"
    r")"
)
_CRATES = r"cio[A-Za-z0-9]{32}"
_MAILCHIMP = r"-us[0-9]"
_AIRTABLE = r"pat[A-Za-z0-9]{14}\."
# A separator, and a digit among so many characters behind it: a key that nobody has listed may be
# there. Each pattern begins with one character, so that a text without it is passed over at once.
_RANDOM = {
    separator: re.compile(rf"[{separator}](?=[A-Za-z0-9_+/=-]{{20}})[A-Za-z_+/=-]{{0,39}}[0-9]")
    for separator in "_-."
}
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
# Values of names that have others as well: replaced only if they look random.
_VALUE = r"""[=:][ \t]{0,4}\\{0,3}["']?([^\s"',;$<>{}()&\\]{16,}+)(?!\()"""
_NAMES = (
    *("token", "secret", "secrets", "password", "passwd", "passphrase", "pwd", "credential"),
    *("credentials", "apikey", "accesskey", "privatekey", "secretkey", "signingkey", "authkey"),
    *("encryptionkey", "accountkey", "masterkey", "servicekey", "adminkey", "appkey"),
)
_OTHER_NAMES = ("passwd", "passphrase", "pwd", "credential")  # with no sign of those before
_LONGEST_NAME = 40
_PARAMETER = r"""(?x)([?&](?i:(?:x-amz-|x-goog-)?sig(?:nature)?|code|key|jwt|token|auth)=)
    ([^\s"'<>{}&\#\\]{16,})"""
_DOCKER = r"""(?x)(["']auth\\{0,3}["'][ \t]{0,4}:[ \t]{0,4}\\{0,3}["'])([A-Za-z0-9+/=]{16,})"""
_NETRC = r"(?i:(login[ \t]+\S{1,64}\s{1,4}password[ \t]+))(\S{8,})"
_PRIVATE_KEY = (
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[A-Za-z0-9+/=\s\\]*(?:-----END [A-Z ]*PRIVATE KEY-----)?"
)


@cache
def _compiled(shape: str) -> re.Pattern[str]:
    """Return a pattern, made with the first text that may hold its shape: few runs see any."""
    return re.compile(shape)


def without_shapes(text: str) -> str:
    """Return a text without what has the shape of a key; looks for beginnings, which is faster."""
    if _may_hold_listed(text):
        text = _compiled(_SHAPES).sub(MARK, text)
    if _may_hold_signed(text):
        text = _compiled(_SIGNED).sub(MARK, text)
    if "PRIVATE KEY-----" in text:
        text = _compiled(_PRIVATE_KEY).sub(MARK, text)
    if "://" in text:
        text = _compiled(_IN_A_URL).sub(rf"\1:{MARK}", text)
    if ".com/" in text:
        text = _compiled(_HOOK).sub(rf"\1{MARK}", text)
    if "AC" in text:
        text = _TWILIO.sub(rf"\1{MARK}", text)
    if _DISCORD_MIDDLE.search(text):
        text = _compiled(_DISCORD).sub(MARK, text)
    return _without_random(text)


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
        text = _compiled(_VALUE).sub(_named_value, text)
    elif any(name in lowered for name in _OTHER_NAMES):
        text = _compiled(_VALUE).sub(_named_value, text)
    if "=" in text and ("?" in text or "&" in text):
        text = _compiled(_PARAMETER).sub(_random_value, text)
    if "auth" in text:
        text = _compiled(_DOCKER).sub(_random_value, text)
    return _compiled(_NETRC).sub(_random_value, text) if "login" in lowered else text


def _named_value(match: re.Match[str]) -> str:
    """Return what stands for a value: a mark, if its name tells of a secret and it looks random."""
    value = match[0]
    start = match.start()
    name = match.string[max(0, start - _LONGEST_NAME) : start].rstrip(" \t\"'\\")
    if not name.lower().replace("_", "").replace("-", "").endswith(_NAMES):
        return value
    secret = match[1]
    return value.removesuffix(secret) + MARK if _looks_random(secret) else value


def _random_value(match: re.Match[str]) -> str:
    return f"{match[1]}{MARK}" if _looks_random(match[2]) else match[0]


def may_hold_shape(text: str) -> bool:
    """Return quickly whether a text may hold a secret's shape; "no" is never wrong."""
    lowered = ""
    if ":" in text or "=" in text:
        lowered = text.lower()
        if _may_be_named(text, lowered):
            return True
    if " " in text or "\t" in text:
        lowered = lowered or text.lower()
        if "bearer" in lowered or "password" in lowered:
            return True
    return _may_hold_listed(text) or _may_hold_signed(text) or _holds_random(text)


# What tells random text from words is imported with the first that may be either: few runs see one.


def _holds_random(text: str) -> bool:
    if not _may_hold_random(text):
        return False
    from prsm_core.permissions.random_keys import holds_key

    return holds_key(text)


def _without_random(text: str) -> str:
    if not _may_hold_random(text):
        return text
    from prsm_core.permissions.random_keys import without_keys

    return without_keys(text, MARK)


def _looks_random(text: str) -> bool:
    from prsm_core.permissions.random_keys import looks_random

    return looks_random(text)


def _may_hold_random(text: str) -> bool:
    return any(sign in text and shape.search(text) for sign, shape in _RANDOM.items())


def _may_hold_listed(text: str) -> bool:
    """Return whether any of _SHAPES can match, or one of the shapes that follow them."""
    return (
        ("_" in text and _may_hold_underscored(text))
        or ("-" in text and _may_hold_dashed(text))
        or ("." in text and _may_hold_dotted(text))
        or ("A" in text and _may_hold_upper(text))
        or ("SK" in text and _TWILIO_KEY.search(text) is not None)
    )


def _may_hold_signed(text: str) -> bool:
    """Return whether a sign of any of _SIGNED is there."""
    return (
        ("A" in text and _may_hold_signed_upper(text))
        or "dapi" in text
        or ("cio" in text and _compiled(_CRATES).search(text) is not None)
        or "oy2" in text
        or "1//0" in text
        or "sha256~" in text
        or ("-us" in text and _compiled(_MAILCHIMP).search(text) is not None)
        or "v1.0-" in text
        or "atlasv1" in text
        or ("pat" in text and _compiled(_AIRTABLE).search(text) is not None)
        or "access_token$" in text
    )


def _may_hold_signed_upper(text: str) -> bool:
    return (
        "ATATT3" in text
        or "ATCTT3" in text
        or "ATBB" in text
        or "EZAK" in text
        or "LTAI" in text
        or "AQVN" in text
        or "ABSK" in text
        or ":AA" in text
    )


def _may_be_named(text: str, lowered: str) -> bool:
    """Return whether a secret may follow what says that it is one, and a colon or so."""
    return (
        ("k" in lowered and ("key" in lowered or "token" in lowered))
        or "secret" in lowered
        or "password" in lowered
        or "authorization" in lowered
        or "passwd" in lowered
        or "pwd" in lowered
        or "passphrase" in lowered
        or "credential" in lowered
        or "sig" in lowered
        or 'auth"' in lowered
        or "auth\\" in lowered
        or "code=" in lowered
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
