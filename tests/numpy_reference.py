"""The paper's formulas in NumPy, float64, one sentence pair and one head at a time.

Written for the tests, straight from the paper and with loops where loops are plainest, so that an error in the
layers cannot be here too.
"""

import math

import numpy as np


def softmax(logits):
    exponents = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponents / exponents.sum(axis=-1, keepdims=True)


def attention(query, key, value, mask=None):
    """Equation 1 for one head: (T, d_k), (S, d_k), (S, d_v) -> (T, d_v) and the weights (T, S)."""
    logits = query @ key.T / math.sqrt(query.shape[-1])
    if mask is not None:
        logits = np.where(mask, logits, -np.inf)
    weights = np.zeros_like(logits)
    for row in range(len(logits)):
        if np.isfinite(logits[row]).any():
            weights[row] = softmax(logits[row])
    return weights @ value, weights


def linear(x, weights, name):
    output = x @ weights[f"{name}/kernel"]
    return output + weights[f"{name}/bias"] if f"{name}/bias" in weights else output


def multi_head_attention(query, value, weights, heads, mask=None):
    """Section 3.2.2: (T, D), (S, M) -> (T, D) and the weights (H, T, S)."""
    projected = [linear(x, weights, name) for x, name in ((query, "query"), (value, "key"), (value, "value"))]
    outputs, maps = [], []
    for q, k, v in zip(*(np.split(x, heads, axis=-1) for x in projected)):
        output, map_ = attention(q, k, v, mask)
        outputs.append(output)
        maps.append(map_)
    return linear(np.concatenate(outputs, axis=-1), weights, "output"), np.stack(maps)


ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0.0),
    "gelu": lambda x: x * 0.5 * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0))),
    "swish": lambda x: x / (1.0 + np.exp(-x)),
}


def feed_forward(x, weights, activation="relu"):
    """Equation 2."""
    return linear(ACTIVATIONS[activation](linear(x, weights, "inner")), weights, "outer")


def ssru(x, weights):
    """The simpler simple recurrent unit, one position at a time: (T, D) -> (T, D)."""
    state, outputs = np.zeros(x.shape[-1]), []
    for row in x:
        forget = 1.0 / (1.0 + np.exp(-linear(row, weights, "forget")))
        state = forget * state + (1.0 - forget) * linear(row, weights, "input")
        outputs.append(np.maximum(state, 0.0))
    return np.stack(outputs)


def layer_norm(x, weights, epsilon=1e-6):
    centred = x - x.mean(axis=-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + epsilon)
    return centred / deviation * weights["gamma"] + weights["beta"]


def position(length, dim, kind="sinusoidal", start=0):
    """Section 3.5, one number at a time: (length, dim)."""
    table = np.zeros((length, dim))
    for row in range(length):
        for i in range(dim // 2):
            rate = 10000.0 ** (-i / (dim // 2 - 1)) if kind == "t2t" else 10000.0 ** (-2 * i / dim)
            sine, cosine = (2 * i, 2 * i + 1) if kind == "sinusoidal" else (i, dim // 2 + i)
            table[row, sine] = math.sin((start + row) * rate)
            table[row, cosine] = math.cos((start + row) * rate)
    return table


def below(weights, prefix):
    """The weights under `prefix`, with the prefix taken off."""
    return {name[len(prefix) + 1 :]: value for name, value in weights.items() if name.startswith(prefix + "/")}


def residual(x, sublayer, norm_weights, norm, epsilon):
    if norm == "pre":
        return x + sublayer(layer_norm(x, norm_weights, epsilon))
    return layer_norm(x + sublayer(x), norm_weights, epsilon)


def encoder_layer(x, weights, config, mask=None):
    def attend(y):
        return multi_head_attention(y, y, below(weights, "self_attention"), config.num_heads, mask)[0]

    def transform(y):
        return feed_forward(y, below(weights, "feed_forward"), config.activation)

    x = residual(x, attend, below(weights, "self_attention_norm"), config.norm, config.norm_epsilon)
    return residual(x, transform, below(weights, "feed_forward_norm"), config.norm, config.norm_epsilon)


def decoder_layer(x, memory, weights, config, memory_mask=None):
    causal = np.tril(np.ones((len(x), len(x)), bool))

    def attend(y):
        return multi_head_attention(y, y, below(weights, "self_attention"), config.num_heads, causal)[0]

    def look(y):
        return multi_head_attention(y, memory, below(weights, "cross_attention"), config.num_heads, memory_mask)[0]

    def transform(y):
        return feed_forward(y, below(weights, "feed_forward"), config.activation)

    def recur(y):
        return ssru(y, below(weights, "ssru"))

    if config.decoder_autoregression == "ssru":
        x = residual(x, recur, below(weights, "ssru_norm"), config.norm, config.norm_epsilon)
    else:
        x = residual(x, attend, below(weights, "self_attention_norm"), config.norm, config.norm_epsilon)
    x = residual(x, look, below(weights, "cross_attention_norm"), config.norm, config.norm_epsilon)
    return residual(x, transform, below(weights, "feed_forward_norm"), config.norm, config.norm_epsilon)


def transformer(source, target, weights, config):
    """One unpadded sentence pair of ids (S,), (T,) -> logits (T, V)."""
    tables = {"source": weights["source_embedding/table"]}
    tables["target"] = weights.get("target_embedding/table", tables["source"])
    tables["output"] = weights.get("output_embedding/table", tables["target"])

    def embed(ids, side):
        rows = tables[side][ids] * (math.sqrt(config.model_dim) if config.scale_embeddings else 1.0)
        if config.positions == "learned":
            rows = rows + weights[f"{side}_positions/table"][: len(ids)]
        else:
            rows = rows + position(len(ids), config.model_dim, config.positions, config.position_offset)
        if config.embedding_norm:
            rows = layer_norm(rows, below(weights, f"{side}_norm"), config.norm_epsilon)
        return rows

    memory = embed(source, "source")
    for index in range(config.num_layers):
        memory = encoder_layer(memory, below(weights, f"encoder/layer_{index}"), config)
    x = embed(target, "target")
    if config.norm == "pre":
        memory = layer_norm(memory, below(weights, "encoder/final_norm"), config.norm_epsilon)
    for index in range(config.decoder_layers):
        x = decoder_layer(x, memory, below(weights, f"decoder/layer_{index}"), config)
    if config.norm == "pre":
        x = layer_norm(x, below(weights, "decoder/final_norm"), config.norm_epsilon)
    logits = x @ tables["output"].T
    return logits + weights["output_bias"] if "output_bias" in weights else logits


def weights_of(layer):
    """The weights of a Keras layer in float64, by their path below it."""
    values = {}
    for variable in layer.trainable_variables:
        path = variable.path.split("/")
        root = path.index(layer.name) + 1 if layer.name in path else 0
        values["/".join(path[root:])] = np.asarray(variable.numpy(), "float64")
    return values


def randomize(layer, seed=3, scale=0.4):
    """Gives every weight a random value: zero biases and unit gains would hide mistakes."""
    random = np.random.default_rng(seed)
    for variable in layer.trainable_variables:
        variable.assign(random.normal(1.0 if variable.path.endswith("gamma") else 0.0, scale, variable.shape))
