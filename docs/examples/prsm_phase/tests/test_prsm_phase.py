"""The tool and the check keep their contracts, and an agent edits in its phase alone."""

from typing import ClassVar

import pytest
from msgspec.structs import replace
from prsm_phase import edits_in_phase, prsm_permission_checks, prsm_tools
from prsm_testing import PermissionCheckContract, ToolContract, sample_contexts

from prsm_core import Deny, PermissionRequest, ToolInputError


class TestPhase(ToolContract):
    (spec,) = prsm_tools()
    labels: ClassVar = {"phases": "yes"}
    samples = ({"to": "plan"}, {"to": "edit"})

    async def test_a_phase_comes_after_another(self):
        call = self.call({"to": "plan"})
        assert await self.answer(call) == {"phase": "plan"}
        assert call.changes == {"phase/now": "plan"}
        with pytest.raises(ToolInputError):
            await self.answer(self.call({"to": "edit"}))


class TestCheck(PermissionCheckContract):
    (spec,) = prsm_permission_checks()

    async def test_files_are_changed_in_one_phase_alone(self):
        request = PermissionRequest(agent_id="a", tool="Edit", paths=("a.py",))
        for labels, denied in (
            ({}, False),
            ({"phases": "yes"}, True),
            ({"phases": "yes", "phase/now": "edit"}, False),
        ):
            context = replace(sample_contexts()[0], labels=labels)
            assert isinstance(await edits_in_phase(request, context), Deny) is denied
