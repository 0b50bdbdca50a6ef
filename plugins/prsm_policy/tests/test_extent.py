"""What an allow rule covers beside its own words: nothing that chooses other code or places."""

from __future__ import annotations

import pytest

from plugins.prsm_policy.tests.judging import decide
from tests.command_policies import make_policy


def asks(rule, command, workspace):
    policy = make_policy(allow=[rule])
    return decide(command, workspace, policy=policy, trusted=False) == "ask"


@pytest.mark.requirement("D11")
@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("make docs", "make docs -f other.mk"),
        ("make docs", "make docs -fother.mk"),
        ("make docs", "make docs --file=other.mk"),
        ("make docs", "make docs -C sub"),
        ("make docs", "make docs -kC sub"),
        ("make docs", "make docs deploy"),
        ("make docs", "make docs SHELL=/tmp/x"),
        ("make", "make -I include"),
        ("gradle build", "gradle build publish"),
        ("gradle build", "gradle build -I init.gradle"),
        ("rake lint", "rake lint deploy"),
        ("just check", "just check release"),
        ("ninja", "ninja -C other"),
        ("ninja", "ninja -f other.ninja"),
        ("go build", "go build -o bin/tool"),
        ("go build", "go build -toolexec ./x ./..."),
        ("go build", "go build -overlay o.json"),
        ("go build", "go build -modfile=x.mod"),
        ("go test", "go test -exec ./x ./..."),
        ("pytest", "pytest ../x"),
        ("pytest", "pytest /srv/x"),
        ("pytest", "pytest -c other.ini"),
        ("pytest", "pytest -p plugin"),
        ("pytest", "pytest --rootdir=.."),
        ("pytest", "pytest -o python_files=x.py"),
        ("pytest", "pytest tests/../../x"),
        ("tox", "tox -c other.ini"),
        ("eslint", "eslint -c evil.js src"),
        ("eslint", "eslint -f ./evil.js src"),
        ("eslint", "eslint --resolve-plugins-relative-to=/x"),
        ("jest", "jest --testRunner=./x.js"),
        ("tsc", "tsc -p ../other"),
        ("mypy", "mypy --python-executable ./x src"),
        ("cargo build", "cargo build --manifest-path=../x/Cargo.toml"),
        ("cargo build", "cargo build -Zscript"),
        ("npm run build", "npm run build -C /srv/other"),
        ("npm run build", "npm run build --prefix=../other"),
        ("pip list", "pip list -i https://evil.example"),
        ("mkdir", "mkdir /etc/x"),
        ("mkdir", "mkdir ~/x"),
        ("black", "black ../x"),
        ("docker build", "docker build -f Evil ."),
        ("docker build", "docker build .."),
    ],
)
def test_what_chooses_other_code_or_leads_out_is_not_covered(rule, command, tmp_path):
    assert asks(rule, command, tmp_path)


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("make docs", "make docs"),
        ("make docs", "make docs -j 4 -k"),
        ("make", "make docs deploy"),
        ("make docs -f other.mk", "make docs -f other.mk"),
        ("pytest", "pytest -xvs tests/test_a.py -k 'a and not b'"),
        ("pytest", "pytest tests --tb=short -q"),
        ("go build", "go build ./..."),
        ("go test", "go test -v -run TestA ./pkg/..."),
        ("npm run build", "npm run build -- --prod"),
        ("cargo build", "cargo build --release --features a,b"),
        ("git commit", "git commit -m 'fix: a/b, not ../c'"),
        ("mkdir", "mkdir -p src/a /tmp/b"),
        ("eslint", "eslint src --fix"),
        ("kubectl get", "kubectl get pods -n web --output=json"),
    ],
)
def test_what_a_rule_is_about_is_covered(rule, command, tmp_path):
    assert not asks(rule, command, tmp_path)
