"""The model server over its own loopback connection."""

from __future__ import annotations

import asyncio
import json
import signal
import sys

import pytest
from prsm_testing.model_server import ModelServer
from prsm_testing.playback import Reply, Step

SECONDS = 10


async def post(server, body, *, path="/v1/responses", method="POST", headers=()):
    """Send a request and return the status and body of the answer; empty when it was cut off."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = [f"{method} {path} HTTP/1.1", "Host: x", f"Content-Length: {len(raw)}", *headers]
    return await send(server, "\r\n".join(head).encode() + b"\r\n\r\n" + raw)


async def send(server, raw):
    reader, writer = await connect(server)
    writer.write(raw)
    async with asyncio.timeout(SECONDS):
        answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), body.decode()


async def connect(server):
    port = int(server.base_url.split(":")[2].split("/")[0])
    return await asyncio.open_connection("127.0.0.1", port)


def prompt(text="[[lane:a]]", *, stream=True):
    return {"stream": stream, "input": [{"role": "user", "content": text}]}


def lane(*steps):
    return {"lanes": {"a": {"steps": list(steps)}}}


async def test_a_request_is_answered_with_the_step_and_recorded():
    async with ModelServer(lane({"say": "hello"})) as server:
        status, body = await post(server, prompt(), headers=["Authorization: Bearer s3cret"])
    assert status == 200
    assert "response.completed" in body
    (request,) = server.requests
    assert (request.path, request.lane) == ("/v1/responses", "a")
    assert request.body == prompt()
    assert "s3cret" not in str(request)
    assert server.failures == []


async def test_a_model_of_ones_own_is_asked_instead_of_a_scenario():
    class Parrot:
        def __init__(self):
            self.failures = ["it repeats itself"]
            self.unplayed = {"parrot": 1}

        def answer(self, conversation):
            return Reply(step=Step(say=conversation.user[-1]), lane="parrot")

    parrot = Parrot()
    async with ModelServer(parrot) as server:
        _, body = await post(server, prompt("Pretty Polly", stream=False))
    assert "Pretty Polly" in body
    assert [request.lane for request in server.requests] == ["parrot"]
    assert (server.failures, server.unplayed) == (parrot.failures, parrot.unplayed)


async def test_without_a_stream_the_answer_is_one_object():
    async with ModelServer(lane({"say": "hello"})) as server:
        _, body = await post(server, prompt(stream=False))
    assert json.loads(body)["output"][0]["content"][0]["text"] == "hello"


async def test_many_requests_at_once_get_each_lanes_steps_once():
    names = [f"w{n}" for n in range(20)]
    lanes = {n: {"steps": [{"say": f"{n}-{i}", "delay": 0.001} for i in range(3)]} for n in names}
    async with ModelServer({"lanes": lanes}) as server:
        requests = (post(server, prompt(f"[[lane:{n}]]")) for n in names for _ in range(3))
        answers = await asyncio.gather(*requests)
    assert server.unplayed == {}
    assert server.failures == []
    assert all(status == 200 for status, _ in answers)
    assert len(server.requests) == 60


async def test_an_http_error_has_its_status():
    async with ModelServer(lane({"error": {"status": 429, "message": "slow"}})) as server:
        status, body = await post(server, prompt())
    assert status == 429
    assert json.loads(body)["error"]["message"] == "slow"


async def test_a_cut_ends_the_stream_in_the_middle():
    async with ModelServer(lane({"say": "a b c d", "cut": True})) as server:
        status, body = await post(server, prompt())
    assert status == 200
    assert "response.created" in body
    assert "response.completed" not in body


async def test_silence_of_some_seconds_ends_with_the_rest_of_the_answer():
    async with ModelServer(lane({"say": "a b", "hang": 0.05})) as server:
        _, body = await post(server, prompt())
    assert "response.completed" in body


async def test_a_client_that_hangs_is_let_go_when_the_server_closes():
    async with ModelServer(lane({"say": "a b", "hang": True})) as server:
        waiting = asyncio.ensure_future(post(server, prompt()))
        await server.wait_for_requests(1, timeout_s=SECONDS)
    _, body = await waiting
    assert "response.completed" not in body


async def test_a_client_that_leaves_frees_its_connection():
    async with ModelServer(lane({"hang": True}, {"say": "next"})) as server:
        _, writer = await connect(server)
        raw = json.dumps(prompt()).encode()
        writer.write(b"POST /v1/responses HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(raw) + raw)
        await server.wait_for_requests(1, timeout_s=SECONDS)
        writer.close()
        _, body = await post(server, prompt())
    assert "next" in body
    assert server.failures == []


async def test_a_mismatch_is_a_400_and_a_failure():
    async with ModelServer(lane({"say": "x", "expect": "never said"})) as server:
        status, body = await post(server, prompt())
    assert status == 400
    assert "never said" in body
    assert server.failures


async def test_models_are_listed_and_a_web_socket_is_refused():
    async with ModelServer(lane()) as server:
        assert await post(server, b"", method="GET", path="/v1/models?x=1") == (
            200,
            '{"object": "list", "data": []}',
        )
        upgrade = ["Upgrade: websocket"]
        assert (await post(server, b"", method="GET", headers=upgrade))[0] == 426
    assert server.failures == []


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"POST /v1/nothing HTTP/1.1\r\n\r\n", 404),
        (b"nonsense\r\n\r\n", 400),
        (b"POST /v1/responses HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (b"POST /v1/responses HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
        (b"POST /v1/responses HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 413),
        (b"POST /v1/responses HTTP/1.1\r\nContent-Length: 3\r\n\r\n{x}", 400),
        (b"POST /v1/responses HTTP/1.1\r\nContent-Length: 2\r\n\r\n[]", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"y" * 100_000 + b"\r\n\r\n", 413),
    ],
)
async def test_what_is_no_model_request_is_refused_and_recorded(raw, status):
    async with ModelServer(lane()) as server:
        assert (await send(server, raw))[0] == status
    assert len(server.failures) == 1
    assert server.requests == []


async def test_a_client_that_sends_half_a_request_harms_nobody():
    async with ModelServer(lane({"say": "fine"})) as server:
        _, writer = await connect(server)
        writer.write(b"POST /v1/responses HTTP/1.1\r\nContent-Length: 10\r\n\r\n{")
        writer.close()
        assert (await post(server, prompt()))[0] == 200


async def test_the_number_of_requests_is_bounded():
    async with ModelServer(lane({"say": "x"}), max_requests=1) as server:
        assert (await post(server, prompt()))[0] == 200
        assert (await post(server, prompt()))[0] == 503
    assert server.failures == ["more than 1 requests"]


async def run(*arguments):
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "prsm_testing.model_server",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


@pytest.mark.parametrize(("lane_of_request", "code"), [("a", 0), ("nobody", 1)])
async def test_it_serves_a_file_from_the_command_line(tmp_path, lane_of_request, code):
    path = tmp_path / "scenario.yaml"
    path.write_text("lanes: {a: {steps: [{say: hello}]}}")
    process = await run(str(path))
    async with asyncio.timeout(SECONDS):
        server = ModelServer(
            lane(),
            port=int(
                json.loads(await process.stdout.readline())["base_url"].split(":")[2].split("/")[0]
            ),
        )
        await post(server, prompt(f"[[lane:{lane_of_request}]]"))
        process.send_signal(signal.SIGTERM)
        report = json.loads(await process.stdout.readline())
        _, errors = await process.communicate()
    assert (process.returncode, errors) == (code, b"")
    assert report["requests"] == 1
    assert bool(report["failures"]) is bool(code)


async def test_a_wrong_file_is_told_in_one_line(tmp_path):
    path = tmp_path / "scenario.yaml"
    path.write_text("lane: {}")
    process = await run(str(path))
    _, errors = await process.communicate()
    assert process.returncode == 2
    assert b"unknown key 'lane'" in errors
    assert b"Traceback" not in errors
