"""What the distribution contributes, held against the contracts of its kinds."""

from __future__ import annotations

import subprocess
import sys

from prsm_protocols.plugin import prsm_permission_checks

from prsm_core.testing import PermissionCheckContract


class TestProtocolStates(PermissionCheckContract):
    (spec,) = prsm_permission_checks()

    async def test_who_has_no_protocol_is_let_alone(self):
        assert await self.ask("rm -rf build") is None


def test_the_plugin_imports_nothing_heavy():
    code = "import sys, prsm_protocols.plugin; sys.exit('markdown_it' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
