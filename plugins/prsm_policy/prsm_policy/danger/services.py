"""Package managers, containers, data bases and services: what they are told that is dangerous."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from prsm_core.policies import word_set
from prsm_policy.shell.data_shells import DATA_SHELLS, acts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from prsm_policy.shell import Command

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

_RAILS_LOSS = (
    "db:drop db:drop:all db:reset db:purge db:truncate_all db:migrate:reset db:schema:load"
)

# By the first words after options: what publishes, deletes, installs for good, or runs code.
_WORDS: Mapping[str, frozenset[str]] = {
    "npm": word_set(
        "publish unpublish deprecate owner token login adduser access dist-tag hook exec x explore"
        " config set link create init-x profile team org"
    ),
    "yarn": word_set("publish dlx login npm config link global"),
    "pnpm": word_set("publish dlx exec-x login config link unpublish"),
    "bun": word_set("publish x link"),
    "cargo": word_set("publish yank login logout owner install uninstall"),
    "gem": word_set("push yank owner signin"),
    "poetry": word_set("publish config"),
    "uv": word_set("publish tool self x"),
    "hatch": word_set("publish"),
    "flit": word_set("publish"),
    "pdm": word_set("publish"),
    "pipx": word_set("run install runpip inject"),
    "mvn": word_set("deploy release:perform"),
    "gradle": word_set("publish"),
    "dotnet": word_set("nuget tool"),
    "helm": word_set("uninstall delete rollback push upgrade install"),
    "terraform": word_set("destroy apply import state taint force-unlock"),
    "tofu": word_set("destroy apply import state"),
    "pulumi": word_set("destroy up"),
    "kubectl": word_set(
        "delete apply create replace patch edit exec drain cordon scale rollout run cp attach"
        " port-forward proxy set taint label annotate debug config auth"
    ),
    "docker": word_set("push login rm rmi kill prune system volume swarm secret save commit cp"),
    "podman": word_set("push login rm rmi kill prune system volume secret save commit cp"),
    "apt": word_set("remove purge autoremove full-upgrade dist-upgrade"),
    "apt-get": word_set("remove purge autoremove dist-upgrade"),
    "yum": word_set("remove erase autoremove"),
    "dnf": word_set("remove erase autoremove"),
    "apk": word_set("del"),
    "pacman": word_set("-R -Rs -Rns"),
    "brew": word_set("uninstall remove services tap"),
    "snap": word_set("remove connect"),
    "conda": word_set("remove config"),
    "vagrant": word_set("destroy ssh"),
    "redis-cli": word_set("flushall flushdb FLUSHALL FLUSHDB shutdown config eval EVAL"),
    "rails": word_set(f"runner console {_RAILS_LOSS}"),
    "rake": word_set(_RAILS_LOSS),
    **dict.fromkeys(("manage.py", "django-admin"), word_set("flush reset_db reset_schema")),
    "artisan": word_set("migrate:fresh migrate:reset migrate:refresh db:wipe"),
    "console": word_set("doctrine:database:drop doctrine:schema:drop"),  # bin/console of Symfony
    "firebase": word_set("deploy login"),
    "netlify": word_set("deploy login"),
    "wrangler": word_set("deploy publish secret delete"),
    "fly": word_set("deploy destroy secrets ssh"),
    "supabase": word_set("db secrets"),
    "prisma": word_set("db migrate-reset"),
    "nix-env": word_set("-i -e"),
    "ollama": word_set("push rm"),
    "code": word_set("tunnel serve-web"),
    "btrfs": word_set("delete balance"),
    "gsutil": word_set("rm rb mv rsync iam acl"),
    "s3cmd": word_set("del rm rb sync"),
    "mc": word_set("rm rb mirror"),
    "rclone": word_set("delete deletefile purge sync move rmdir rmdirs cleanup config"),
    "etcdctl": word_set("del rm rmdir defrag"),
    "consul": word_set("delete"),
    "nomad": word_set("stop purge"),
    "rabbitmqctl": word_set(
        "reset force_reset stop stop_app delete_queue purge_queue delete_vhost delete_user"
    ),
    "mysqladmin": word_set("drop shutdown kill password flush-privileges"),
    "mise": word_set("trust"),
    "timedatectl": word_set("set-time set-timezone set-ntp set-local-rtc"),
    "hostnamectl": word_set("set-hostname hostname set-icon-name set-chassis set-deployment"),
    "localectl": word_set("set-locale set-keymap set-x11-keymap"),
}
_OPTIONS = re.compile(
    r"--(?:script-shell|userconfig|globalconfig|prefix|node-options|registry|exec|shell"
    r"|unsafe-perm|toolchain|config)(?:=.*)?"
)
_PACKAGERS = word_set("npm yarn pnpm bun")


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
