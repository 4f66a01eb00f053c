"""The two-stage top-k, which must agree with one over everything to the last tie."""

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.decoding._candidates import log_normalizer, top_candidates


@pytest.mark.parametrize(
    "vocab_size, count",
    [(5, 7), (32 * 37, 7), (1297, 7), (2003, 7), (2000, 62), (5000, 126), (17 * 151, 19), (37 * 37, 37)],
)
@pytest.mark.parametrize("levels", [3, 1000])
def test_two_stages_are_exact(vocab_size, count, levels):
    """Few levels: nearly everything is a tie. Wide beams ask for more candidates than there would be blocks."""
    random = np.random.RandomState(vocab_size)
    logits = random.randint(0, levels, (3, 2, vocab_size)).astype(np.float32)
    values, ids = top_candidates(tf.constant(logits), count)
    expected = np.argsort(-logits, axis=-1, kind="stable")[..., :count]
    np.testing.assert_array_equal(ids, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(logits, expected, axis=-1))


def test_normalizer_of_large_logits():
    logits = tf.constant([[300.0, -300.0, 299.0], [-1e9, 2.0, 2.0]])
    found = log_normalizer(logits, tf.argmax(logits, -1, tf.int32))
    np.testing.assert_allclose(found, [300 + np.log1p(np.exp(-1.0)), 2 + np.log(2.0)], rtol=1e-6)


def test_a_vocabulary_without_a_static_size_is_rejected():
    @tf.function(input_signature=[tf.TensorSpec([None, None])], autograph=False)
    def search(logits):
        return top_candidates(logits, 2)

    with pytest.raises(ValueError, match=r"has a static size\. Received: shape "):
        search(tf.zeros([1, 9]))
