"""TensorFlow Serving's JSON forms, written."""

import json

import numpy as np
import pytest

from tf_transformer.export.serving import _responses as responses
from tf_transformer.export.serving._errors import BadRequest


def text_of(outputs, as_rows) -> bytes:
    return b"".join(responses.predict_body(outputs, as_rows))


def predict_body(outputs, as_rows):
    return json.loads(text_of(outputs, as_rows))


STRINGS = np.array([b"a", "\N{SNOWMAN}".encode()], dtype=object)


def test_one_output_loses_its_name():
    assert predict_body({"translation": STRINGS}, as_rows=True) == {"predictions": ["a", "\N{SNOWMAN}"]}
    assert predict_body({"translation": STRINGS}, as_rows=False) == {"outputs": ["a", "\N{SNOWMAN}"]}


def test_several_outputs_are_objects():
    outputs = {"score": np.array([[1.5, 2.0, 3.0], [4.0, 5.0, 6.0]], np.float32), "cut": np.array([True, False])}
    rows = [{"cut": True, "score": [1.5, 2.0, 3.0]}, {"cut": False, "score": [4.0, 5.0, 6.0]}]
    assert predict_body(outputs, as_rows=True) == {"predictions": rows}
    columns = {"cut": [True, False], "score": [[1.5, 2.0, 3.0], [4.0, 5.0, 6.0]]}
    assert predict_body(outputs, as_rows=False) == {"outputs": columns}


def test_numbers_are_short_and_whole_floats_stay_floats():
    body = text_of({"x": np.array([0.1, 7.0, np.nan, -np.inf], np.float32)}, as_rows=True)
    assert body == b'{"predictions": [0.1, 7.0, NaN, -Infinity]}'
    value = np.float32(1) / np.float32(3)
    assert np.float32(predict_body({"x": np.array([value])}, as_rows=True)["predictions"][0]) == value


def test_bytes_are_base64_by_name_and_text_is_always_valid():
    assert predict_body({"x_bytes": np.array([b"\xff"], object)}, as_rows=True) == {"predictions": [{"b64": "/w=="}]}
    text = text_of({"x": np.array([b"a\xffb"], object)}, as_rows=True)
    assert json.loads(text.decode("utf-8")) == {"predictions": ["a\N{REPLACEMENT CHARACTER}b"]}


@pytest.mark.parametrize("other", [np.float32(1), np.zeros(3)])
def test_rows_need_one_batch_size(other):
    with pytest.raises(BadRequest, match="expected outputs of one batch size"):
        predict_body({"a": STRINGS, "b": other}, as_rows=True)
    assert predict_body({"a": STRINGS, "b": other}, as_rows=False)["outputs"]["b"] == other.tolist()


def test_empty():
    outputs = {"a": np.zeros([0], object), "b": np.zeros([0, 3], np.float32)}
    assert predict_body(outputs, as_rows=True) == {"predictions": []}
    assert predict_body(outputs, as_rows=False) == {"outputs": {"a": [], "b": []}}


@pytest.mark.parametrize("as_rows", [True, False])
def test_large_answers_are_written_in_parts_of_bounded_size(as_rows, monkeypatch):
    monkeypatch.setattr(responses, "VALUES_AT_A_TIME", 20)
    outputs = {"a": np.arange(7 * 11, dtype=np.float32).reshape(7, 11), "b": np.arange(7)}
    parts = list(responses.predict_body(outputs, as_rows))
    assert max(map(len, parts)) < 150 and len(parts) > 4
    answer = json.loads(b"".join(parts))
    rows = [{"a": outputs["a"][i].tolist(), "b": i} for i in range(7)]
    columns = {"a": outputs["a"].tolist(), "b": list(range(7))}
    assert answer == ({"predictions": rows} if as_rows else {"outputs": columns})
