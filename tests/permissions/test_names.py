"""Names that may hold a secret, and names that only look so."""

from __future__ import annotations

import pytest
from prsm_policy.secret_names import may_be_secret, may_match_secret, needs_path

from prsm_core.policies.names import secret_part
from prsm_core.policies.tables import word_set

SECRET = sorted(
    word_set("""
.env .env.local .env.production deploy/.env.staging prod.env .ssh/config .aws/credentials
.kube/config .netrc _netrc .npmrc .pypirc .git-credentials .vault-token .htpasswd .boto .s3cfg
.cargo/credentials .cargo/credentials.toml .m2/settings.xml .m2/settings-security.xml
.gem/credentials .terraformrc terraform.tfvars prod.auto.tfvars terraform.tfstate
terraform.tfstate.backup rclone.conf .config/rclone/rclone.conf .config/gh/hosts.yml
.config/google-chrome/Default/Cookies .mozilla/firefox/x/logins.json key4.db
id_rsa id_ed25519.bak server.key key.pem private.pem cert.p12 AuthKey_X.p8 vault.kdbx home.ovpn
service-account.json service_account-prod.json client_secret_1.json x-firebase-adminsdk-1.json
auth.json .codex/auth.json .claude/.credentials.json .gemini/oauth_creds.json
credentials credentials.json config/secrets.yaml secrets/db_password.txt secrets/token
.bash_history .python_history .secrets /etc/shadow /proc/self/environ a:.env --file=.env X.PEM
""")
)
ORDINARY = sorted(
    word_set("""
README.md src/secrets.py src/secrets/manager.py src/credentials/store.go test_credentials.py
keys.ts src/keys/index.ts keyboard.py public.key public.pem cacert.pem ca-bundle.pem fullchain.pem
id_rsa.pub id_ed25519.pub id_rsa_test.py .env.example .env.sample .env.template .env.test.example
example.env env.d.ts src/env.ts environment.yml environ.py src/shadow/dom.ts shadow.css
src/locales/en/auth.json i18n/auth.json author.json secretary.md history.md .gitignore .github/x.yml
app.config.json package.json tsconfig.json service.json settings.xml conf/settings.xml monkey.py
example.tfvars terraform.tf .vscode/settings.json Makefile credentials_test.go
""")
)


@pytest.mark.requirement("E18")
@pytest.mark.parametrize("path", SECRET)
def test_a_secret_is_known_by_its_name(path):
    assert secret_part(path) is not None


@pytest.mark.requirement("E18")
@pytest.mark.parametrize("path", ORDINARY)
def test_what_is_read_every_day_is_no_secret(path):
    assert secret_part(path) is None


@pytest.mark.parametrize("path", [each for each in SECRET if ":" not in each and "=" not in each])
def test_the_quick_look_misses_no_secret(path):
    folder, _, name = path.rpartition("/")
    assert may_be_secret(name) or needs_path(folder)


@pytest.mark.parametrize(
    ("pattern", "is_secret"),
    [
        (".en[^x]", True),
        (".[[:alpha:]]*", True),
        (".[^.]*", True),
        (".e\\nv", True),
        ("*.[pq]em", True),
        ("[[:none:]]", True),
        ("*.py", False),
        ("src/*.ts", False),
        ("*/app.*", False),
        (".github/*.yml", False),
    ],
)
def test_a_pattern_that_may_stand_for_a_secret_is_known(pattern, is_secret):
    assert may_match_secret(pattern) is is_secret
