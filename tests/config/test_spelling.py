"""A file of the configuration may end in .yaml or .yml; both at once, and others, are told."""

import itertools

import pytest

from prsm_core.config import trust
from prsm_core.config.own_rules import change_rule
from prsm_core.config.policy_file import read_policy
from prsm_core.errors import ConfigError

TEXTS = {
    "config": "permissions: {deny: [git push]}\n",
    "policy": "deny: [git push]\n",
    "models": "model_registry: {m-1: {tier: frontier}}\n",
}
PUSH = ("git", "push")


@pytest.fixture(params=["user", "workspace"])
def folder(request, place):
    """Where the files lie."""
    paths = place.paths
    return paths.workspace_dir if request.param == "workspace" else paths.user_config.parent


def denied(place, *, trusted=False):
    """Return the rules that deny, of the settings and of the policy files."""
    settings = place.load(trusted=trusted).settings
    return [*settings.permissions.deny, *read_policy(place.paths).words("deny")]


@pytest.mark.requirement("E24")
@pytest.mark.parametrize("stem", ["config", "policy"])
@pytest.mark.parametrize("end", ["yaml", "yml"])
def test_a_rule_that_denies_holds_however_its_file_ends(place, folder, stem, end):
    (folder / f"{stem}.{end}").write_text(TEXTS[stem])
    assert [tuple(rule) for rule in denied(place)] == [PUSH]


@pytest.mark.parametrize("end", ["yaml", "yml"])
def test_models_are_read_however_their_file_ends(place, folder, end):
    (folder / f"models.{end}").write_text(TEXTS["models"])
    assert "m-1" in place.load().settings.model_registry


@pytest.mark.requirement("E24")
@pytest.mark.parametrize(("stem", "trusted"), [*itertools.product(TEXTS, [True, False])])
def test_two_spellings_at_once_are_an_error_that_names_them(place, folder, stem, trusted):
    names = [str(folder / f"{stem}.{end}") for end in ("yaml", "yml")]
    for name in names:
        (folder / name).write_text(TEXTS[stem])
    with pytest.raises(ConfigError) as raised:
        place.load(trusted=trusted)
    assert all(name in raised.value.message for name in names)
    assert read_policy(place.paths).incomplete == (stem == "policy")


@pytest.mark.parametrize("project", [True, False])
def test_a_rule_goes_to_the_file_that_is_there_and_keeps_trust(place, project):
    paths = place.paths
    folder = paths.workspace_dir if project else paths.user_config.parent
    (folder / "policy.yml").write_text("# mine\n")
    trust.trust(paths)
    assert change_rule(paths, "deny", PUSH, project=project)
    assert read_policy(paths).words("deny") == (PUSH,)
    assert [path.name for path in folder.glob("policy.*")] == ["policy.yml"]
    assert (folder / "policy.yml").read_text().startswith("# mine\n")
    assert trust.is_trusted(paths)
    (folder / "policy.yaml").write_text("")
    with pytest.raises(ConfigError, match=r"policy\.yaml and .*policy\.yml"):
        change_rule(paths, "deny", ("rm",), project=project)


@pytest.mark.requirement("E24")
@pytest.mark.parametrize("stem", TEXTS)
def test_trust_ends_with_a_change_of_the_other_spelling(place, stem):
    (place.paths.workspace_dir / f"{stem}.yml").write_text(TEXTS[stem])
    assert trust.review(place.paths).effects
    trust.trust(place.paths)
    assert trust.is_trusted(place.paths)
    (place.paths.workspace_dir / f"{stem}.yml").write_text("{}\n")
    assert not trust.is_trusted(place.paths)


@pytest.mark.requirement("E24")
@pytest.mark.parametrize("trusted", [True, False])
def test_other_files_are_named_and_folders_of_plugins_are_not(place, trusted):
    folder = place.paths.workspace_dir
    (folder / "config.yaml").write_text("")
    for name in ("agents", "protocols"):
        (folder / name).mkdir()
        (folder / name / "page.txt").write_text("")
    (folder / "agents" / "good.md").write_text("---\ndescription: d\n---\nYou review.\n")
    unknown = ["Config.yaml", "agents/page.txt", "policy.json", "policy.yaml.bak"]
    for name in unknown:
        (folder / name).touch()
    (folder / "rules.yml").symlink_to("config.yaml")
    told = [line.partition(": ")[0] for line in place.load(trusted=trusted).mistakes]
    assert told == [str(folder / name) for name in [*unknown, "rules.yml"]]


def test_a_folder_full_of_other_files_fills_no_screen(place):
    for number in range(100):
        (place.paths.workspace_dir / f"{number}.txt").touch()
    assert len(place.load(trusted=False).mistakes) == 20
