"""What a plugin that is not active would have contributed: whoever asks for it is told why."""

from __future__ import annotations

import pytest

from prsm_core import FrontendSpec, PluginError


def test_asking_for_what_a_plugin_could_not_say_that_it_has_names_that_plugin(site):
    site.add("face", "@hookimpl\ndef prsm_zzz(): return []\n")
    site.add("odd", "@hookimpl\ndef prsm_frontends(): 1 / 0\n")
    with pytest.raises(PluginError) as caught:
        site.load().get(FrontendSpec, "smile")
    assert caught.value.message == "there is no frontend 'smile'"
    assert caught.value.hint == (
        "installed: none"
        "; plugin face (prsm-face 1.0) is not used, incompatible: there is no hook 'prsm_zzz'"
        "; plugin odd (prsm-odd 1.0) is not used, broken: ZeroDivisionError: division by zero"
    )
