"""Choice of the attention heads that align words: by agreement of both directions, or by error rate."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tf_transformer.decoding import length_batches, link_words, side_of_text, word_attention
from tf_transformer.evaluation import alignment_score

if TYPE_CHECKING:
    from tf_transformer.config import ModelConfig
    from tf_transformer.model import Transformer
    from tf_transformer.text import TokenizerPair

BATCH_WEIGHTS = 4_000_000
"""Weights between words of all candidates that are held at a time."""

MAX_TOKENS = 256


class AlignmentCandidate(NamedTuple):
    """Heads that could align words.

    heads: as in `decoding.alignment_heads`.
    agreement: F1 between the source word with the largest weight of each target word, and the target word with the
        largest weight of each source word: 0 to 1.
    error_rate: AER of the links; None without gold alignments.
    """

    heads: str
    agreement: float
    error_rate: float | None


Links = tuple[Iterable[tuple[int, int]], Iterable[tuple[int, int]]]
"""Sure and possible links of one pair."""


def compare_alignment_heads(
    model: "Transformer",
    tokenizers: "TokenizerPair",
    pairs: Iterable[tuple[str, str]],
    gold: Iterable[Links] | None = None,
) -> list[AlignmentCandidate]:
    """Each head, each layer, and each run of upper layers of the decoder, the best first.

    The best one has the lowest error rate, or without gold alignments the highest agreement.

    Args:
        pairs: (source, translation), text; a few hundred are enough.
        gold: sure and possible links of each pair, between words as `text.split_words` gives them.
    """
    rows = list(pairs)
    if not rows:
        raise ValueError("Expected sentence pairs to compare heads over. Received: none.")
    names = candidate_heads(model.config)
    agreed, chosen = np.zeros(len(names)), np.zeros(len(names))
    links: list[list[set]] = [[] for _ in rows]
    for batch, weights in _batches(model, tokenizers, rows, names):
        forward, backward = _largest(weights, -1), _largest(weights, -2)
        agreed += 2 * (forward & backward).sum(axis=(0, 2, 3))
        chosen += forward.sum(axis=(0, 2, 3)) + backward.sum(axis=(0, 2, 3))
        for row, linked in zip(batch, link_words(weights).numpy() if gold is not None else ()):
            links[row] = [{(int(i), int(j)) for j, i in zip(*np.nonzero(each))} for each in linked]
    rates: list[float | None] = [None] * len(names)
    if gold is not None:
        sure, possible = zip(*gold, strict=True)
        rates = [alignment_score([row[i] for row in links], sure, possible).error_rate for i in range(len(names))]
    found = [AlignmentCandidate(*each) for each in zip(names, agreed / np.maximum(chosen, 1), rates)]
    return sorted(found, key=lambda each: (each.error_rate or 0.0, -each.agreement))


def candidate_heads(config: "ModelConfig") -> dict[str, np.ndarray]:
    """Names of heads, as in `decoding.alignment_heads`, and their shares (layers, H) of the average."""
    layers, heads = config.decoder_layers, config.num_heads
    found = {}
    for layer in range(layers):
        for head in range(heads):
            found[f"{layer + 1}.{head + 1}"] = _shares(layers, heads, [layer], [head])
        found[f"{layer + 1}"] = _shares(layers, heads, [layer])
        if layer < layers - 1:
            upper = range(layer, layers)
            found[",".join(str(number + 1) for number in upper)] = _shares(layers, heads, upper)
    return found


def _shares(layers: int, heads: int, some: Iterable[int], few: Sequence[int] | None = None) -> np.ndarray:
    shares = np.zeros((layers, heads), "float32")
    shares[np.ix_(list(some), list(range(heads) if few is None else few))] = 1
    return shares / shares.sum()


def _batches(
    model: "Transformer", tokenizers: "TokenizerPair", rows: list[tuple[str, str]], names: dict[str, np.ndarray]
) -> Iterator[tuple[list[int], np.ndarray]]:
    """Numbers of pairs, and the weights (B, candidates, target words, source words) between their words."""
    import tensorflow as tf

    shares = tf.constant(np.stack(list(names.values())))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)] * 2, autograph=False)
    def weights(source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        one, _ = side_of_text(source, tokenizers.source, MAX_TOKENS)
        other, _ = side_of_text(target, tokenizers.target, MAX_TOKENS)
        return tf.einsum("clh,blhts->bcts", shares, word_attention(model, one, other))

    def batch_size(longest: int) -> int:
        # Words have about four characters.
        return min(64, BATCH_WEIGHTS // (len(names) * max(longest // 4, 1) ** 2))

    for batch in length_batches([max(map(len, row)) for row in rows], batch_size):
        source, target = zip(*(rows[index] for index in batch))
        yield batch, weights(tf.constant(source), tf.constant(target)).numpy()


def _largest(weights: np.ndarray, axis: int) -> np.ndarray:
    """True for the first of the largest weights along an axis, if there is any."""
    found = np.zeros(weights.shape, bool)
    np.put_along_axis(found, np.expand_dims(weights.argmax(axis=axis), axis), True, axis)
    return found & (weights > 0)


def candidates_text(candidates: Sequence[AlignmentCandidate]) -> str:
    """A table of candidates, one per line."""
    lines = [f"{'heads':<16}  agreement  AER"]
    for each in candidates:
        rate = "-" if each.error_rate is None else f"{100 * each.error_rate:.1f}%"
        lines.append(f"{each.heads:<16}  {100 * each.agreement:8.1f}%  {rate}")
    return "\n".join(lines)
