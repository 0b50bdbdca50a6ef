"""Where secrets lie on a machine, beyond what the names of files tell: the table of the sandbox.

Names that give a secret away wherever they are found are those of `names.secret_part`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.permissions.names import secret_part
from prsm_core.shell.tables import word_set

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
