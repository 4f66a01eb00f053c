"""The client against a scripted HTTP server: what it sends, what it tries again, what it says when it gives up."""

import contextlib
import http.server
import json
import subprocess
import sys
import threading

import pytest
from closed_port import closed_port

from tf_transformer.export.serving import client as client_module
from tf_transformer.export.serving.client import Client, RequestRejected, ServerUnavailable

BREAK = "…"
"""At the end of an answer: the connection breaks there, half-way."""


GUARD_SECONDS = 1200
"""Limit of every wait that is not itself tested: ends a hang."""


class Script(http.server.ThreadingHTTPServer):
    """Answers requests with what was put in `script`, then by upper-casing.

    script: (status, body), or an event for which the answer waits.
    """

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.script, self.requests = [], []
        self.url = f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, body))
        step = self.server.script.pop(0) if self.server.script else (200, None)
        if isinstance(step, threading.Event):
            step.wait(GUARD_SECONDS)
            step = (200, None)
        status, answer = step
        if answer is None:
            answer = json.dumps({"predictions": [_upper(each) for each in body["instances"]]})
        with contextlib.suppress(ConnectionError):  # the client did not wait
            self.send_response(status)
            if answer.endswith(BREAK):
                self.send_header("Content-Length", str(len(answer) + 100))
            self.end_headers()
            self.wfile.write(answer.encode())

    def log_message(self, *args):
        pass


def _upper(instance):
    return instance.upper() if isinstance(instance, str) else instance


@pytest.fixture
def server():
    with Script() as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def make(server, **options):
    return Client(server.url, "toy", **{"backoff": 0.001, "timeout": GUARD_SECONDS, **options})


def test_batches_keep_the_order(server):
    texts = [f"text {number}" for number in range(7)]
    assert make(server, batch_size=3).translate(texts) == [text.upper() for text in texts]
    assert [len(body["instances"]) for _, body in server.requests] == [3, 3, 1]
    assert {path for path, _ in server.requests} == {"/v1/models/toy:predict"}


def test_nothing_to_translate_sends_nothing(server):
    assert make(server).translate([]) == []
    assert server.requests == []


def test_signatures_bytes_and_half_characters(server):
    client = make(server)
    assert client.score(["a"], ["b"]) == [{"source": "a", "target": "b"}]
    assert client.nbest([b"\xff"]) == [{"text": {"b64": "/w=="}}]
    assert client.translate(["a\ud800b", "\U0001f600"]) == ["A\N{REPLACEMENT CHARACTER}B", "\U0001f600"]
    assert [body["signature_name"] for _, body in server.requests] == ["score", "nbest", "serving_default"]
    with pytest.raises(ValueError, match="Received: 2 sources, 1 targets"):
        client.score(["a", "b"], ["c"])


def test_an_unknown_language_is_rejected_with_similar_ones(server):
    """TensorFlow Serving answers such a row with "", because it may have merged it with those of other clients."""
    card = json.dumps({"languages": {"source": "en", "target": "deu_Latn", "targets": ["deu_Latn", "fra_Latn"]}})
    card, client = json.dumps({"predictions": [card]}), make(server)
    server.script += [(200, '{"predictions": ["A", ""]}'), (200, card)]
    with pytest.raises(
        RequestRejected, match=r"Received: 'deu'\. Did you mean deu_Latn\? The model has deu_Latn, fra_Latn\."
    ):
        client.translate(["a", "b"], ["fra_Latn", "deu"])
    assert [body["signature_name"] for _, body in server.requests] == ["translate_to", "model_card"]
    # An empty translation of a known language, and exports without a model card, are no errors.
    server.script += [(200, '{"predictions": [""]}'), (200, card)]
    assert client.translate(["a"], "fra_Latn") == [""]
    server.script += [(200, '{"predictions": [""]}'), (400, '{"error": "no such signature"}')]
    assert client.translate(["a"], "xx") == [""]
    server.script += [(200, '{"predictions": ["", ""]}')]
    assert client.translate(["", " "], "fra_Latn") == ["", ""]


def test_alignments_have_no_padding(server):
    row = {
        "translation": "b",
        "sentences": 1,
        **{"source_words": ["a", "."], "source_starts": [1, 2], "source_ends": [2, 3]},
        **{"target_words": ["b", ""], "target_starts": [0, -1], "target_ends": [1, -1]},
        **{"confidences": [0.5, 0.0], "links": [[0, 0], [-1, -1]]},
    }
    server.script = [(200, json.dumps({"predictions": [row]}))]
    assert make(server).align([" a."]) == [
        {
            "translation": "b",
            "sentences": 1,
            "source": [{"text": "a", "start": 1, "end": 2}, {"text": ".", "start": 2, "end": 3}],
            "target": [{"text": "b", "start": 0, "end": 1, "confidence": 0.5}],
            "links": [[0, 0]],
        }
    ]
    assert server.requests[-1][1]["signature_name"] == "alignment"


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_failures_of_the_server_are_tried_again(server, status):
    server.script = [(status, '{"error": "busy"}'), (status, "<html>")]
    assert make(server, retries=2).translate(["a"]) == ["A"]
    assert len(server.requests) == 3


def test_the_pauses_grow(server, monkeypatch):
    pauses = []
    monkeypatch.setattr(client_module.time, "sleep", pauses.append)
    server.script = [(503, "{}")] * 4
    assert make(server, retries=4, backoff=1.0).translate(["a"]) == ["A"]
    assert [0.5 * 2**number <= pause <= 2**number for number, pause in enumerate(pauses)] == [True] * 4


def test_the_last_reason_is_in_the_error(server):
    server.script = [(503, '{"error": "busy"}')] * 9
    with pytest.raises(ServerUnavailable, match="after 3 attempts: HTTP 503: busy"):
        make(server, retries=2).translate(["a"])
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [400, 404, 413])
def test_a_rejected_request_is_not_sent_again(server, status):
    server.script = [(status, '{"error": "wrong"}')]
    with pytest.raises(RequestRejected, match=f"HTTP {status}: wrong"):
        make(server).translate(["a"])
    assert len(server.requests) == 1


@pytest.fixture
def silence():
    """An answer that does not come before the test has ended."""
    event = threading.Event()
    yield event
    event.set()


NEIGHBOUR = '{"error": "Tensors with name \'text\' from different tasks have different shapes"}'


def test_a_request_that_was_rejected_for_its_neighbour_is_sent_once_more(server):
    server.script = [(400, NEIGHBOUR)]
    assert make(server).translate(["a"]) == ["A"]
    server.script = [(400, NEIGHBOUR)] * 2
    with pytest.raises(RequestRejected, match="have different shapes"):
        make(server).translate(["a"])
    assert len(server.requests) == 2 + 2
    server.script = [(400, NEIGHBOUR), (400, '{"error": "wrong"}')]
    with pytest.raises(RequestRejected, match="HTTP 400: wrong"):
        make(server).translate(["a"])


def test_a_time_out_is_tried_again(server, silence):
    server.script = [silence]
    # However slow the machine is, one of so many tries is answered in time.
    client = make(server, timeout=0.2, retries=1000)
    client.backoff = 0.0
    assert client.translate(["a"]) == ["A"]
    assert len(server.requests) >= 2


def test_a_time_out_of_the_last_try_is_the_reason(server, silence):
    server.script = [silence]
    with pytest.raises(ServerUnavailable, match="timed out"):
        make(server, timeout=0.2, retries=0).translate(["a"])


def test_an_answer_that_breaks_off_is_tried_again(server):
    server.script = [(200, '{"predictions": [' + BREAK), (503, "{" + BREAK)]
    assert make(server, retries=2).translate(["a"]) == ["A"]
    server.script = [(200, "{" + BREAK)]
    with pytest.raises(ServerUnavailable, match="IncompleteRead"):
        make(server, retries=0).translate(["a"])


@pytest.mark.parametrize("answer", ["not json", '{"predictions": ["A", "B"]}', "{}"])
def test_strange_answers(server, answer):
    server.script = [(200, answer)]
    with pytest.raises(ServerUnavailable):
        make(server, retries=0).translate(["a"])


def test_nobody_there():
    with closed_port() as port, pytest.raises(ServerUnavailable, match=r"refused.*Is the server running there"):
        Client(f"http://127.0.0.1:{port}", "toy", retries=1, backoff=0.001).translate(["a"])


@pytest.mark.parametrize(
    ("url", "name", "expected"),
    [
        ("http://h:1", "m", "http://h:1/v1/models/m"),
        ("http://h:1/", "m", "http://h:1/v1/models/m"),
        ("http://h:1", "my modèle", "http://h:1/v1/models/my%20mod%C3%A8le"),
        ("https://h/proxy", "m", "https://h/proxy/v1/models/m"),
        ("http://h:1/v1/models/m", None, "http://h:1/v1/models/m"),
        ("http://h:1/v1/models/m:predict", None, "http://h:1/v1/models/m"),
        ("http://h:1/v1/models/m/versions/3", None, "http://h:1/v1/models/m/versions/3"),
    ],
)
def test_addresses(url, name, expected):
    assert Client(url, name).model_url == expected


@pytest.mark.parametrize(("url", "message"), [("http://h:1", "the name of a model"), ("h:1", "expected an address")])
def test_addresses_that_do_not_do(url, message):
    with pytest.raises(ValueError, match=message):
        Client(url)


def test_the_command(server, capsys):
    assert client_module.main(["--url", server.url, "--name", "toy", "hello", "you"]) == 0
    assert capsys.readouterr().out == "HELLO\nYOU\n"
    assert client_module.main(["--url", server.url, "hello"]) == 1
    assert "the name of a model" in capsys.readouterr().err


def test_it_needs_no_tensorflow(server):
    code = (
        "import sys; from tf_transformer.export.serving.client import Client; "
        f"print(Client({server.url!r}, 'toy').translate(['a'])); "
        "sys.exit([m for m in sys.modules if m.split('.')[0] in ('tensorflow', 'keras', 'numpy')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=GUARD_SECONDS)
    assert (done.stdout, done.stderr) == ("['A']\n", "[]\n")
