"""What programs are told that makes them dangerous; told otherwise they are ordinary.

Programs send files away: told so, or told anything but to look.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from prsm_core.policies import word_set
from prsm_policy.danger.places import SPEAKERS, WRITERS
from prsm_policy.safe.checks import CHECKERS
from prsm_policy.safe.tools import READ_ONLY
from prsm_policy.shell import awk, jq, sed
from prsm_policy.shell.data_shells import DATA_SHELLS, acts_of
from prsm_policy.shell.runners import RUNNERS, script_of
from prsm_policy.tables import read_patterns, read_words

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from prsm_policy.shell import Command

    Check = Callable[[Command], str | None]

_DATA_LOSS = re.compile(
    r"\b(?:drop|truncate|delete|alter|grant|revoke|flushall|flushdb|shutdown|eval|copy|load_file"
    r"|load_extension|dropDatabase|remove|deleteMany|deleteOne|config\s+set|into\s+outfile)\b"
    r"|\\!",
    re.IGNORECASE,
)
_HOST_MOUNT = re.compile(r"(?:-v|--volume|--mount)?=?(?:/|~|\$|\.\.|type=bind).*")
_SHARED = word_set("--pid --net --network --ipc --uts --userns --cgroupns")
_OPEN_DOORS = (
    *("--privileged", "--cap-add", "--device", "--security-opt", "--volumes-from"),
    *(f"{option}=host" for option in sorted(_SHARED)),
)
_VOLUME = re.compile(r"-[a-zA-Z]*v")
_MOUNTED = re.compile(
    r"(?:-[a-zA-Z]*v=?|--volume=)[/~$.].*|--mount=.*(?:type=bind|(?:src|source)=[/~$.]).*"
)
_INFORMS = word_set("list ls view show status get describe logs diff checks watch help search")


# What publishes, deletes, installs for good, or runs code, among the first words.
_WORDS = read_words("dangers", "changes")
_OPTIONS = re.compile(
    r"--(?:script-shell|userconfig|globalconfig|prefix|node-options|registry|exec|shell"
    r"|unsafe-perm|toolchain|config)(?:=.*)?"
)
_PACKAGERS = word_set("npm yarn pnpm bun")

_MAX_MODE = 30
_MODE = re.compile(r"(?:0?[0-7]{3,4}|[ugoa]*[-+=][rwxXstugo,+=-]*)(?:,.*)?")
_LOOSE_MODE = re.compile(
    r"0?[2-7][0-7]{3}|0?[0-7]{0,2}[2367]|0?0{1,3}|.*[-+=,ugoa]*[+=][rwxX]*s.*"
    r"|(?:[ugo]*[oa][ugo]*)?[+=][rx]*w.*|a?-[rwx]*r.*"
)
_UPLOADS = re.compile(
    r"-[a-zA-Z]*[TFK].*|--(?:upload-file|form|form-string|config|data-urlencode|post-file"
    r"|body-file|post-data|json|netrc.*|use-askpass|proxy.*|unix-socket)(?:=.*)?"
    r"|-d@.*|@.*|[^=]*=@.*|file:.*"
)
_DATA = frozenset({"-d", "--data", "--data-binary", "--data-raw", "--data-ascii"})
_TAR_RUNS = re.compile(
    r"--(?:checkpoint-action|use-compress|to-command|info-script|new-volume|rsh-command|rmt-command"
    r"|absolute-names|remove-files|unlink-first|overwrite).*|-[a-zA-Z]{0,8}[IFP].*"
)
_PROGRAM_SETTING = re.compile(
    r"(?:CC|CXX|LD|AR|AS|SHELL|MAKE|PYTHON|NODE|RM|CP|MV|INSTALL|\.SHELLFLAGS|MAKEFLAGS|PATH"
    r"|.*(?:CMD|COMMAND|BIN|EXEC|RUNNER|PROG|TOOL))[:+?]*=.*|[^=]*=.*[\s;&|`$(!].*",
    re.DOTALL,
)
_MAKE_RUNS = re.compile(r"--(?:eval|file|makefile|directory|include-dir).*|-[fCIE].*")
_AWK_LOADS = re.compile(r"-[fEil].*|-W *(?!v).*|--(?:file|exec|include|load)(?:=.*)?")
_PRINTS_ALL = frozenset({(), ("-p",), ("-x",), ("-px",), ("-xp",), ("-o",)})


def _by_words(command: Command) -> str | None:
    name, texts = command.name, command.texts[1:]
    operands = [text for text in texts if not text.startswith("-")]
    if _WORDS[name] & {*operands[:2], *texts[:1]}:
        return f"{name} publishes, deletes, or changes something for good"
    if name in _PACKAGERS:
        return _packager(command)
    if name in {"docker", "podman"}:
        return _container(command)
    return _gem(texts) if name == "gem" else None


def _gem(texts: Sequence[str]) -> str | None:
    if texts[:1] == ("sources",) and not {*texts[1:]} <= {"-l", "--list"}:
        return "changes where packages come from for good"
    return "installs from elsewhere" if "--clear-sources" in texts else None


def _packager(command: Command) -> str | None:
    for text in command.texts[1:]:
        if _OPTIONS.fullmatch(text):
            return "an option names another program or configuration"
        if text in {"-g", "--global"}:
            return "installs for all projects"
    operands = [text for text in command.texts[1:] if not text.startswith("-")]
    if operands[:1] in (["init"], ["innit"]) and len(operands) > 1:
        return "downloads and runs code"
    return None


def _container(command: Command) -> str | None:
    texts = command.texts[1:]
    if {"down", "rm", "kill"} & set(texts[:3]) and {"-v", "--volumes", "rm", "kill"} & set(texts):
        return "deletes containers or their data"
    for before, after in itertools.pairwise(texts):
        is_volume = before in {"--volume", "--mount"} or _VOLUME.fullmatch(before)
        if is_volume and _HOST_MOUNT.fullmatch(after):
            return "gives a container the files of this machine"
    if any(text.startswith(_OPEN_DOORS) for text in texts) or any(
        before in _SHARED and after == "host" for before, after in itertools.pairwise(texts)
    ):
        return "gives a container rights on this machine"
    is_mounted = any(map(_MOUNTED.fullmatch, texts))
    return "gives a container the files of this machine" if is_mounted else None


def _data_base(command: Command) -> str | None:
    if any(acts_of(command.name, command.words[1:], command.feeds)):
        return "the shell of a data base runs a program, or reads or writes a file"
    if any(_DATA_LOSS.search(text) for text in command.texts[1:]):
        return "changes or deletes data"
    if any(not word.exact or _DATA_LOSS.search(word.text) for word in command.feeds):
        return "changes or deletes data"
    if {"-f", "--file"} & set(command.texts) or command.reads or command.piped:
        return "runs a script whose text is not known"
    return None


def _gh(command: Command) -> str | None:
    operands = [text for text in command.texts[1:] if not text.startswith("-")]
    topic, verb = ([*operands, "", ""])[:2]
    if topic in {
        "auth",
        "secret",
        "ssh-key",
        "gpg-key",
        "extension",
        "alias",
        "config",
        "codespace",
    }:
        return (
            None
            if verb in {"status", "list"} and "--show-token" not in command.texts
            else ("changes accounts, keys or programs")
        )
    if topic == "api":
        changes = {"-X", "--method", "-f", "-F", "--field", "--raw-field", "--input"}
        return "changes something on the server" if changes & set(command.texts) else None
    if topic in {"repo", "release", "gist", "variable", "ruleset", "workflow", "run", "cache"}:
        is_reading = not verb or verb in _INFORMS or verb in {"clone", "download"}
        return None if is_reading else "changes something on the server"
    return "deletes something on the server" if verb == "delete" else None


SERVICES: Mapping[str, Callable[[Command], str | None]] = {
    **dict.fromkeys(_WORDS, _by_words),
    **dict.fromkeys(
        DATA_SHELLS | {"mongo", "mongosh", "mysqlsh"},
        _data_base,
    ),
    **dict.fromkeys(
        word_set("nerdctl docker-compose podman-compose buildah finch lima ctr crictl"), _container
    ),
    "gh": _gh,
    "glab": _gh,
}


def _kill(command: Command) -> str | None:
    texts = list(command.texts[1:])
    if texts and texts[0].startswith("-") and len(texts) > 1:
        texts.pop(0)
    every = any(text in {"0", "1", "-1"} or re.fullmatch(r"-\d+", text) for text in texts)
    return "ends many processes, or the first one" if every else None


def _chmod(command: Command) -> str | None:
    texts = command.texts[1:]
    if any(re.fullmatch(r"-[a-zA-Z]*R[a-zA-Z]*|--recursive|--reference.*", t) for t in texts):
        return "changes the rights of many files"
    modes = [text for text in texts if len(text) < _MAX_MODE and _MODE.fullmatch(text)]
    is_loose = any(_LOOSE_MODE.fullmatch(mode) for mode in modes[:1])
    return "gives away rights, or takes them from everybody" if is_loose else None


def _find(command: Command) -> str | None:
    writes = {"-delete", "-fprint", "-fprint0", "-fprintf", "-fls"}
    if writes & set(command.texts):
        return "deletes or writes files"
    is_hidden = any(
        not word.exact and word.text.startswith("-") and "{" in word.text for word in command.words
    )
    return "braces make an option that cannot be told" if is_hidden else None


def _sed(command: Command) -> str | None:
    texts = command.texts[1:]
    if sed.reads_file(texts):
        return "runs a script whose text is not known"
    is_running = any(map(sed.may_run, sed.scripts_of(texts)))
    return "a script of sed can run programs or write files" if is_running else None


def _awk(command: Command) -> str | None:
    if any(map(awk.may_run, command.texts[1:])):
        return "a script of awk can run programs or write files"
    is_loading = any(map(_AWK_LOADS.fullmatch, command.texts[1:]))
    return "runs a script whose text is not known" if is_loading else None


def _curl(command: Command) -> str | None:
    texts = command.texts[1:]
    if any(map(_UPLOADS.fullmatch, texts)):
        return "sends or reads files"
    for before, word in zip(command.words[1:], command.words[2:], strict=False):
        if before.text in _DATA and (word.text.startswith("@") or not word.exact):
            return "sends what is only known when it runs"
    return _unknown_words(command)


def _unknown_words(command: Command) -> str | None:
    """Refuse what is only known when it runs: it may be a secret on its way out."""
    if all(word.exact for word in command.words):
        return None
    return "sends what is only known when it runs"


def _tar(command: Command) -> str | None:
    letters = command.texts[1:2]  # they need no dash in front
    if letters and not letters[0].startswith("-") and set("IFP") & set(letters[0]):
        return "runs programs, or writes outside its folder"
    if any(map(_TAR_RUNS.fullmatch, command.texts[1:])) or any(
        "--checkpoint-action" in text or text.startswith("--use-c") for text in command.texts
    ):
        return "runs programs, or writes outside its folder"
    return None


_ZIP_MOVES = re.compile(r"-(?!-)[a-zA-Z]*m[a-zA-Z]*|--move")


def _zip(command: Command) -> str | None:
    return "deletes files" if any(map(_ZIP_MOVES.fullmatch, command.texts[1:])) else None


def _seven_zip(command: Command) -> str | None:
    deletes = command.texts[1:2] == ("d",) or "-sdel" in command.texts
    return "deletes files" if deletes else None


_DPKG_CHANGES = re.compile(
    r"-(?!-)[a-zA-Z]*[irP].*|--(?:install|unpack|configure|remove|purge|triggers-only|update-avail"
    r"|merge-avail|clear-.*|add-architecture|remove-architecture|set-selections)(?:=.*)?"
)


def _dpkg(command: Command) -> str | None:
    changes = any(map(_DPKG_CHANGES.fullmatch, command.texts[1:2]))
    return "installs or removes programs of the system" if changes else None


def _rsync(command: Command) -> str | None:
    for text in command.texts[1:]:
        if text.startswith(("--del", "--remove", "-e", "--rsh", "--rsync-path", "--daemon")):
            return "deletes files, or runs programs"
        if re.match(r"(?:[\w.-]+@)?[\w.-]+::?|rsync://", text) and not text.startswith("-"):
            return "talks to another machine"
    return None


def _make(command: Command) -> str | None:
    for text in command.texts[1:]:
        if _PROGRAM_SETTING.fullmatch(text):
            return "a variable of make becomes a program"
        if text.startswith("--eval"):
            return "runs code given in the command"
        if _MAKE_RUNS.fullmatch(text) and ("/" in text or len(text) > 40):
            return "runs another makefile"
    following = zip(command.texts[1:], command.texts[2:], strict=False)
    outside = any(
        b in {"-f", "-C", "-I"} and a.startswith(("/", "..", "~", "-")) for b, a in following
    )
    return "runs another makefile" if outside else None


def _crontab(command: Command) -> str | None:
    return None if command.texts[1:] == ("-l",) else "stays behind after the command"


def _env(command: Command) -> str | None:
    rest = [text for text in command.texts[1:] if "=" not in text and not text.startswith("-")]
    return None if rest or "--version" in command.texts else "prints the environment"


def _prints_environment(command: Command) -> str | None:
    return "prints the environment" if command.texts[1:] in _PRINTS_ALL else None


def _set(command: Command) -> str | None:
    return "prints the environment" if command.texts[1:] in {(), ("-o", "posix")} else None


def _ps(command: Command) -> str | None:
    first = command.texts[1:2]
    shows = first and "e" in first[0] and not first[0].startswith("-")
    return "prints the environment of processes" if shows else None


def _python_module(command: Command) -> str | None:
    texts = command.texts[1:]
    if texts[:1] == ("-m",) and len(texts) > 1 and texts[1] in {"pip", "pip3"}:
        return _pip_words(texts[2:])
    return None


def _interpreted(command: Command) -> str | None:
    """Judge the script that an interpreter is told as the program of its name."""
    script = script_of(command.name, command.words)
    inner = None if script is None else replace(command, words=tuple(script))
    check = None if inner is None else SERVICES.get(inner.name)
    if inner is not None and check is not None and (reason := check(inner)):
        return reason
    return _python_module(command)


def _pip(command: Command) -> str | None:
    return _pip_words(command.texts[1:])


def _pip_words(texts: Sequence[str]) -> str | None:
    if texts[:1] == ("config",) and texts[1:2] not in {("list",), ("get",), ("debug",)}:
        return "changes a configuration for good"
    return None


def _go(command: Command) -> str | None:
    texts = command.texts[1:]
    if texts[:1] == ("env",) and {"-w", "-u", "--w"} & set(texts):
        return "changes a configuration for good"
    runs = ("-exec", "--exec", "-toolexec", "--toolexec", "-vettool", "--vettool", "-overlay")
    if any(text.startswith(runs) for text in texts):
        return "an option runs another program"
    return None


def _ifconfig(command: Command) -> str | None:
    operands = [text for text in command.texts[1:] if not text.startswith("-")]
    return "changes the network" if len(operands) > 1 else _ip(command)


def _ip(command: Command) -> str | None:
    changes = {"add", "del", "delete", "set", "flush", "change", "replace"} & set(command.texts)
    return "changes the network" if changes else None


def _date(command: Command) -> str | None:
    texts = command.texts[1:]
    sets = any(text.startswith(("-s", "--s")) or text.isdigit() for text in texts)
    return "sets the clock" if sets else None


def _hostname(command: Command) -> str | None:
    sets = any(not text.startswith("-") for text in command.texts[1:]) or "-F" in command.texts
    return "sets the name of the machine" if sets else None


# The names of fields stand behind a dot.
_JQ_SHOWS = re.compile(r"(?<![\w.])(?:str)?env(?:subst)?\b|\bENV\b")
_JQ_LOADS = re.compile(r"-[a-zA-Z]*[fL].*|--from-file(?:=.*)?|--library-path(?:=.*)?")

_YQ_LOADS = re.compile(r"\bload(?:_\w+)?\s*\(")


def _jq(command: Command) -> str | None:
    texts = command.texts[1:]
    if any(_JQ_SHOWS.search(text) and not jq.only_shows_input(text) for text in texts):
        return "prints the environment"
    if command.name == "yq":
        return "reads a file that it names" if any(map(_YQ_LOADS.search, texts)) else None
    is_loading = any(map(_JQ_LOADS.fullmatch, texts))
    return "runs a script whose text is not known" if is_loading else None


def _history_shell(command: Command) -> str | None:
    texts = command.texts
    return "changes the shell for what comes" if len(texts) > 1 and "-s" in texts[1] else None


def _code_editor(command: Command) -> str | None:
    if {"tunnel", "serve-web"} & set(command.texts[1:2]):
        return "opens this machine to others"
    return "installs code into an editor" if "--install-extension" in command.texts else None


def _rg(command: Command) -> str | None:
    options = {text.partition("=")[0] for text in command.texts[1:]}
    runs = options & {"--pre", "--hostname-bin"}
    return "an option runs another program" if runs else None


def _sort(command: Command) -> str | None:
    runs = any(text.startswith("--co") for text in command.texts[1:])
    return "an option runs another program" if runs else None


def _split(command: Command) -> str | None:
    runs = any(text.startswith("--fi") for text in command.texts[1:])
    return "an option runs another program" if runs else None


def _mv(command: Command) -> str | None:
    return "deletes files" if "/dev/null" in command.texts[1:] else None


def _install(command: Command) -> str | None:
    modes = re.findall(r"(?:-m|--mode=)\s*(\S+)", " ".join(command.texts[1:]))
    return "gives away rights" if any(map(_LOOSE_MODE.fullmatch, modes)) else None


def _cmake(command: Command) -> str | None:
    removes = {"rm", "remove", "remove_directory"} & set(command.texts)
    return "deletes files" if removes and "-E" in command.texts else None


def _man(command: Command) -> str | None:
    runs = any(text.startswith(("-P", "--pager", "-H", "--html")) for text in command.texts[1:])
    return "an option runs another program" if runs else None


TOOLS: Mapping[str, Check] = {
    **SERVICES,
    "kill": _kill,
    "chmod": _chmod,
    "find": _find,
    **dict.fromkeys(("sed", "gsed"), _sed),
    **dict.fromkeys(awk.NAMES, _awk),
    **dict.fromkeys(("curl", "wget", "http", "https", "xh", "aria2c"), _curl),
    **dict.fromkeys(("dig", "nslookup", "host", "ping", "whois", "drill"), _unknown_words),
    **dict.fromkeys(("tar", "bsdtar", "gtar"), _tar),
    "rsync": _rsync,
    "zip": _zip,
    **dict.fromkeys(("7z", "7za", "7zr"), _seven_zip),
    "dpkg": _dpkg,
    **dict.fromkeys(("make", "gmake"), _make),
    "crontab": _crontab,
    "env": _env,
    **dict.fromkeys(("export", "declare", "typeset", "readonly"), _prints_environment),
    "set": _set,
    "ps": _ps,
    **dict.fromkeys(("python", "python3", "php", "ruby", "node"), _interpreted),
    **dict.fromkeys(("pip", "pip3"), _pip),
    "go": _go,
    **dict.fromkeys(("ip", "route"), _ip),
    "ifconfig": _ifconfig,
    "shopt": _history_shell,
    **dict.fromkeys(("code", "cursor", "codium", "windsurf"), _code_editor),
    "date": _date,
    "hostname": _hostname,
    **dict.fromkeys(("jq", "gojq", "jaq", "yq"), _jq),
    "rg": _rg,
    "sort": _sort,
    "man": _man,
    **dict.fromkeys(("split", "gsplit"), _split),
    "mv": _mv,
    "install": _install,
    "cmake": _cmake,
}


# Behind these words a program sends.
_SENDS = read_patterns("dangers", "sends")
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
