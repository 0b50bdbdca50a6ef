"""The contract of providers finds what it is for: each known defect fails its test."""

from __future__ import annotations

import inspect

import pytest

from plugins.prsm_codex.tests.mutants import DEFECTS, Mutant
from plugins.prsm_codex.tests.test_contract import CodexContract

FAILURES = (AssertionError, TimeoutError, ValueError, ExceptionGroup)


class TestDefects(CodexContract):
    mutant: type[Mutant]
    built: list[Mutant]

    def build(self, settings, services):
        built = self.mutant(settings, services)
        self.built.append(built)
        return built

    @pytest.mark.parametrize(("mutant", "test"), DEFECTS.items(), ids=[m.__name__ for m in DEFECTS])
    async def test_a_defect_fails_the_test_that_is_there_for_it(
        self, mutant, test, open_scene, tmp_path, record_property
    ):
        self.mutant, self.built = mutant, []
        method = getattr(CodexContract, test)
        fixtures = {
            "open_scene": open_scene,
            "tmp_path": tmp_path,
            "record_property": record_property,
            "allowed": False,
        }
        taken = inspect.signature(method).parameters.keys() & fixtures.keys()
        with pytest.raises(FAILURES):
            await method(self, **{name: fixtures[name] for name in taken})
        for built in self.built:
            await built.good.aclose()


# A good provider meets the whole contract in another module.
for _name in dir(CodexContract):
    if _name.startswith("test_"):
        setattr(TestDefects, _name, None)
