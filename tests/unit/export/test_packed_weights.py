"""Packed weights: products and translations as without, from nodes that only the small steps of a search have."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from exported_toy import SMALL
from toy_workdir import randomize, toy_tokenizers, toy_workdir

from tf_transformer.decoding import SMALL_STEP, LengthRange, SearchOptions, search_ids, separate_small_steps
from tf_transformer.decoding._checks import CheckedSearch
from tf_transformer.export import _matrices, export_saved_model
from tf_transformer.export._matrices import PACKED_OP, PackedMatrix, pack_model
from tf_transformer.export.inspection import _inspect, inspect_saved_model
from tf_transformer.layers import inference_layout
from tf_transformer.model import Transformer

pytestmark = pytest.mark.long

LONGEST = 23


def normal(*shape, seed=3):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("transposed", [True, False])
def test_packed_products_are_those_of_the_variable(transposed):
    values, bias = normal(37, 53, seed=5), tf.Variable(normal(37, seed=7))
    packed = PackedMatrix(tf.Variable(values if transposed else values.T.copy()), transposed)
    traced = tf.function(lambda x: (packed.packed_product(x, bias), packed.packed_product(x)), autograph=False)
    for shape in ((1, 53), (7, 53), (2, 3, 53), (0, 53)):  # packed by the first, used by the others
        x = normal(*shape)
        for found, expected in zip(traced(tf.constant(x)), (x @ values.T + bias.numpy(), x @ values.T)):
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_layers_use_their_weights_outside_of_small_steps():
    packed = PackedMatrix(tf.Variable(normal(37, 53)))
    assert packed.product(tf.ones([1, 53])) is None and packed.rows(tf.constant([1])) is None
    assert packed.rows_product(tf.constant([1])) is None


def test_a_tensorflow_that_cannot_pack_is_rejected(monkeypatch):
    monkeypatch.setattr(_matrices, "PACKED_OP", "_MklNativeFusedMatMuX")
    with pytest.raises(ValueError, match=r"for packed weights\. Received: TensorFlow .* Export without packed weights"):
        pack_model(toy())


def test_inspect_names_the_oldest_server_even_where_tensorflow_lacks_the_op(tmp_path, monkeypatch):
    root, registered = tf.Module(), _inspect.op_def_registry.get
    root.kernel = tf.Variable(normal(37, 53))
    product = PackedMatrix(root.kernel).packed_product
    root.serve = tf.function(product, input_signature=[tf.TensorSpec([None, 53])], autograph=False)
    tf.saved_model.save(root, str(tmp_path / "1"), signatures=root.serve)
    monkeypatch.setattr(_inspect.op_def_registry, "get", lambda op: None if op == PACKED_OP else registered(op))
    report = inspect_saved_model(tmp_path / "1")
    assert report.ops[PACKED_OP] == 1 and report.oldest_server == "2.12.1" and report.problems == ()


@pytest.mark.parametrize(
    ("weights", "beams", "match"),
    [
        ("int8", 2, r"Expected packed weights of float32, float16 or bfloat16\. Received: int8\. Leave out --packed"),
        ("float32", SMALL_STEP + 1, r"Expected a beam size of at most 6 with packed .* Received: 7\. Leave out"),
    ],
)
def test_what_would_not_use_packed_weights_is_rejected(tmp_path, weights, beams, match):
    workdir = toy_workdir(tmp_path / "run", SMALL)
    with pytest.raises(ValueError, match=match):
        export_saved_model(workdir, tmp_path / "base", weights=weights, beam_size=beams, packed=True)
    assert not (tmp_path / "base").exists()


def toy(rows=False, **options):
    with inference_layout(rows=rows):
        model = Transformer(dataclasses.replace(SMALL, vocab_size=toy_tokenizers().source.vocab_size, **options))
    randomize(model)
    return model


def options_of(beams, **changes):
    return SearchOptions(eos_id=3, beam_size=beams, nbest=1, forbidden_ids=(0, 2), **changes)


def traced(search):
    """The concrete function (source, max_lengths) -> structure of a search of rows."""

    def translate(source, max_lengths):
        lengths = tf.fill(tf.shape(max_lengths), tf.shape(source)[1])
        return search({"source": source, "lengths": lengths, "max_lengths": max_lengths})

    specs = [tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)]
    return tf.function(translate, input_signature=specs, autograph=False).get_concrete_function()


def sources(count):
    ids = np.random.default_rng(11).integers(4, 30, (count, 5))
    ids[:, -1] = 3
    return tf.constant(ids, tf.int32)


def kinds_of(function):
    """The operations of a concrete function and of those it calls."""
    graph = function.graph.as_graph_def()
    nodes = [*graph.node, *(node for each in graph.library.function for node in each.node_def)]
    return [node.op for node in nodes]


def packed_nodes(model):
    """Per search: all but the keys and values of the cross-attention, which precede the loop, and the logits."""
    kernels = [each for each in model.decoder.weights if each.path.endswith("/kernel")]
    return len(kernels) - 2 * model.config.num_layers + 1


def assert_same(found, expected):
    for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("beams", "options"),
    [
        (2, {}),
        (2, {"decoder_autoregression": "ssru"}),
        (2, {"rows": True}),  # as in exports with a shortlist
        (1, {}),
    ],
)
def test_a_packed_model_gives_the_same_translations_and_packs_for_small_steps_alone(beams, options):
    model, search = toy(**options), options_of(beams)

    def of_rows(rows):
        found = search_ids(model, rows, search)
        return found.ids, found.log_probs

    plain = traced(of_rows)
    pack_model(model)
    assert PACKED_OP not in kinds_of(traced(of_rows))
    with separate_small_steps():
        packed = traced(of_rows)
    assert kinds_of(packed).count(PACKED_OP) == packed_nodes(model)
    # After one, TensorFlow copies the table at each product that reads it.
    assert "ResourceGather" not in kinds_of(packed)
    for count in (1, SMALL_STEP // beams, SMALL_STEP // beams + 1, 9):
        given = sources(count), tf.fill([count], LONGEST)
        assert_same(packed(*given), plain(*given))


def test_a_batch_that_shrinks_to_a_small_step_gives_the_same_translations(monkeypatch):
    """Eight hypotheses; half of them end after three steps."""
    model, search = toy(), options_of(2, min_length=LONGEST)

    def of_rows(rows):
        found = search_ids(model, rows, search)
        return found.ids, found.log_probs

    plain = traced(of_rows)
    pack_model(model)
    with separate_small_steps():
        packed = traced(of_rows)
        monkeypatch.setattr(PackedMatrix, "packed_product", lambda self, x, bias=None: zeros_like_product(self, x))
        zeroed = traced(of_rows)
    shrinking = sources(4), tf.constant([LONGEST, 3, LONGEST, 3])
    expected = plain(*shrinking)
    assert_same(packed(*shrinking), expected)
    # With zeros for the packed products: only what follows the third step changes.
    changed = np.abs(zeroed(*shrinking)[1] - expected[1])[:, 0] > 0.01
    assert changed.tolist() == [True, False, True, False]
    large = sources(4), tf.fill([4], LONGEST)
    assert_same(zeroed(*large), plain(*large))


def zeros_like_product(matrix, x):
    shape = matrix._variable.shape
    units = shape[0] if matrix._transposed else shape[1]
    return tf.ensure_shape(tf.zeros(tf.concat([tf.shape(x)[:-1], [units]], 0)), [*x.shape[:-1], units])


def test_the_second_search_of_failure_detection_is_packed_and_gives_the_same_translations():
    model, search = toy(), options_of(2)
    usual = LengthRange(1.0, -2.0, 1.0, -1.0)

    def traced_checked():
        checked = CheckedSearch(model, usual)

        def of_rows(rows):
            found = checked(rows, search)
            return found.found.ids, found.found.log_probs, found.failed, found.retried

        return traced(of_rows)

    plain = traced_checked()
    pack_model(model)
    with separate_small_steps():
        packed = traced_checked()
    assert kinds_of(packed).count(PACKED_OP) == 2 * packed_nodes(model)
    for count in (1, 2, 9):
        given = sources(count), tf.fill([count], LONGEST)
        expected = plain(*given)
        assert_same(packed(*given), expected)
        assert expected[3].numpy().any()
