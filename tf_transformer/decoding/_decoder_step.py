"""Cached decoder step: one position of all beams, over a cache that is only appended to.

The K beams of a sentence are K queries of one attention. Keys and values of the encoder's output belong to the
sentence and are computed once, the keys already divided by sqrt(d_k). Those of the target stay where they were first
written, at (position, slot), and each beam sees those of its own past through a mask: nothing is copied when beams are
reordered. The arithmetic is float32 whatever the policy that the model was trained with.

Projections, embeddings and weights are those of the layers. What is done here in another way than in `Decoder.call` is
done for speed: the cache, its mask, and layer normalization as elementary operations (on CPUs half the time of the
fused one for a few hundred rows).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tf_transformer.decoding._options import NEG_INF, Step, StepResult, check_integer
from tf_transformer.decoding._shortlist import Candidates
from tf_transformer.layers import SSRU, Decoder, DecoderLayer, MultiHeadAttention, Projection
from tf_transformer.model import Transformer

MASKED = -1e9

State = dict[str, Any]


class _Past(NamedTuple):
    """Tensors that all layers share in one step; see the methods of `DecoderStep` that compute it.

    bias, slots, parents: the ancestry of the beams.
    queries: the shape (B, active, H, d_k).
    """

    bias: tf.Tensor
    slots: tf.Tensor
    parents: tf.Tensor
    queries: tf.Tensor


class DecoderStep:
    """Step function of a `Decoder` for beam search, greedy search and sampling, with a cache of keys and values.

    Decoders with SSRUs have one state per beam instead of keys and values of the past.

    Args:
        decoder: a built `layers.Decoder`, with or without cross-attention.
        embed: (ids (B, K), positions (1,)) -> the decoder's input (B, K, D).
        logits: the decoder's output (N, D) -> logits (N, V), V static.
        beam_size: K, that of the search.
        with_attention: whether to return the attention to the source, for a coverage penalty: the last layer's, the
            average of its heads.
        all_layers: whether that is the average of all layers instead.
        candidates: of the batch; `logits` then gives those of its U ids, (N, D) -> (N, U).

    Example:
        step = DecoderStep.from_model(transformer, beam_size=4)
        state = step.start(transformer.encode(source), source_mask)
        beam_search(step, state, start_ids, max_lengths, options, grow=step.grow)
    """

    def __init__(
        self,
        decoder: Decoder,
        embed: Callable[[Any, Any], Any],
        logits: Callable[[Any], Any],
        beam_size: int,
        with_attention: bool = False,
        all_layers: bool = False,
        candidates: Candidates | None = None,
    ):
        check_integer("beam_size", beam_size, 1)
        self.decoder = decoder
        self.embed = embed
        self.logits = logits
        self.beam_size = beam_size
        self.with_attention = with_attention
        self.all_layers = all_layers
        self.candidates = candidates

    @classmethod
    def from_model(
        cls,
        model: Transformer,
        beam_size: int,
        with_attention: bool = False,
        all_layers: bool = False,
        candidates: Candidates | None = None,
    ) -> "DecoderStep":
        """The step function of a `Transformer`."""
        logits = model.logits if candidates is None else _logits_of(model, candidates.vocabulary.ids)
        return cls(model.decoder, model.embed_target, logits, beam_size, with_attention, all_layers, candidates)

    def start(
        self, memory: tf.Tensor | None = None, source_mask: tf.Tensor | None = None, batch_size: Any = None
    ) -> State:
        """Create the state before the first step.

        Args:
            memory: (B, S, M), the encoder's output; None without cross-attention.
            source_mask: boolean (B, S), False where the source is padding.
            batch_size: B, for a decoder without cross-attention.
        """
        if (memory is None) == self.decoder.cross_attention:
            raise ValueError(
                "DecoderStep.start expects `memory` and `source_mask` if the decoder has cross-attention, `batch_size` "
                f"if not. Received: cross_attention={self.decoder.cross_attention} and memory={memory}."
            )
        if memory is not None:
            memory, batch_size = tf.cast(memory, tf.float32), tf.shape(memory)[0]
        layers = [self._start_layer(layer, memory, batch_size) for layer in self.decoder.layers]
        state = {"layers": layers} if memory is None else {"layers": layers, "source_mask": source_mask}
        return state if self.candidates is None else state | {"allowed": self.candidates.allowed}

    def _start_layer(self, layer: DecoderLayer, memory: tf.Tensor | None, batch_size: Any) -> State:
        if layer.autoregression == "ssru":
            cache = {"cell": tf.zeros([batch_size, self.beam_size, layer.ssru.forget.units])}
        else:
            shape = [batch_size, layer.num_heads, 0]
            cache = {"keys": tf.zeros([*shape, layer.key_dim]), "values": tf.zeros([*shape, layer.value_dim])}
        if memory is not None:
            attention = layer.memory_attention
            keys = _project(attention.key, memory) * layer.key_dim**-0.5
            cache["memory_keys"] = _split_heads(keys, layer.num_heads, transposed=True)
            cache["memory_values"] = _split_heads(_project(attention.value, memory), layer.num_heads)
        return cache

    def grow(self, state: State, capacity: tf.Tensor) -> State:
        """The state with room for `capacity` positions."""
        rows = capacity * self.beam_size

        def pad(cache: tf.Tensor) -> tf.Tensor:  # (B, H, C * K, d)
            return tf.pad(cache, [[0, 0], [0, 0], [0, rows - tf.shape(cache)[2]], [0, 0]])

        def grown(layer: State) -> State:
            return layer | {name: pad(layer[name]) for name in ("keys", "values") if name in layer}

        layers = [grown(layer) for layer in state["layers"]]
        return state | {"layers": layers}

    def __call__(self, step: Step, state: State) -> StepResult:
        """Compute the logits (B, K, V) of the token after each beam, and the state with this position appended."""
        x = tf.cast(self.embed(step.tokens, step.index[None]), tf.float32)
        x = tf.reshape(x, [-1, x.shape[-1]])
        queries = tf.stack([-1, tf.shape(step.tokens)[1], self.decoder.num_heads, self.decoder.key_dim])
        past = _Past(self._ancestry_bias(step), self._slots(step), self._parents(step), queries)
        source = None
        if "source_mask" in state:
            source = tf.where(state["source_mask"], 0.0, MASKED)[:, None, None]  # (B, 1, 1, S)
        layers, weights = [], []
        for layer, cache in zip(self.decoder.layers, state["layers"]):
            x, cache, looks = self._layer(layer, x, cache, past, source)
            layers.append(cache)
            weights.append(looks)
        if self.decoder.final_norm is not None:
            x = _normalize(self.decoder.final_norm, x)
        attention = None
        if self.with_attention:
            attention = self._coverage(weights, state["source_mask"])
        logits = self.logits(x)
        state = state | {"layers": layers}
        if self.candidates is None:
            logits = tf.reshape(logits, [-1, tf.shape(step.tokens)[1], logits.shape[-1]])
            return StepResult(logits, state, attention)
        logits = tf.reshape(logits, [-1, tf.shape(step.tokens)[1], tf.shape(logits)[-1]])
        logits = tf.where(state["allowed"][:, None], logits, NEG_INF)
        return StepResult(logits, state, attention, self.candidates.vocabulary)

    def _coverage(self, weights: list[tf.Tensor], source_mask: tf.Tensor) -> tf.Tensor:
        """`StepResult.attention` from the cross-attention of all layers, (B, H, K, S) each."""
        average = tf.reduce_mean(tf.stack(weights if self.all_layers else weights[-1:]), axis=[0, 2])
        return tf.where(source_mask[:, None], average, 1.0)

    def _ancestry_bias(self, step: Step) -> tf.Tensor:
        """The bias that masks everything but a beam's own past: (B, 1, active, C * K), 0 or MASKED."""
        _, active, capacity = tf.unstack(tf.shape(step.ancestors))
        past = (tf.range(capacity) <= step.index)[:, None]
        visible = (step.ancestors[..., None] == tf.range(self.beam_size)) & past  # (B, active, C, K)
        return tf.reshape(tf.where(visible, 0.0, MASKED), [-1, 1, active, capacity * self.beam_size])

    def _slots(self, step: Step) -> tf.Tensor:
        """The rows of a cache (B, H, C * K) that this position is written to, in the order of (B, active, H)."""
        batch, active, capacity = tf.unstack(tf.shape(step.ancestors))
        heads = self.decoder.num_heads
        first = ((tf.range(batch)[:, None] * heads + tf.range(heads)) * capacity + step.index) * self.beam_size
        return tf.reshape(first[:, None] + tf.range(active)[:, None], [-1])

    def _parents(self, step: Step) -> tf.Tensor:
        """The slot that each beam had at the previous position: (B, active)."""
        return tf.gather(step.ancestors, tf.maximum(step.index - 1, 0), axis=2)

    def _layer(
        self, layer: DecoderLayer, x: tf.Tensor, cache: State, past: _Past, source: Any
    ) -> tuple[tf.Tensor, State, Any]:
        """One layer: (B * K, D) and its cache -> the same, and the attention to the source (B, H, K, S) or None."""
        weights = None
        if layer.autoregression == "ssru":
            output, own = self._recur(layer.ssru, _before(layer, x, "ssru"), cache, past)
            x = _after(layer, x, output, "ssru")
        else:
            attended, own = self._self_attention(
                layer.causal_attention, _before(layer, x, "self_attention"), cache, past
            )
            x = _after(layer, x, attended, "self_attention")
        if layer.cross_attention:
            attention = layer.memory_attention
            query = attention.query.apply(_before(layer, x, "cross_attention"))
            attended, weights = self._attend(
                attention, query, cache["memory_keys"], cache["memory_values"], source, past, transposed=True
            )
            x = _after(layer, x, attended, "cross_attention")
        network = layer.feed_forward
        inner = network.activation(network.inner.apply(_before(layer, x, "feed_forward")))
        return _after(layer, x, network.outer.apply(inner), "feed_forward"), cache | own, weights

    def _recur(self, ssru: SSRU, x: tf.Tensor, cache: State, past: _Past) -> tuple[tf.Tensor, State]:
        """The SSRU from the states of the beams' parents, which are few numbers: they are reordered."""
        batch, active = tf.unstack(tf.shape(past.parents))
        states = tf.reshape(tf.gather(cache["cell"], past.parents, batch_dims=1), tf.shape(x))
        output, states = ssru.step(x, states)
        states = tf.reshape(states, [batch, active, x.shape[-1]])
        return output, {"cell": tf.pad(states, [[0, 0], [0, self.beam_size - active], [0, 0]])}

    def _self_attention(
        self, attention: MultiHeadAttention, x: tf.Tensor, cache: State, past: _Past
    ) -> tuple[tf.Tensor, State]:
        query = attention.query.apply(x) * attention.key_dim**-0.5
        own = {}
        for name, projection, depth in (
            ("keys", attention.key, attention.key_dim),
            ("values", attention.value, attention.value_dim),
        ):
            new = tf.reshape(projection.apply(x), [-1, depth])
            own[name] = _write_in_place(cache[name], new, past.slots)
        attended, _ = self._attend(attention, query, own["keys"], own["values"], past.bias, past)
        return attended, own

    def _attend(
        self,
        attention: MultiHeadAttention,
        query: tf.Tensor,
        keys: tf.Tensor,
        values: tf.Tensor,
        bias: Any,
        past: _Past,
        transposed: bool = False,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Attention of queries (B * K, H * d_k) to keys (B, H, N, d_k) and values (B, H, N, d_v).

        Either the queries or the keys are divided by sqrt(d_k) already.

        Args:
            transposed: whether the keys are (B, H, d_k, N), which is faster to multiply by.

        Returns:
            (B * K, D), and the weights (B, H, K, N).
        """
        several = self.beam_size > 1
        query = tf.reshape(query, past.queries if several else [-1, attention.num_heads, 1, attention.key_dim])
        logits = tf.matmul(_swap(query) if several else query, keys, transpose_b=not transposed)
        weights = tf.nn.softmax(logits + bias)
        attended = tf.matmul(weights, values)
        joined = tf.reshape(_swap(attended) if several else attended, [-1, attention.num_heads * attention.value_dim])
        return attention.output_projection.apply(joined), weights


def _logits_of(model: Transformer, ids: tf.Tensor) -> Callable[[tf.Tensor], tf.Tensor]:
    """The projection to the logits of some ids (U,): (N, D) -> (N, U). Their weights are gathered once per batch."""
    product = model.output_embedding.logits_of(ids)
    if model.output_bias is None:
        return product
    bias = tf.gather(_float(model.output_bias), ids)
    return lambda hidden: product(hidden) + bias


def _write_in_place(cache: tf.Tensor, new: tf.Tensor, slots: tf.Tensor) -> tf.Tensor:
    """`cache` (B, H, C * K, d), as rows of d, with `new` (N, d) written to the rows `slots` (N,).

    `InplaceUpdate` is deprecated, but `tf.tensor_scatter_nd_update` would copy the cache at each step. Nothing
    else may hold the cache. The test of this function explains what to do if a TensorFlow release removes it.
    """
    written = tf.raw_ops.InplaceUpdate(x=tf.reshape(cache, [-1, new.shape[-1]]), i=slots, v=new)
    return tf.reshape(written, tf.shape(cache))


def _split_heads(x: tf.Tensor, heads: int, transposed: bool = False) -> tf.Tensor:
    """(B, N, H * d) -> (B, H, N, d), or (B, H, d, N)."""
    shape = tf.shape(x)
    split = tf.reshape(x, [shape[0], shape[1], heads, x.shape[-1] // heads])
    return _transpose(split, [0, 2, 3, 1]) if transposed else _swap(split)


def _swap(x: tf.Tensor) -> tf.Tensor:
    """(A, B, C, D) -> (A, C, B, D)."""
    return _transpose(x, [0, 2, 1, 3])


def _transpose(x: tf.Tensor, order: list[int]) -> tf.Tensor:
    """A transpose as integers, because oneDNN transposes small floats four times slower."""
    return tf.bitcast(tf.transpose(tf.bitcast(x, tf.int32), order), tf.float32)


def _project(layer: Projection, x: tf.Tensor) -> tf.Tensor:
    """A projection of (B, N, D) as one matrix product: (B, N, E)."""
    flat = layer.apply(tf.reshape(x, [-1, x.shape[-1]]))
    return tf.reshape(flat, tf.concat([tf.shape(x)[:-1], [layer.units]], axis=0))


def _before(layer: DecoderLayer, x: tf.Tensor, name: str) -> tf.Tensor:
    return _normalize(getattr(layer, f"{name}_norm"), x) if layer.norm == "pre" else x


def _after(layer: DecoderLayer, x: tf.Tensor, output: tf.Tensor, name: str) -> tf.Tensor:
    return x + output if layer.norm == "pre" else _normalize(getattr(layer, f"{name}_norm"), x + output)


def _normalize(layer: Any, x: tf.Tensor) -> tf.Tensor:
    """Layer normalization over the last axis."""
    centered = x - tf.reduce_mean(x, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centered), axis=-1, keepdims=True)
    return centered * tf.math.rsqrt(variance + layer.epsilon) * _float(layer.gamma) + _float(layer.beta)


def _float(variable: Any) -> tf.Tensor:
    return tf.cast(tf.convert_to_tensor(variable), tf.float32)
