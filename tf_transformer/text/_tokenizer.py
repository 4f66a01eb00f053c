"""Tokenizer: text to ids and back, with the same ids in Python and in a TensorFlow graph, and its files."""

import dataclasses
import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_text
from tensorflow_text.python.ops import sentencepiece_tokenizer  # Private API: see tests/unit/test_private_apis.py

from tf_transformer._files import atomic_write, write_text
from tf_transformer.text._languages import LANGUAGES_FILE, Languages
from tf_transformer.text._model_file import TokenizerError, read_model_file
from tf_transformer.text._subwords import IdMap, Subwords
from tf_transformer.text._vocabulary import train_model

SHARED, SOURCE, TARGET = "tokenizer", "source", "target"


class Tokenizer(tf.Module):
    """SentencePiece tokenizer: `encode`/`decode` in Python, `tokenize`/`detokenize` in the graph.

    Both give the same ids for every string. Bytes that are not UTF-8 count as U+FFFD; literal control symbols
    (`</s>`, `<pad>`) are text. A SavedModel whose root holds a Tokenizer carries the model inside: it reads no
    files, and uses none but TensorFlow's own ops and the SentencePiece ops of tensorflow_text.

    Args:
        model: the bytes of the SentencePiece model; they are checked.
        id_map: the table to the Transformer's ids, for models trained elsewhere.
        name: what error messages call the model.

    Example:
        tokenizer = Tokenizer.from_file("tokenizer.model")
        tokenizer.decode(tokenizer.encode("Hello world."))     # "Hello world."
        tokenizer.tokenize(tf.constant(["Hello world.", ""]))  # RaggedTensor, each row ends in EOS

    Rows end in EOS unless `add_eos` of the table of ids is False.
    """

    def __init__(self, model: bytes, id_map: IdMap | None = None, name: str = "the SentencePiece model") -> None:
        super().__init__(name="tokenizer")
        self._subwords = Subwords(model, id_map, name)
        self.add_eos: bool = self._subwords.add_eos
        self._op = tensorflow_text.SentencepieceTokenizer(model, out_type=tf.int32, add_eos=self.add_eos)
        self._op._model_resource = _LastingModel(model, self._subwords.sha256)
        self.vocab_size: int = self._subwords.vocab_size
        self.pad_id: int = self._subwords.pad_id
        self.unk_id: int = self._subwords.unk_id
        self.bos_id: int = self._subwords.bos_id
        self.eos_id: int = self._subwords.eos_id
        self.sha256: str = self._subwords.sha256

    @classmethod
    def from_file(cls, path: str | pathlib.Path, id_map: IdMap | None = None) -> "Tokenizer":
        """The tokenizer of the SentencePiece model at `path`; a bad file is a TokenizerError naming it."""
        return cls(read_model_file(path), id_map, str(path))

    @property
    def model(self) -> bytes:
        """The bytes of the SentencePiece model."""
        return self._subwords.model

    @property
    def id_map(self) -> IdMap | None:
        return self._subwords.id_map

    @property
    def subwords(self) -> Subwords:
        """The tokenizer in Python only, which can be sent to other processes."""
        return self._subwords

    def encode(self, text: str | bytes) -> list[int]:
        """The ids of `text`, ending in EOS."""
        return self._subwords.encode(text)

    def encode_batch(self, texts: Iterable[str | bytes]) -> list[list[int]]:
        return self._subwords.encode_batch(texts)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids` up to the first EOS or pad."""
        return self._subwords.decode(ids)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The piece of each id."""
        return self._subwords.pieces(ids)

    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """The ids of each string: text [N] string to a RaggedTensor [N, (length)] int32, rows ending in EOS."""
        ids = self._op.tokenize(_valid_utf8(tf.convert_to_tensor(text, tf.string)))
        if self.id_map is None:
            return ids
        return ids.with_flat_values(tf.gather(self.id_map.to_model(), ids.flat_values))

    def piece_spans(self, text: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Start and end of the piece of each id of `tokenize`: offsets in bytes of the valid UTF-8 of text [N].

        Two RaggedTensors [N, (length)] int32. Pieces contain the space before them; EOS has the span (0, 0).
        """
        _, starts, ends = self._op.tokenize_with_offsets(_valid_utf8(tf.convert_to_tensor(text, tf.string)))
        return tuple(spans.with_flat_values(tf.cast(spans.flat_values, tf.int32)) for spans in (starts, ends))

    def surface_sizes(self, ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Bytes that each id adds to its text in `detokenize`, and how many of them are leading spaces: int32."""
        pieces = self._to_pieces(ids)
        return tuple(tf.gather(tf.constant(table), pieces) for table in self._subwords.surface_sizes())

    def detokenize(self, ids: tf.Tensor) -> tf.Tensor:
        """The text of each row: ids [N, L] int32 to [N] string, always valid UTF-8.

        What follows the first EOS or pad of a row is ignored; ids outside the vocabulary count as unknown.
        """
        ids = tf.cast(ids, tf.int32)
        stops = tf.cast((ids == self.eos_id) | (ids == self.pad_id), tf.int32)
        kept = (tf.cumsum(stops, axis=1) == 0) & (ids != self.bos_id)
        ids = tf.where((ids >= 0) & (ids < self.vocab_size), ids, self.unk_id)
        text = self._op.detokenize(tf.ragged.boolean_mask(self._to_pieces(ids), kept))
        return tf.strings.strip(_valid_utf8(text))

    def piece_strings(self, ids: tf.Tensor) -> tf.Tensor:
        """The piece of each id, for display: ids of any shape, within the vocabulary, to strings."""
        return self._op.id_to_string(self._to_pieces(ids))

    def piece_texts(self, ids: tf.Tensor) -> tf.Tensor:
        """The text that the piece of each id adds; not for vocabularies with byte fallback. Shapes as they are."""
        return tf.gather(tf.constant(self._subwords.texts()), ids)

    @property
    def byte_fallback(self) -> bool:
        """Whether no text is unknown, because each byte has a piece."""
        return self._subwords.byte_fallback

    def _to_pieces(self, ids: tf.Tensor) -> tf.Tensor:
        if self.id_map is None:
            return ids
        return tf.gather(self.id_map.to_pieces(self._subwords.unknown_piece), ids)


class _LastingModel(tf.saved_model.experimental.TrackableResource):
    """The SentencePiece model in TensorFlow's memory, under a name of its own.

    tensorflow_text gives it none, and it is then lost with TensorFlow's cache of kernels: `tf.random.set_seed` and
    `keras.utils.set_random_seed` empty that.
    """

    def __init__(self, model: bytes, name: str) -> None:
        super().__init__()
        self._model, self._shared_name = model, name
        _ = self.resource_handle  # reading it creates the resource

    def _create_resource(self) -> Any:
        make = sentencepiece_tokenizer.gen_sentencepiece_tokenizer.sentencepiece_op
        return make(model=self._model, shared_name=self._shared_name)


def _valid_utf8(text: tf.Tensor) -> tf.Tensor:
    """`text` with each bad byte sequence replaced by U+FFFD, as Python's "replace" does it."""
    return tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="replace")


def train_tokenizer(texts: Iterable[str | bytes], vocab_size: int, **options: Any) -> Tokenizer:
    """A new tokenizer of `vocab_size` pieces; `options` are those of `vocabulary.train_model`."""
    return Tokenizer(train_model(texts, vocab_size, **options))


@dataclasses.dataclass(frozen=True)
class TokenizerPair:
    """The tokenizer of the source text and that of the target text.

    Files, in a prepared directory and in a WORKDIR: `tokenizer.model` if they are shared, else `source.model`
    and `target.model`; beside each, for models trained elsewhere, its table of ids (`source.ids.json`); and the
    languages of a multilingual model (`languages.json`).
    """

    source: Tokenizer
    target: Tokenizer
    languages: Languages | None = None

    @classmethod
    def of(cls, shared: Tokenizer) -> "TokenizerPair":
        """One tokenizer for both sides."""
        return cls(shared, shared)

    @property
    def shared(self) -> bool:
        return self.source.sha256 == self.target.sha256

    @property
    def sha256(self) -> dict[str, str]:
        """The hash per side, equal for tokenizers with the same ids."""
        return {SOURCE: self.source.sha256, TARGET: self.target.sha256}


def save_tokenizers(tokenizers: TokenizerPair, directory: str | os.PathLike) -> list[pathlib.Path]:
    """Write the files of `tokenizers` into `directory` and return their paths."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    paths = _save_models(tokenizers, directory)
    if tokenizers.languages is not None:
        paths.append(directory / LANGUAGES_FILE)
        write_text(paths[-1], tokenizers.languages.to_json())
    return paths


def _save_models(tokenizers: TokenizerPair, directory: pathlib.Path) -> list[pathlib.Path]:
    if tokenizers.shared:
        return _save(tokenizers.source, directory, SHARED)
    return _save(tokenizers.source, directory, SOURCE) + _save(tokenizers.target, directory, TARGET)


def load_tokenizers(directory: str | os.PathLike) -> TokenizerPair:
    """The tokenizers whose files are in `directory`; a missing or bad file is a TokenizerError naming it."""
    directory = pathlib.Path(directory)
    if (directory / f"{SHARED}.model").exists():
        return _with_languages(TokenizerPair.of(_load(directory, SHARED)), directory)
    if (directory / f"{SOURCE}.model").exists():
        return _with_languages(TokenizerPair(_load(directory, SOURCE), _load(directory, TARGET)), directory)
    raise TokenizerError(
        f"Expected tokenizer.model, or source.model and target.model, in {directory}. Received: neither. "
        "Is it a prepared directory or a WORKDIR?"
    )


def _with_languages(tokenizers: TokenizerPair, directory: pathlib.Path) -> TokenizerPair:
    """The tokenizers with the languages beside them, if there are any."""
    file = directory / LANGUAGES_FILE
    if not file.is_file():
        return tokenizers
    size = min(tokenizers.source.vocab_size, tokenizers.target.vocab_size)
    return dataclasses.replace(tokenizers, languages=Languages.from_file(file, size))


def _load(directory: pathlib.Path, stem: str) -> Tokenizer:
    table = directory / f"{stem}.ids.json"
    return Tokenizer.from_file(directory / f"{stem}.model", IdMap.from_file(table) if table.exists() else None)


def _save(tokenizer: Tokenizer, directory: pathlib.Path, stem: str) -> list[pathlib.Path]:
    paths = [directory / f"{stem}.model"]
    with atomic_write(paths[0]) as stream:
        stream.write(tokenizer.model)
    if tokenizer.id_map is not None:
        paths.append(directory / f"{stem}.ids.json")
        write_text(paths[1], tokenizer.id_map.to_json())
    return paths
