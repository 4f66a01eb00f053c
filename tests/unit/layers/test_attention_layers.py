"""Attention: fully masked rows, the blockwise form, causality, Keras masks, gradients, errors."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from tensorflow.python.eager import context

from tf_transformer import layers

pytestmark = pytest.mark.long

B, H, T, S, DK, DV = 2, 3, 13, 17, 5, 7


def tensors(seed=0):
    random = np.random.default_rng(seed)
    shapes = [(B, H, T, DK), (B, H, S, DK), (B, H, S, DV)]
    return [tf.constant(random.normal(size=shape), tf.float32) for shape in shapes]


def output_and_gradients(function, inputs):
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        output = function(*inputs)
        loss = tf.reduce_sum(tf.sin(output * 3.0))
    return output, tape.gradient(loss, inputs)


MASKS = {
    "none": None,
    "keys": np.random.default_rng(1).random((B, 1, S)) > 0.4,
    "full": np.random.default_rng(2).random((B, T, S)) > 0.4,
    "a row with nothing": np.concatenate([np.zeros((B, 1, S), bool), np.ones((B, T - 1, S), bool)], axis=1),
}


@pytest.mark.parametrize("block_size", [1, 4, 17, 64])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", MASKS)
def test_blockwise_equals_plain_forward_and_backward(mask, causal, block_size):
    mask = MASKS[mask]
    plain, plain_gradients = output_and_gradients(
        lambda q, k, v: layers.scaled_dot_product_attention(q, k, v, mask, causal)[0], tensors()
    )
    blockwise, blockwise_gradients = output_and_gradients(
        lambda q, k, v: layers.blockwise_attention(q, k, v, mask, causal, block_size), tensors()
    )
    np.testing.assert_allclose(blockwise, plain, atol=1e-5)
    for ours, theirs in zip(blockwise_gradients, plain_gradients):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("block_size", [None, 4])
def test_fully_masked_rows_give_zeros_and_finite_gradients(block_size):
    mask = np.ones((B, T, S), bool)
    mask[0, 3] = mask[1] = False

    def attend(q, k, v):
        if block_size:
            return layers.blockwise_attention(q, k, v, mask, block_size=block_size)
        return layers.scaled_dot_product_attention(q, k, v, mask)[0]

    output, gradients = output_and_gradients(attend, tensors())
    assert not output[0, :, 3].numpy().any() and not output[1].numpy().any()
    assert output[0, :, 2].numpy().any()
    assert all(np.isfinite(gradient).all() for gradient in gradients)


def test_masked_keys_have_weight_zero_and_weights_sum_to_one():
    q, k, v = tensors()
    mask = MASKS["keys"]
    _, weights = layers.scaled_dot_product_attention(q, k, v, mask)
    weights = weights.numpy()
    assert (weights[np.broadcast_to(~mask[:, None], weights.shape)] == 0).all()
    np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-6)


def test_huge_logits_stay_finite_in_half_precision():
    q, k, v = (tf.cast(x, tf.float16) for x in tensors())
    output, _ = layers.scaled_dot_product_attention(q * 60, k * 60, v)
    assert output.dtype == tf.float16 and np.isfinite(output).all()


def test_keras_masks_hide_padded_keys():
    ids = np.array([[5, 6, 7, 0, 0]])
    embedding, attention = layers.SharedEmbedding(11, 6), layers.MultiHeadAttention(2, 3)
    masked, short = embedding(ids), embedding(ids[:, :3])
    masked, short = attention(masked, masked), attention(short, short)
    np.testing.assert_allclose(masked[:, :3], short, atol=1e-6)


def test_decoder_layer_takes_up_the_masks_of_both_inputs():
    ids = np.array([[5, 6, 7, 0, 0]])
    embedding, layer = layers.SharedEmbedding(11, 6), layers.DecoderLayer(num_heads=2, key_dim=3, value_dim=3)
    masked = layer(embedding(ids[:, :2]), embedding(ids))
    np.testing.assert_allclose(masked, layer(embedding(ids[:, :2]), embedding(ids[:, :3])), atol=1e-6)


@pytest.mark.parametrize("name", ["Encoder", "Decoder"])
def test_stacks_take_up_masks_also_beside_an_attention_mask(name):
    ids = np.array([[0, 6, 7, 5]])
    arguments = dict(num_heads=2, key_dim=3, value_dim=3, feed_forward_dim=5, num_layers=1)
    if name == "Encoder":
        stack, more = layers.Encoder(**arguments), {"attention_mask": np.ones((1, 4, 4), bool)}
    else:
        stack = layers.Decoder(cross_attention=False, **arguments)
        more = {"self_attention_mask": np.ones((1, 4, 4), bool)}
    embedding = layers.SharedEmbedding(11, 6)
    alone = stack(embedding(ids[:, 1:]))
    np.testing.assert_allclose(stack(embedding(ids))[:, 1:], alone, atol=1e-6)
    np.testing.assert_allclose(stack(embedding(ids), **more)[:, 1:], alone, atol=1e-6)


def test_masks_pass_through_stacks_in_the_functional_api():
    ids = keras.Input((None,), dtype="int32")
    x = layers.SharedEmbedding(11, 6)(ids)
    x = layers.PositionalEncoding()(x)
    x = layers.Encoder(num_layers=1, num_heads=2, key_dim=3, value_dim=3, feed_forward_dim=5)(x)
    pooled = keras.layers.GlobalAveragePooling1D()(x)
    model = keras.Model(ids, pooled)
    np.testing.assert_allclose(model(np.array([[5, 6, 0, 0]])), model(np.array([[5, 6]])), atol=1e-6)


def test_attention_weights_in_the_functional_api():
    x = keras.Input((T, 8))
    output, weights = layers.MultiHeadAttention(H, 5)(x, x, return_attention_scores=True)
    assert output.shape == (None, T, 8) and weights.shape == (None, H, T, T)


def test_attention_dropout_falls_on_the_weights_in_training_only():
    x = ops.ones((1, T, 8))
    layer = layers.MultiHeadAttention(H, 5, dropout=0.5)
    np.testing.assert_array_equal(layer(x, x), layer(x, x, training=False))
    assert np.abs(layer(x, x, training=True) - layer(x, x)).max() > 1e-3


def test_blockwise_and_dropout_exclude_each_other():
    with pytest.raises(ValueError, match=r"Received: block_size=4 and dropout=0.1.*block_size to None"):
        layers.MultiHeadAttention(2, 3, dropout=0.1, block_size=4)


def test_the_third_argument_is_the_key():
    """As in Keras; it is not a mask, whatever its shape."""
    random = np.random.default_rng(7)
    query, value, key = (random.normal(size=(2, 5, 6)).astype("float32") for _ in range(3))
    ours, theirs = layers.MultiHeadAttention(2, 3), keras.layers.MultiHeadAttention(2, 3)
    expected = theirs(query, value, key)
    ours.build(query.shape, value.shape, key.shape)
    copy_weights(theirs, ours)
    np.testing.assert_allclose(ours(query, value, key), expected, atol=1e-5)
    np.testing.assert_allclose(ours(query, value, key=key), expected, atol=1e-5)
    assert np.abs(ours(query, value) - expected).max() > 1e-3


def copy_weights(theirs, ours):
    """Weights of Keras' attention (D, H, d), (H, d), (H, d, D) into ours (D, H * d), (H * d,)."""
    for name in ("query", "key", "value"):
        kernel, bias = (np.asarray(weight) for weight in getattr(theirs, f"_{name}_dense").weights)
        getattr(ours, name).set_weights([kernel.reshape(len(kernel), -1), bias.reshape(-1)])
    kernel, bias = (np.asarray(weight) for weight in theirs._output_dense.weights)
    ours.output_projection.set_weights([kernel.reshape(-1, kernel.shape[-1]), bias])


@pytest.mark.parametrize("name", ["value_mask", "key_mask", "attention_mask", "matrix"])
def test_masks_mean_what_they_mean_in_keras(name):
    random = np.random.default_rng(8)
    query, value = random.normal(size=(2, 5, 6)).astype("float32"), random.normal(size=(2, 7, 6)).astype("float32")
    mask = random.random({"attention_mask": (2, 5, 7), "matrix": (5, 7)}.get(name, (2, 7))) > 0.4
    mask[..., 0] = True
    masks = {"attention_mask" if name == "matrix" else name: mask}
    ours, theirs = layers.MultiHeadAttention(2, 3), keras.layers.MultiHeadAttention(2, 3)
    expected = theirs(query, value, use_causal_mask=True, **masks)
    ours.build(query.shape, value.shape)
    copy_weights(theirs, ours)
    np.testing.assert_allclose(ours(query, value, use_causal_mask=True, **masks), expected, atol=1e-5)


def test_a_mask_of_another_rank_is_rejected():
    x = np.ones((2, 5, 6), "float32")
    with pytest.raises(ValueError, match=r"expects an attention_mask of shape .* Received: shape \(2, 1, 5, 5\)"):
        layers.MultiHeadAttention(2, 3)(x, x, attention_mask=np.ones((2, 1, 5, 5), bool))


@keras.saving.register_keras_serializable(package="tests")
def squared_relu(x):
    return ops.square(ops.relu(x))


@pytest.mark.parametrize("name", ["FeedForward", "EncoderLayer", "Decoder"])
def test_callable_activations_and_initializers_are_serialised(name, tmp_path):
    arguments = dict(feed_forward_dim=7, activation=squared_relu, bias_initializer=keras.initializers.Constant(0.5))
    if name != "FeedForward":
        arguments |= dict(num_heads=2, key_dim=3, value_dim=3)
    if name == "Decoder":
        arguments |= dict(num_layers=1, cross_attention=False)
    x = keras.Input((None, 6))
    model = keras.Model(x, getattr(layers, name)(**arguments)(x))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.layers[1].activation is squared_relu
    inputs = np.random.default_rng(0).normal(size=(2, 5, 6)).astype("float32")
    np.testing.assert_array_equal(loaded(inputs), model(inputs))
    biases = [np.asarray(weight) for weight in model.weights if weight.path.endswith("/bias")]
    assert biases and all((bias == 0.5).all() for bias in biases)


def test_one_initializer_gives_every_projection_values_of_its_own():
    attention = layers.MultiHeadAttention(2, 3, kernel_initializer=keras.initializers.GlorotUniform())
    attention.build((None, None, 6), (None, None, 6))
    assert np.abs(attention.query.kernel - attention.key.kernel).max() > 0.01


def test_wrong_ranks_and_sizes_are_rejected():
    with pytest.raises(ValueError, match=r"expects query \(B, T, D\).*Received: shapes \(2, 8\)"):
        layers.MultiHeadAttention(2, 3)(*[np.ones((2, 8), "float32")] * 2)
    with pytest.raises(ValueError, match=r"num_heads must be an integer of at least 1\. Received: num_heads=0"):
        layers.MultiHeadAttention(0, 3)
    with pytest.raises(ValueError, match=r"norm must be 'post' or 'pre'\. Received: norm='both'"):
        layers.Encoder(norm="both")
    with pytest.raises(ValueError, match=r"needs `memory`.*cross_attention=False"):
        layers.Decoder(num_layers=1)(np.ones((2, 3, 8), "float32"))


MEMORY = np.ones((2, 5, 8), "float32")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: layers.Encoder(num_layers=0), "Encoder's num_layers must be an integer of at least 1. Received: .*=0"),
        (lambda: layers.Decoder(num_layers=2.0), "Decoder's num_layers must be an integer .* num_layers=2.0"),
        (lambda: layers.EncoderLayer(feed_forward_dim=0), "EncoderLayer's feed_forward_dim .* feed_forward_dim=0"),
        (lambda: layers.DecoderLayer(attention_block_size=0), "attention_block_size .* attention_block_size=0"),
        (lambda: layers.Encoder(dropout=1.0), "Encoder's dropout must be at least 0 and below 1. Received: .*=1.0"),
        (lambda: layers.FeedForward(0), "FeedForward's feed_forward_dim must be"),
        (lambda: layers.FeedForward(7, dropout=-0.1), "FeedForward's dropout must be .* dropout=-0.1"),
        (lambda: layers.Projection(0), "Projection's units must be"),
        (lambda: layers.MultiHeadAttention(2, 3, value_dim=0), "value_dim must be .* value_dim=0"),
        (lambda: layers.MultiHeadAttention("8", 4), "num_heads must be an integer .* num_heads='8'"),
        (lambda: layers.SharedEmbedding(0, 8), "SharedEmbedding's vocab_size must be"),
    ],
)  # fmt: skip
def test_sizes_and_rates_are_checked(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_reused_layer_rejects_another_width():
    projection = layers.Projection(3)
    projection(MEMORY)
    with pytest.raises(ValueError, match=r"expected axis -1 of input shape to have value 8.*\(2, 5, 7\)"):
        projection(MEMORY[..., :7])


def test_memory_is_there_exactly_where_it_is_used():
    decoder = layers.Decoder(1, num_heads=1, key_dim=2, value_dim=3, feed_forward_dim=7)
    decoder(MEMORY, MEMORY)
    with pytest.raises(ValueError, match=r"needs `memory`"):
        decoder(MEMORY)
    alone = layers.Decoder(1, cross_attention=False, num_heads=1, key_dim=2, value_dim=3, feed_forward_dim=7)
    with pytest.raises(ValueError, match=r"expects no `memory`\. Received: a memory of shape \(2, 5, 8\)"):
        alone(MEMORY, MEMORY)


def test_a_mask_with_an_axis_of_heads_is_rejected():
    query = np.ones((2, 3, 5, 7), "float32")
    with pytest.raises(ValueError, match=r"expects a mask of shape \(B, T, S\)\. Received: shape \(1, 1, 5, 5\)"):
        layers.scaled_dot_product_attention(query, query, query, mask=np.ones((1, 1, 5, 5), bool))


def optimized_operations(function):
    """Names of the operations that TensorFlow runs for a function, after its rewriting."""
    context.context().enable_graph_collection()
    try:
        tf.function(function, autograph=False)()
        collected = context.context().export_run_metadata().function_graphs
    finally:
        context.context().disable_graph_collection()
    return {node.op for graphs in collected for node in graphs.post_optimization_graph.node}


def test_a_graph_is_not_fused_into_something_slow():
    """TensorFlow fuses scaling, product and causal mask, where they follow each other, into something very slow."""
    query = tf.random.normal((7, 8, 61, 64))
    found = optimized_operations(lambda: layers.scaled_dot_product_attention(query, query, query, causal=True)[0])
    assert "BatchMatMulV2" in found
    assert not [name for name in found if "Fused" in name]
