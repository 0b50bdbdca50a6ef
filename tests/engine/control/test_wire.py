"""The lines of the control socket: any bytes are understood or refused, errors stay errors."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core import errors
from prsm_core.engine.control.wire import decode_answer, decode_part, decode_request, encode_error
from prsm_core.errors import ConfigError, ControlError, InvalidTransitionError, PrsmError

KEYS = st.sampled_from(["error", "ok", "type", "code", "message", "hint"])
VALUES = st.recursive(
    st.none() | st.text() | st.integers(),
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner),
)
LINES = st.binary(max_size=300) | VALUES.map(lambda value: json.dumps(value).encode())


def caught(decode, line):
    """Return the error that decoding raises, None when it does not."""
    try:
        decode(line)
    except PrsmError as error:
        return error
    return None


@given(LINES)
def test_any_bytes_are_a_request_or_a_control_error(line):
    error = caught(decode_request, line)
    assert error is None or (type(error), error.code) == (ControlError, "bad_request")


@given(LINES)
def test_any_bytes_are_an_answer_or_an_error_of_ours(line):
    error = caught(decode_answer, line)
    assert error is None or error.message is not None


@pytest.mark.parametrize("decode", [decode_answer, decode_part])
@pytest.mark.parametrize("told", [b"[]", b'"ok"', b"7", b"%s1%s" % (b"[" * 99_999, b"]" * 99_999)])
def test_what_is_too_deep_or_of_another_shape_is_no_answer(decode, told):
    errors_of = b'{"error":{"type":"PrsmError","code":1,"message":%s,"hint":{}}}'
    for line in (told, b'{"error":%s}' % told, errors_of % told):
        error = caught(decode, line)
        assert isinstance(error, PrsmError)
        assert error.hint is None or isinstance(error.hint, str)


SIMPLE = [
    name
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and name != "InvalidTransitionError"
]


@given(
    name=st.sampled_from(SIMPLE),
    message=st.text(),
    hint=st.none() | st.text(),
    code=st.from_regex(r"[a-z_]+", fullmatch=True),
)
def test_an_error_arrives_as_what_it_was(name, message, hint, code):
    sent = getattr(errors, name)(message, hint=hint, code=code)
    with pytest.raises(PrsmError) as raised:
        decode_answer(encode_error(sent))
    arrived = raised.value
    assert type(arrived) is type(sent)
    assert (arrived.message, arrived.hint, arrived.code) == (message, hint, code)


def test_an_error_that_cannot_be_built_again_arrives_as_the_base():
    with pytest.raises(PrsmError, match="agent: no transition") as raised:
        decode_answer(encode_error(InvalidTransitionError("agent", "killed", "running")))
    assert raised.value.code == "invalid_transition"


def test_an_error_of_a_newer_version_arrives_as_the_base():
    line = b'{"error":{"type":"NewError","code":"new","message":"of a newer kind","hint":null}}'
    with pytest.raises(PrsmError, match="of a newer kind") as raised:
        decode_answer(line)
    assert (type(raised.value), raised.value.code) == (PrsmError, "new")


def test_a_refusal_of_the_configuration_keeps_its_exit_code():
    with pytest.raises(ConfigError) as raised:
        decode_answer(encode_error(ConfigError("wrong")))
    assert raised.value.exit_code == 2
