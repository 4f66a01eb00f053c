"""The projection onto the vocabulary and its loss in one, with gradients, holding few logits at a time.

The logits of a batch of 25,000 tokens and 37,000 words are 3.7 GB. Here they exist for a chunk of tokens at a time,
and once: the chunk's loss and the gradients of what the logits were made from are computed together, so nothing of
that size waits for the backward pass, and nothing is computed twice.
"""

from typing import NamedTuple

import tensorflow as tf

from tf_transformer.training._losses import LossSums

CHUNK_TOKENS = 1024


class ProjectedLoss(NamedTuple):
    """Sums over a batch, and the gradients of scale · loss."""

    sums: LossSums
    hidden_gradient: tf.Tensor
    """Like `hidden`."""
    table_gradient: tf.Tensor
    """(V, D) float32."""
    bias_gradient: tf.Tensor
    """(V,) float32, empty without a bias."""


def projected_loss(
    hidden, table, labels, scale, bias=None, label_smoothing=0.0, ignore_id=0, chunk_tokens=CHUNK_TOKENS
) -> ProjectedLoss:
    """Loss of the logits hidden · table^T + bias, and its gradients.

    Args:
        hidden: (B, T, D), the decoder's output; its dtype is that of the matrix products.
        table: (V, D) float32.
        labels: (B, T) int; `ignore_id` does not count.
        scale: float32 scalar that the gradients are multiplied by: 1 / tokens of the update, times the loss scale.
        bias: (V,) float32 or None.
        chunk_tokens: tokens whose logits are held at once.
    """
    rows = tf.reshape(hidden, [-1, hidden.shape[-1]])  # (N, D)
    labels = tf.reshape(tf.cast(labels, tf.int32), [-1])
    weights = tf.cast(tf.not_equal(labels, ignore_id), tf.float32)
    chunk = _Chunk(tf.cast(table, hidden.dtype), bias, label_smoothing, scale)
    count = rows.shape[0]
    if count is not None and count <= chunk_tokens:
        result = chunk(rows, labels, weights)
    else:
        result = _in_chunks(chunk, rows, labels, weights, chunk_tokens)
    return result._replace(hidden_gradient=tf.reshape(result.hidden_gradient, tf.shape(hidden)))


def projected_sums(hidden, table, labels, bias=None, label_smoothing=0.0, ignore_id=0) -> LossSums:
    """The sums of `projected_loss` alone, for validation."""
    return projected_loss(hidden, table, labels, tf.constant(1.0), bias, label_smoothing, ignore_id).sums


class _Chunk:
    """Loss and gradients of some tokens.

    With P = softmax(logits) and r the tokens' weights, the gradient of the logits is r (P - target), and target has
    only three values a row. So P alone is ever stored; r goes into the hidden states, the two parts of the target
    are a gather, a scatter and a vector that is the same for all words.
    """

    def __init__(self, table, bias, smoothing: float, scale):
        self.table, self.bias, self.smoothing, self.scale = table, bias, smoothing, scale
        self.uniform = smoothing / table.shape[0]
        self.table_mean = tf.reduce_mean(tf.cast(table, tf.float32), axis=0)  # (D,)

    def __call__(self, hidden, labels, weights) -> ProjectedLoss:
        logits = tf.cast(tf.matmul(hidden, self.table, transpose_b=True), tf.float32)  # (n, V)
        logits = logits if self.bias is None else logits + self.bias
        probabilities = tf.nn.softmax(logits)
        # The likeliest word's probability is at least 1 / V: its logarithm is always exact enough.
        normaliser = tf.reduce_max(logits, axis=-1) - tf.math.log(tf.reduce_max(probabilities, axis=-1))
        return self._gradients(hidden, labels, weights, probabilities, self._sums(hidden, labels, weights, normaliser))

    def _sums(self, hidden, labels, weights, normaliser) -> LossSums:
        hidden = tf.cast(hidden, tf.float32)
        chosen = tf.reduce_sum(hidden * tf.cast(tf.gather(self.table, labels), tf.float32), axis=-1)
        mean = tf.linalg.matvec(hidden, self.table_mean)
        if self.bias is not None:
            chosen, mean = chosen + tf.gather(self.bias, labels), mean + tf.reduce_mean(self.bias)
        likelihood = normaliser - chosen
        loss = normaliser - (1.0 - self.smoothing) * chosen - self.smoothing * mean
        return LossSums(*(tf.reduce_sum(tf.where(weights > 0, value, 0.0)) for value in (loss, likelihood, weights)))

    def _gradients(self, hidden, labels, weights, probabilities, sums) -> ProjectedLoss:
        dtype = hidden.dtype
        right, each = (1.0 - self.smoothing), self.uniform
        weights = (weights * self.scale)[:, None]  # (n, 1)
        probabilities = tf.cast(probabilities, dtype)
        weighted = tf.cast(tf.cast(hidden, tf.float32) * weights, dtype)
        to_table = tf.cast(tf.matmul(probabilities, weighted, transpose_a=True), tf.float32)  # (V, D)
        weighted = tf.cast(weighted, tf.float32)
        to_table = to_table - each * tf.reduce_sum(weighted, axis=0)
        to_table = tf.tensor_scatter_nd_add(to_table, labels[:, None], -right * weighted)
        to_hidden = tf.cast(tf.matmul(probabilities, self.table), tf.float32)  # (n, D)
        to_hidden -= right * tf.cast(tf.gather(self.table, labels), tf.float32)
        to_hidden -= each * tf.cast(self.table.shape[0], tf.float32) * self.table_mean
        to_hidden = tf.cast(weights * to_hidden, dtype)
        return ProjectedLoss(sums, to_hidden, to_table, self._bias_gradient(probabilities, labels, weights))

    def _bias_gradient(self, probabilities, labels, weights):
        if self.bias is None:
            return tf.zeros([0])
        to_bias = tf.linalg.matvec(tf.cast(probabilities, tf.float32), weights[:, 0], transpose_a=True)
        to_bias -= self.uniform * tf.reduce_sum(weights)
        return tf.tensor_scatter_nd_add(to_bias, labels[:, None], -(1.0 - self.smoothing) * weights[:, 0])


def _in_chunks(chunk: _Chunk, rows, labels, weights, size: int) -> ProjectedLoss:
    """The sum of what `chunk` gives for at most `size` tokens at a time, one after another; the last is filled up."""
    dim, count = rows.shape[-1], tf.shape(rows)[0] if rows.shape[0] is None else rows.shape[0]
    chunks = (count + size - 1) // size
    size = (count + chunks - 1) // chunks
    fill = chunks * size - count
    rows = tf.reshape(tf.pad(rows, [[0, fill], [0, 0]]), [chunks, size, dim])
    labels, weights = (tf.reshape(tf.pad(x, [[0, fill]]), [chunks, size]) for x in (labels, weights))

    def step(index, total, to_hidden):
        part = chunk(rows[index], labels[index], weights[index])
        to_hidden = to_hidden.write(index, part.hidden_gradient)
        part = part._replace(hidden_gradient=total.hidden_gradient)
        return index + 1, tf.nest.map_structure(tf.add, total, part), to_hidden

    first = chunk(rows[0], labels[0], weights[0])
    to_hidden = tf.TensorArray(rows.dtype, chunks, element_shape=[None, dim]).write(0, first.hidden_gradient)
    start = (tf.constant(1), first._replace(hidden_gradient=tf.zeros([], rows.dtype)), to_hidden)
    _, total, to_hidden = tf.while_loop(
        lambda index, *_: index < chunks, step, start, parallel_iterations=1, maximum_iterations=chunks - 1
    )
    return total._replace(hidden_gradient=tf.reshape(to_hidden.stack(), [-1, dim])[:count])
