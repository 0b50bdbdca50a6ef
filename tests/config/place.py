"""A home and a workspace in a folder, and a short way to load settings from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prsm_core.config import LoadedSettings, Paths, load_settings, resolve_paths

if TYPE_CHECKING:
    from pathlib import Path


@dataclass
class Place:
    """Files by layer, and the environment that makes PRSM find them."""

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.environ["PRSM_HOME"] = str(self.folder / "home")
        (self.folder / "home").mkdir(exist_ok=True)
        (self.folder / "work" / ".prism").mkdir(parents=True, exist_ok=True)

    @property
    def paths(self) -> Paths:
        return resolve_paths(self.folder / "work", self.environ)

    def user(self, text: str) -> Path:
        return self._write(self.paths.user_config, text)

    def user_models(self, text: str) -> Path:
        return self._write(self.paths.user_models, text)

    def workspace(self, text: str) -> Path:
        return self._write(self.paths.workspace_config, text)

    def workspace_models(self, text: str) -> Path:
        return self._write(self.paths.workspace_models, text)

    def load(self, *, trusted: bool = True, **options) -> LoadedSettings:
        return load_settings(paths=self.paths, environ=self.environ, trusted=trusted, **options)

    def _write(self, path: Path, text: str) -> Path:
        path.write_text(text, encoding="utf-8")
        return path
