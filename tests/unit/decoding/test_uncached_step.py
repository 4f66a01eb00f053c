"""A decoder-only language model from the layers: the step with a cache finds what the one without a cache finds."""

import pathlib
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer import layers
from tf_transformer.decoding import (
    DecoderStep,
    SamplingOptions,
    SearchOptions,
    UncachedStep,
    beam_search,
    greedy_search,
    sample,
)

pytestmark = pytest.mark.long

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "how-to" / "decode-your-own-model.md"
VOCAB, WIDTH, EOS, BOS, LENGTH = 29, 14, 3, 2, 11
BEAMS = 3
START = np.full(4, BOS, "int32")
MAX_LENGTHS = np.array([LENGTH, 5, 0, LENGTH], "int32")
PREFIX, PREFIX_LENGTHS = np.array([[7, 8], [9, 0], [0, 0], [0, 0]], "int32"), np.array([2, 1, 0, 0], "int32")


class LanguageModel:
    """Embedding, decoder and logits, as a model of ids and as parts."""

    def __init__(self, norm):
        keras.utils.set_random_seed(5)
        self.embedding = layers.SharedEmbedding(VOCAB, WIDTH, pad_id=None)
        self.positions = layers.PositionalEncoding("learned", 31)
        self.decoder = layers.Decoder(
            2, cross_attention=False, num_heads=3, key_dim=5, value_dim=7, feed_forward_dim=17, norm=norm
        )
        ids = keras.Input((None,), dtype="int32")
        self.model = keras.Model(ids, self.embedding(self.decoder(self.embed(ids)), reverse=True))
        random = np.random.default_rng(6)
        for weight in self.model.weights:
            weight.assign(weight + 0.4 * random.normal(size=weight.shape))

    def embed(self, ids, positions=None):
        return self.positions(self.embedding(ids), positions=positions)

    def steps(self):
        cached = DecoderStep(self.decoder, self.embed, self.embedding.logits, BEAMS)
        uncached = UncachedStep(self.model, BEAMS)
        return (uncached, uncached.start(4)), (cached, cached.start(batch_size=4))


def search(kind, step, state, options, **more):
    if kind == "sample":
        seeds = tf.stack([tf.fill([4], 1), tf.range(4)], axis=1)
        more |= {"seeds": seeds, "sampling": SamplingOptions(top_k=10)}
    call = {"beam": beam_search, "greedy": greedy_search, "sample": sample}[kind]
    more = {name: tf.constant(value) if isinstance(value, np.ndarray) else value for name, value in more.items()}
    return call(step, state, tf.constant(START), tf.constant(MAX_LENGTHS), options=options, grow=step.grow, **more)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("kind", ["beam", "greedy", "sample"])
def test_cached_equals_uncached(kind, norm):
    language_model = LanguageModel(norm)
    options, prompt = SearchOptions(EOS, beam_size=BEAMS), {"prefix": PREFIX, "prefix_lengths": PREFIX_LENGTHS}
    (uncached, first), (cached, second) = language_model.steps()
    expected, found = search(kind, uncached, first, options, **prompt), search(kind, cached, second, options, **prompt)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_allclose(found.log_probs, expected.log_probs, atol=1e-4)
    assert found.ids[0, 0, :2].numpy().tolist() == [7, 8]
    assert not found.lengths[2].numpy().any()


def test_log_probs_are_the_model_s():
    language_model = LanguageModel("pre")
    (uncached, state), _ = language_model.steps()
    found = search("beam", uncached, state, SearchOptions(EOS, beam_size=BEAMS))
    for row, beam in ((0, 0), (0, 2), (1, 1), (3, 0)):
        ids = found.ids[row, beam, : found.lengths[row, beam]].numpy()
        logits = language_model.model(np.array([[BOS, *ids[:-1]]]))[0]
        expected = tf.reduce_sum(tf.gather(tf.nn.log_softmax(logits), ids, batch_dims=1))
        np.testing.assert_allclose(found.log_probs[row, beam], expected, atol=1e-4)


def test_greedy_search_is_the_repeated_argmax():
    language_model = LanguageModel("post")
    (uncached, state), _ = language_model.steps()
    found = search("greedy", uncached, state, SearchOptions(EOS, beam_size=BEAMS))
    ids = [BOS]
    while len(ids) <= LENGTH and (len(ids) == 1 or ids[-1] != EOS):
        ids.append(int(np.argmax(language_model.model(np.array([ids]))[0, -1])))
    assert found.ids[0, 0, : found.lengths[0, 0]].numpy().tolist() == ids[1:]


def test_a_decoder_with_cross_attention_needs_memory():
    decoder = layers.Decoder(1, num_heads=2, key_dim=3, value_dim=3, feed_forward_dim=5)
    with pytest.raises(ValueError, match="expects `memory` and `source_mask` if the decoder has cross-attention"):
        DecoderStep(decoder, None, None, 2).start(batch_size=3)


@pytest.mark.parametrize("kind", ["beam", "greedy", "sample"])
def test_arguments_of_any_integers(kind):
    (step, state), _ = LanguageModel("pre").steps()
    options, lengths = SearchOptions(EOS, beam_size=BEAMS), MAX_LENGTHS.tolist()
    call = {"beam": beam_search, "greedy": greedy_search, "sample": sample}[kind]
    found = []
    for convert in (tf.constant, list, lambda x: np.array(x, "int64"), lambda x: tf.constant(x, tf.int64)):
        more = {"seeds": convert([[1, row] for row in range(4)]), "sampling": SamplingOptions()}
        more = more if kind == "sample" else {"min_lengths": convert([3, 0, 0, 2])}
        more |= {"prefix": convert(PREFIX.tolist()), "prefix_lengths": convert(PREFIX_LENGTHS.tolist())}
        arguments = step, state, convert([BOS] * 4), convert(lengths)
        found.append(call(*arguments, options=options, grow=step.grow, **more).ids.numpy().tolist())
    assert found[0][0][0][:2] == [7, 8]
    assert found[1:] == found[:1] * 3


def test_a_step_function_with_too_few_beams_is_rejected():
    language_model = LanguageModel("pre")
    wide = SearchOptions(EOS, beam_size=BEAMS + 2)
    for step, state in language_model.steps():
        for kind in ("beam", "sample"):
            with pytest.raises(ValueError, match=r"at least 5, .* Received: beam_size = 3\. Pass beam_size=5"):
                search(kind, step, state, wide)
        assert search("greedy", step, state, wide).ids.shape[:2] == (4, 1)
    with pytest.raises(ValueError, match=r"beam_size must be at least 1\. Received: 0"):
        DecoderStep(language_model.decoder, language_model.embed, language_model.embedding.logits, 0)
    with pytest.raises(ValueError, match=r"beam_size must be at least 1\. Received: 0"):
        UncachedStep(language_model.model, 0)


@pytest.mark.parametrize("kind", ["beam", "greedy", "sample"])
def test_a_prefix_without_lengths_is_rejected(kind):
    (step, state), _ = LanguageModel("pre").steps()
    options = SearchOptions(EOS, beam_size=BEAMS)
    with pytest.raises(ValueError, match=r"Received: prefix alone\. Pass prefix_lengths as well"):
        search(kind, step, state, options, prefix=PREFIX)
    with pytest.raises(ValueError, match=r"Received: prefix_lengths alone\. Pass prefix as well"):
        search(kind, step, state, options, prefix_lengths=PREFIX_LENGTHS)


def test_the_cache_is_written_in_place():
    from tf_transformer.decoding._decoder_step import _write_in_place

    advice = (
        "tf.raw_ops.InplaceUpdate, a deprecated op, no longer works. Replace it in decoding/_decoder_step.py, "
        "`_write_in_place`, by tf.tensor_scatter_nd_update (which copies the cache at each step: measure "
        "benchmarks/decoding.py before and after), and check that servers of older versions load the export."
    )
    cache, new, slots = tf.zeros([1, 2, 6, 2]), tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([1, 9])
    try:
        written = tf.function(_write_in_place)(cache + 0.0, new, slots)
    except Exception as error:
        pytest.fail(f"{advice} ({error})")
    expected = np.zeros([12, 2])
    expected[1], expected[9] = [1, 2], [3, 4]
    np.testing.assert_array_equal(tf.reshape(written, [12, 2]), expected, err_msg=advice)


def test_the_documented_example():
    """The blocks up to the step function of one's own, in one namespace; both step functions find the same."""
    page, names = PAGE.read_text(encoding="utf-8").partition("## Write a step function")[0], {}
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.S):
        exec(compile(block, PAGE.name, "exec"), names)
    assert names["found"].ids.shape[:2] == (2, 4)
    assert names["one"].ids[0, 0, :3].numpy().tolist() == [11, 12, 13]
    assert names["drawn"].ids[1, :, 0].numpy().tolist() == [21] * 4
    np.testing.assert_array_equal(names["same"].ids, names["found"].ids)
