"""Versions that come, go and are broken while the server runs, and the end of the server itself."""

import gc
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from running_server import GUARD_SECONDS, Connection, running_server
from tensorflow.python.eager import context
from toy_saved_model import write_toy

from tf_transformer.export.serving._loading import BadModel
from tf_transformer.pipelines import cli


@pytest.fixture
def base(tmp_path, toys):
    base = tmp_path / "base"
    shutil.copytree(toys / "1", base / "1")
    return base


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    """Versions 1 and 2 to copy from."""
    directory = tmp_path_factory.mktemp("toys")
    write_toy(directory / "1", mark="1:")
    write_toy(directory / "2", mark="2:")
    return directory


def publish(toys, base, version=2, name=None):
    """A version appears by rename."""
    shutil.copytree(toys / str(version), base / "incoming")
    (base / "incoming").rename(base / str(name or version))


def wait_until(condition, seconds=GUARD_SECONDS):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def states(connection):
    answer = connection.send("GET", connection.model)[1]["model_version_status"]
    return {int(each["version"]): each["state"] for each in answer}


def test_a_new_version_takes_over_without_dropping_a_request(toys, base):
    with running_server(base) as running:
        answers, stop = [[] for _ in range(8)], threading.Event()

        def ask(ours):
            connection = running.connect()
            while not stop.is_set():
                ours.append(connection.predict({"instances": ["a"]}))

        threads = [threading.Thread(target=ask, args=[ours]) for ours in answers]
        for thread in threads:
            thread.start()
        connection = running.connect()
        wait_until(lambda: all(len(ours) > 5 for ours in answers))
        publish(toys, base)
        wait_until(lambda: connection.translate("a") == ["2:A"])
        seen = [len(ours) for ours in answers]
        wait_until(lambda: all(len(ours) > before + 5 for ours, before in zip(answers, seen)))
        stop.set()
        for thread in threads:
            thread.join()
        for ours in answers:
            assert {status for status, _ in ours} == {200}
            found = [answer["predictions"][0] for _, answer in ours]
            assert set(found) == {"1:A", "2:A"} and found == sorted(found)  # never back to the old version
        wait_until(lambda: states(connection) == {2: "AVAILABLE", 1: "END"})
        assert connection.predict({"instances": ["a"]}, version=1)[0] == 404


def test_nothing_is_kept_of_old_versions(toys, base):
    def functions():
        return len(context.context().list_function_names())

    gc.collect()
    with running_server(base) as running:
        connection, one_version = running.connect(), functions()
        for version in range(2, 6):
            publish(toys, base, name=version)
            wait_until(lambda version=version: states(connection).get(version) == "AVAILABLE")
            wait_until(lambda: functions() <= one_version)


def break_graph(directory):
    (directory / "saved_model.pb").write_bytes((directory / "saved_model.pb").read_bytes()[:-1000])


def flip_bit(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    "damage",
    [
        break_graph,
        lambda directory: flip_bit(directory / "saved_model.pb"),
        lambda directory: flip_bit(directory / "variables" / "variables.data-00000-of-00001"),
        lambda directory: (directory / "variables" / "variables.index").unlink(),
        lambda directory: (directory / "saved_model.pb").unlink(),
    ],
    ids=["truncated graph", "bit in graph", "bit in weights", "no index", "no graph"],
)
def test_a_bad_version_is_rejected_and_the_old_one_serves(toys, base, damage):
    with running_server(base) as running:
        connection = running.connect()
        shutil.copytree(toys / "2", base / "incoming")
        damage(base / "incoming")
        (base / "incoming").rename(base / "2")
        wait_until(lambda: 2 in states(connection) and states(connection)[2] == "END")
        status = connection.send("GET", connection.model + "/versions/2")[1]["model_version_status"][0]["status"]
        assert status["error_code"] != "OK" and status["error_message"]
        assert connection.translate("a") == ["1:A"]
        assert states(connection)[1] == "AVAILABLE"


def test_a_bad_version_without_checksums_is_rejected_too(toys, base):
    publish(toys, base)
    (base / "2" / "model.json").unlink()
    flip_bit(base / "2" / "variables" / "variables.data-00000-of-00001")
    with running_server(base) as running:
        assert running.connect().translate("a") == ["1:A"]
        assert states(running.connect()) == {2: "END", 1: "AVAILABLE"}


def test_a_half_copied_version_is_served_when_it_is_whole(toys, base):
    with running_server(base) as running:
        connection = running.connect()
        (base / "2" / "variables").mkdir(parents=True)
        for name in ("model.json", "saved_model.pb"):
            shutil.copy(toys / "2" / name, base / "2")
        wait_until(lambda: states(connection).get(2) == "END")
        assert connection.translate("a") == ["1:A"]
        shutil.copytree(toys / "2", base / "2", dirs_exist_ok=True)
        wait_until(lambda: connection.translate("a") == ["2:A"])


def test_a_version_that_is_taken_back(toys, base):
    publish(toys, base)
    with running_server(base) as running:
        connection = running.connect()
        assert connection.translate("a") == ["2:A"]
        shutil.rmtree(base / "2")
        wait_until(lambda: connection.translate("a") == ["1:A"])


def test_versions_are_numbers(toys, base):
    publish(toys, base, name=10)
    shutil.copytree(toys / "2", base / "latest")
    with running_server(base) as running:
        assert running.connect().translate("a") == ["2:A"]
        assert list(states(running.connect())) == [10]


@pytest.mark.parametrize("make", [lambda base: None, lambda base: base.mkdir()], ids=["nowhere", "empty"])
def test_nothing_to_serve(tmp_path, make):
    make(tmp_path / "base")
    with pytest.raises(BadModel, match=r"expected .*versions"), running_server(tmp_path / "base"):
        pass


def test_one_version_instead_of_the_folder_of_all(toys):
    with (
        pytest.raises(BadModel, match=r"is one version of a model: give the directory above it"),
        running_server(toys / "2"),
    ):
        pass


def test_a_failing_warm_up_rejects_the_version(toys, base):
    import tensorflow as tf
    from tensorflow_serving.apis import prediction_log_pb2

    def record(signature):
        log = prediction_log_pb2.PredictionLog()
        log.predict_log.request.model_spec.signature_name = signature
        log.predict_log.request.inputs["text"].CopyFrom(tf.make_tensor_proto(["a", "bad"], tf.string))
        return log.SerializeToString()

    for version, signatures in ((2, ["serving_default", "nbest"]), (3, ["serving_default", "strict"])):
        shutil.copytree(toys / "2", base / str(version))
        (base / str(version) / "assets.extra").mkdir()
        with tf.io.TFRecordWriter(str(base / str(version) / "assets.extra/tf_serving_warmup_requests")) as writer:
            for signature in signatures:
                writer.write(record(signature))
    with running_server(base) as running:
        connection = running.connect()
        assert states(connection) == {3: "END", 2: "AVAILABLE"}
        message = connection.send("GET", connection.model + "/versions/3")[1]["model_version_status"][0]["status"]
        assert "warm-up request 1" in message["error_message"] and "a bad row" in message["error_message"]


def start(base, *options):
    """The command itself, in a process of its own; returns it and its port."""
    command = [sys.executable, "-m", "tf_transformer.pipelines.serve", str(base), "--port", "0", *options]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    for line in process.stderr:
        if match := re.search(r"listening at http://127\.0\.0\.1:(\d+)/v1/models/(\S+)", line):
            return process, int(match[1]), match[2]
    raise AssertionError(f"the server ended with {process.wait()}")


def unread_bytes(port):
    """Bytes that wait to be read, one number per open connection of the server at `port`."""
    rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
    established = [row for row in rows if row[3] == "01" and int(row[1].split(":")[1], 16) == port]
    return [int(row[4].split(":")[1], 16) for row in established]


def is_refused(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=GUARD_SECONDS).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.skipif(not pathlib.Path("/proc/net/tcp").exists(), reason="connections are read from /proc")
def test_sigterm_answers_what_is_open_and_ends(base, tmp_path):
    write_toy(base / "2", mark="2:", release=tmp_path / "release")
    options = ("--workers", "1", "--no-batching", "--shutdown-seconds", str(2 * GUARD_SECONDS))
    process, port, name = start(base, *options)
    try:
        assert name == "base"
        first = Connection(port, name)
        assert first.translate("a") == ["2:A"]
        first.close()
        answers = []

        def ask(number):
            body = {"signature_name": "slow", "instances": [f"a{number}"]}
            answers.append(Connection(port, name).predict(body))

        threads = [threading.Thread(target=ask, args=[number]) for number in range(5)]
        wait_until(lambda: unread_bytes(port) == [])
        for thread in threads:
            thread.start()
        wait_until(lambda: unread_bytes(port) == [0] * 5)
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: is_refused(port))
        assert answers == []
        (tmp_path / "release").touch()
        for thread in threads:
            thread.join()
        assert process.wait(timeout=GUARD_SECONDS) == 0
        assert sorted(answer["predictions"][0] for _, answer in answers) == [f"2:A{number}" for number in range(5)]
    finally:
        process.kill()
        process.communicate()


def test_the_command_explains_why_it_cannot_start(tmp_path, capsys):
    (tmp_path / "1").mkdir()
    assert cli.main(["serve", str(tmp_path), "--port", "0"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "saved_model.pb" in captured.err.splitlines()[-1] and "Traceback" not in captured.err
