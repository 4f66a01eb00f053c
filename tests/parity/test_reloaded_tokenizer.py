"""A SavedModel with a Tokenizer inside, moved and reloaded in a clean process: the same ids and text."""

import base64
import json
import os
import subprocess
import sys

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from tf_transformer.text._subwords import IdMap
from tf_transformer.text._tokenizer import Tokenizer, train_tokenizer

TEXTS = ["The cat sat on the mat.", "Die Katze saß auf der Matte.", "", "a\0b </s>", "鳥 😀", "x" * 97]
BYTES = [*(text.encode() for text in TEXTS), b"\xff cut \xe2\x82"]

RELOAD = """
import base64, json, sys
import tensorflow as tf, tensorflow_text
assert "tf_transformer" not in sys.modules
model = tf.saved_model.load(sys.argv[1])
texts = [base64.b64decode(text) for text in json.load(sys.stdin)]
out = model.signatures["serving_default"](text=tf.constant(texts))
print(json.dumps({"ids": out["ids"].numpy().tolist(), "text": [text.decode() for text in out["back"].numpy()]}))
"""

SAFE_OPS = {"SentencepieceOp", "SentencepieceTokenizeOp", "SentencepieceDetokenizeOp"}


class Served(tf.Module):
    def __init__(self, tokenizer):
        super().__init__()
        self.tokenizer = tokenizer

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def serve(self, text):
        ids = self.tokenizer.tokenize(text).to_tensor(self.tokenizer.pad_id)
        return {"ids": ids, "back": self.tokenizer.detokenize(ids)}


def reload_elsewhere(directory, texts):
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    result = subprocess.run(
        [sys.executable, "-c", RELOAD, str(directory)],
        input=json.dumps([base64.b64encode(text).decode() for text in texts]),
        capture_output=True,
        text=True,
        cwd=directory.parent,
        env=environment,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def check(tokenizer, tmp_path):
    served = Served(tokenizer)
    tf.saved_model.save(served, str(tmp_path / "first"), signatures=served.serve)
    (tmp_path / "first").rename(tmp_path / "moved")
    answer = reload_elsewhere(tmp_path / "moved", BYTES)
    expected = [tokenizer.encode(text) for text in BYTES]
    width = max(map(len, expected))
    assert answer["ids"] == [ids + [tokenizer.pad_id] * (width - len(ids)) for ids in expected]
    assert answer["text"] == [tokenizer.decode(ids) for ids in expected]


def ops_of(directory):
    saved = saved_model_pb2.SavedModel.FromString((directory / "saved_model.pb").read_bytes())
    graph = saved.meta_graphs[0].graph_def
    return {node.op for f in graph.library.function for node in f.node_def} | {node.op for node in graph.node}


def test_shared_ids(tmp_path):
    check(train_tokenizer(TEXTS * 5, 211), tmp_path)
    ops = ops_of(tmp_path / "moved")
    assert {op for op in ops if "Sentencepiece" in op or "TFText" in op} == SAFE_OPS
    assert not ops & {"PyFunc", "EagerPyFunc", "ReadFile", "WriteFile", "MatchingFiles"}


def test_mapped_ids(tmp_path):
    own = train_tokenizer(TEXTS * 5, 211)
    ids = [210, 1, 1, 0, *range(209, 2, -1)]
    check(Tokenizer(own.model, IdMap(ids, 211, 210, 1, 210, 0)), tmp_path)
