"""A C++ program, with the loader that TensorFlow Serving uses, answers from real exports as Python does."""

import pytest
import tensorflow as tf
from cpp_reader import build_reader, has_compiler, translate_with_cpp
from exported_toy import exported_toy
from toy_workdir import toy_sentences

from tf_transformer.export._saved_model import export_saved_model
from tf_transformer.export._trial_rows import ADVERSARIAL

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not has_compiler(), reason="there is no C++ compiler (g++)")]

TEXTS = [*(sentence.encode() for sentence in toy_sentences(17, seed=23)), *ADVERSARIAL]


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    return build_reader(tmp_path_factory.mktemp("reader"))


def check(reader, version):
    model = tf.saved_model.load(str(version))
    expected = model.signatures["serving_default"](text=tf.constant(TEXTS))["translation"].numpy().tolist()
    assert translate_with_cpp(reader, version, TEXTS) == expected
    assert len(set(expected)) > 10


def test_an_export(reader):
    check(reader, exported_toy()[1])


def test_an_export_with_smaller_weights(reader, tmp_path):
    workdir, _ = exported_toy()
    check(reader, export_saved_model(workdir, tmp_path / "base", weights="bfloat16").path)
