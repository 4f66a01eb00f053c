"""Small things for the tests of attention maps: a tokenizer, a model with prime sizes, maps made by hand."""

import functools

import numpy as np

from tf_transformer.analysis.attention._maps import AttentionMaps
from tf_transformer.config import ModelConfig

SENTENCES = [
    "the old bridge was closed for three weeks",
    "a small bird sings in the green garden",
    "we read the long letter by the window",
    "they bring fresh bread to the market",
]


@functools.cache
def toy_tokenizers():
    from tf_transformer.text._tokenizer import TokenizerPair, train_tokenizer

    return TokenizerPair.of(train_tokenizer(SENTENCES, 149))


def toy_model(**changes):
    """3 encoder layers, 2 decoder layers, 5 heads."""
    from tf_transformer.model import Transformer

    sizes = {"num_layers": 3, "num_decoder_layers": 2, "num_heads": 5, "key_dim": 7, "value_dim": 11, "model_dim": 26}
    fields = sizes | {"vocab_size": toy_tokenizers().source.vocab_size, "feed_forward_dim": 13} | changes
    return Transformer(ModelConfig(**fields))


def toy_maps(source=("▁a", "▁$x$", "</script>", "</s>"), target=("▁ein", "</s>"), layers=2, heads=3) -> AttentionMaps:
    """Random weights whose rows sum to one, causal where they have to be."""
    random = np.random.default_rng(7)

    def weights(queries, keys, causal=False):
        values = random.random((layers, heads, queries, keys)).astype("float32")
        values = np.tril(values) if causal else values
        return values / values.sum(axis=-1, keepdims=True)

    s, t = len(source), len(target)
    return AttentionMaps(
        source=list(source),
        target=["<s>", *target[:-1]],
        predicted=list(target),
        encoder=weights(s, s),
        decoder=weights(t, t, causal=True),
        cross=weights(t, s),
    )
