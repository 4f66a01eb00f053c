"""Several models, metrics, health, access log, CORS, and LibreTranslate's interface with one of its own clients."""

import json
import shutil
import time
import urllib.error
import urllib.request

import pytest
from libretranslatepy import LibreTranslateAPI
from prometheus_client.parser import text_string_to_metric_families
from running_server import Connection, running_server, serve_process
from toy_saved_model import write_toy

from tf_transformer.export.serving import ModelSource, ServerOptions, server_in_thread
from tf_transformer.pipelines import cli


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    """Two models: en-de with versions 1 and 2, and en-fr with version 5."""
    folder = tmp_path_factory.mktemp("models")
    write_toy(folder / "en-de" / "1", mark="de1:")
    write_toy(folder / "en-de" / "2", mark="de2:")
    write_toy(folder / "named" / "5", mark="fr5:")
    card = json.loads((folder / "named" / "5" / "model.json").read_text())
    card["languages"] = {"source": "en", "target": "fr"}
    (folder / "named" / "5" / "model.json").write_text(json.dumps(card))
    return folder


@pytest.fixture(scope="module")
def config(bases):
    path = bases / "models.config"
    path.write_text(
        f"""
        model_config_list {{
          config {{
            name: "stable" base_path: "{bases}/en-de" model_platform: "tensorflow"
            model_version_policy {{ all {{}} }}
            version_labels {{ key: "stable" value: 1 }}
            version_labels {{ key: "canary" value: 2 }}
          }}
          config {{
            name: "old" base_path: "{bases}/en-de" model_version_policy {{ specific {{ versions: 1 }} }}
          }}
          config {{ name: "en-fr" base_path: "{bases}/named" }}
        }}
        """
    )
    return path


@pytest.fixture(scope="module")
def server(bases):
    sources = [ModelSource("en-de", bases / "en-de"), ModelSource("named", bases / "named")]
    with server_in_thread(sources, options=ServerOptions(port=0)) as server:
        yield server


def get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as response:
        return response.status, response.read().decode(), response.headers


def metrics_of(port) -> dict:
    """The samples of the metrics page by name and labels; the parser adds `_total` to the names of counters."""
    page = get(port, "/monitoring/prometheus/metrics")[1]
    families = text_string_to_metric_families(page)
    return {
        (sample.name.removesuffix("_total"), *sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def test_several_directories(bases):
    with serve_process(bases / "en-de", bases / "named", "--access-log") as served:
        assert served.connect("en-de").translate("a") == ["de2:A"]
        assert served.connect("named").translate("a") == ["fr5:A"]
        assert served.connect("other").predict({"instances": ["a"]})[0] == 404
    log = "".join(served.lines)
    assert '"POST /v1/models/named:predict HTTP/1.1" 200' in log
    assert '"POST /v1/models/other:predict HTTP/1.1" 404' in log


def test_no_access_log_unless_asked_for(bases):
    with serve_process(bases / "named") as served:
        served.connect("named").translate("a")
    assert "POST" not in "".join(served.lines)


def test_a_model_config_file(config):
    with serve_process("--model_config_file", config) as served:
        stable = served.connect("stable")
        assert stable.translate("a") == ["de2:A"]
        for path, mark in {
            "versions/1": "de1",
            "versions/2": "de2",
            "labels/stable": "de1",
            "labels/canary": "de2",
        }.items():
            answer = stable.send("POST", f"/v1/models/stable/{path}:predict", b'{"instances": ["a"]}')
            assert answer == (200, {"predictions": [f"{mark}:A"]})
        metadata = stable.send("GET", "/v1/models/stable/labels/stable/metadata")[1]
        assert metadata["model_spec"]["version"] == "1"
        statuses = stable.send("GET", "/v1/models/stable")[1]["model_version_status"]
        assert [(each["version"], each["state"]) for each in statuses] == [("2", "AVAILABLE"), ("1", "AVAILABLE")]
        assert served.connect("old").translate("a") == ["de1:A"]
        assert served.connect("en-fr").translate("a") == ["fr5:A"]


def test_two_newest_versions_move_on(bases, tmp_path):
    base = tmp_path / "toy"
    for version in (1, 2):
        shutil.copytree(bases / "en-de" / str(version), base / str(version))
    with server_in_thread(
        [ModelSource("toy", base, latest=2)], options=ServerOptions(port=0, poll_seconds=0.05)
    ) as server:
        connection = Connection(server.port)
        assert connection.predict({"instances": ["a"]}, version=1)[1] == {"predictions": ["de1:A"]}
        shutil.copytree(bases / "named" / "5", base / "incoming")
        (base / "incoming").rename(base / "5")
        end = time.monotonic() + 60
        while connection.predict({"instances": ["a"]}, version=1)[0] != 404:
            assert time.monotonic() < end
            time.sleep(0.02)
        assert connection.predict({"instances": ["a"]}, version=2)[0] == 200
        assert connection.translate("a") == ["fr5:A"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "expected MODEL_BASE or --model-config-file"),
        (["{bases}/en-de", "--model-config-file", "{bases}/models.config"], "Received: both"),
        (["--model-config-file", "{bases}/models.config", "--name", "x"], "expected --name with one MODEL_BASE"),
        (["{bases}/en-de", "{bases}/named", "--name", "x"], "one MODEL_BASE with a name"),
        (["--model-config-file", "{bases}/missing"], "missing"),
        (["{bases}/en-de", "{bases}/nowhere"], "expected a directory with versions"),
    ],
)
def test_the_command_rejects(bases, config, capsys, words, message):
    assert cli.main(["serve", *(word.format(bases=bases) for word in words), "--port", "0"]) == 1
    assert message in capsys.readouterr().err


def test_metrics(server):
    connection = Connection(server.port, "en-de")
    before = metrics_of(server.port)

    def grown(name, **labels):
        key = (name, *sorted(labels.items()))
        return metrics_of(server.port).get(key, 0) - before.get(key, 0)

    for _ in range(3):
        connection.translate("a")
    assert connection.predict({"instances": [5]})[0] == 400
    assert connection.send("GET", "/v1/models/nobody")[0] == 404
    count = ":tensorflow:serving:request_count"
    assert grown(count, model_name="en-de", status="OK") == 3
    assert grown(count, model_name="en-de", status="INVALID_ARGUMENT") == 1
    assert grown(count, model_name="", status="NOT_FOUND") == 1  # no label that a client chooses
    latency = {"model_name": "en-de", "API": "predict", "entrypoint": "REST"}
    assert grown(":tensorflow:serving:request_latency_count", **latency) == 3
    assert grown(":tensorflow:serving:request_latency_sum", **latency) > 0
    assert grown(":tensorflow:serving:request_latency_bucket", **latency, le="+Inf") == 3
    runtime = {"model_name": "en-de", "API": "Predict", "runtime": "TF1"}
    assert grown(":tensorflow:serving:runtime_latency_count", **runtime) == 3
    loads = {name: value for name, value in before.items() if name[0].endswith(":load_attempt_count")}
    assert len(loads) == 2 and all(dict(name[1:])["status"] == "success" for name in loads)


def test_the_types_of_metrics_are_those_of_tensorflow_serving(server):
    Connection(server.port, "named").translate("a")
    _, page, headers = get(server.port, "/monitoring/prometheus/metrics")
    assert ':tensorflow:serving:request_count{model_name="named",status="OK"}' in page
    assert headers["Content-Type"].startswith("text/plain")
    assert "# TYPE :tensorflow:serving:request_count counter\n" in page
    assert "# TYPE :tensorflow:serving:request_latency histogram\n" in page
    assert 'le="32.4"' in page and 'le="188.957"' in page and "_created" not in page


def test_health(server, bases, tmp_path):
    assert get(server.port, "/health")[:2] == (200, '{"status": "ok"}')
    server.models["named"], kept = _Empty(), server.models["named"]
    try:
        with pytest.raises(urllib.error.HTTPError) as error:
            get(server.port, "/health")
        assert error.value.code == 503 and json.load(error.value)["models"] == ["named"]
    finally:
        server.models["named"] = kept


class _Empty:
    available = False


def preflight(port, origin="http://page.example"):
    headers = {"Origin": origin} if origin else {}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/models/toy:predict", method="OPTIONS", headers=headers
    )
    with urllib.request.urlopen(request) as response:
        return response.status, dict(response.headers)


def test_cors(bases):
    with running_server(bases / "named", cors=True) as running:
        status, headers = preflight(running.port)
        assert status == 200
        assert headers["Access-Control-Allow-Origin"] == "*"
        assert headers["Access-Control-Allow-Methods"] == "POST, GET"
        assert headers["Access-Control-Allow-Headers"] == "Content-Type"
        assert get(running.port, "/v1/models/toy")[2]["Access-Control-Allow-Origin"] == "*"
        connection = running.connect()
        body = {"signature_name": "attention", "instances": ["x" * 5000]}
        connection._http.request("POST", "/v1/models/toy:predict", json.dumps(body))
        large = connection._http.getresponse()
        assert large.headers["Access-Control-Allow-Origin"] == "*" and large.read()
        with pytest.raises(urllib.error.HTTPError, match="400"):
            preflight(running.port, origin=None)


def test_no_cors_unless_asked_for(server):
    assert "Access-Control-Allow-Origin" not in get(server.port, "/v1/models/named")[2]
    assert "Access-Control-Allow-Origin" not in preflight(server.port)[1]


def test_a_client_of_libretranslate(server):
    client = LibreTranslateAPI(f"http://127.0.0.1:{server.port}")
    assert client.translate("äb & c", "en", "de") == "de2:ÄB & C"
    assert client.translate("ab", "en", "fr") == "fr5:AB"
    assert client.languages() == [{"code": "en", "name": "English", "targets": ["de", "fr"]}]
    with pytest.raises(urllib.error.HTTPError, match="400"):
        client.translate("ab", "de", "en")


def libretranslate(server, **fields):
    connection = Connection(server.port)
    body, headers = json.dumps(fields).encode(), {"Content-Type": "application/json"}
    return connection.send("POST", "/translate", body, headers)


def test_libretranslate_as_json(server):
    assert libretranslate(server, q="ab", source="en", target="de") == (200, {"translatedText": "de2:AB"})
    several = libretranslate(server, q=["ab", ""], source="en", target="fr", format="text", api_key="")
    assert several == (200, {"translatedText": ["fr5:AB", "fr5:"]})
    assert libretranslate(server, q=[], source="en", target="fr") == (200, {"translatedText": []})
    found = libretranslate(server, q="ab", source="auto", target="fr", alternatives=2)[1]
    assert found["alternatives"] == ["fr5:AB"] * 2 and found["detectedLanguage"]["language"] == "en"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"source": "en", "target": "de"}, "as 'q'. Received: null"),
        ({"q": [5], "source": "en", "target": "de"}, "as 'q'. Received: [5]"),
        ({"q": "a", "target": "de"}, "as 'source'"),
        ({"q": "a", "source": "en", "target": 5}, "as 'target'. Received: 5"),
        ({"q": "a", "source": "en", "target": "pt"}, "en to pt is not supported. Supported: en to de, en to fr"),
        ({"q": "a", "source": "en", "target": "de", "format": "html"}, "Send plain text"),
        ({"q": "a", "source": "en", "target": "de", "alternatives": "x"}, "as 'alternatives'"),
        ({"q": "a", "source": "en", "target": "de", "alternatives": float("inf")}, "as 'alternatives'"),
        ({"q": ["a"] * 2000, "source": "en", "target": "de"}, "Received: 'q' with 2000 rows"),
    ],
)
def test_libretranslate_rejects(server, fields, message):
    status, answer = libretranslate(server, **fields)
    assert status == 400 and message in answer["error"]
