"""Requests on which servers may differ: one test per row of what TensorFlow Serving 2.20.0 answered."""

import gzip
import json
import socket
import threading
import zlib

import pytest
from running_server import GUARD_SECONDS, running_server
from toy_saved_model import write_toy

PREDICT = "/v1/models/toy:predict"
GOOD = b'{"instances": ["ab"]}'
ANSWER = {"predictions": ["3:AB"]}


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    base = tmp_path_factory.mktemp("toy")
    write_toy(base / "3", mark="3:", release=base / "release")
    with running_server(base) as running:
        yield running


@pytest.fixture
def connection(running):
    connection = running.connect()
    yield connection
    assert connection.translate("still there") == ["3:STILL THERE"]
    connection.close()


def raw(running, request: bytes, half_close: bool = False) -> tuple[int, dict]:
    """The status and the JSON of the answer to bytes sent as they are."""
    with socket.create_connection(("127.0.0.1", running.port), GUARD_SECONDS) as sock:
        sock.sendall(request)
        if half_close:
            sock.shutdown(socket.SHUT_WR)
        file = sock.makefile("rb")
        while True:
            status = int(file.readline().split()[1])
            headers = {}
            while (line := file.readline().strip()) != b"":
                name, _, value = line.partition(b":")
                headers[name.lower()] = value.strip()
            if status != 100:
                return status, json.loads(file.read(int(headers[b"content-length"])))


@pytest.mark.parametrize(
    "escape", [r"\ud800", r"\udc00", r"\ud800\ud800", r"\udbff x", r"\ud83d\n", r"\ude00\ud83d", r"\udc80"]
)
def test_a_lone_surrogate_is_an_error(connection, escape):
    status, answer = connection.predict(b'{"instances": ["a%s"]}' % escape.encode())
    assert status == 400 and "surrogate pair in string is invalid" in answer["error"]


@pytest.mark.parametrize("escape", [r"\ud83d\ude00", r"\uD83D\uDE00", r"\\ud800", r"é", r"\\\\ud800"])
def test_other_escapes_are_text(connection, escape):
    status, answer = connection.predict(b'{"instances": ["%s"]}' % escape.encode())
    assert (status, answer) == (200, {"predictions": ["3:" + json.loads(f'"{escape}"').upper()]})


@pytest.mark.parametrize("encoded", ["YQ==", "YQ", "Y\nQ =\r\n=", "YWI", "YWI=", "YW\nJj"])
def test_base64_without_padding_or_with_white_space(connection, encoded):
    status, answer = connection.predict({"instances": [{"b64": encoded}]})
    expected = {"YQ": "A", "YWI": "AB", "YWJj": "ABC"}["".join(encoded.split()).rstrip("=")]
    assert (status, answer) == (200, {"predictions": [f"3:{expected}"]})


@pytest.mark.parametrize("encoded", ["Y", "YQ=", "Y!==", "Y=Q="])
def test_other_base64_is_an_error(connection, encoded):
    status, answer = connection.predict({"instances": [{"b64": encoded}]})
    assert status == 400 and "Unable to base64 decode" in answer["error"]


@pytest.mark.parametrize("rest", [b" x", b"}", b'{"instances": 5}', b"\x00\xff", b"[" * 100])
def test_text_after_the_document_is_ignored(connection, rest):
    assert connection.predict(GOOD + rest) == (200, ANSWER)


def test_a_byte_order_mark_is_ignored(connection):
    assert connection.predict(b"\xef\xbb\xbf" + GOOD) == (200, ANSWER)


def test_the_first_of_equal_keys_wins(connection):
    assert connection.predict(b'{"instances": ["ab"], "instances": ["c"]}') == (200, ANSWER)
    assert connection.predict(b'{"instances": [{"text": "ab", "text": "c"}]}') == (200, ANSWER)
    assert connection.predict(b'{"inputs": {"text": ["ab"], "text": 5}}') == (200, {"outputs": ["3:AB"]})


@pytest.mark.parametrize("path", ["toy:PREDICT", "toy:Predict", "toy:predict?x=1", "toy%3Apredict", "toy:predict/"])
def test_the_verb_is_matched_exactly(connection, path):
    status, answer = connection.send("POST", f"/v1/models/{path}", GOOD)
    assert status == 400 and answer["error"] == f"Malformed request: POST /v1/models/{path}"


def test_the_rest_of_the_path_is_matched_in_any_case_and_the_name_is_decoded(connection):
    assert connection.send("POST", "/V1/Models/t%6fy/VERSIONS/3:predict", GOOD) == (200, ANSWER)


@pytest.mark.parametrize("method", ["HEAD", "PUT", "DELETE", "PATCH"])
def test_other_methods_are_malformed(running, method):
    connection = running.connect()
    connection._http.request(method, "/v1/models/toy")
    response = connection._http.getresponse()
    assert response.status == 400
    text = response.read()
    assert method == "HEAD" or json.loads(text) == {"error": f"Malformed request: {method} /v1/models/toy"}


def test_a_query_is_part_of_the_name(connection):
    status, answer = connection.send("GET", "/v1/models/toy?x=1")
    assert (status, answer) == (404, {"error": "Could not find any versions of model toy?x=1"})
    assert connection.send("GET", "/v1/models/toy/metadata?x=1")[0] == 400


def test_labels(connection):
    every = connection.send("GET", "/v1/models/toy")
    assert every[0] == 200 and connection.send("GET", "/v1/models/toy/labels/stable") == every
    message = {"error": "Unrecognized servable version label: stable"}
    assert connection.send("POST", "/v1/models/toy/labels/stable:predict", GOOD) == (400, message)
    assert connection.send("GET", "/v1/models/toy/labels/stable/metadata") == (400, message)


def test_gzip_is_inflated_and_deflate_is_not(connection):
    assert connection.send("POST", PREDICT, gzip.compress(GOOD), {"Content-Encoding": "gzip"}) == (200, ANSWER)
    for body in (zlib.compress(GOOD), zlib.compress(GOOD)[2:-4]):
        status, answer = connection.send("POST", PREDICT, body, {"Content-Encoding": "deflate"})
        assert status == 400 and "JSON Parse error" in answer["error"]
    assert connection.send("POST", PREDICT, GOOD, {"Content-Encoding": "deflate"}) == (200, ANSWER)


def test_no_host(running):
    head = f"POST {PREDICT} HTTP/1.1\r\nContent-Length: {len(GOOD)}\r\n\r\n".encode()
    assert raw(running, head + GOOD) == (200, ANSWER)
    assert raw(running, b"GET /v1/models/toy HTTP/1.1\r\n\r\n")[0] == 200


def test_a_half_closed_client_is_answered(running):
    head = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(GOOD)}\r\n\r\n".encode()
    assert raw(running, head + GOOD, half_close=True) == (200, ANSWER)
    slow = b'{"signature_name": "slow", "instances": ["ab"]}'
    head = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(slow)}\r\n\r\n".encode()
    later = threading.Timer(0.5, (running.server.models["toy"].base / "release").touch)
    later.start()
    assert raw(running, head + slow, half_close=True) == (200, ANSWER)
    later.join()
    head = f"POST {PREDICT} HTTP/1.0\r\nContent-Length: {len(GOOD)}\r\n\r\n".encode()
    assert raw(running, head + GOOD, half_close=True) == (200, ANSWER)


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/"])
def test_no_model(connection, path):
    status, answer = connection.send("GET", path)
    assert status == 400 and answer["error"] in ("Missing model name in request.", "Malformed request: GET /v1/models/")
