"""Which names and places are protected or secret, and which patterns may stand for one that is."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from prsm_core.policies.patterns import UntoldError, part_of
from prsm_core.policies.tables import word_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

# Writing to one of these can widen what an agent may do, or run code later.
_PROTECTED = word_set(
    ".git .prism .claude .codex .gemini .agents .mcp.json .vscode .idea .cursor .husky .envrc"
    " .qwen .opencode .windsurf .kiro .roo .zed .devcontainer"
    " .gitconfig .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .inputrc"
    " .zshrc .zshenv .zprofile .zlogin .zlogout .kshrc .cshrc .tcshrc .login .xprofile .xinitrc"
    " .pam_environment .npmrc .yarnrc .yarnrc.yml .pypirc .pythonrc .pdbrc .gdbinit .vimrc .exrc"
    " .ripgreprc config.fish authorized_keys sudoers crontab"
)
# Reading one of these, or what is in a folder of that name, gives away what opens other doors.
_SECRET = word_set(
    ".ssh .aws .gnupg .kube .azure .docker .gcloud .password-store .env .netrc .pgpass .boto .s3cfg"
    " .git-credentials .vault-token .htpasswd .my.cnf .mylogin.cnf .pypirc .npmrc .dockercfg"
    " .credentials .credentials.json .secret .secrets .terraformrc .mozilla .thunderbird keyrings"
)
# These are files: folders of such a name hold source.
_SECRET_FILE = word_set(
    "_netrc shadow gshadow shadow- gshadow- environ auth.json oauth_creds.json terraform.rc"
    " rclone.conf .rclone.conf logins.json key4.db cookies.sqlite credentials.tfrc.json"
    " settings-security.xml"
)
_KEY = r"pem|key|p8|p12|pfx|jks|keystore|kdbx|ppk|gpg|ovpn|keychain|keychain-db|tfvars|tfstate"
_SECRET_SHAPE = re.compile(
    rf"\.env\..*|.+\.env|.*\.(?:{_KEY})|.*\.(?:tfvars\.json|tfstate\.backup)"
    r"|id_(?:rsa|dsa|ecdsa|ed25519).*|\..*(?:history|hsts|lesshst)"
    r"|(?:client|app)[-_]secrets?.*\.json|service[-_]?account.*\.json|.*firebase-adminsdk.*\.json"
)
_SECRET_ONES = re.compile(
    r"(?:secrets?|credentials?)(?:\.(?:json|ya?ml|toml|ini|cfg|conf|txt|env|xml|csv|properties))?"
)
_SECRET_PATH = re.compile(
    r"(?:^|/)\.config/(?:gh|gcloud|op|prsm|rclone|hub|glab-cli|google-chrome|chromium"
    r"|bravesoftware|microsoft-edge)(?:/|$)|(?:^|/)\.local/(?:state|share)/prsm(?:/|$)"
    r"|(?:^|/)(?:\.cargo/credentials(?:\.toml)?|\.gem/credentials"
    r"|\.m2/settings\.xml|proc/(?:[^/]+/)+mem|proc/kcore|dev/k?mem)$|(?:^|/)dev/(?:tcp|udp)/"
)
# What has such a shape and is shown to everybody.
_HARMLESS = re.compile(
    r"(?:.*\.)?env\.(?:.+\.)?(?:example|sample|template|tpl|dist|defaults|schema)"
    r"|(?:example|sample|template)\.env|(?:.*\.)?(?:example|sample|template)\.tfvars"
    r"|(?:.*[-_.])?(?:pub|public)[-_.]?(?:key)?\.(?:pem|key|gpg)|id_\w+(?:-cert)?\.pub"
    r"|(?:ca|(?:.*[-_.])?(?:ca)?certs?|ca[-_]?bundle|(?:full)?chain)\.pem"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)\w*\.(?:py|js|ts|go|rs|rb|java|md)"
)
_SOURCE = re.compile(
    r".+\.(?:py|pyi|js|jsx|mjs|cjs|ts|tsx|go|rs|java|kt|rb|php|c|h|cc|cpp|hpp|cs|swift|scala|ex|exs"
    r"|clj|hs|lua|vue|svelte|html|css|scss|md|rst|sh|sql|proto)"
)
_CLOSE = re.compile(r"/(?:\.config|\.cargo|\.gem|\.m2|secrets?|credentials?)(?:/|$)")
_TRANSLATED = re.compile(r"(?:^|/)(?:locales?|i18n|lang|languages|translations|messages)/")
_SEPARATOR = re.compile(r"[/:=,@]")
# What a pattern must not match, lest the shell fills in one of the above.
_EXAMPLES = (
    *sorted(_SECRET | _SECRET_FILE),
    *(
        ".env.local",
        "prod.env",
        "key.pem",
        "server.key",
        "id_rsa",
        ".bash_history",
        ".zsh_history",
        "credentials",
    ),
)
# A name is looked at closely only if it begins or ends so.
_BEGINNINGS = (
    *(".", "_netrc", "id_", "secret", "credential", "client", "app", "service"),
    *("shadow", "gshadow", "environ", "auth.json", "oauth_creds", "terraform.rc", "rclone.conf"),
    *("logins.json", "key4.db", "cookies.sqlite", "settings-security", "keyrings"),
)
_ENDINGS = frozenset({*_KEY.split("|"), "env", "json", "backup"})
_FIRST = frozenset(beginning[:3] for beginning in _BEGINNINGS)


@lru_cache(maxsize=4096)
def secret_part(path: str) -> str | None:
    """Return the part of a path (or of an argument that holds one) that names a secret."""
    folded = path.casefold()
    if match := _SECRET_PATH.search(folded):
        return match.group()
    at = 0
    for part in _SEPARATOR.split(folded):
        at += len(part)
        if _is_secret(part, folded, at):
            return part
        at += 1
    return None


def protected_names() -> frozenset[str]:
    """Return the names that nobody writes without asking, in lower case."""
    return _PROTECTED


@lru_cache(maxsize=4096)
def protected_part(path: str) -> str | None:
    """Return the part of a path (or of an argument that holds one) that nobody writes unasked."""
    for part in _SEPARATOR.split(path.casefold()):
        if part in _PROTECTED:
            return part
    return secret_part(path)


def needs_path(folder: str) -> bool:
    """Return whether names in a folder can be secret by where they are."""
    is_close = _CLOSE.search(f"/{folder}".casefold()) is not None
    return is_close or secret_part(f"{folder}/x") is not None


def may_be_secret(name: str) -> bool:
    """Return quickly whether a name needs a closer look, unless its folder `needs_path`."""
    folded = name.casefold()
    return folded.startswith(_BEGINNINGS) or folded.rpartition(".")[2] in _ENDINGS


def may_be_secrets(names: Sequence[str]) -> list[str]:
    """Return those of many names that `may_be_secret`, which none is in most folders."""
    return [
        name
        for name, text in zip(names, "/".join(names).casefold().split("/"), strict=False)
        if (text[:1] == "." or text[:3] in _FIRST or text.rpartition(".")[2] in _ENDINGS)
        and may_be_secret(name)
    ]


def may_show_secret(pattern: str) -> bool:
    """Return whether a pattern for hidden names, or one below the home folder, finds a secret.

    Its parts are as the shell matches them, with a backslash before what is quoted.
    """
    parts = pattern.split("/")
    is_near = any(part[:1] in {".", "~"} and part not in {".", ".."} for part in parts)
    return is_near and may_match_secret(pattern)


def may_match_secret(pattern: str) -> bool:
    """Return whether a pattern may stand for a secret once there is one."""
    *folders, last = pattern.casefold().split("/")
    for text in filter(None, (*folders, last)):
        try:
            part = part_of(text)
        except UntoldError:
            return True
        # Secrets without a dot at the beginning are files, not folders.
        is_file = text == last
        if any(part.may_match(name) for name in _EXAMPLES if is_file or name[0] == "."):
            return True
    return False


def _is_secret(part: str, path: str, end: int) -> bool:
    """Return whether one part of a path, which ends there, names a secret or a folder of them."""
    if part in _SECRET:
        return True
    is_folder = path[end : end + 1] == "/" and end + 1 < len(path)
    if _SECRET_ONES.fullmatch(part):  # what is source in a folder of that name is none
        return not (is_folder and _SOURCE.fullmatch(path))
    if part in _SECRET_FILE:
        return not (is_folder or (part == "auth.json" and _TRANSLATED.search(path)))
    return _SECRET_SHAPE.fullmatch(part) is not None and _HARMLESS.fullmatch(part) is None


# Below the home folder, as far as the last name alone does not tell.
HOME_PLACES = (
    # logins of agents' programs
    *(".codex", ".claude", ".claude.json", ".gemini", ".qwen", ".opencode", ".factory"),
    *(".cursor", ".copilot", ".codeium", ".continue", ".aider.conf.yml"),
    *(".local/share/opencode", ".amp", ".config/opencode", ".config/github-copilot"),
    *(".config/claude", ".config/goose", ".kiro", ".config/amp", ".local/share/amp"),
    *(".local/share/goose", ".openai", ".anthropic", ".kimi"),
    # logins of services and registries
    *(".config/gh", ".config/hub", ".config/glab-cli", ".config/gcloud", ".config/op", ".op"),
    *(".config/doctl", ".config/heroku", ".config/rclone", ".rclone.conf"),
    *(".config/containers", ".config/git/credentials", ".config/netlify"),
    *(".config/configstore", ".config/vercel", ".config/stripe", ".config/sops", ".config/age"),
    *(".config/composer/auth.json", ".composer/auth.json", ".config/pypoetry/auth.toml"),
    *(".config/hcloud", ".config/fly", ".fly", ".config/linode-cli", ".config/helm"),
    *(".config/Bitwarden CLI", ".config/lastpass", ".config/keybase", ".config/nix/netrc"),
    *(".local/share/com.vercel.cli", ".vercel", ".netlify", ".heroku", ".oci", ".bluemix"),
    *(".s3cfg", ".cargo/credentials", ".cargo/credentials.toml", ".m2/settings.xml"),
    *(".m2/settings-security.xml", ".gradle/gradle.properties", ".sbt/.credentials"),
    *(".ivy2/.credentials", ".gem/credentials", ".bundle/config", ".nuget/NuGet", ".hex"),
    *(".terraform.d/credentials.tfrc.json", ".terraformrc", ".pulumi", ".vault-token", ".boto"),
    *(".databrickscfg", ".snowflake", ".snowsql", ".dbt", ".kaggle"),
    *(".cache/huggingface/token", ".huggingface", ".wakatime.cfg", ".mc", ".minikube"),
    *(".circleci", ".travis", ".yarnrc.yml", ".local/share/jupyter/runtime", ".ngrok2"),
    *(".config/ngrok", ".cloudflared", ".wrangler", ".config/.wrangler", ".tsh"),
    *(".subversion/auth",),
    # keys, keyrings, password stores
    *(".local/share/keyrings", ".gnome2/keyrings", ".local/share/kwalletd", ".kde", ".pki"),
    *(".putty", ".local/share/password-store", ".config/keepassxc", ".keepass", ".age"),
    *(".config/1Password", ".1password", ".config/Bitwarden", ".local/share/gopass", ".gnome2"),
    *(".bitcoin", ".ethereum", ".electrum", ".config/solana", ".Xauthority", ".ICEauthority"),
    # browsers and mail
    *(".mozilla", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware"),
    *(".config/vivaldi", ".config/google-chrome-beta", ".config/microsoft-edge"),
    *(".config/opera", ".config/zen", ".zen", ".librewolf", ".waterfox", ".thunderbird"),
    *(".var/app", "snap", ".config/Slack", ".config/discord", ".config/Signal"),
    *(".config/Code/User/globalStorage", ".config/Cursor", ".local/share/evolution"),
    *(".config/Element", ".local/share/TelegramDesktop", ".msmtprc", ".mutt", ".config/mutt"),
    *(".fetchmailrc", ".offlineimaprc", ".mbsyncrc", ".authinfo", ".authinfo.gpg", ".irssi"),
    # what was typed
    *(".local/share/fish/fish_history", ".local/share/nushell", ".config/nushell/history.txt"),
    *(".local/state/bash", ".local/state/zsh", ".local/share/atuin", ".local/state/less"),
    *(".viminfo", ".local/state/nvim", ".local/share/nvim/shada", ".lesshst", ".histfile"),
    *(".zhistory", ".config/fish/fish_variables", ".ipython/profile_default/history.sqlite"),
    *(".zsh_sessions", ".bash_sessions", ".recently-used"),
    # sockets and machines of containers
    *(".docker", ".colima", ".lima", ".orbstack", ".rd", ".local/share/containers"),
    *(".vagrant.d", ".dbus", ".tmux", ".screen", ".emacs.d/server", ".config/emacs/server"),
    *(".byobu",),
)  # fmt: skip
"""Paths below the home folder."""

# What only its owner reads: root, whose files they are, in the first place.
SYSTEM_PLACES = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers"),
    *("/etc/sudoers.d", "/etc/ssl/private", "/etc/pki/tls/private", "/etc/letsencrypt"),
    *("/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_ecdsa_key"),
    *("/etc/ssh/ssh_host_ed25519_key", "/etc/krb5.keytab", "/etc/wireguard", "/etc/openvpn"),
    *("/etc/ppp", "/etc/ipsec.secrets", "/etc/NetworkManager/system-connections"),
    *("/etc/wpa_supplicant", "/etc/security/opasswd", "/etc/docker/key.json"),
    *("/etc/kubernetes", "/etc/rancher", "/etc/credstore", "/etc/credstore.encrypted"),
    *("/etc/mysql/debian.cnf", "/etc/vault.d", "/etc/consul.d", "/var/lib/docker"),
    *("/var/lib/containers", "/var/lib/kubelet", "/var/lib/etcd"),
    *("/var/lib/systemd/credential.secret", "/var/lib/NetworkManager", "/var/lib/bluetooth"),
    *("/var/lib/sss", "/var/lib/cloud", "/var/spool/cron", "/var/spool/at", "/var/mail"),
    *("/var/spool/mail", "/var/backups", "/var/lib/lxd", "/var/lib/incus", "/var/lib/libvirt"),
    *("/var/snap", "/mnt/wslg"),
)  # fmt: skip
"""Absolute paths."""

# Variables that move one of these elsewhere; each may hold several paths.
_MOVERS = word_set(
    "CARGO_HOME GNUPGHOME AWS_SHARED_CREDENTIALS_FILE AWS_CONFIG_FILE KUBECONFIG DOCKER_CONFIG"
    " CODEX_HOME CLAUDE_CONFIG_DIR GEMINI_CLI_HOME GH_CONFIG_DIR CLOUDSDK_CONFIG AZURE_CONFIG_DIR"
    " NPM_CONFIG_USERCONFIG npm_config_userconfig PGPASSFILE NETRC HISTFILE RCLONE_CONFIG"
    " PASSWORD_STORE_DIR GOOGLE_APPLICATION_CREDENTIALS XAUTHORITY SSH_AUTH_SOCK GIT_ASKPASS"
)
_WHOLE_TREES = {"CARGO_HOME": ("credentials", "credentials.toml")}  # programs lie there, too
_BASES = (
    ("XDG_CONFIG_HOME", ".config/"),
    ("XDG_DATA_HOME", ".local/share/"),
    ("XDG_STATE_HOME", ".local/state/"),
)
# Secret by name, and yet what a build reads: package managers' settings, folders of a Dockerfile.
_BUILD_READS = word_set(".npmrc .docker")


def secret_places(homes: Iterable[str], environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the places of the machine and of `homes` that hold secrets, those that exist."""
    for home in homes:
        with suppress(OSError), os.scandir(home) as entries:
            yield from (entry.path for entry in entries if secret_part(entry.name))
        yield from (path for place in HOME_PLACES if os.path.lexists(path := f"{home}/{place}"))
    yield from filter(os.path.lexists, moved_places(environ))
    for place in SYSTEM_PLACES:
        if os.access(place, os.R_OK):
            yield place


def moved_places(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield where the environment says that secrets are kept; paths that may not exist."""
    for name in sorted(_MOVERS):
        for path in filter(None, environ.get(name, "").split(":")):
            if path.startswith("/"):
                yield from (f"{path}/{part}" for part in _WHOLE_TREES.get(name, ("",)))
    for name, usual in _BASES:
        if (base := environ.get(name, "")).startswith("/"):
            yield from (
                f"{base}/{place.removeprefix(usual)}"
                for place in HOME_PLACES
                if place.startswith(usual)
            )


def is_secret_of_workspace(name: str) -> bool:
    """Return whether a name inside a workspace is hidden from commands.

    These are dotfiles such as `.env` and private keys by their usual names. Certificates and
    other names that the policy asks about are left: builds and tests read them.
    """
    folded = name.casefold()
    if not folded.startswith((".", "id_")) or folded in _BUILD_READS:
        return False
    return secret_part(folded) is not None
