"""TensorFlow Serving's JSON forms, read and rejected."""

import base64
import json

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.export.serving._errors import BadRequest
from tf_transformer.export.serving._rest import parse_predict

TEXT = {"text": tf.TensorSpec([None], tf.string)}
PAIR = {"source": tf.TensorSpec([None], tf.string), "target": tf.TensorSpec([None], tf.string)}


def parse(body, specs=TEXT):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return parse_predict(data, lambda name: specs)


def number(dtype, *shape):
    return {"x": tf.TensorSpec(shape, dtype)}


@pytest.mark.parametrize("body", [{"instances": ["a", "b"]}, {"inputs": ["a", "b"]}, {"inputs": {"text": ["a", "b"]}}])
def test_rows_and_columns_give_the_same_tensor(body):
    request = parse(body)
    assert request.tensors["text"].tolist() == [b"a", b"b"]
    assert request.as_rows == ("instances" in body)
    assert request.signature == "serving_default"


@pytest.mark.parametrize(
    "body",
    [
        {"instances": [{"source": "a", "target": "x"}, {"source": "b", "target": "y"}]},
        {"inputs": {"source": ["a", "b"], "target": ["x", "y"]}},
    ],
)
def test_several_inputs(body):
    tensors = parse(body, PAIR).tensors
    assert tensors["source"].tolist() == [b"a", b"b"] and tensors["target"].tolist() == [b"x", b"y"]


def test_bytes_come_as_base64_or_as_they_are():
    raw = b"\xff\x00\xfe"
    encoded = {"b64": base64.b64encode(raw).decode()}
    assert parse({"instances": [encoded, "b"]}).tensors["text"].tolist() == [raw, b"b"]
    assert parse({"inputs": [encoded]}).tensors["text"].tolist() == [raw]
    assert parse(b'{"instances": ["\xff\xfe"]}').tensors["text"].tolist() == [b"\xff\xfe"]


def test_text_survives():
    texts = ["", "a\x00b", "\U0001f600", "<s>", "▁", "\t\n"]
    assert parse({"instances": texts}).tensors["text"].tolist() == [text.encode() for text in texts]


def test_an_empty_batch_keeps_the_rank():
    assert parse({"instances": []}).tensors["text"].shape == (0,)
    assert parse({"inputs": []}, number(tf.float32, None, 3)).tensors["x"].shape == (0, 3)
    assert {each.shape for each in parse({"instances": []}, PAIR).tensors.values()} == {(0,)}
    with pytest.raises(BadRequest, match=r"expected shape \[\] for input 'x'\. Received: shape \[0\]"):
        parse({"inputs": []}, number(tf.float32))


def test_numbers_and_shapes():
    tensor = parse({"inputs": [[1, 2.5, -3], [4, 5, 6]]}, number(tf.float32, None, 3)).tensors["x"]
    np.testing.assert_array_equal(tensor, np.array([[1, 2.5, -3], [4, 5, 6]], np.float32))
    assert tensor.dtype == np.float32
    assert np.isnan(parse(b'{"instances": [NaN]}', number(tf.float32, None)).tensors["x"][0])
    assert parse({"instances": [True, False]}, number(tf.bool, None)).tensors["x"].tolist() == [True, False]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "JSON Parse error"),
        (b'{"instances": ["a"', "JSON Parse error"),
        pytest.param(b"[" * 100_000, "JSON Parse error", id="deep JSON"),
        (["a"], "expected a JSON object"),
        ({}, "Received: neither"),
        ({"instances": ["a"], "inputs": ["a"]}, "Received: both"),
        ({"instances": "a"}, "expected a list as 'instances'"),
        ({"instances": [1]}, "JSON Value: 1 is not of expected type: string"),
        ({"instances": [None]}, "JSON Value: null"),
        ({"instances": ["a", True]}, "JSON Value: true"),
        ({"instances": [["a", "b"]]}, r"expected shape \[-1\] for input 'text'. Received: shape \[1, 2\]"),
        ({"inputs": "a"}, r"shape \[-1\] for input 'text'. Received: shape \[\]"),
        ({"inputs": [["a"], ["b"]]}, r"Received: shape \[2, 1\]"),
        ({"instances": ["a", ["b"]]}, "JSON Value"),
        ({"instances": ["a", {"text": "b"}]}, "item 1 of 'instances'"),
        ({"instances": [{"text": "a"}, "b"]}, "expected an object at item 1"),
        ({"instances": [{"txt": "a"}]}, "expected the keys 'text' at item 0 of 'instances'. Received: 'txt'"),
        ({"instances": [{"text": "a", "more": "b"}]}, "Received: 'more', 'text'"),
        ({"inputs": {"txt": ["a"]}}, "Missing named input: 'text'"),
        ({"inputs": {"text": ["a"], "more": ["b"]}}, "Received: 'more' too"),
        ({"instances": [{"b64": "!"}]}, "Unable to base64 decode"),
        ({"instances": ["a"], "signature_name": 7}, "expected a string as 'signature_name'"),
    ],
)
def test_rejected_requests_have_a_reason(body, message):
    with pytest.raises(BadRequest, match=message):
        parse(body)


@pytest.mark.parametrize(
    ("body", "specs", "message"),
    [
        ({"instances": ["a"]}, PAIR, "expected a list of objects with 'source', 'target'"),
        ({"inputs": ["a"]}, PAIR, "expected an object with 'source', 'target'"),
        ({"instances": [1.5]}, number(tf.int32, None), "not of expected type: int32"),
        ({"instances": [2**40]}, number(tf.int32, None), "input 'x'"),
        ({"instances": [True]}, number(tf.int32, None), "not of expected type: int32"),
        ({"instances": ["1"]}, number(tf.float32, None), "not of expected type: float32"),
        ({"instances": [[1, 2, 3], [4, 5]]}, number(tf.int32, None, None), "a list of 2"),
        ({"instances": [[1, 2]]}, number(tf.int32, None, 3), r"shape \[-1, 3\]"),
    ],
)
def test_other_types_are_rejected_too(body, specs, message):
    with pytest.raises(BadRequest, match=message):
        parse(body, specs)
