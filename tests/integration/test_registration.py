"""`import tf_transformer` registers the serializable classes: `.keras` files load in a fresh process."""

import os
import pathlib
import re
import subprocess
import sys

import keras
import numpy as np
import pytest

from tf_transformer import LabelSmoothedCrossEntropy, ModelConfig, NoamSchedule, Transformer, layers
from tf_transformer._registration import _MODULES

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIZES = dict(vocab_size=23, num_layers=1, model_dim=26, num_heads=3, key_dim=11, value_dim=13, feed_forward_dim=17)
INPUTS = {"source": np.array([[5, 6, 3, 0]]), "target": np.array([[2, 5, 6]])}

IMPORTS = {
    "library first": "import tf_transformer; import keras",
    "Keras first": "import keras; import tf_transformer",
    "TensorFlow's Keras": "import tf_transformer; import tensorflow as tf; tf.keras.models; import keras",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A compiled Transformer after one step, and a functional model of layers, each with its output."""
    folder = tmp_path_factory.mktemp("saved")
    model = Transformer(ModelConfig(**SIZES))
    schedule = NoamSchedule(model_dim=26, warmup_steps=40)
    model.compile(keras.optimizers.Adam(schedule), loss=LabelSmoothedCrossEntropy(0.1))
    model.train_on_batch(INPUTS, np.array([[5, 6, 3]]))
    model.save(folder / "compiled.keras")
    np.save(folder / "compiled.npy", model(INPUTS))
    ids = keras.Input((None,), dtype="int32")
    x = layers.PositionalEncoding()(layers.SharedEmbedding(23, 26)(ids))
    x = layers.Encoder(1, num_heads=2, key_dim=3, value_dim=5, feed_forward_dim=7)(x)
    x = layers.Decoder(1, num_heads=2, key_dim=3, value_dim=5, feed_forward_dim=7)(x, x)
    x = layers.FeedForward(7)(layers.MultiHeadAttention(2, 3)(x, x))
    functional = keras.Model(ids, layers.Projection(3)(x))
    functional.save(folder / "functional.keras")
    np.save(folder / "functional.npy", functional(INPUTS["source"]))
    return folder


LOAD = """
{imports}
import numpy as np
model = keras.saving.load_model({folder!r} + "/compiled.keras")
inputs = {{"source": np.array([[5, 6, 3, 0]]), "target": np.array([[2, 5, 6]])}}
logits = keras.ops.convert_to_numpy(model(inputs))
np.testing.assert_allclose(logits, np.load({folder!r} + "/compiled.npy"), atol=1e-5)
assert type(model.loss).__name__ == "LabelSmoothedCrossEntropy"
assert type(model.optimizer._learning_rate).__name__ == "NoamSchedule"
functional = keras.saving.load_model({folder!r} + "/functional.keras")
output = keras.ops.convert_to_numpy(functional(inputs["source"]))
np.testing.assert_allclose(output, np.load({folder!r} + "/functional.npy"), atol=1e-5)
assert "_registration" not in repr(keras.__spec__), keras.__spec__
print("loaded on", keras.backend.backend())
"""


def run(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=os.environ | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


@pytest.mark.parametrize("imports", IMPORTS)
def test_saved_models_load_in_a_fresh_process(imports, folder):
    assert run(LOAD.format(imports=IMPORTS[imports], folder=str(folder))) == "loaded on tensorflow"


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_saved_models_load_on_other_backends(backend, folder):
    """`make test-slow` installs them; a missing one is a failure."""
    load = LOAD.format(imports=IMPORTS["library first"], folder=str(folder))
    assert run(load, KERAS_BACKEND=backend) == f"loaded on {backend}"


@pytest.mark.parametrize(
    "package, name",
    [
        ("layers", "MultiHeadAttention"),
        ("layers", "SharedEmbedding"),
        ("model", "Transformer"),
        ("decoding", "Translator"),
        ("training", "LabelSmoothedCrossEntropy"),
        ("export", "export_model"),
    ],
)
def test_a_public_name_can_be_the_first_import(package, name):
    """Keras is imported, and registers all classes, while the modules of `package` are."""
    assert run(f"from tf_transformer.{package} import {name} as found; print(found.__name__)") == name


def test_the_library_alone_imports_neither_keras_nor_tensorflow():
    code = "import sys, tf_transformer; print([m for m in ('keras', 'tensorflow') if m in sys.modules])"
    assert run(code) == "[]"


def test_a_failed_import_of_keras_can_be_tried_again():
    code = """
import os, sys, tf_transformer
os.environ["KERAS_BACKEND"] = "missing"
try:
    import keras
except ValueError:
    pass
for name in [name for name in sys.modules if name.partition(".")[0] == "keras"]:
    del sys.modules[name]
os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
print(keras.saving.get_registered_object("tf_transformer>Transformer").__name__)
"""
    assert run(code) == "Transformer"


def test_every_serialisable_class_is_listed():
    found = set()
    for path in sorted((ROOT / "tf_transformer").rglob("*.py")):
        if re.search(r"^@keras.saving.register_keras_serializable", path.read_text(encoding="utf-8"), flags=re.M):
            found.add(".".join(path.relative_to(ROOT).with_suffix("").parts))
    assert found == set(_MODULES)
