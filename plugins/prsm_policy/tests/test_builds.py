"""Commands that build the project, and look-ups of the tools that do, in a trusted workspace."""

from __future__ import annotations

import pytest

from plugins.prsm_policy.tests.judging import decide, judge, setting
from prsm_core.config.policy_file import parse_rule
from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import Ask
from prsm_core.policies.rule_classes import BUILDS, LOOK_UPS
from prsm_core.policies.written import Written
from tests.command_policies import make_policy

ALLOWED = make_policy(allow=[BUILDS])
FILES = (
    *("gradlew", "mvnw", "tsconfig.json", "src/app.py", "src/main.ts", "data.json", "out.json"),
    "src/Makefile",
    *("node_modules/.bin/tsc", "node_modules/.bin/vite", "node_modules/.bin/next", ".env"),
)
BUILT = [
    "npm run build",
    "npm run build:prod 2>&1 | tail -20",
    "cd src && npm run build",
    "pnpm -r build",
    "pnpm --filter @acme/ui build",
    "npm -w api run build && npm test",
    "yarn build",
    "npx tsc -b",
    "npx tsc -p tsconfig.json",
    "pnpm exec vite build",
    "cargo build --release -p core 2>&1 | grep -E '^error' | head",
    "CI=1 cargo build",
    "cargo doc --no-deps",
    "go build ./... && go vet ./...",
    "go build -o /dev/null ./cmd/server",
    "go build -o bin/server ./cmd/server",
    "./gradlew build -x test",
    "./gradlew clean :api:assemble --console=plain",
    "./mvnw -q clean package -DskipTests",
    "make",
    "make -j8 build",
    "make -C src all",
    "cmake -S . -B build -DCMAKE_BUILD_TYPE=Debug",
    "cmake --build build -j 4 --target all",
    "dotnet build --no-restore",
    "uv build",
    "uv run python -m build",
]
NOT_BUILT = [
    "npm run deploy",
    "npm run build:deploy",
    "npm run build --prefix=/x",
    "npm run build > src/app.py",
    "pnpm --filter ui publish",
    "npx evil build",
    "npx vite build --outDir /x",
    "npx vite build --config evil.js",
    "npx tsc --outDir /x",
    "npx tsc --plugins x",
    "npx tsc src/main.ts",
    "cargo run",
    "cargo install x",
    "cargo build --target-dir /x",
    "cargo build --manifest-path ../x/Cargo.toml",
    "cargo build --config x",
    "cargo rustc -- -C linker=./x",
    "RUSTC_WRAPPER=./x cargo build",
    "go build -o src/app.py ./cmd/server",
    "go build -o bin/rails ./cmd/server",
    "go build -o ../x ./...",
    "go build -toolexec ./x ./...",
    "go build -ldflags=-extld=./x ./...",
    "go build ./cmd/server",
    "go run ./cmd/server",
    "go generate ./...",
    "./gradlew build publish",
    "./gradlew installDist -Pprefix=/x",
    "./mvnw install",
    "./mvnw deploy",
    "./mvnw exec:exec compile",
    "make install",
    "make deploy",
    "make build deploy",
    "make -f x build",
    "make -C .. build",
    "make SHELL=./x",
    "cmake -P x.cmake",
    "cmake -S . -B src",
    "cmake -S .. -B build",
    "cmake -S . -B build -DCMAKE_C_COMPILER=./x",
    "cmake --build build --target install",
    "docker build .",
    "python setup.py build",
    "sudo make",
    "./make",
    "cargo build && rm -rf target",
    "cargo build $(cat x)",
]
QUERIES = [
    "go list ./...",
    "go list -m -json all | head -20",
    "go list -f '{{.ImportPath}}' -deps ./cmd/server",
    "go env GOPATH GOMOD",
    "go version -m bin/server",
    "go mod why -m x/y",
    "cargo tree -p core --depth 1 -i serde",
    "cargo metadata --no-deps --format-version 1 | jq -r '.packages[].name'",
    "npm run",
    "pnpm run",
    "npm -w api run --json",
    "python -m json.tool data.json | head",
    "cat data.json | python3 -m json.tool --indent 2",
    ".venv/bin/python -m json.tool data.json",
    "python -m py_compile src/app.py && echo ok",
    "uv run python -m py_compile src/app.py",
    "node --check src/main.ts",
    "bash -n src/x.sh",
    "tox -l",
    "uv tree --depth 1",
    "uv pip list",
    "poetry show --tree",
    "bundle list",
    "./gradlew tasks --all",
    "pnpm why react",
    "make -n",
]
NO_QUERIES = [
    "go list -toolexec ./x ./...",
    "go list -m -u all",
    "go list -m -versions x/y",
    "go list -mod=mod ./...",
    "go list -export ./...",
    "go list -C .. ./...",
    "go list -modfile=/x ./...",
    "go list -exec ./x ./...",
    "go list x/y@latest",
    "go list ../...",
    "go env",
    "go env -w GOFLAGS=-toolexec=./x",
    "go env -u GOFLAGS",
    "go version -m /usr/bin/x",
    "go mod tidy",
    "go mod download",
    "go tool x",
    "GOFLAGS=-toolexec=./x go list ./...",
    "cargo metadata --config x",
    "cargo metadata --manifest-path ../x/Cargo.toml",
    "cargo tree -Z unstable",
    "cargo +nightly tree",
    "RUSTC_WRAPPER=./x cargo tree",
    "npm run --prefix=/x",
    "npm --script-shell=./x run",
    "npm run evil",
    "npm explore x",
    "python -m json.tool data.json out.json",
    "python -m json.tool .env",
    "python -m json.tool ../x.json",
    "python -m json.tool /etc/passwd",
    "python -m py_compile ../x.py",
    "python -m evil",
    "python -mjson.tool data.json out.json",
    "node --check -r ./x.js src/main.ts",
    "node --check --import=./x src/main.ts",
    "node --checkx src/main.ts",
    "node -c src/main.ts src/app.py",
    "NODE_OPTIONS=--require=./x node --check src/main.ts",
    "bash -n -c id",
    "uv pip install x",
    "poetry show --directory=..",
    "bundle config list",
    "uv tree --script x",
]


@pytest.fixture
def ground(tmp_path):
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}\n")
    return tmp_path


@pytest.mark.requirement("U9")
@pytest.mark.parametrize("command", BUILT)
def test_a_build_asks_until_its_class_is_allowed_and_is_offered_as_that(command, ground):
    plain = make_policy()
    offered = plain.offered(command, setting(ground))
    assert isinstance(offered, Ask)
    assert offered.allow_rules == ((BUILDS,),)
    assert decide(command, ground, policy=ALLOWED) == "allow"


@pytest.mark.requirement("E23")
@pytest.mark.parametrize("command", NOT_BUILT)
def test_what_does_more_than_build_is_not_of_the_class(command, ground):
    assert decide(command, ground, policy=ALLOWED) == "ask"


def test_the_class_holds_nowhere_else(ground):
    command = "cargo build"
    untrusted = make_policy().offered(command, setting(ground, trusted=False))
    assert isinstance(untrusted, Ask)
    assert (BUILDS,) not in untrusted.allow_rules
    assert decide(command, ground, policy=ALLOWED, trusted=False) == "ask"
    assert decide(command, ground, policy=ALLOWED, mode=PermissionMode.PLAN) == "deny"
    assert decide(command, ground, policy=make_policy(allow=[LOOK_UPS])) == "ask"
    denied = make_policy(allow=[BUILDS], deny=["cargo"])
    assert decide(command, ground, policy=denied) == "deny"
    asked = make_policy(allow=[BUILDS], ask=["cargo build"])
    assert judge(command, ground, policy=asked).rule == "ask cargo build"


@pytest.mark.parametrize(
    ("written", "command"),
    [
        ("gradlew", "./gradlew build"),
        ("node_modules", "npm run build"),
        ("pyproject.toml", "uv build"),
        (".venv", ".venv/bin/python -m build"),
    ],
)
def test_a_build_by_what_an_agent_has_written_is_not_of_the_class(written, command, ground):
    notes = Written()
    policy = make_policy(allow=[BUILDS], written=notes)
    assert decide(command, ground, policy=policy) == "allow"
    notes.note({written})
    assert decide(command, ground, policy=policy) == "ask"


def test_the_class_can_only_be_allowed():
    assert parse_rule(BUILDS) == (BUILDS,)
    for value, verdict in [("@build", "allow"), ("@builds npm", "allow"), (BUILDS, "deny")]:
        with pytest.raises(ValueError, match="class of commands"):
            parse_rule(value, verdict)


@pytest.mark.requirement("E23")
@pytest.mark.parametrize("command", QUERIES)
def test_a_look_up_of_a_build_tool_is_safe_where_the_workspace_is_trusted(command, ground):
    assert decide(command, ground) == "allow"
    assert decide(command, ground, mode=PermissionMode.PLAN) == "allow"


@pytest.mark.requirement("E23")
@pytest.mark.parametrize("command", QUERIES)
def test_it_loads_the_projects_configuration_and_asks_elsewhere(command, ground):
    if command != "go env GOPATH GOMOD":
        assert decide(command, ground, trusted=False) == "ask"
    (ground / "go.mod").touch()
    assert decide(command, ground, trusted=False) == "ask"


@pytest.mark.requirement("E23")
@pytest.mark.parametrize("command", NO_QUERIES)
def test_a_look_up_that_may_run_write_or_fetch_asks(command, ground):
    assert decide(command, ground) == "ask"
