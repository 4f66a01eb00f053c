import numpy as np
import numpy_reference as reference
import pytest
import tensorflow as tf

from tf_transformer import ModelConfig, Transformer, layers
from tf_transformer.layers._ssru import continues_previous

B, D = 2, 6
random = np.random.default_rng(4)


def randomized():
    layer = layers.SSRU()
    layer.build((None, None, D))
    reference.randomize(layer)
    return layer


def draws(length):
    return random.normal(size=(B, length, D)).astype("float32")


@pytest.mark.parametrize("length", [1, 2, 3, 5, 8, 13])
def test_the_parallel_form_is_the_recurrence(length):
    layer, inputs = randomized(), draws(length)
    weights = reference.weights_of(layer)
    outputs = layer(inputs)
    for row in range(B):
        np.testing.assert_allclose(outputs[row], reference.ssru(inputs[row], weights), atol=1e-5)


def test_steps_are_the_parallel_form():
    layer, inputs, state = randomized(), draws(7), np.zeros((B, D), "float32")
    expected = layer(inputs)
    for index in range(7):
        output, state = layer.step(tf.constant(inputs[:, index]), state)
        np.testing.assert_allclose(output, expected[:, index], atol=1e-5)


@pytest.mark.parametrize("length", [0, 1, 9])
def test_lengths_that_a_graph_does_not_know_give_the_same_outputs_and_gradients(length):
    layer, inputs = randomized(), tf.constant(draws(length))

    def gradients(inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = layer(inputs)
            loss = tf.reduce_sum(outputs**2)
        return outputs, tape.gradient(loss, [inputs, *[v.value for v in layer.trainable_variables]])

    graph = tf.function(gradients, input_signature=[tf.TensorSpec([None, None, D])])
    for found, expected in zip(tf.nest.flatten(graph(inputs)), tf.nest.flatten(gradients(inputs))):
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_packed_sequences_do_not_see_each_other():
    layer, inputs = randomized(), draws(7)
    segments = tf.constant([[1, 1, 1, 2, 2, 2, 2], [1, 2, 3, 3, 3, 3, 3]])
    outputs = layer(inputs, continues=continues_previous(layers.segment_mask(segments, segments)))
    for row, spans in enumerate([[(0, 3), (3, 7)], [(0, 1), (1, 2), (2, 7)]]):
        for start, end in spans:
            alone = layer(inputs[row : row + 1, start:end])[0]
            np.testing.assert_allclose(outputs[row, start:end], alone, atol=1e-5)


def test_a_model_with_ssrus_sees_no_future_and_returns_no_attention_to_its_past():
    config = ModelConfig(vocab_size=23, num_layers=2, model_dim=14, feed_forward_dim=19, decoder_autoregression="ssru")
    model = Transformer(config)
    source, target = np.array([[5, 6, 7, 3]]), np.array([[2, 8, 9, 10, 11]])
    logits, weights = model({"source": source, "target": target}, return_attention_scores=True)
    changed = model({"source": source, "target": np.array([[2, 8, 9, 4, 4]])})
    np.testing.assert_allclose(logits[:, :3], changed[:, :3], atol=1e-5)
    assert weights["decoder"] == []
    assert len(weights["cross"]) == 2


def test_other_kinds_are_rejected():
    with pytest.raises(ValueError, match=r"autoregression must be one of .* Received: autoregression='rnn'"):
        layers.Decoder(autoregression="rnn")
