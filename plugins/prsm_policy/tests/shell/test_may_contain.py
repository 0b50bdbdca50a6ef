"""A text that cannot be read is searched for the words of a rule, however they are quoted."""

from __future__ import annotations

import pytest
from prsm_policy.policy import may_contain


@pytest.mark.parametrize(
    "text",
    [
        "git push", "x; git push", "'git' \"push\"", "g\\it p'us'h", "g\\\nit push",
        "git -C x push",
        "$'\\147it' push", "(git push)", "`git push`", "/usr/bin/git push", "env -Sgit push",
        "x" * 999_000 + " git push", "xgit " * 2_000 + "push", "$'" * 600,
    ],
)  # fmt: skip
def test_words_are_found(text):
    assert may_contain(text, ("git", "push"))


@pytest.mark.parametrize(
    "text", ["", "git", "push git", "digit push", "git pushed", "git-x push", "a.git push"]
)
def test_other_words_are_not(text):
    assert not may_contain(text, ("git", "push"))
