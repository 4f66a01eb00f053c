"""Fused projection onto the vocabulary and loss, with gradients, computed in chunks of tokens.

The logits of a batch of 25,000 tokens and 37,000 words take 3.7 GB. Here they exist for one chunk of tokens at a time.
Loss and gradients of a chunk are computed together, so no logits are kept for the backward pass and none are computed
twice.

R-Drop (Liang et al. 2021, arXiv 2106.14448) sends each batch through the model twice, with different dropout, and adds
the symmetric Kullback-Leibler divergence of the two distributions of each token. Both passes of a token are in the same
chunk, so the divergence needs no logits beyond it.
"""

from typing import NamedTuple

import tensorflow as tf

CHUNK_TOKENS = 1024


class LossSums(NamedTuple):
    """Sums over the tokens of a batch, to be divided once by the tokens of the update. Float32 scalars."""

    loss: tf.Tensor
    """Sum of the smoothed loss, which is minimized."""
    negative_log_likelihood: tf.Tensor
    """Sum of -log p(label), in nats; the exponential of its mean is the perplexity."""
    tokens: tf.Tensor


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
    hidden: tf.Tensor,
    table: tf.Tensor,
    labels: tf.Tensor,
    scale: tf.Tensor,
    bias: tf.Tensor | None = None,
    label_smoothing: float = 0.0,
    ignore_id: int = 0,
    chunk_tokens: int = CHUNK_TOKENS,
    r_drop: float = 0.0,
) -> ProjectedLoss:
    """Loss of the logits hidden · table^T + bias, and its gradients.

    Args:
        hidden: (B, T, D), the decoder's output; its dtype is that of the matrix products. With R-Drop (2B, T, D): the
            first pass of all rows, then the second.
        table: (V, D) float32.
        labels: (B, T) int; `ignore_id` does not count.
        scale: float32 scalar that the gradients are multiplied by: 1 / tokens of the update, times the loss scale.
        bias: (V,) float32 or None.
        chunk_tokens: tokens whose logits are held at once.
        r_drop: the weight alpha of the divergence; 0: no R-Drop. The loss is then half of what the paper's
            equation 4 adds up over the two passes, so that it has the size of a loss without R-Drop.
    """
    rows = _side_by_side(hidden) if r_drop else tf.reshape(hidden, [-1, hidden.shape[-1]])  # (N, D) or (N, 2 D)
    labels = tf.reshape(labels, [-1])
    weights = tf.cast(tf.not_equal(labels, ignore_id), tf.float32)
    one_pass = _Chunk(tf.cast(table, hidden.dtype), bias, label_smoothing, scale)
    chunk = _TwoPasses(one_pass, r_drop) if r_drop else one_pass
    chunk_tokens = max(1, chunk_tokens // 2) if r_drop else chunk_tokens
    count = rows.shape[0]
    if count is not None and count <= chunk_tokens:
        result = chunk(rows, labels, weights)
    else:
        result = _in_chunks(chunk, rows, labels, weights, chunk_tokens)
    to_hidden = _one_after_another(result.hidden_gradient) if r_drop else result.hidden_gradient
    return result._replace(hidden_gradient=tf.reshape(to_hidden, tf.shape(hidden)))


def projected_sums(
    hidden: tf.Tensor,
    table: tf.Tensor,
    labels: tf.Tensor,
    bias: tf.Tensor | None = None,
    label_smoothing: float = 0.0,
    ignore_id: int = 0,
) -> LossSums:
    """Compute only the sums of `projected_loss`, for validation."""
    return projected_loss(hidden, table, labels, tf.constant(1.0), bias, label_smoothing, ignore_id).sums


class _Chunk:
    """Loss and gradients of one chunk of tokens.

    With P = softmax(logits) and r the tokens' weights, the gradient of the logits is r (P - target), and target has
    only three values per row. So P alone is ever stored; r goes into the hidden states, the two parts of the target
    are a gather, a scatter and a vector that is the same for all words.
    """

    def __init__(self, table: tf.Tensor, bias: tf.Tensor | None, smoothing: float, scale: tf.Tensor):
        self.table, self.bias, self.smoothing, self.scale = table, bias, smoothing, scale
        self.uniform = smoothing / table.shape[0]
        self.table_mean = tf.reduce_mean(tf.cast(table, tf.float32), axis=0)  # (D,)

    def __call__(self, hidden: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> ProjectedLoss:
        _, probabilities, normalizer = self.distributions(hidden)
        return self.gradients(hidden, labels, weights, probabilities, self.sums(hidden, labels, weights, normalizer))

    def distributions(self, hidden: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Logits and probabilities (n, V), and the logarithm of the sum of exponentials (n,)."""
        logits = tf.cast(tf.matmul(hidden, self.table, transpose_b=True), tf.float32)
        logits = logits if self.bias is None else logits + self.bias
        probabilities = tf.nn.softmax(logits)
        # The likeliest word's probability is at least 1 / V: its logarithm is always exact enough.
        normalizer = tf.reduce_max(logits, axis=-1) - tf.math.log(tf.reduce_max(probabilities, axis=-1))
        return logits, probabilities, normalizer

    def sums(self, hidden: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor, normalizer: tf.Tensor) -> LossSums:
        hidden = tf.cast(hidden, tf.float32)
        chosen = tf.reduce_sum(hidden * tf.cast(tf.gather(self.table, labels), tf.float32), axis=-1)
        mean = tf.linalg.matvec(hidden, self.table_mean)
        if self.bias is not None:
            chosen, mean = chosen + tf.gather(self.bias, labels), mean + tf.reduce_mean(self.bias)
        likelihood = normalizer - chosen
        loss = normalizer - (1.0 - self.smoothing) * chosen - self.smoothing * mean
        # `where`, not the product alone: padding may have a loss that is not finite.
        weighted = (tf.where(weights > 0, weights * value, 0.0) for value in (loss, likelihood))
        return LossSums(*(tf.reduce_sum(value) for value in (*weighted, weights)))

    def gradients(
        self, hidden: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor, probabilities: tf.Tensor, sums: LossSums
    ) -> ProjectedLoss:
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

    def _bias_gradient(self, probabilities: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        if self.bias is None:
            return tf.zeros([0])
        to_bias = tf.linalg.matvec(tf.cast(probabilities, tf.float32), weights[:, 0], transpose_a=True)
        to_bias -= self.uniform * tf.reduce_sum(weights)
        return tf.tensor_scatter_nd_add(to_bias, labels[:, None], -(1.0 - self.smoothing) * weights[:, 0])


class _TwoPasses:
    """Loss and gradients of one chunk of tokens with R-Drop; `hidden` (n, 2 D) holds both passes of each.

    The gradient of the divergence with respect to the logits is added to P before the products of `_Chunk`.
    """

    def __init__(self, chunk: _Chunk, alpha: float):
        self._chunk, self._alpha = chunk, alpha

    def __call__(self, hidden: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> ProjectedLoss:
        hidden = tf.concat(tf.split(hidden, 2, axis=-1), axis=0)  # (2 n, D)
        both = tf.concat([labels, labels], axis=0), tf.concat([weights, weights], axis=0) / 2
        logits, probabilities, normalizer = self._chunk.distributions(hidden)
        sums = self._chunk.sums(hidden, *both, normalizer)
        divergence, gradient = _symmetric_divergence(logits - normalizer[:, None], probabilities)
        result = self._chunk.gradients(hidden, *both, probabilities + self._alpha * gradient, sums)
        loss = sums.loss + self._alpha / 2 * tf.reduce_sum(tf.where(weights > 0, divergence, 0.0))
        to_hidden = tf.concat(tf.split(result.hidden_gradient, 2), axis=-1)
        return result._replace(sums=sums._replace(loss=loss), hidden_gradient=to_hidden)


def _symmetric_divergence(log_probs: tf.Tensor, probabilities: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """(KL(P1 || P2) + KL(P2 || P1)) / 2 of the two halves of the rows, (n,); its gradient by the logits, (2 n, V)."""
    first, second = tf.split(probabilities, 2)
    ratio = tf.subtract(*tf.split(log_probs, 2))
    forward = tf.reduce_sum(first * ratio, axis=-1, keepdims=True)
    backward = -tf.reduce_sum(second * ratio, axis=-1, keepdims=True)
    to_first = first * (ratio - forward) + first - second
    to_second = second * (-ratio - backward) + second - first
    return (forward + backward)[:, 0] / 2, tf.concat([to_first, to_second], axis=0) / 2


def _side_by_side(hidden: tf.Tensor) -> tf.Tensor:
    """(2B, T, D) -> (B * T, 2 D), both passes of a token in one row."""
    first, second = (tf.reshape(half, [-1, hidden.shape[-1]]) for half in tf.split(hidden, 2))
    return tf.concat([first, second], axis=-1)


def _one_after_another(rows: tf.Tensor) -> tf.Tensor:
    """(N, 2 D) -> (2 N, D), the inverse of `_side_by_side`."""
    return tf.concat(tf.split(rows, 2, axis=-1), axis=0)


def _in_chunks(
    chunk: _Chunk | _TwoPasses, rows: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor, size: int
) -> ProjectedLoss:
    """Sum the results of `chunk` over chunks of at most `size` tokens; the last one is padded."""
    dim, count = rows.shape[-1], tf.shape(rows)[0] if rows.shape[0] is None else rows.shape[0]
    chunks = (count + size - 1) // size
    size = (count + chunks - 1) // chunks
    fill = chunks * size - count
    rows = tf.reshape(tf.pad(rows, [[0, fill], [0, 0]]), [chunks, size, dim])
    # Concatenated, because GPUs have no kernel that pads int64.
    filled = (tf.concat([x, tf.zeros([fill], x.dtype)], 0) for x in (labels, weights))
    labels, weights = (tf.reshape(x, [chunks, size]) for x in filled)

    def step(
        index: tf.Tensor, total: ProjectedLoss, to_hidden: tf.TensorArray
    ) -> tuple[tf.Tensor, ProjectedLoss, tf.TensorArray]:
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
