"""The cached decoder step against the whole model, for every option a model has."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.config import ModelConfig
from tf_transformer.decoding._decoder_step import DecoderStep
from tf_transformer.decoding._options import Step
from tf_transformer.layers import inference_layout
from tf_transformer.model import Transformer

SMALL = {
    "vocab_size": 23,
    "num_layers": 2,
    "model_dim": 14,
    "feed_forward_dim": 19,
    "num_heads": 3,
    "key_dim": 5,
    "value_dim": 7,
    "max_positions": 31,
}
VARIANTS = {
    "paper": {},
    "pre-norm": {"norm": "pre"},
    "gelu": {"activation": "gelu"},
    "swish": {"activation": "swish"},
    "learned positions": {"positions": "learned"},
    "t2t positions": {"positions": "t2t", "position_offset": 2},
    "mBART": {"norm": "pre", "positions": "learned", "embedding_norm": True},
    "marian": {"positions": "marian", "output_bias": True, "bos_id": 0},
    "no bias": {"attention_bias": False},
    "untied": {"tied_embeddings": "none", "target_vocab_size": 29},
    "target tied": {"tied_embeddings": "target", "target_vocab_size": 29, "scale_embeddings": False},
    "shallow decoder": {"num_layers": 3, "num_decoder_layers": 1},
    "blockwise": {"attention_block_size": 4},
    "ssru": {"decoder_autoregression": "ssru"},
    "ssru with pre-norm": {"decoder_autoregression": "ssru", "norm": "pre", "transposed": True},
    "kernels (out, in)": {"transposed": True},
    "kernels (in, out), table (D, V)": {"transposed": False},
}
BEAMS, LENGTH = 3, 6


def random_model(transposed=None, **changes):
    with contextlib.nullcontext() if transposed is None else inference_layout(transposed):
        model = Transformer(ModelConfig(**(SMALL | changes)))
    random = np.random.RandomState(1)
    for variable in model.variables:
        variable.assign(variable + 0.3 * random.randn(*variable.shape))
    return model


@pytest.mark.parametrize(
    "variant,beams", [*((variant, BEAMS) for variant in VARIANTS), ("paper", 1), ("no bias", 1), ("ssru", 1)]
)
def test_cached_is_uncached(variant, beams):
    """Beams change places at random; each must still see its own past and nothing else. The first step has one."""
    model, random = random_model(**VARIANTS[variant]), np.random.RandomState(2)
    source = random.randint(4, 23, (2, 7))
    source[1, 5:] = 0
    memory, mask = model.encode(tf.constant(source)), tf.constant(source != 0)
    decoder = DecoderStep.from_model(model, beams)
    state = decoder.start(memory, mask)
    texts = np.full((2, beams, 1), model.config.bos_id)
    ancestors = np.zeros((2, beams, 0), int)
    for index in range(LENGTH):
        if index in (0, 4):  # grows while it holds something
            state = decoder.grow(state, tf.constant(index + 4))
        ancestors = np.concatenate([ancestors, np.tile(np.arange(beams)[None, :, None], (2, 1, 1))], axis=2)
        room = np.pad(ancestors, [(0, 0), (0, 0), (0, index // 4 * 4 + 4 - index - 1)], constant_values=1)
        active = beams if index else 1
        tokens = tf.constant(texts[:, :active, -1], tf.int32)
        step = Step(tokens, tf.constant(index), tf.constant(room[:, :active], tf.int32))
        result = decoder(step, state)
        logits, state = result.logits, result.state
        expected = model.decode(
            tf.constant(texts.reshape(2 * beams, -1)), tf.repeat(memory, beams, axis=0), tf.repeat(mask, beams, axis=0)
        )[:, -1]
        expected = tf.reshape(expected, [2, beams, -1])[:, :active]
        np.testing.assert_allclose(logits, expected, atol=2e-5, rtol=2e-5)
        parents, tokens = random.randint(0, active, (2, beams)), random.randint(4, 23, (2, beams, 1))
        texts = np.concatenate([np.take_along_axis(texts, parents[..., None], 1), tokens], axis=2)
        ancestors = np.take_along_axis(ancestors, parents[..., None], 1)


def test_attention_covers_the_source():
    model = random_model()
    source = tf.constant([[5, 6, 3, 0, 0]])
    decoder = DecoderStep.from_model(model, BEAMS, with_attention=True)
    state = decoder.grow(decoder.start(model.encode(source), source != 0), tf.constant(2))
    step = Step(tf.constant([[2, 7, 8]]), tf.constant(0), tf.tile([[[0], [1], [2]]], [1, 1, 2]))
    attention = decoder(step, state).attention
    np.testing.assert_allclose(tf.reduce_sum(attention[..., :3], axis=-1), np.ones((1, BEAMS)), rtol=1e-5)
    np.testing.assert_array_equal(attention[..., 3:], np.ones((1, BEAMS, 2)))
