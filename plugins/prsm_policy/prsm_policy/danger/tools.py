"""What programs are told that makes them dangerous; told otherwise they are ordinary."""

from __future__ import annotations

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
    from collections.abc import Callable, Mapping

    from prsm_policy.shell import Command

    Check = Callable[[Command], str | None]

_DATA_LOSS = re.compile(
    r"\b(?:drop|truncate|delete|alter|grant|revoke|flushall|flushdb|shutdown|eval|copy|load_file"
    r"|load_extension|dropDatabase|remove|deleteMany|deleteOne|config\s+set|into\s+outfile)\b"
    r"|\\!",
    re.IGNORECASE,
)
_SHARED = word_set("--pid --net --network --ipc --uts --userns --cgroupns")
_OPEN_DOORS = (
    *("--privileged", "--cap-add", "--device", "--security-opt", "--volumes-from"),
    *(f"{option}=host" for option in _SHARED),
)
_VOLUME = re.compile(r"-[a-zA-Z]*v|--volume|--mount")
_HOST_MOUNT = re.compile(r"(?:-v|--volume|--mount)?=?(?:/|~|\$|\.\.|type=bind).*")
_MOUNTED = re.compile(
    r"(?:-[a-zA-Z]*v=?|--volume=)[/~$.].*|--mount=.*(?:type=bind|(?:src|source)=[/~$.]).*"
)
_INFORMS = word_set(
    "list ls view show status get describe logs diff checks watch help search clone download"
)
_ACCOUNTS = word_set("auth secret ssh-key gpg-key extension alias config codespace")
_SERVED = word_set("repo release gist variable ruleset workflow run cache")
_SETS_FIELDS = word_set("-X --method -f -F --field --raw-field --input")

# What publishes, deletes, installs for good, or runs code, among the first words.
_WORDS = read_words("dangers", "changes")
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
_PRINTS = "prints the environment"
_NAMES_A_PROGRAM = re.compile(
    r"--(?:script-shell|userconfig|globalconfig|prefix|node-options|registry|exec|shell"
    r"|unsafe-perm|toolchain|config)(?:=.*)?"
)
_PROGRAM_SETTING = re.compile(
    r"(?:CC|CXX|LD|AR|AS|SHELL|MAKE|PYTHON|NODE|RM|CP|MV|INSTALL|\.SHELLFLAGS|MAKEFLAGS|PATH"
    r"|.*(?:CMD|COMMAND|BIN|EXEC|RUNNER|PROG|TOOL))[:+?]*=.*|[^=]*=.*[\s;&|`$(!].*",
    re.DOTALL,
)
_MAKE_RUNS = re.compile(r"--(?:eval|file|makefile|directory|include-dir).*|-[fCIE].*")
# The names of fields stand behind a dot.
_JQ_SHOWS = re.compile(r"(?<![\w.])(?:str)?env(?:subst)?\b|\bENV\b")
_JQ_LOADS = re.compile(r"-[a-zA-Z]*[fL].*|--from-file(?:=.*)?|--library-path(?:=.*)?")
_YQ_LOADS = re.compile(r"\bload(?:_\w+)?\s*\(")
_RUNS_ANOTHER = "an option runs another program"
_OUTSIDE_ITS_FOLDER = "runs programs, or writes outside its folder"
_UNKNOWN_SCRIPT = "runs a script whose text is not known"
# Behind these words a program sends.
_SENDS = read_patterns("dangers", "sends")
# Of programs that nobody knows: their own words come first.
_SENDING = word_set("upload put upload-file")
_QUIET = SPEAKERS | WRITERS | READ_ONLY.keys() | CHECKERS | RUNNERS.keys() | word_set("cd pushd")
_REMOTE = re.compile(r"[a-z][a-z0-9+.-]*://|[\w.-]+@[\w.-]+:")  # it has no name here
_HTTP = word_set("http https xh xhs ht")
_FILE_FIELD = re.compile(r"(?!https?://)[\w.\[\]-]*:?=?@.+", re.DOTALL)
_CURL = re.compile(
    r"--(?:up|form|conf|data-(?:b|u)|json|var|cookie=?$|post-f|body-f|post-d|url-q|mail-).*"
)


def _when_any(reason: str, pattern: str) -> Check:
    shape = re.compile(pattern, re.DOTALL)
    return lambda command: reason if any(map(shape.fullmatch, command.texts[1:])) else None


def _when_first(reason: str, pattern: str) -> Check:
    """Return a check that the first argument does not have this shape."""
    shape = re.compile(pattern, re.DOTALL)
    return lambda command: reason if any(map(shape.fullmatch, command.texts[1:2])) else None


def _when_told(reason: str, *arguments: tuple[str, ...]) -> Check:
    """Return a check that these are not all arguments."""
    return lambda command: reason if command.texts[1:] in arguments else None


def _one_of(*checks: Check) -> Check:
    """Return a check that gives the first reason that any of these gives."""
    return lambda command: next(filter(None, (check(command) for check in checks)), None)


def _operands(command: Command) -> list[str]:
    return [text for text in command.texts[1:] if not text.startswith("-")]


def _by_words(command: Command) -> str | None:
    if _WORDS[command.name] & {*_operands(command)[:2], *command.texts[1:2]}:
        return f"{command.name} publishes, deletes, or changes something for good"
    check = _BESIDE_WORDS.get(command.name)
    return None if check is None else check(command)


def _gem(command: Command) -> str | None:
    texts = command.texts[1:]
    if texts[:1] == ("sources",) and not {*texts[1:]} <= {"-l", "--list"}:
        return "changes where packages come from for good"
    return "installs from elsewhere" if "--clear-sources" in texts else None


def _packager(command: Command) -> str | None:
    for text in command.texts[1:]:
        if _NAMES_A_PROGRAM.fullmatch(text):
            return "an option names another program or configuration"
        if text in {"-g", "--global"}:
            return "installs for all projects"
    operands = _operands(command)
    is_fetched = operands[:1] in (["init"], ["innit"]) and len(operands) > 1
    return "downloads and runs code" if is_fetched else None


def _container(command: Command) -> str | None:
    texts = command.texts[1:]
    if {"down", "rm", "kill"} & set(texts[:3]) and {"-v", "--volumes", "rm", "kill"} & set(texts):
        return "deletes containers or their data"
    pairs = list(pairwise(texts))
    if any(_VOLUME.fullmatch(option) and _HOST_MOUNT.fullmatch(value) for option, value in pairs):
        return "gives a container the files of this machine"
    is_open = any(text.startswith(_OPEN_DOORS) for text in texts)
    if is_open or any(option in _SHARED and value == "host" for option, value in pairs):
        return "gives a container rights on this machine"
    is_mounted = any(map(_MOUNTED.fullmatch, texts))
    return "gives a container the files of this machine" if is_mounted else None


_BESIDE_WORDS: Mapping[str, Check] = {
    **dict.fromkeys(("npm", "yarn", "pnpm", "bun"), _packager),
    **dict.fromkeys(("docker", "podman"), _container),
    "gem": _gem,
}


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
    topic, verb = ([*_operands(command), "", ""])[:2]
    if topic in _ACCOUNTS:
        is_told = verb in {"status", "list"} and "--show-token" not in command.texts
        return None if is_told else "changes accounts, keys or programs"
    if topic == "api":
        is_change = not _SETS_FIELDS.isdisjoint(command.texts)
    elif topic in _SERVED:
        is_change = verb not in _INFORMS and verb != ""
    else:
        return "deletes something on the server" if verb == "delete" else None
    return "changes something on the server" if is_change else None


SERVICES: Mapping[str, Check] = {
    **dict.fromkeys(_WORDS, _by_words),
    **dict.fromkeys(DATA_SHELLS | {"mongo", "mongosh", "mysqlsh"}, _data_base),
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
    is_running = any(map(awk.may_run, command.texts[1:]))
    return "a script of awk can run programs or write files" if is_running else None


def _curl(command: Command) -> str | None:
    if any(map(_UPLOADS.fullmatch, command.texts[1:])):
        return "sends or reads files"
    is_file = any(
        before.text in _DATA and word.text.startswith("@")
        for before, word in pairwise(command.words[1:])
    )
    return "sends what is only known when it runs" if is_file else _unknown_words(command)


def _unknown_words(command: Command) -> str | None:
    """Refuse what is only known when it runs: it may be a secret on its way out."""
    is_known = all(word.exact for word in command.words)
    return None if is_known else "sends what is only known when it runs"


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
    is_outside = any(
        option in {"-f", "-C", "-I"} and value.startswith(("/", "..", "~", "-"))
        for option, value in pairwise(command.texts[1:])
    )
    return "runs another makefile" if is_outside else None


def _crontab(command: Command) -> str | None:
    return None if command.texts[1:] == ("-l",) else "stays behind after the command"


def _env(command: Command) -> str | None:
    rest = [text for text in command.texts[1:] if "=" not in text and not text.startswith("-")]
    return None if rest or "--version" in command.texts else _PRINTS


def _interpreted(command: Command) -> str | None:
    """Judge the script that an interpreter is told as the program of its name."""
    script = script_of(command.name, command.words) or ()
    inner = replace(command, words=tuple(script))
    check = SERVICES.get(inner.name)
    if check is not None and (reason := check(inner)):
        return reason
    texts = command.texts[1:]
    is_pip = texts[:2] in {("-m", "pip"), ("-m", "pip3")}
    return _pip(replace(command, words=command.words[2:])) if is_pip else None


def _pip(command: Command) -> str | None:
    texts = command.texts[1:]
    changes = texts[:1] == ("config",) and texts[1:2] not in {("list",), ("get",), ("debug",)}
    return "changes a configuration for good" if changes else None


def _go(command: Command) -> str | None:
    texts = command.texts[1:]
    changes = texts[:1] == ("env",) and {"-w", "-u", "--w"} & set(texts)
    return "changes a configuration for good" if changes else None


def _ifconfig(command: Command) -> str | None:
    return "changes the network" if len(_operands(command)) > 1 else _ip(command)


_ip = _when_any("changes the network", "add|del|delete|set|flush|change|replace")


def _jq(command: Command) -> str | None:
    texts = command.texts[1:]
    if any(_JQ_SHOWS.search(text) and not jq.only_shows_input(text) for text in texts):
        return _PRINTS
    if command.name == "yq":
        return "reads a file that it names" if any(map(_YQ_LOADS.search, texts)) else None
    is_loading = any(map(_JQ_LOADS.fullmatch, texts))
    return "runs a script whose text is not known" if is_loading else None


def _install(command: Command) -> str | None:
    modes = re.findall(r"(?:-m|--mode=)\s*(\S+)", " ".join(command.texts[1:]))
    return "gives away rights" if any(map(_LOOSE_MODE.fullmatch, modes)) else None


def _cmake(command: Command) -> str | None:
    removes = {"rm", "remove", "remove_directory"} & set(command.texts)
    return "deletes files" if removes and "-E" in command.texts else None


TOOLS: Mapping[str, Check] = {
    **SERVICES,
    "kill": _kill,
    "chmod": _chmod,
    "find": _one_of(
        _when_any("deletes or writes files", "-delete|-fprint|-fprint0|-fprintf|-fls"), _find
    ),
    **dict.fromkeys(("sed", "gsed"), _sed),
    **dict.fromkeys(
        awk.NAMES,
        _one_of(
            _awk,
            _when_any(
                _UNKNOWN_SCRIPT, r"-[fEil].*|-W *(?!v).*|--(?:file|exec|include|load)(?:=.*)?"
            ),
        ),
    ),
    **dict.fromkeys(("curl", "wget", "http", "https", "xh", "aria2c"), _curl),
    **dict.fromkeys(("dig", "nslookup", "host", "ping", "whois", "drill"), _unknown_words),
    **dict.fromkeys(
        ("tar", "bsdtar", "gtar"),
        _one_of(
            # The letters need no dash in front.
            _when_first(_OUTSIDE_ITS_FOLDER, r"(?!-).*[IFP].*"),
            _when_any(
                _OUTSIDE_ITS_FOLDER,
                r"--(?:use-c|to-command|info-script|new-volume|rsh-command|rmt-command"
                r"|absolute-names|remove-files|unlink-first|overwrite).*"
                r"|.*--checkpoint-action.*|-[a-zA-Z]{0,8}[IFP].*",
            ),
        ),
    ),
    "rsync": _rsync,
    "zip": _when_any("deletes files", r"-(?!-)[a-zA-Z]*m[a-zA-Z]*|--move"),
    **dict.fromkeys(
        ("7z", "7za", "7zr"),
        _one_of(_when_first("deletes files", "d"), _when_any("deletes files", "-sdel")),
    ),
    "dpkg": _when_first(
        "installs or removes programs of the system",
        r"-(?!-)[a-zA-Z]*[irP].*|--(?:install|unpack|configure|remove|purge|triggers-only"
        r"|update-avail|merge-avail|clear-.*|add-architecture|remove-architecture"
        r"|set-selections)(?:=.*)?",
    ),
    **dict.fromkeys(("make", "gmake"), _make),
    "crontab": _crontab,
    "env": _env,
    **dict.fromkeys(
        ("export", "declare", "typeset", "readonly"),
        _when_told(_PRINTS, (), ("-p",), ("-x",), ("-px",), ("-xp",), ("-o",)),
    ),
    "set": _when_told(_PRINTS, (), ("-o", "posix")),
    "ps": _when_first("prints the environment of processes", "(?!-).*e.*"),
    **dict.fromkeys(("python", "python3", "php", "ruby", "node"), _interpreted),
    **dict.fromkeys(("pip", "pip3"), _pip),
    "go": _one_of(_go, _when_any(_RUNS_ANOTHER, r"--?(?:exec|toolexec|vettool).*|-overlay.*")),
    **dict.fromkeys(("ip", "route"), _ip),
    "ifconfig": _ifconfig,
    "shopt": _when_first("changes the shell for what comes", ".*-s.*"),
    **dict.fromkeys(
        ("code", "cursor", "codium", "windsurf"),
        _one_of(
            _when_first("opens this machine to others", "tunnel|serve-web"),
            _when_any("installs code into an editor", "--install-extension"),
        ),
    ),
    "date": _when_any("sets the clock", r"-s.*|--s.*|\d+"),
    "hostname": _when_any("sets the name of the machine", "(?!-).*|-F"),
    **dict.fromkeys(("jq", "gojq", "jaq", "yq"), _jq),
    "rg": _when_any(_RUNS_ANOTHER, "--(?:pre|hostname-bin)(?:=.*)?"),
    "sort": _when_any(_RUNS_ANOTHER, "--co.*"),
    "man": _when_any(_RUNS_ANOTHER, "-P.*|--pager.*|-H.*|--html.*"),
    **dict.fromkeys(("split", "gsplit"), _when_any(_RUNS_ANOTHER, "--fi.*")),
    "mv": _when_any("deletes files", "/dev/null"),
    "install": _install,
    "cmake": _cmake,
}


def sending_danger(command: Command) -> str | None:
    """Return why a command sends what lies here to another machine."""
    name, texts = command.name, command.texts[1:]
    reason = "sends files to another machine"
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
