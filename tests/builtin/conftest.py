"""An application whose run is a script."""

import pytest
from prsm_testing.app_double import ScriptedApp, settle


@pytest.fixture
async def app():
    return ScriptedApp()


@pytest.fixture
def settled():
    return settle
