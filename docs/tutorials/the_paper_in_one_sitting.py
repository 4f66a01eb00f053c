# %% [markdown]
# # The paper in one sitting
#
# "Attention Is All You Need" ([arXiv 1706.03762](https://arxiv.org/abs/1706.03762)) in ten steps: attention, masks,
# heads, positions, the layers, the model, the loss, the learning rate schedule, a small training run, and beam
# search. Each step first computes the paper's formula in a few lines of NumPy and then compares it with the library.
#
# This page is a script. Run it in a checkout (`make install` first), in an editor that knows `# %%` cells, or with
#
# ```bash
# python docs/tutorials/the_paper_in_one_sitting.py
# ```
#
# It takes a few minutes on two CPU cores and writes its plots to `plots/` in the current directory.

# %%
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import matplotlib
import numpy as np
import tensorflow as tf

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from tf_transformer import LabelSmoothedCrossEntropy, NoamSchedule, Transformer, layers
from tf_transformer.decoding import SearchOptions, search_ids

keras.utils.set_random_seed(1)
random = np.random.default_rng(1)
plots = pathlib.Path("plots")
plots.mkdir(exist_ok=True)


def save(name):
    """Write the current figure to `plots/`."""
    plt.savefig(plots / f"{name}.png", dpi=60, bbox_inches="tight")
    plt.close()


# %% [markdown]
# ## 1. Attention
#
# Attention is a lookup (section 3.2.1). A *query* is compared with every *key*; the result is the mean of the *values*,
# weighted by similarity:
#
#     Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V
#
# The division keeps the dot products from growing with the width d_k. Without it the softmax saturates: nearly all
# weight falls on one key, and its gradient vanishes.


# %%
def softmax(x):
    x = np.exp(x - x.max(axis=-1, keepdims=True))
    return x / x.sum(axis=-1, keepdims=True)


def attention(query, key, value, mask=None):
    """The paper's equation 1. `mask` is True where a query may attend."""
    logits = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        logits = np.where(mask, logits, -1e9)
    weights = softmax(logits)
    return weights @ value, weights


query, key, value = (random.normal(size=(1, 2, length, 16)).astype("float32") for length in (3, 5, 5))
expected, weights = attention(query, key, value)
output, _ = layers.scaled_dot_product_attention(query, key, value)  # (batch, heads, length, width)
print("weights of the first query:", weights[0, 0, 0].round(2), "sum", weights[0, 0, 0].sum().round(6))
np.testing.assert_allclose(output, expected, atol=1e-5)

# %% [markdown]
# How strong is the effect of the division? With unit-variance queries and keys, a dot product has the variance d_k:

# %%
for width in (4, 64, 1024):
    query, key = random.normal(size=(1000, width)), random.normal(size=(8, width))
    largest = [softmax(query @ key.T / scale).max(axis=-1).mean() for scale in (1, np.sqrt(width))]
    print(f"d_k = {width:4}: mean of the largest weight {largest[0]:.2f} unscaled, {largest[1]:.2f} scaled")

# %% [markdown]
# ## 2. Masks
#
# Two kinds of positions must not be seen (section 3.2.3): padding, and in the decoder everything to the right of the
# current position. Masks are boolean; `True` means *may attend*. Their logits become very small, so their weights
# become zero.

# %%
ids = np.array([[11, 12, 13, 14, 0, 0]])  # 0 is PAD
causal = np.tril(np.ones((6, 6), bool))
padding = np.array(layers.padding_mask(ids))  # (1, 6)
mask = causal[None] & padding[:, None, :]  # (1, 6, 6)
x = random.normal(size=(1, 1, 6, 16)).astype("float32")
expected, weights = attention(x, x, x, mask[:, None])
output, _ = layers.scaled_dot_product_attention(x, x, x, mask=padding[:, None, :], causal=True)
np.testing.assert_allclose(output, expected, atol=1e-5)

figure, axes = plt.subplots(1, 4, figsize=(12, 3))
pictures = {"causal": causal, "padding": np.broadcast_to(padding, (6, 6)), "both": mask[0], "weights": weights[0, 0]}
for axis, (title, picture) in zip(axes, pictures.items()):
    axis.imshow(picture, cmap="Blues", vmin=0, vmax=1)
    axis.set(title=title, xlabel="key", ylabel="query")
save("masks")

# %% [markdown]
# ![The causal mask, the padding mask, both combined, and the resulting weights](../pictures/tutorial-masks.png)
#
# ## 3. Heads
#
# One attention computes one weighted mean per position. Multi-head attention (section 3.2.2) projects queries, keys
# and values into h subspaces, attends in each, and projects the concatenated results back:
#
#     MultiHead(Q, K, V) = Concat(head_1, …, head_h) W^O,   head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V)
#
# With d_k = d_model / h this costs about as much as one head of full width. The layer has the four projections as
# weights; the loop below is the formula.

# %%
heads, width = 4, 32
layer = layers.MultiHeadAttention(num_heads=heads, key_dim=width // heads, use_bias=False)
x = random.normal(size=(2, 5, width)).astype("float32")
y = random.normal(size=(2, 7, width)).astype("float32")
output = np.array(layer(x, y))
kernels = {weight.path.split("/")[-2]: keras.ops.convert_to_numpy(weight) for weight in layer.weights}
print({name: kernel.shape for name, kernel in kernels.items()})

query, key, value, out = (kernels[name].reshape(width, width) for name in ("query", "key", "value", "output"))
parts = []
for head in range(heads):
    columns = slice(head * width // heads, (head + 1) * width // heads)
    parts.append(attention(x @ query[:, columns], y @ key[:, columns], y @ value[:, columns])[0])
np.testing.assert_allclose(output, np.concatenate(parts, axis=-1) @ out, atol=1e-5)

# %% [markdown]
# ## 4. Positions
#
# Attention ignores order: a permutation of the keys changes nothing. So positions are added to the embeddings
# (section 3.5), as sines and cosines of different wavelengths:
#
#     PE(pos, 2i)     = sin(pos / 10000^(2i / d_model))
#     PE(pos, 2i + 1) = cos(pos / 10000^(2i / d_model))

# %%
positions, width = np.arange(100), 64
angles = positions[:, None] / 10000 ** (2 * np.arange(width // 2) / width)
encoding = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(100, width)
np.testing.assert_allclose(layers.sinusoidal_encoding(positions, width), encoding, atol=1e-4)

figure, axes = plt.subplots(1, 2, figsize=(11, 3.5))
axes[0].imshow(encoding.T, aspect="auto", cmap="RdBu")
axes[0].set(title="encoding", xlabel="position", ylabel="dimension")
for position in (10, 50, 90):
    axes[1].plot(encoding @ encoding[position], label=f"position {position}")
axes[1].set(title="dot product with all positions", xlabel="position")
axes[1].legend()
save("positions")

# %% [markdown]
# ![Sinusoidal encodings and their dot products](../pictures/tutorial-positions.png)
#
# The dot product of two positions depends only on their distance and is largest at distance 0. The next lines verify
# the reason the authors give for choosing sines: a shift by k positions is a rotation, the same one at every
# position.

# %%
shift, rates = 7, 1 / 10000 ** (2 * np.arange(width // 2) / width)
sine, cosine = encoding[:, 0::2], encoding[:, 1::2]
rotated = sine * np.cos(shift * rates) + cosine * np.sin(shift * rates)
np.testing.assert_allclose(rotated[:-shift], sine[shift:], atol=1e-6)

# %% [markdown]
# ## 5. A layer
#
# An encoder layer has two sub-layers, self-attention and a position-wise feed-forward network (sections 3.1 and 3.3):
#
#     FFN(x) = max(0, x W_1 + b_1) W_2 + b_2
#
# Around each is a residual connection, followed by layer normalization:
# `LayerNorm(x + Sublayer(x))`. A decoder layer has a third sub-layer in between: attention to the encoder's output.

# %%
encoder_layer = layers.EncoderLayer(num_heads=4, key_dim=8, value_dim=8, feed_forward_dim=64)
x = random.normal(size=(2, 5, 32)).astype("float32")
y = np.array(encoder_layer(x))
print("mean and standard deviation of each position:", y.mean(axis=-1).round(3)[0], y.std(axis=-1).round(3)[0])
assert y.shape == x.shape

# %% [markdown]
# ## 6. The model
#
# Embedding, positions, N encoder layers, N decoder layers, and the logits, which share their matrix with the embedding
# (section 3.4). The paper's base model:

# %%
base = Transformer.from_preset("base", vocab_size=37000)
base({"source": np.array([[11, 3]]), "target": np.array([[2, 12]])})
print(f"base has {base.count_params() / 1e6:.1f} million parameters")

# %% [markdown]
# ## 7. The loss
#
# The target distribution is smoothed (section 5.4): the correct word gets 0.9 of the probability and all words share
# the remaining 0.1. That hurts perplexity and improves BLEU. The smallest possible loss is no longer zero but the
# entropy of the smoothed distribution.

# %%
vocab_size, smoothing = 10, 0.1
smoothed = np.full(vocab_size, smoothing / vocab_size)
smoothed[4] += 1 - smoothing
loss = LabelSmoothedCrossEntropy(smoothing)
perfect = np.log(smoothed)[None, None].astype("float32")
confident = (perfect * 10).astype("float32")
labels = np.array([[4]])
entropy = -(smoothed * np.log(smoothed)).sum()
print(f"smallest loss {entropy:.3f}; perfect logits {float(loss(labels, perfect)):.3f}, "
      f"over-confident ones {float(loss(labels, confident)):.3f}")  # fmt: skip
np.testing.assert_allclose(loss(labels, perfect), entropy, atol=1e-4)

# %% [markdown]
# ## 8. The learning rate schedule
#
# The rate rises linearly for some steps and then falls with the inverse square root (section 5.3):
#
#     rate = d_model^-0.5 · min(step^-0.5, step · warmup^-1.5)

# %%
steps = np.arange(1, 20001)
schedules = {
    "base, warm-up 4000": (512, 4000),
    "base, warm-up 8000": (512, 8000),
    "width 256, warm-up 4000": (256, 4000),
}
plt.figure(figsize=(6, 3.5))
for name, (width, warmup) in schedules.items():
    rates = np.array(NoamSchedule(width, warmup_steps=warmup)(steps))
    np.testing.assert_allclose(rates, width**-0.5 * np.minimum(steps**-0.5, steps * warmup**-1.5), rtol=1e-4)
    plt.plot(steps, rates, label=name)
plt.xlabel("step")
plt.ylabel("learning rate")
plt.legend()
save("schedule")

# %% [markdown]
# ![The learning rate for two widths and two warm-ups](../pictures/tutorial-schedule.png)
#
# ## 9. A small training run
#
# The task: sort. The source is a sequence of random ids, the target is the same ids in ascending order. It needs no
# data, it cannot be solved position by position, and one can see in the attention how the model solves it.

# %%
PAD, UNK, BOS, EOS, FIRST, VOCABULARY, LENGTH = 0, 1, 2, 3, 4, 40, 8


def examples(count):
    """Sources, decoder inputs and labels (N, L + 1); every id occurs at most once in a row."""
    ids = np.argsort(random.random((count, VOCABULARY - FIRST)))[:, :LENGTH] + FIRST
    lengths = random.integers(3, LENGTH + 1, count)[:, None]
    kept = np.arange(LENGTH) < lengths
    source, target = np.where(kept, ids, PAD), np.sort(np.where(kept, ids, VOCABULARY), axis=1)
    target = np.where(kept, target, PAD)
    end = np.arange(LENGTH + 1) == lengths
    pad, bos = np.full((count, 1), PAD), np.full((count, 1), BOS)
    source, labels = (np.where(end, EOS, np.hstack([side, pad])) for side in (source, target))
    return {"source": source, "target": np.hstack([bos, target])}, labels


inputs, labels = examples(3)
for name, rows in {**inputs, "labels": labels}.items():
    print(f"{name:7}", rows[0])

# %% [markdown]
# The model is the preset `tiny` with a small vocabulary. `fit` is Keras' own; padding does not count in the loss.

# %%
model = Transformer.from_preset("tiny", vocab_size=VOCABULARY)
schedule = NoamSchedule(model_dim=128, warmup_steps=300)
model.compile(
    optimizer=keras.optimizers.Adam(schedule, beta_1=0.9, beta_2=0.98, epsilon=1e-9),
    loss=LabelSmoothedCrossEntropy(0.1),
)
train, validation = examples(50_000), examples(1_000)
history = model.fit(*train, validation_data=validation, batch_size=100, epochs=3, verbose=2)


# %% [markdown]
# How many tokens are right, and how many whole rows?


# %%
def accuracy(inputs, labels):
    """The share of the tokens, and of whole rows, that are predicted correctly with the labels' prefix."""
    logits = model.predict(inputs, batch_size=500, verbose=0)
    right, counts = np.argmax(logits, axis=-1) == labels, labels != PAD
    return (right & counts).sum() / counts.sum(), (right | ~counts).all(axis=1).mean()


tokens, rows = accuracy(*validation)
print(f"validation: {tokens:.1%} of the tokens and {rows:.1%} of the rows are right")
plt.figure(figsize=(6, 3.5))
epochs = range(1, len(history.history["loss"]) + 1)
plt.plot(epochs, history.history["loss"], marker="o", label="training (with dropout)")
plt.plot(epochs, history.history["val_loss"], marker="o", label="validation")
plt.xlabel("epoch")
plt.ylabel("smoothed loss")
plt.legend()
save("training")

# %% [markdown]
# ![Training and validation loss](../pictures/tutorial-training.png)
#
# ## 10. Decoding
#
# At inference the target is not known. Greedy search appends the most probable token until EOS. This loop computes
# all earlier positions again at each step; the search of the library (below) keeps their keys and values in a cache.


# %%
def sort_greedily(source):
    """Ids (N, L) that the model writes for `source` (N, S), one position at a time."""
    memory, target = model.encode(source), np.full((len(source), 1), BOS)
    for _ in range(LENGTH + 1):
        logits = model.decode(target, memory, source != PAD)
        target = np.hstack([target, np.argmax(logits[:, -1:], axis=-1)])
    return target[:, 1:]


inputs, labels = examples(200)
written = sort_greedily(inputs["source"])
correct = ((written == labels) | (labels == PAD)).all(axis=1).mean()
print("source ", inputs["source"][0])
print("written", written[0])
print(f"{correct:.1%} of 200 new rows are sorted correctly")
assert correct > 0.8, "the training run did not learn to sort"

# %% [markdown]
# Beam search keeps several hypotheses (section 6.1). `search_ids` is the search of `tf-transformer translate`, on ids:

# %%
lengths = (inputs["source"] != PAD).sum(axis=1).astype("int32")
options = SearchOptions(eos_id=EOS, beam_size=4, forbidden_ids=(PAD, BOS))
rows = {"source": inputs["source"].astype("int32"), "lengths": lengths, "max_lengths": lengths + 5}
found = search_ids(model, {name: tf.constant(value) for name, value in rows.items()}, options)
for ids, score in zip(found.ids[0], found.scores[0]):
    print(f"score {float(score):7.3f}", [int(i) for i in ids if i != PAD])

# %% [markdown]
# Where does the model look while it writes? The cross-attention of each head, one row per written id:

# %%
row = {name: rows[:1] for name, rows in inputs.items()}
_, maps = model(row, return_attention_scores=True)
count = int(lengths[0])
figure, axes = plt.subplots(1, 4, figsize=(12, 3.5))
for head, axis in enumerate(axes):
    axis.imshow(maps["cross"][-1][0, head, :count, :count], cmap="Blues", vmin=0, vmax=1)
    axis.set(title=f"last layer, head {head + 1}", xticks=range(count), yticks=range(count))
    axis.set_xticklabels([*row["source"][0, : count - 1], "EOS"], rotation=90)
    axis.set_yticklabels([*labels[0, : count - 1], "EOS"])
save("cross-attention")

# %% [markdown]
# ![Cross-attention of the last layer while the model sorts](../pictures/tutorial-cross-attention.png)
#
# ## Where to go next
#
# - Train on text: [Your first translator](first-translator.md).
# - Run the paper's own experiments: [Reproduce the paper](../how-to/reproduce-the-paper.md).
# - Use the parts in your own model: [Use the layers](../how-to/use-the-layers.md).
