"""The local server over real HTTP: responses, rejected requests, and service after every rejection."""

import json
import threading

import pytest
from running_server import hammer, running_server
from tensorflow.python.eager import context
from toy_saved_model import write_toy

LIMITS = {"max_request_bytes": 200_000, "max_request_rows": 97}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    base = tmp_path_factory.mktemp("toy")
    write_toy(base / "3", mark="3:")
    return base


@pytest.fixture(scope="module")
def running(base):
    with running_server(base, **LIMITS) as running:
        yield running


@pytest.fixture
def connection(running):
    connection = running.connect()
    yield connection
    assert connection.translate("still there") == ["3:STILL THERE"]
    connection.close()


def test_rows_and_columns(connection):
    assert connection.predict({"instances": ["ab", "ö"]}) == (200, {"predictions": ["3:AB", "3:Ö"]})
    assert connection.predict({"inputs": ["ab"]}) == (200, {"outputs": ["3:AB"]})
    assert connection.predict({"inputs": {"text": ["ab"]}, "signature_name": ""}) == (200, {"outputs": ["3:AB"]})
    assert connection.predict({"instances": ["ab"]}, version=3) == (200, {"predictions": ["3:AB"]})


def test_several_outputs_and_inputs(connection):
    body = {"signature_name": "nbest", "instances": ["ab", "abcdef"]}
    assert connection.predict(body)[1]["predictions"][1] == {
        "scores": [-0.1, -0.2, -0.3],
        "translations": ["3:ABCDEF"] * 3,
        "truncated": True,
    }
    body = {"signature_name": "score", "inputs": {"source": ["a", "bc"], "target": ["def", ""]}}
    assert connection.predict(body)[1] == {"outputs": {"score": [8.0, 4.0], "tokens": [3, 0]}}
    rows = [{"source": "a", "target": "def"}]
    assert connection.predict({"signature_name": "score", "instances": rows})[1]["predictions"] == [
        {"score": 8.0, "tokens": 3}
    ]


def test_binary_in_and_out(connection):
    assert connection.predict({"signature_name": "raw", "instances": [{"b64": "AAE="}]})[1] == {
        "predictions": [{"b64": "AAH/"}]
    }


def test_empty_batches(connection):
    assert connection.predict({"instances": []}) == (200, {"predictions": []})
    assert connection.predict({"inputs": []}) == (200, {"outputs": []})
    assert connection.predict({"signature_name": "nbest", "instances": []}) == (200, {"predictions": []})


def test_status_and_metadata(connection):
    ready = {"version": "3", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    assert connection.send("GET", "/v1/models/toy") == (200, {"model_version_status": [ready]})
    assert connection.send("GET", "/v1/models/toy/versions/3") == (200, {"model_version_status": [ready]})
    status, answer = connection.send("GET", "/v1/models/toy/metadata")
    assert status == 200 and answer["model_spec"] == {"name": "toy", "signature_name": "", "version": "3"}
    signature = answer["metadata"]["signature_def"]["signature_def"]["nbest"]
    assert signature["method_name"] == "tensorflow/serving/predict"
    scores = signature["outputs"]["scores"]
    assert scores["dtype"] == "DT_FLOAT"
    assert scores["tensor_shape"] == {
        "dim": [{"size": "-1", "name": ""}, {"size": "3", "name": ""}],
        "unknown_rank": False,
    }


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("GET", "/v1/models/other", 404, "Could not find any versions of model other"),
        ("GET", "/v1/models/toy/versions/7", 404, "Could not find version 7 of model toy"),
        ("GET", "/v1/models/toy/versions/7/metadata", 404, "Servable not found for request: Specific(toy, 7)"),
        ("POST", "/v1/models/other:predict", 404, "Servable not found for request: Latest(other)"),
        ("POST", "/v1/models/toy/versions/7:predict", 404, "Servable not found for request: Specific(toy, 7)"),
        ("POST", "/v1/models/toy:classify", 400, "Received: :classify"),
        ("POST", "/v1/models/toy", 400, "Malformed request: POST /v1/models/toy"),
        ("GET", "/v1/models/toy:predict", 400, "Malformed request: GET /v1/models/toy:predict"),
        pytest.param("GET", "/v1/models/toy/versions/" + "9" * 5000, 400, "Failed to convert", id="5,000 digits"),
        ("GET", "/elsewhere", 404, "nothing is at GET /elsewhere"),
    ],
)
def test_unknown_paths(connection, method, path, status, message):
    answer = connection.send(method, path, b'{"instances": ["a"]}' if method == "POST" else None)
    assert answer[0] == status and message in answer[1]["error"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"instances": [5]}, "not of expected type: string"),
        ({"inputs": "rank 0"}, "expected shape [-1]"),
        ({"instances": [["rank", "2"]]}, "expected shape [-1]"),
        ({"signature_name": "score", "inputs": {"source": ["a"]}}, "Missing named input: 'target'"),
        ({"inputs": {"text": ["a"], "beam_size": [4]}}, "Received: 'beam_size' too"),
        ({"signature_name": "score", "inputs": {"source": ["a"], "target": []}}, "the same number of rows"),
        ({"signature_name": "nowhere", "instances": ["a"]}, '"nowhere" not found in signature def'),
        pytest.param(b'{"instances": ["a"', "JSON Parse error", id="truncated JSON"),
        pytest.param(b"\x00\xff", "JSON Parse error", id="no JSON"),
        ({"instances": ["a"] * 98}, "at most 97 rows in a request. Received: 'instances' with 98 rows"),
        ({"signature_name": "strict", "instances": ["a", "bad"]}, "a bad row"),
    ],
)
def test_bad_requests_say_what_is_wrong(connection, body, message):
    status, answer = connection.predict(body)
    assert status == 400 and message in answer["error"]


def test_a_body_with_a_wrong_content_encoding_is_rejected(running):
    body, headers = b'{"instances": ["a"]}', {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    status, answer = running.connect().send("POST", "/v1/models/toy:predict", body, headers)
    assert status == 400 and "the body of the request cannot be inflated" in answer["error"]


def test_a_request_over_the_size_limit(running):
    large = running.connect()  # a connection of its own: the server closes it without reading the rest
    status, answer = large.predict({"instances": ["a" * 250_000]})
    assert status == 413 and "larger than 200000 bytes" in answer["error"]
    assert running.connect().translate("ab") == ["3:AB"]


def test_rows_at_the_limit_are_split_over_calls_and_come_back_in_order(connection):
    texts = [f"row {number}" for number in range(97)]
    assert connection.translate(*texts) == [f"3:ROW {number}" for number in range(97)]


def test_a_client_that_leaves_in_the_middle(running):
    for _ in range(5):
        connection = running.connect()
        connection._http.request("POST", "/v1/models/toy:predict", b'{"signature_name": "slow", "instances": ["a"]}')
        connection.close()
    assert running.connect().translate("ab") == ["3:AB"]


def test_64_clients_get_what_one_gets(running):
    assert hammer(running, clients=64, requests=11, mark="3:") == []


def test_answers_do_not_depend_on_neighbours_even_where_sizes_do(running):
    """`attention` pads to the longest row of a batch: requests must not be merged."""
    results, threads = {}, []

    def ask(text):
        results[text] = running.connect().predict({"signature_name": "attention", "inputs": [text]})[1]["outputs"]

    for length in range(1, 24):
        threads.append(threading.Thread(target=ask, args=["x" * length]))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {len(text): len(answer["tokens"][0]) for text, answer in results.items()} == {n: n for n in range(1, 24)}


def test_no_shape_makes_a_new_function(connection):
    connection.translate("warm")
    before = set(context.context().list_function_names())
    for rows in range(1, 90, 3):
        connection.translate(*["a" * rows] * rows)
    # Functions of earlier tests may be freed meanwhile: none may be new.
    assert set(context.context().list_function_names()) <= before


def test_the_content_is_json(connection):
    connection._http.request("GET", "/v1/models/toy")
    response = connection._http.getresponse()
    assert response.headers["Content-Type"].startswith("application/json")
    json.loads(response.read())
