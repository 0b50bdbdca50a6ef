"""`prsm run --model`: a name that is none ends the run before it begins."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from prsm_core.plugins import plugin_names

PLUGIN = """
import asyncio
from pathlib import Path
from echo_plugin import EchoProvider
from prsm_core import ModelInfo, ProviderSpec, hookimpl

class Lister(EchoProvider):
    async def list_models(self):
        with Path("asked").open("a") as file:
            file.write("asked ")
        return [ModelInfo(model_id="big-model", aliases=("bm",)), ModelInfo(model_id="small")]

    async def knows_model(self, model):
        return model == "big-model-2026"

class Slow(EchoProvider):
    async def list_models(self):
        await asyncio.Event().wait()

@hookimpl
def prsm_providers():
    yield ProviderSpec(name="tardy", summary="Never lists.", factory=Slow)
    yield ProviderSpec(name="lister", summary="Lists.", factory=Lister)
    yield ProviderSpec(name="mute", summary="Lists nothing.", factory=EchoProvider)
"""


@pytest.fixture(autouse=True)
def providers(tmp_path, monkeypatch):
    """Install one provider that lists its models and one that does not."""
    site = tmp_path / "site"
    info = site / "prsm_lister-1.0.dist-info"
    info.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("echo_plugin.py"), site)
    (site / "lister_plugin.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: prsm-lister\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[prsm]\nlister = lister_plugin\n")
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.setenv("PRSM_PLUGINS", "lister")


def asked():
    return Path("asked").read_text().split() if Path("asked").exists() else []


@pytest.mark.requirement("E64")
@pytest.mark.parametrize(
    ("args", "nearest"),
    [
        (("--model", "nope"), "lister"),
        (("--model", "big-mdel"), "big-model"),
        (("--model", "lister/smal"), "small"),
        (("--provider", "lister", "--model", "Small"), "small"),
        (("--set", "defaults.model=smalll"), "small"),
        (("--set", "defaults.master_model=lister/smalll"), "small"),
        (("--set", "models.quick={provider: lister, model_id: smal}", "--model", "quick"), "small"),
        (("--model", "listr"), "lister"),
        (("--model", "lister/"), "lister"),
    ],
)
def test_a_name_of_no_model_exits_with_2_and_tells_the_nearest(prsm_process, args, nearest):
    done = prsm_process("run", "say hello", *args)
    assert (done.code, done.out) == (2, ""), done.err
    hint = done.err.partition("hint: ")[2]
    assert nearest in hint
    assert "`prsm models list` shows all" in hint
    assert json.loads(prsm_process("sessions", "list", "--json").out) == []


@pytest.mark.parametrize(
    ("args", "model"),
    [
        (("--model", "lister"), "lister/default"),
        (("--model", "big-model"), "lister/big-model"),
        (("--model", "bm"), "lister/bm"),
        (("--model", "lister/big-model-2026"), "lister/big-model-2026"),
        (("--model", "mute/anything"), "mute/anything"),
        (("--model", "mute"), "mute/default"),
        (("--provider", "mute", "--model", "anything"), "mute/anything"),
        (
            ("--model", "lister/later", "--set", "model_registry.later.provider=lister"),
            "lister/later",
        ),
    ],
)
def test_a_model_that_there_is_runs(prsm_process, args, model):
    done = prsm_process("run", "say hello", *args)
    assert (done.code, done.out) == (0, "echo: say hello\n"), done.err
    assert f"{model}) starts" in done.err


def test_a_provider_is_asked_for_its_models_once_and_again_before_it_refuses(prsm_process):
    for _ in range(3):
        assert prsm_process("run", "say hello", "--model", "small").code == 0
    assert len(asked()) == 1
    assert prsm_process("run", "say hello", "--model", "nope").code == 2
    assert len(asked()) == 2


def test_a_provider_that_is_not_installed_is_told(prsm_process):
    done = prsm_process("run", "say hello", "--model", "codex/big")
    assert (done.code, done.out) == (3, "")
    if "codex" in plugin_names():  # the tests have switched it off
        assert "needs provider 'codex': plugin codex (prsm-codex " in done.err
        assert "is disabled: not in PRSM_PLUGINS" in done.err
    else:
        assert "needs provider 'codex', which is not installed" in done.err
        assert "lister, mute" in done.err


@pytest.mark.requirement("E64")
@pytest.mark.parametrize(
    "args", [("run", "say hello", "--model", "tardy/x", "--json"), ("providers", "--json")]
)
def test_what_waits_for_a_list_of_models_names_whose_it_is(start_prsm, args):
    process = start_prsm(*args)
    lines = iter(process.stderr.readline, b"")
    assert any(line == b"prsm: waiting for tardy's list of models (up to 20 s)\n" for line in lines)
