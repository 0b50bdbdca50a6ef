"""The models that an installed program knows."""

from __future__ import annotations

import pytest
from prsm_gemini.provider import is_known, known_models

MODULE = """\
var PREVIEW = "gemini-3-pro-preview";
var DEFAULT = "gemini-2.5-pro";
var SAME = "gemini-2.5-pro";
var ALIAS = DEFAULT;
var NONE = "none";
var GEMMA = "gemma-4-31b-it";
var EMBEDDING = "gemini-embedding-001";
"""
FOUND = ["gemini-3-pro-preview", "gemini-2.5-pro", "gemma-4-31b-it"]


def install(root, name, files):
    package = root / "node_modules" / "@google" / name
    for path, text in {"package.json": "{}", **files}.items():
        (package / path).parent.mkdir(parents=True, exist_ok=True)
        (package / path).write_text(text)
    return package


def names(*command):
    return [model.model_id for model in known_models([str(word) for word in command])]


@pytest.mark.requirement("E93")
@pytest.mark.parametrize("module", ["src/config/models.ts", "dist/src/config/models.js"])
def test_models_are_read_from_the_bundle_without_those_that_embed(tmp_path, module):
    bundle = {
        "bundle/gemini.js": "",
        "bundle/chunk-A.js": 'var OTHER = "gemini-9-not-a-model";\n' * 200,
        "bundle/chunk-B.js": f'var BEFORE = "gemini-0";\n// packages/core/{module}\n{MODULE}',
    }
    package = install(tmp_path, "gemini-cli", bundle)
    link = tmp_path / "gemini"
    link.symlink_to(package / "bundle" / "gemini.js")
    assert names(link) == FOUND
    assert names("node", link) == FOUND


@pytest.mark.requirement("E93")
def test_models_are_read_from_the_core_package_beside_the_program(tmp_path):
    package = install(tmp_path, "gemini-cli", {"dist/index.js": ""})
    install(tmp_path, "gemini-cli-core", {"dist/src/config/models.js": MODULE})
    assert names(package / "dist" / "index.js") == FOUND


@pytest.mark.requirement("E93")
def test_a_program_that_tells_nothing_has_no_models(tmp_path):
    package = install(tmp_path, "gemini-cli", {"bundle/gemini.js": "", "bundle/chunk-A.js": "\0"})
    assert names(package / "bundle" / "gemini.js") == []
    assert names("no-such-program-of-prsm") == []


@pytest.mark.requirement("E64", "E93")
def test_a_name_that_is_not_listed_is_known_if_the_program_has_it(tmp_path):
    package = install(tmp_path, "gemini-cli", {"dist/index.js": ""})
    install(tmp_path, "gemini-cli-core", {"dist/src/config/models.js": MODULE})
    command = [str(package / "dist" / "index.js")]
    taken = ["auto", "flash", "gemini-2.5-pro", "models/gemini-2.5-pro"]
    assert [name for name in (*taken, "gemini-2.5-prp", "nope") if is_known(command, name)] == taken
