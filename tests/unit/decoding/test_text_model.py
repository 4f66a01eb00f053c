import pytest
import tensorflow as tf

from tf_transformer.decoding._text_model import ExportedModel, newest_version


def touch(path):
    path.mkdir(parents=True)
    (path / "saved_model.pb").write_bytes(b"")
    return path


def test_the_version_with_the_highest_number(tmp_path):
    touch(tmp_path / "9")
    newest = touch(tmp_path / "10")
    touch(tmp_path / "11a")
    (tmp_path / "12").mkdir()
    assert newest_version(tmp_path) == newest
    assert newest_version(tmp_path / "9") == tmp_path / "9"


def test_a_directory_without_one_is_rejected(tmp_path):
    with pytest.raises(ValueError, match=r"no SavedModel: expected saved_model\.pb"):
        newest_version(tmp_path)


def test_a_saved_model_of_another_kind_is_rejected(tmp_path):
    module = tf.Module()
    double = tf.function(lambda x: {"y": 2 * x}, input_signature=[tf.TensorSpec([], tf.float32)])
    tf.saved_model.save(module, str(tmp_path / "1"), signatures={"serving_default": double})
    with pytest.raises(ValueError, match="no signature nbest, only serving_default"):
        ExportedModel(tmp_path)
