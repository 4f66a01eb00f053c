"""Attention weights of sentence pairs with the tokens that they belong to."""

import dataclasses
import logging
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tf_transformer._files import atomic_write

if TYPE_CHECKING:
    from tf_transformer.model import Transformer
    from tf_transformer.text import Tokenizer, TokenizerPair

logger = logging.getLogger(__name__)

KINDS = {"encoder": "encoder self-attention", "decoder": "decoder self-attention", "cross": "cross-attention"}


@dataclasses.dataclass(frozen=True, eq=False)
class AttentionMaps:
    """Every layer's and head's weights for one sentence and its translation.

    N encoder layers, M decoder layers, H heads, S source and T target positions. A row of a map is a query, and
    sums to one over the keys that it may attend to.

    Args:
        source: the S tokens that the encoder reads; the last is EOS, in all models but those of
            others that read none.
        target: the T tokens that the decoder reads; the first is BOS.
        predicted: the T tokens that follow them: what the decoder writes at each position.
        encoder: (N, H, S, S) float32.
        decoder: (M, H, T, T).
        cross: (M, H, T, S).
    """

    source: list[str]
    target: list[str]
    predicted: list[str]
    encoder: np.ndarray
    decoder: np.ndarray
    cross: np.ndarray

    def weights(self, kind: str) -> np.ndarray:
        """The weights (layers, H, queries, keys) of "encoder", "decoder" or "cross"."""
        if kind not in KINDS:
            raise ValueError(f"Expected a kind of attention: {', '.join(KINDS)}. Received: {kind!r}.")
        return getattr(self, kind)

    def queries(self, kind: str) -> list[str]:
        """The tokens of the rows. Those of the cross-attention are the words being written, as in an alignment."""
        return {"encoder": self.source, "decoder": self.target, "cross": self.predicted}[kind]

    def keys(self, kind: str) -> list[str]:
        """The tokens of the columns."""
        return self.target if kind == "decoder" else self.source

    def save(self, path: str | os.PathLike) -> None:
        """Write arrays and tokens to one .npz file."""
        with atomic_write(path) as stream:
            np.savez_compressed(stream, **{field.name: getattr(self, field.name) for field in dataclasses.fields(self)})

    @classmethod
    def load(cls, path: str | os.PathLike) -> "AttentionMaps":
        """Load a file that `save` wrote."""
        with np.load(path) as saved:
            tokens = {name: saved[name].tolist() for name in ("source", "target", "predicted")}
            return cls(**tokens, **{kind: saved[kind] for kind in KINDS})


def attention_maps(model: "Transformer", tokenizers: "TokenizerPair", source: str, target: str) -> AttentionMaps:
    """The maps of a `Transformer` for a source sentence and a given translation of it.

    Args:
        model: the Transformer.
        tokenizers: its TokenizerPair.
        source, target: text.
    """
    return maps_of_ids(model, tokenizers, tokenizers.source.encode(source), tokenizers.target.encode(target))


def maps_of_ids(
    model: "Transformer", tokenizers: "TokenizerPair", source: Sequence[int], labels: Sequence[int]
) -> AttentionMaps:
    """The maps of ids: `source`, and `labels`, which the decoder is to write; both end in EOS."""
    decoder_input = [model.config.bos_id, *labels[:-1]]
    inputs = {"source": np.array([source], "int32"), "target": np.array([decoder_input], "int32")}
    _, weights = model(inputs, training=False, return_attention_scores=True)
    return AttentionMaps(
        source=tokenizers.source.pieces(source),
        # BOS is named here, because an imported model may begin with the id of its padding.
        target=["<s>", *tokenizers.target.pieces(decoder_input[1:])],
        predicted=tokenizers.target.pieces(labels),
        **{kind: _stacked(weights[kind]) for kind in KINDS},
    )


def _stacked(layers: Iterable[Any]) -> np.ndarray:
    """The weights (1, H, queries, keys) of each layer as one array (layers, H, queries, keys)."""
    return np.stack([np.asarray(layer, dtype="float32")[0] for layer in layers])


def maps_of_workdir(
    path: str | os.PathLike,
    source: str,
    target: str | None = None,
    checkpoint: str = "auto",
    languages: tuple[str | None, str | None] = (None, None),
) -> AttentionMaps:
    """The maps of a trained model for `source` and its translation.

    Args:
        path: the WORKDIR.
        source: the sentence.
        target: its translation; None: the model's own.
        checkpoint: which one, as in `Workdir.checkpoint`.
        languages: source and target language of a multilingual model; None: those of the work directory.
    """
    from tf_transformer.decoding import Translator
    from tf_transformer.text import Segmenter
    from tf_transformer.workdir import Workdir

    workdir = Workdir(path)
    sentences = len(Segmenter(workdir.dataset_info.get("source_language"))([source])[0])
    if sentences > 1:
        logger.warning(f"The source has {sentences} sentences, and is taken for one: give a single sentence.")
    model = workdir.load_model(checkpoint)
    tokenizers = workdir.tokenizers
    pair = workdir.language_pair(*languages)
    decoding = dataclasses.replace(workdir.config.decoding, segmentation=False)
    translator = Translator(model, tokenizers, decoding, pair[0], target_language=pair[1])
    target = translator([source])[0] if target is None else target
    more = int(tokenizers.languages is not None)
    ids = (
        [_at_most(translator.longest_source - more, tokenizers.source, source, "source")],
        [_at_most(translator.longest_target - more, tokenizers.target, target, "translation")],
    )
    if tokenizers.languages is not None:
        ids = tokenizers.languages.tagged(pair[0] or "", pair[1] or "", *ids)
    return maps_of_ids(model, tokenizers, ids[0][0], ids[1][0])


def _at_most(limit: int, tokenizer: "Tokenizer", text: str, side: str) -> list[int]:
    """The ids of a text as a translator reads it: truncated if too long, one PAD if empty."""
    ids = list(tokenizer.encode(text))
    if len(ids) > limit:
        logger.warning("The %s has %d tokens; the maps are of the %d that the model reads.", side, len(ids), limit)
        ids = [*ids[: limit - 1], tokenizer.eos_id] if tokenizer.add_eos else ids[:limit]
    return ids or [tokenizer.pad_id]
