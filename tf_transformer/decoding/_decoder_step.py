"""The Transformer's decoder as a step function: one position of all beams, over a cache that is only appended to.

The K beams of a sentence are K queries of one attention. Keys and values of the source belong to the sentence and are
computed once. Those of the output lie where they were first written, at (position, slot), and each beam sees those of
its own past through a mask: nothing is copied when beams change places. The arithmetic is float32 whatever the policy
the model was trained with.
"""

import tensorflow as tf

from tf_transformer.decoding._options import Step, StepResult
from tf_transformer.model import Transformer

MASKED = -1e9


class DecoderStep:
    """The step function of a model, for a given number of beams.

    Example:
        decoder = DecoderStep(model, beams=4)
        state = decoder.start(memory, source_mask)
        beam_search(decoder.step, state, …, grow=decoder.grow)
    """

    def __init__(self, model: Transformer, beams: int, with_attention: bool = False):
        self.model = model
        self.config = model.config
        self.beams = beams
        self.with_attention = with_attention

    def start(self, memory, source_mask):
        """The state before the first step: the encoder's output (B, S, D) and its mask (B, S) to keys and values."""
        memory = tf.cast(memory, tf.float32)
        batch, config = tf.shape(memory)[0], self.config
        shape = [batch, config.num_heads, 0]
        layers = []
        for layer in self.model.decoder.layers:
            attention = layer.memory_attention
            layers.append(
                {
                    "keys": tf.zeros([*shape, self.beams * config.key_dim]),
                    "values": tf.zeros([*shape, self.beams * config.value_dim]),
                    "memory_keys": self._heads(_project(attention.key, memory), config.key_dim),
                    "memory_values": self._heads(_project(attention.value, memory), config.value_dim),
                }
            )
        return {"layers": layers, "source_mask": source_mask}

    def grow(self, state, capacity):
        """The state with room for `capacity` positions."""

        def pad(cache):
            return tf.pad(cache, [[0, 0], [0, 0], [0, capacity - tf.shape(cache)[2]], [0, 0]])

        layers = [layer | {name: pad(layer[name]) for name in ("keys", "values")} for layer in state["layers"]]
        return state | {"layers": layers}

    def step(self, step: Step, state) -> StepResult:
        """Logits (B, K, V) of what follows each beam, and the state with this position written into it."""
        x = self._embed(step)
        past, places = self._ancestry_bias(step), self._places(step)
        source = tf.where(state["source_mask"], 0.0, MASKED)[:, None, None]  # (B, 1, 1, S)
        layers, weights = [], None
        for layer, cache in zip(self.model.decoder.layers, state["layers"]):
            x, cache, weights = self._layer(layer, x, cache, places, past, source)
            layers.append(cache)
        if self.model.decoder.final_norm is not None:
            x = _normalize(self.model.decoder.final_norm, x)
        attention = None
        if self.with_attention:
            attention = tf.where(state["source_mask"][:, None], tf.reduce_mean(weights, axis=1), 1.0)
        return StepResult(self._logits(x, tf.shape(step.tokens)[1]), state | {"layers": layers}, attention)

    def _embed(self, step):
        """The beams' last ids as vectors (B * K, D)."""
        x = self.model.target_positions(self.model.target_embedding(step.tokens), positions=step.index[None])
        return tf.reshape(tf.cast(x, tf.float32), [-1, self.config.model_dim])

    def _ancestry_bias(self, step):
        """What hides everything but a beam's own past: (B, 1, asked, C * K), 0 or MASKED."""
        _, asked, capacity = tf.unstack(tf.shape(step.ancestors))
        past = (tf.range(capacity) <= step.index)[:, None]
        visible = (step.ancestors[..., None] == tf.range(self.beams)) & past  # (B, asked, C, K)
        return tf.reshape(tf.where(visible, 0.0, MASKED), [-1, 1, asked, capacity * self.beams])

    def _places(self, step):
        """The rows of a cache (B, H, C, K) that this position is written to, in the order of (B, asked, H)."""
        batch, asked, capacity = tf.unstack(tf.shape(step.ancestors))
        heads = self.config.num_heads
        first = ((tf.range(batch)[:, None] * heads + tf.range(heads)) * capacity + step.index) * self.beams
        return tf.reshape(first[:, None] + tf.range(asked)[:, None], [-1])

    def _layer(self, layer, x, cache, places, past, source):
        """One layer: (B * K, D), its cache -> (B * K, D), its cache, the weights on the source (B, H, K, S)."""
        attended, own = self._self_attention(
            layer.causal_attention, _before(layer, x, "self_attention"), cache, places, past
        )
        x = _after(layer, x, attended, "self_attention")
        query = _before(layer, x, "cross_attention")
        attended, weights = self._attend(
            layer.memory_attention, query, cache["memory_keys"], cache["memory_values"], source, tf.shape(past)[2]
        )
        x = _after(layer, x, attended, "cross_attention")
        network = layer.feed_forward
        inner = network.activate(_project(network.inner, _before(layer, x, "feed_forward")))
        transformed = _project(network.outer, inner)
        return _after(layer, x, transformed, "feed_forward"), cache | own, weights

    def _self_attention(self, attention, x, cache, places, past):
        config, own, seen = self.config, {}, {}
        for name, projection, depth in (
            ("keys", attention.key, config.key_dim),
            ("values", attention.value, config.value_dim),
        ):
            new = tf.reshape(_project(projection, x), [-1, depth])
            own[name] = _write(cache[name], new, places)
            seen[name] = tf.reshape(own[name], [-1, config.num_heads, tf.shape(past)[3], depth])
        attended, _ = self._attend(attention, x, seen["keys"], seen["values"], past, tf.shape(past)[2])
        return attended, own

    def _attend(self, attention, x, keys, values, bias, beams):
        """Attention of (B * K, D) to keys (B, H, N, d_k) and values (B, H, N, d_v): (B * K, D), (B, H, K, N)."""
        config = self.config
        query = tf.reshape(_project(attention.query, x), [-1, beams, config.num_heads * config.key_dim])
        query = self._heads(query * config.key_dim**-0.5, config.key_dim)
        weights = tf.nn.softmax(tf.matmul(query, keys, transpose_b=True) + bias)
        attended = _swap(tf.matmul(weights, values))
        joined = tf.reshape(attended, [-1, config.num_heads * config.value_dim])
        return _project(attention.output_projection, joined), weights

    def _heads(self, x, depth):
        """(B, N, H * d) -> (B, H, N, d)."""
        shape = tf.shape(x)
        return _swap(tf.reshape(x, [shape[0], shape[1], self.config.num_heads, depth]))

    def _logits(self, x, beams):
        """(B * K, D) -> (B, K, V)."""
        logits = tf.matmul(x, _float(self.model.output_embedding.table), transpose_b=True)
        if self.model.output_bias is not None:
            logits = tf.nn.bias_add(logits, _float(self.model.output_bias))
        return tf.reshape(logits, [-1, beams, self.config.decoder_vocab_size])


def _write(cache, new, places):
    """`cache` (B, H, C, K * d), as rows of d, with `new` (N, d) at `places` (N,), written in place.

    `tf.tensor_scatter_nd_update` would copy the whole cache at each step. Nothing else may hold the cache.
    """
    written = tf.raw_ops.InplaceUpdate(x=tf.reshape(cache, [-1, new.shape[-1]]), i=places, v=new)
    return tf.reshape(written, tf.shape(cache))


def _swap(x):
    """(A, B, C, D) -> (A, C, B, D). As integers, because oneDNN transposes small floats four times slower."""
    return tf.bitcast(tf.transpose(tf.bitcast(x, tf.int32), [0, 2, 1, 3]), tf.float32)


def _project(layer, x):
    """A `Projection` in float32: (…, D) -> (…, E)."""
    flat = tf.reshape(x, [-1, x.shape[-1]])
    flat = tf.matmul(flat, _float(layer.kernel), transpose_b=layer.transposed)
    flat = flat if layer.bias is None else tf.nn.bias_add(flat, _float(layer.bias))
    return flat if x.shape.rank == 2 else tf.reshape(flat, tf.concat([tf.shape(x)[:-1], [layer.units]], axis=0))


def _before(layer, x, name):
    return _normalize(getattr(layer, f"{name}_norm"), x) if layer.norm == "pre" else x


def _after(layer, x, output, name):
    return x + output if layer.norm == "pre" else _normalize(getattr(layer, f"{name}_norm"), x + output)


def _normalize(layer, x):
    """Layer normalisation over the last axis."""
    centred = x - tf.reduce_mean(x, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
    return centred * tf.math.rsqrt(variance + layer.epsilon) * _float(layer.gamma) + _float(layer.beta)


def _float(variable):
    return tf.cast(tf.convert_to_tensor(variable), tf.float32)
