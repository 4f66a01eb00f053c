import pytest
import tensorflow as tf

from tf_transformer.decoding._text_model import ExportedModel


def test_a_saved_model_of_another_kind_is_rejected(tmp_path):
    module = tf.Module()
    double = tf.function(lambda x: {"y": 2 * x}, input_signature=[tf.TensorSpec([], tf.float32)])
    tf.saved_model.save(module, str(tmp_path / "1"), signatures={"serving_default": double})
    with pytest.raises(ValueError, match=r"the signature nbest\. Received: .* with serving_default"):
        ExportedModel(tmp_path)
