"""Programs that send files away: told so, or told anything but to look."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from prsm_core.policies import word_set
from prsm_policy.danger.places import SPEAKERS, WRITERS
from prsm_policy.safe.checks import CHECKERS
from prsm_policy.safe.tools import READ_ONLY
from prsm_policy.shell.runners import RUNNERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_policy.shell import Command

# Behind these words a program sends.
_SENDS: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern)
    for names, pattern in (
        ("b2", r".*\b(?:upload|sync|cp|put)\b.*|upload-.*"),
        ("s3cmd s4cmd s5cmd", r".*\b(?:put|cp|mv|sync|pipe|modify|rsync)\b.*"),
        ("mc", r"(?:.* )?(?:cp|mv|put|pipe|mirror|od|share)\b.*"),
        ("gsutil", r"(?:.* )?(?:cp|mv|rsync|compose|signurl)\b.*"),
        ("glab", r"snippet (?:create|new|update).*|release (?:create|upload).*"),
        ("hub", r"(?:gist create|release (?:create|edit)|api).*"),
        ("ipfs", r"(?:.* )?(?:add|pin remote|name publish|files write|block put|dag put)\b.*"),
        ("huggingface-cli hf", r"(?:upload\S*|lfs|repos? create|jobs?)\b.*"),
        ("wandb", r"(?:sync|artifact put|launch|job)\b.*"),
        ("kaggle", r".*\b(?:create|version|submit|push|init)\b.*"),
        ("dvc dolt", r"(?:.* )?push\b.*"),
        ("skopeo", r"(?:.* )?(?:copy|sync)\b.*"),
        ("crane oras regctl", r"(?:.* )?(?:push|append|attach|copy|cp)\b.*"),
        ("cosign buildah nerdctl", r"(?:.* )?(?:push|upload|attach)\b.*"),
        ("tailscale", r"(?:file cp|funnel|serve|ssh|up)\b.*"),
        ("mosquitto_pub", r".*"),
        ("hdfs hadoop", r".*-(?:put|copyFromLocal|moveFromLocal|appendToFile)\b.*|distcp\b.*"),
        ("ffmpeg", r".*\s(?!https?|file)[a-z]+://\S+"),
        ("asciinema", r"(?:upload|stream|auth)\b.*"),
        ("logger", r"(?:.* )?(?:-n|--server).*"),
        ("lynx w3m", r".*-post\S*\b.*"),
        ("nats", r"(?:.* )?(?:pub|publish|request|put)\b.*"),
        ("kcat kafkacat", r"(?:.* )?-[a-zA-Z]*P.*"),
        ("grpcurl", r"(?:.* )?-d ?@?.*"),
        ("now surge render railway", r"(?:deploy|up)\b.*|"),
        ("wrangler", r"(?:\S+ )*(?:put|publish|deploy|upload|bulk)\b.*"),
        ("mutagen", r"(?:\S+ )?create\b.*"),
        ("datasette", r"publish\b.*"),
        ("lakectl", r"(?:\S+ )*(?:upload|commit|merge|push)\b.*"),
        ("dbt-cloud modal", r"(?:deploy|volume put)\b.*"),
        ("swift", r"(?:.* )?upload\b.*"),
        ("pagekite", r".+"),
        ("gh-pages", r".*"),
        ("eb sam cdk serverless sls sst amplify", r"(?:\S+ )*(?:deploy|publish)\b.*"),
        ("gradle gradlew", r"(?:.* )?\S*(?:publish|uploadArchives)\w*(?: .*)?"),
        ("mvn mvnw", r"(?:.* )?(?:deploy|release:perform)(?: .*)?"),
        ("nuget", r"push\b.*"),
        ("mix", r"hex\.publish\b.*"),
        ("dart flutter", r"pub publish\b.*"),
        ("jf jfrog", r"(?:\S+ )*(?:u|upload|bp|publish)\b.*"),
        ("redis-cli", r"(?:.* )?(?:-h .*-x|-x .*-h)\b.*"),
        ("rustic bupstash", r"(?:\S+ )*(?:backup|put|copy)\b.*"),
    )
    for name in names.split()
}
# Of these all other words send, move or serve something.
_LOOKS: Mapping[str, frozenset[str]] = {
    "rclone": word_set(
        "ls lsd lsl lsf lsjson size tree version help about check md5sum sha1sum hashsum completion"
    ),
}
# Of programs that nobody knows: their own words come first.
_SENDING = word_set("upload put upload-file")
_QUIET = SPEAKERS | WRITERS | READ_ONLY.keys() | CHECKERS | RUNNERS.keys() | word_set("cd pushd")
_REMOTE = re.compile(r"[a-z][a-z0-9+.-]*://|[\w.-]+@[\w.-]+:")  # it has no name here
_HTTP = word_set("http https xh xhs ht")
_FILE_FIELD = re.compile(r"(?!https?://)[\w.\[\]-]*:?=?@.+", re.DOTALL)
_CURL = re.compile(
    r"--(?:up|form|conf|data-(?:b|u)|json|var|cookie=?$|post-f|body-f|post-d|url-q|mail-).*"
)


def sending_danger(command: Command) -> str | None:
    """Return why a command sends what lies here to another machine."""
    name, texts = command.name, command.texts[1:]
    reason = "sends files to another machine"
    if name in _LOOKS:
        verb = next((text for text in texts if text[:1] != "-"), "")
        is_informing = not verb and {"--version", "--help", "-h"} & set(texts)
        return None if verb in _LOOKS[name] or is_informing else reason
    if name in _SENDS:
        return reason if _SENDS[name].fullmatch(" ".join(texts)) else None
    if name == "openssl" and texts[:1] == ("s_client",):
        return reason if _is_fed(command) else None
    if name == "git":
        is_elsewhere = "push" in texts and any(map(_REMOTE.match, texts))
        return reason if is_elsewhere or texts[:2] == ("lfs", "push") else None
    if name in _HTTP:
        is_sent = any(map(_FILE_FIELD.fullmatch, texts))
        return reason if is_sent or _is_fed(command) else None
    if name in {"curl", "wget"}:
        return reason if any(map(_CURL.fullmatch, texts)) or _cookies(texts) else None
    operands = [text for text in texts[:6] if text[:1] != "-"]
    return reason if name not in _QUIET and not _SENDING.isdisjoint(operands[:2]) else None


def _is_fed(command: Command) -> bool:
    """Return whether a command reads a file, or what a command writes that may have read one."""
    return bool(command.reads or command.feeds) or command.behind


def _cookies(texts: tuple[str, ...]) -> bool:
    """Return whether curl is told a file of cookies: a value without a sign that sets one."""
    return any(
        before in {"-b", "--cookie"} and "=" not in after for before, after in pairwise(texts)
    )
