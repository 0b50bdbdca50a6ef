"""Checks by the project's own environment: unasked where it is trusted and no agent wrote there."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from plugins.prsm_policy.tests.judging import decide
from prsm_core.config import resolve_paths
from prsm_core.config.paths import written_path
from prsm_core.config.trust import trust
from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import Allow, Ask, Deny
from prsm_core.permissions.kept_names import KeptNames
from prsm_core.permissions.results import outcome_of
from prsm_core.policies.rule_classes import BUILDS
from tests.command_policies import make_policy
from tests.permissions.brokers import broker, make_context, shell, uses

FILES = (
    *(".venv/bin/pytest", ".venv/bin/ruff", ".venv/bin/activate", "venv/bin/activate"),
    *("api/.venv/bin/pytest", "node_modules/.bin/jest", "vendor/bin/phpunit", "gradlew", "mvnw"),
    *("bin/rails", "manage.py", "pyproject.toml", "src/app.py", "src/evil", "api/src/x.py"),
    *("api/package.json", "api/Makefile"),
)
CHECKS = [
    ".venv/bin/pytest -q tests 2>&1 | tail -20",
    "./.venv/bin/pytest",
    "{ws}/.venv/bin/pytest -q",
    ".venv/bin/python -m pytest -x",
    ".venv/bin/python --version",
    ".venv/bin/pip list",
    "cd api && .venv/bin/pytest",
    "timeout 60 .venv/bin/pytest; echo $?",
    "source .venv/bin/activate && pytest -q && ruff check .",
    ". venv/bin/activate; python -m mypy src",
    "cd {ws} && source .venv/bin/activate && python manage.py test 2>&1 | tail",
    "uv run pytest -q",
    "uv run --frozen --extra dev -- pytest",
    "uv run -m pytest -q",
    "uv run python -m pytest",
    "uv run tox -e lint",
    "poetry run mypy src",
    "pdm run test",
    "hatch run lint",
    "pipenv run pytest",
    "./gradlew test",
    "./gradlew :api:check --console=plain",
    "./mvnw -q test -Dtest=ServerTest",
    "vendor/bin/phpunit --filter testLogin tests",
    "bundle exec rspec spec/models",
    "bundle exec rubocop app",
    "bin/rails test test/models/user_test.rb:12 -n test_x",
    "tox -e py311-django,lint -- -x -q",
    "python -m nox -s tests-3.12 lint",
    "pre-commit run --all-files",
    "python manage.py test accounts --keepdb",
    "pnpm -r test",
    "pnpm --filter @acme/ui run lint 2>&1 | tail -20",
    "pnpm --filter=./api exec tsc --noEmit -p tsconfig.json",
    "pnpm -C api test",
    "yarn workspace @acme/ui test src/x.test.ts",
    "yarn workspaces foreach -A run lint",
    "npm -w api test",
    "npm run test --workspaces --if-present",
    "npm --prefix api run lint",
    "npm test -- --coverage",
    "make -C api test",
    "RUST_BACKTRACE=1 RUST_LOG=debug,hyper=info cargo test",
    "PYTHONPATH=src:. pytest",
]
OTHERS = [
    ".venv/bin/python src/app.py",
    ".venv/bin/python -c 'import os'",
    ".venv/bin/evil",
    "node_modules/.bin/jest src",
    ".venv/bin/pip install x",
    ".venv/bin/pytest --rootdir=/x",
    ".venv/bin/pytest > .venv/x",
    ".venv/bin/../../src/evil",
    "x/bin/pytest",
    "../.venv/bin/pytest",
    "/opt/.venv/bin/pytest",
    "~/.venv/bin/pytest",
    "src/pytest",
    "source src/activate",
    "source .venv/bin/evil",
    "source .venv/bin/activate x",
    ". ../.venv/bin/activate",
    "uv run --with evil pytest",
    "uv run --python 3.13 pytest",
    "uv run --index-url=http://x pytest",
    "uv run --directory .. pytest",
    "uv run src/app.py",
    "uv run python -c 1",
    "uv run http://x/y.py",
    "uv run",
    "uvx pytest",
    "uv tool run pytest",
    "poetry run deploy",
    "poetry run python src/app.py",
    "pdm run deploy",
    "poetry -C .. run pytest",
    "./gradlew publish",
    "./gradlew test publish",
    "./gradlew test --init-script x",
    "./gradlew test -Dx=y",
    "./mvnw deploy",
    "./mvnw test -s x.xml",
    "./mvnw exec:java",
    "bundle exec rake deploy",
    "bundle exec ruby x.rb",
    "bin/rails db:drop",
    "bin/rails runner x",
    "bin/rails test:deploy",
    "bundle exec rake test:deploy",
    "pre-commit run --hook-stage=manual",
    "bin/evil test",
    "tox -e deploy",
    "tox -e lint -c /x",
    "tox -e lint -- --rootdir=/x",
    "nox -s release",
    "nox -f x.py",
    "pre-commit install",
    "pre-commit run --config=x",
    "pre-commit autoupdate",
    "python manage.py flush",
    "python manage.py test --settings=evil",
    "python manage.py makemigrations",
    "pnpm --filter ui publish",
    "pnpm --filter ui exec node x.js",
    "pnpm --filter ui dlx evil",
    "pnpm -r exec rm x",
    "pnpm -C .. test",
    "pnpm --dir=/x test",
    "pnpm --config.script-shell=./x test",
    "yarn workspace ui deploy",
    "yarn workspaces foreach -A exec rm x",
    "yarn --cwd .. test",
    "npm --prefix .. test",
    "npm test --prefix=/x",
    "npm --script-shell=./x test",
    "npm test --script-shell=./x",
    "npm -w ../x test",
    "npm -w api run deploy",
    "make -C .. test",
    "make -C",
    "make -f x test",
    "deno test https://x.example/a.ts",
    "bun test https://x.example/a.ts",
    "node --test data:text/javascript,x",
    ".venv/bin/pytest git+https://x.example/a",
    "make -C src test",
    "make -C api -n",
    "npm test src",
    "npm --prefix src test",
    "npx tsc --noEmit -p other.json",
    "npx tsc --noEmit -p ../tsconfig.json",
    "PYTHONPATH=/x pytest",
    "PYTHONPATH=../x pytest",
    "PYTHONPATH=src: pytest",
    "PYTHONPATH=~/x pytest",
    "PYTHONPATH=$X pytest",
    "PYTHONPATH=.venv/lib pytest",
    "PYTHONHOME=src pytest",
    "RUST_LOG=$(id) cargo test",
]


@pytest.fixture
def ground(tmp_path):
    work = tmp_path / "work"
    for name in FILES:
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("x\n")
    (work / ".venv/bin/python").symlink_to("/usr/bin/python3")
    return work


@pytest.mark.requirement("E23")
@pytest.mark.parametrize("command", CHECKS)
def test_a_check_by_the_projects_environment_runs_unasked_where_it_is_trusted(command, ground):
    command = command.format(ws=ground)
    assert decide(command, ground) == "allow"
    assert decide(command, ground, trusted=False) == "ask"
    assert decide(command, ground, mode=PermissionMode.PLAN) == "allow"


@pytest.mark.requirement("E23")
@pytest.mark.parametrize("command", OTHERS)
def test_what_is_no_check_of_the_environment_asks(command, ground):
    assert decide(command, ground) == "ask"


@pytest.mark.parametrize(
    ("link", "target"),
    [
        (".venv/bin/pytest", "/usr/bin/id"),
        (".venv/bin/python", "../../src/evil"),
        ("venv", ".venv"),
        ("venv", "src"),
        ("api/.venv", "/opt"),
    ],
)
def test_a_program_that_lies_elsewhere_asks(link, target, ground):
    path = ground / link
    if path.is_dir() and not path.is_symlink():
        path.rename(ground / "moved")
    else:
        path.unlink()
    path.symlink_to(target)
    (ground / "src/bin").mkdir()
    program = link if "/bin/" in link else f"{link}/bin/pytest"
    assert decide(f"{program} -m pytest" if "python" in link else program, ground) == "ask"
    if "/bin/" not in link:
        assert decide(f"source {link}/bin/activate && pytest", ground) == "ask"


class Desk:
    """A broker on a workspace, and what becomes of requests there."""

    def __init__(self, workspace, path, mode=PermissionMode.DEFAULT):
        self.broker = broker(make_policy(written=KeptNames(path)))
        self.context = replace(make_context(workspace), mode=mode)

    def decide(self, request):
        return asyncio.run(self.broker.decide(request, self.context))

    def runs(self, command):
        return isinstance(self.decide(shell(command)), Allow)

    def let_through(self, request):
        """Have a person allow a request."""
        self.broker.settle(request, self.context, Allow())


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "written"


ENVIRONMENTS = [
    (".venv/lib/python3.11/site-packages/pytest/__init__.py", ".venv/bin/pytest"),
    (".venv/bin/pytest", "source .venv/bin/activate && pytest"),
    (".venv/bin/pytest", "uv run pytest"),
    ("api/.VENV/bin/pytest", "cd api && .venv/bin/pytest"),
    ("node_modules/jest/index.js", "npx jest"),
    ("node_modules/.bin/jest", "npm test"),
    ("vendor/bin/phpunit", "vendor/bin/phpunit"),
    ("vendor/phpunit/phpunit/src/TestCase.php", "vendor/bin/phpunit"),
    (".yarn/releases/yarn-4.cjs", "yarn test"),
    ("gradlew", "./gradlew test"),
    ("gradle/wrapper/gradle-wrapper.properties", "./gradlew test"),
    (".mvn/extensions.xml", "./mvnw test"),
    (".bundle/config", "bundle exec rspec"),
    (".tox/py/bin/pytest", "tox"),
]


@pytest.mark.requirement("E23")
@pytest.mark.parametrize("mode", list(PermissionMode))
@pytest.mark.parametrize("written", [written for written, _ in ENVIRONMENTS])
def test_an_edit_of_the_environment_is_asked_about_in_every_mode(written, mode, ground, path):
    verdict = Desk(ground, path, mode).decide(uses("Write", written))
    refuses = {PermissionMode.PLAN, PermissionMode.DELEGATE}
    assert isinstance(verdict, Deny if mode in refuses else Ask)


@pytest.mark.requirement("E23")
@pytest.mark.parametrize(("written", "command"), ENVIRONMENTS)
def test_where_an_edit_was_let_through_checks_ask_also_in_a_later_session(
    written, command, ground, path
):
    (ground / "node_modules/.bin/jest").touch()
    desk = Desk(ground, path)
    assert desk.runs(command)
    desk.let_through(uses("Write", written))
    assert not desk.runs(command)
    assert not Desk(ground, path).runs(command)
    assert Desk(ground, path.with_name("of another workspace")).runs(command)


@pytest.mark.parametrize(
    ("command", "check"),
    [
        ("cp src/evil .venv/bin/pytest", ".venv/bin/pytest"),
        ("cd .venv/bin && cp ../../src/evil pytest", ".venv/bin/pytest"),
        ("echo x > .venv/bin/pytest", ".venv/bin/pytest"),
        ("cat src/evil | tee .venv/bin/pytest", ".venv/bin/pytest"),
        ("tee .venv/bin/pytest < src/evil", ".venv/bin/pytest"),
        ("cp src/evil .v*/bin/pytest", ".venv/bin/pytest"),
        ("cp src/evil v?nv/bin/pytest", "source venv/bin/activate"),
        ("rm -rf * && cp -r x/* .", "source venv/bin/activate"),
        ("python -c \"open('.venv/bin/pytest', 'w')\"", ".venv/bin/pytest"),
        ("python - <<'E'\nopen('.venv/bin/pytest', 'w')\nE", ".venv/bin/pytest"),
        ("bash -c 'echo x > .venv/bin/pytest'", ".venv/bin/pytest"),
        ("x=.venv; cp src/evil $x/bin/pytest", ".venv/bin/pytest"),
        ("find .venv -name pytest | xargs cp src/evil", ".venv/bin/pytest"),
        ("tar xf evil.tar", ".venv/bin/pytest"),
        ("cd x && unzip -o ../evil.zip", "npm test"),
        ("cp -r evil/. .", ".venv/bin/pytest"),
        ("python -m venv .venv", ".venv/bin/pytest"),
        ("ln -s ../src .venv", ".venv/bin/pytest"),
        ("npm run build --prefix node_modules/x", "npx jest"),
        ("sed -i s/a/b/ node_modules/jest/index.js", "npm test"),
        ("chmod +x gradlew && sed -i s/a/b/ gradlew", "./gradlew test"),
        ("git checkout evil -- manage.py", "python manage.py test"),
        ("echo x > bin/rails", "bin/rails test"),
        ("sed -i s/a/b/ pyproject.toml", "uv run pytest"),
        ("echo evil >> requirements-dev.txt", "tox"),
        ("echo evil > .pre-commit-config.yaml", "pre-commit run"),
    ],
)
def test_a_command_that_was_let_through_counts_for_what_it_names(command, check, ground, path):
    desk = Desk(ground, path)
    assert desk.runs(check)
    desk.let_through(shell(command))
    assert not desk.runs(check)


@pytest.mark.parametrize(
    "command",
    [
        "cat .venv/pyvenv.cfg",
        ".venv/bin/pytest",
        "git add pyproject.toml && git commit -m 'Update pyproject.toml for .venv'",
        "grep -rn x src --exclude-dir=node_modules --exclude-dir=.venv > out.txt",
        ".venv/bin/python src/app.py",
        "source .venv/bin/activate && python src/app.py",
        "npm run build",
        "pip install -r requirements.in",
        "npm install",
        "uv sync",
        "rm -rf build/*",
        "black src/*.py",
    ],
)
def test_what_a_person_lets_through_and_names_no_place_of_the_environment_does_not_count(
    command, ground, path
):
    desk = Desk(ground, path)
    desk.let_through(shell(command))
    for check in (".venv/bin/pytest", "uv run pytest", "npm test", "source venv/bin/activate"):
        assert desk.runs(check)


@pytest.mark.parametrize(
    ("command", "check"),
    [
        ("pip install evil", ".venv/bin/pytest"),
        (".venv/bin/pip install evil", ".venv/bin/pytest"),
        ("python -m pip install evil", "source venv/bin/activate"),
        ("uv add evil", "uv run pytest"),
        ("poetry add evil", "poetry run pytest"),
        ("npm install evil", "npm test"),
        ("cd x && pnpm add evil", "pnpm test"),
    ],
)
def test_what_is_installed_unasked_in_bypass_mode_counts(command, check, ground, path):
    bypass = Desk(ground, path, PermissionMode.BYPASS)
    bypass.let_through(shell(command))
    assert not Desk(ground, path).runs(check)


@pytest.mark.requirement("E23")
def test_an_edited_manifest_is_asked_about_until_it_was_fetched_by_once(ground, path):
    desk = Desk(ground, path)
    assert desk.runs("uv run pytest")
    edit = uses("Edit", "pyproject.toml")
    assert isinstance(desk.decide(edit), Allow)  # an edit like any other, which counts
    assert not desk.runs("uv run pytest")
    assert not desk.runs("tox -e lint")
    assert desk.runs(".venv/bin/pytest")  # which fetches nothing
    desk.let_through(shell("uv run pytest"))
    assert desk.runs("uv run ruff check")
    bypass = Desk(ground, path, PermissionMode.BYPASS)
    assert isinstance(bypass.decide(edit), Allow)
    assert bypass.runs("uv run pytest")  # nobody has allowed it
    assert not desk.runs("uv run pytest")


def test_a_bare_name_asks_where_it_leads_into_what_an_agent_has_written(ground, path, monkeypatch):
    desk = Desk(ground, path)
    desk.let_through(uses("Write", ".venv/bin/pytest"))
    assert desk.runs("pytest -q")
    monkeypatch.setenv("PATH", f"{ground}/.venv/bin{os.pathsep}{os.environ['PATH']}")
    assert not desk.runs("pytest -q")
    assert not desk.runs("python -m pytest")
    assert desk.runs("ls")


def test_what_a_vendor_tells_of_afterwards_counts_too(ground, path):
    desk = Desk(ground, path)
    outcome = outcome_of(succeeded=True, texts=("",), error=None)
    desk.broker.ended(uses("Write", ".venv/bin/pytest"), desk.context, outcome, 0)
    desk.broker.ended(shell("echo x > node_modules/.bin/jest"), desk.context, None, 0)
    assert not desk.runs(".venv/bin/pytest")
    assert not desk.runs("npx jest")


def test_where_the_workspace_lies_and_what_is_called_so_says_nothing(tmp_path, path):
    work = tmp_path / "vendor" / "venv" / "work"
    (work / "src" / "vendor").mkdir(parents=True)
    desk = Desk(work, path)
    for edit in ("src/app.py", "src/vendor/service.py", str(work / "src/app.py")):
        assert isinstance(desk.decide(uses("Write", edit)), Allow)
    desk.let_through(shell(f"cp {work}/src/app.py {work}/src/vendor/x.py"))
    assert desk.runs("vendor/bin/phpunit")
    assert desk.runs("venv/bin/pytest")
    assert isinstance(desk.decide(uses("Write", "vendor/x/y.php")), Ask)
    assert isinstance(desk.decide(uses("Write", "api/vendor/bin/phpunit")), Ask)


def test_where_it_cannot_be_known_or_kept_all_counts(ground, tmp_path):
    (unreadable := tmp_path / "written").mkdir()
    assert not Desk(ground, unreadable).runs(".venv/bin/pytest")
    desk = Desk(ground, tmp_path / "written" / "x" / "y")
    unreadable.rmdir()
    unreadable.touch()
    desk.let_through(uses("Write", "bin/rails"))
    assert not desk.runs(".venv/bin/pytest")


def test_trusting_the_workspace_again_forgets_what_agents_wrote(ground, tmp_path):
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    paths = resolve_paths(ground, {**os.environ, "PRSM_HOME": str(home)})
    desk = Desk(ground, written_path(paths))
    desk.let_through(uses("Write", ".venv/bin/pytest"))
    assert not desk.runs(".venv/bin/pytest")
    trust(paths)
    assert desk.runs(".venv/bin/pytest")


STRICTER = re.compile(r"^\| `([^`]+)` \| .+ \|$", re.MULTILINE)


def stricter():
    """Return the commands that the page says are asked about though the model is looser."""
    page = (Path(__file__).parents[3] / "docs" / "policy.md").read_text()
    part = page.partition("### Where it is stricter than its model")[2].partition("\n#")[0]
    return STRICTER.findall(part)


def test_the_page_lists_where_the_code_is_stricter_than_its_model():
    assert len(stricter()) >= 12


@pytest.mark.requirement("E23")
@pytest.mark.parametrize("command", stricter())
def test_what_the_page_says_is_stricter_asks(command, ground):
    policy = make_policy(allow=["frob", BUILDS])
    trusted = not command.endswith("pip list")
    assert decide(command, ground, policy=policy, trusted=trusted) == "ask"
    verdict = decide(command, ground, policy=policy, trusted=trusted, mode=PermissionMode.PLAN)
    assert verdict == "deny"
