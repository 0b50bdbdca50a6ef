"""Images of a turn as providers send them: with each text that cites them, however often."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from prsm_core import AssembledContext, Image, OrchestrationError
from prsm_core.kit import SeenImages, read_base64


def image(name, path="x.png"):
    return Image(mark=f"![{name}](prsm-image:{name})", name=name, media_type="image/png", path=path)


def context(*images):
    fields: Any = dict.fromkeys(
        ("system_prompt", "model", "provider", "run_id", "session_label"), ""
    )
    return AssembledContext(
        **fields, role="worker", toolset_name="", workspace_path="", images=images
    )


def test_a_text_that_is_sent_again_has_its_images_again():
    seen, (a, b) = SeenImages(), (image("a"), image("b"))
    seen.see(context(a))
    seen.see(context(b))
    seen.see(context())
    assert seen.of(f"a text that was lost: {a.mark}\n\nand a new one: {b.mark}") == (a, b)
    assert seen.of(f"> {b.mark}") == (b,)
    assert seen.of("no image") == seen.of(None) == ()


async def test_what_is_sent_is_what_the_file_holds(tmp_path):
    file = tmp_path / "a.png"
    file.write_bytes(b"\x89PNG and more")
    [(media_type, data)] = await read_base64([image("a", str(file))])
    assert (media_type, base64.b64decode(data)) == ("image/png", b"\x89PNG and more")
    with pytest.raises(OrchestrationError, match="image gone cannot be read: No such file"):
        await read_base64([image("gone", str(tmp_path / "gone.png"))])
