"""A real export behind HTTP: strange text, many clients, and readers without Python; all answer as the translator."""

import base64
import dataclasses
import os
import pathlib
import random
import threading

import numpy as np
import pytest
import tensorflow as tf
from cpp_reader import build_reader, has_compiler, translate_with_cpp
from running_server import running_server
from toy_workdir import TOY, toy_sentences, toy_workdir

from tf_transformer.decoding._translator import Translator
from tf_transformer.export._saved_model import export_saved_model
from tf_transformer.export._trial_rows import ADVERSARIAL, long_rows

pytestmark = pytest.mark.slow

SEARCH = {"max_source_length": 19, "max_extra_length": 7, "beam_size": 3}
SENTENCES = [text.encode() for text in toy_sentences(31, seed=11)]

# A folder with tensorflow and tensorflow_text of another release (site-packages), to read the export with.
OTHER_PACKAGES = os.environ.get("OTHER_TENSORFLOW")


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    return toy_workdir(tmp_path_factory.mktemp("served") / "run", dataclasses.replace(TOY, num_layers=1), **SEARCH)


@pytest.fixture(scope="module")
def translator(workdir):
    return Translator.from_workdir(workdir.path)


@pytest.fixture(scope="module")
def base(workdir, tmp_path_factory):
    base = tmp_path_factory.mktemp("model") / "toy"
    export_saved_model(workdir, base)
    return base


@pytest.fixture(scope="module")
def packed(workdir, tmp_path_factory):
    return export_saved_model(workdir, tmp_path_factory.mktemp("packed") / "toy", packed=True).path


@pytest.fixture(scope="module")
def running(base):
    with running_server(base) as running:
        yield running


def encoded(texts):
    return [{"b64": base64.b64encode(text).decode()} for text in texts]


def test_strange_text_over_http(running, translator):
    assert running.connect().translate(*encoded(ADVERSARIAL)) == translator(ADVERSARIAL)
    for text in ADVERSARIAL[:6]:  # alone as among others
        assert running.connect().translate(*encoded([text])) == translator([text])


def test_strange_text_as_json_strings(running, translator):
    texts = [text.decode("utf-8", "replace") for text in ADVERSARIAL]
    assert running.connect().translate(*texts) == translator(texts)
    status, answer = running.connect().predict(b'{"instances": ["\xff raw", "plain"]}')
    assert status == 200 and answer["predictions"][1] == translator(["plain"])[0]


def test_attention_in_parts_is_that_of_one_call(running, base):
    """31 rows of different lengths: four calls of the model, padded to one width."""
    texts = [*SENTENCES[:30], b""]
    status, answer = running.connect().predict({"signature_name": "attention", "inputs": encoded(texts)})
    expected = tf.saved_model.load(str(base / "1")).signatures["attention"](text=tf.constant(texts))
    assert status == 200 and answer["outputs"].keys() == expected.keys()
    for name, value in expected.items():
        if value.dtype == tf.string:
            assert answer["outputs"][name] == np.vectorize(bytes.decode)(value.numpy()).tolist()
        else:
            np.testing.assert_allclose(answer["outputs"][name], value.numpy(), atol=1e-5)


def test_long_rows_are_truncated_and_flagged_and_change_no_neighbour(running, workdir, translator):
    short, long = SENTENCES, long_rows(workdir.tokenizers.source, SEARCH["max_source_length"])[-2:]
    body = {"signature_name": "nbest", "instances": encoded([*short, *long])}
    status, answer = running.connect().predict(body)
    assert status == 200
    assert [row["truncated"] for row in answer["predictions"][-2:]] == [True, True]
    assert [row["translations"][0] for row in answer["predictions"][:-2]] == translator(short)


def test_an_empty_batch(running):
    for signature in ("serving_default", "nbest", "attention", "score"):
        assert running.connect().predict({"signature_name": signature, "instances": []}) == (200, {"predictions": []})


def test_64_clients_get_what_one_gets(running, translator):
    expected, faults = dict(zip(SENTENCES, translator(SENTENCES))), []
    answered = [0] * 64

    def client(number):
        connection, chance = running.connect(), random.Random(number)
        for _ in range(5):
            texts = chance.choices(SENTENCES, k=chance.randrange(1, 5))
            found = connection.translate(*(text.decode() for text in texts))
            faults.extend((text, each) for text, each in zip(texts, found) if each != expected[text])
            answered[number] += 1

    threads = [threading.Thread(target=client, args=[number]) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == [] and answered == [5] * 64


@pytest.mark.skipif(not has_compiler(), reason="there is no C++ compiler (g++)")
def test_a_reader_without_python(base, translator, tmp_path):
    texts = [*SENTENCES, *ADVERSARIAL]
    found = translate_with_cpp(build_reader(tmp_path), base / "1", texts)
    assert [text.decode() for text in found] == translator(texts)


@pytest.mark.skipif(not (has_compiler() and OTHER_PACKAGES), reason="OTHER_TENSORFLOW names no other release")
def test_a_reader_of_another_release(base, packed, translator, tmp_path):
    """As the oldest server: OTHER_TENSORFLOW is a site-packages with tensorflow and tensorflow_text 2.12.1."""
    texts, packages = [*SENTENCES, *ADVERSARIAL], pathlib.Path(OTHER_PACKAGES or "")
    reader = build_reader(tmp_path, packages)
    assert [text.decode() for text in translate_with_cpp(reader, base / "1", texts, packages)] == translator(texts)
    for some in (texts, SENTENCES[:2], SENTENCES[2:3]):  # one and two sentences begin with small steps
        found = translate_with_cpp(reader, packed, some, packages)
        assert [text.decode() for text in found] == translator(some)
