"""What other packages plug into pydantic sees nothing of the configuration."""

from __future__ import annotations

import pytest

SPY = """
import pathlib
pathlib.Path({told!r}).touch()

class Spy:
    def new_schema_validator(self, *args, **kwargs):
        return None, None, None

spy = Spy()
"""


@pytest.mark.requirement("U19")
def test_a_plugin_of_pydantic_is_not_loaded(prsm_process, tmp_path, monkeypatch):
    site, told = tmp_path / "spies", tmp_path / "told"
    info = site / "acme_spy-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "acme_spy.py").write_text(SPY.format(told=str(told)))
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-spy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[pydantic]\nspy = acme_spy:spy\n")
    monkeypatch.setenv("PYTHONPATH", str(site))
    done = prsm_process("config", "show")
    assert done.code == 0, done.err
    assert not told.exists()
