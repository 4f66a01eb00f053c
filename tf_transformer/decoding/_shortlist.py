"""Lexical shortlist: a sentence is translated with the target ids that its source ids suggest, and frequent ones.

Logits are computed for the union of a batch's candidates only, and each row is masked to its own. So the projection to
the vocabulary, a third of a step, becomes small, and a row does not depend on the others in its batch.
"""

import dataclasses
import os
import pathlib
import zipfile
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tf_transformer._files import atomic_write, sha256_of_file
from tf_transformer.decoding._candidates import COLUMN_BLOCK, MIN_COLUMNS
from tf_transformer.decoding._options import CandidateVocabulary
from tf_transformer.text import TokenizerPair

_FORMAT = 1


@dataclasses.dataclass(frozen=True)
class Shortlist:
    """Table of the target ids that may translate each source id.

    Attributes:
        table: (source vocabulary, W) int32; rows with fewer candidates are filled up with `frequent[0]`.
        frequent: (F,) int32, ids that are candidates of every sentence; the first is EOS.
        vocab_size: of the target.
        tokenizers: SHA-256 of the source and the target tokenizer whose ids these are.
    """

    table: np.ndarray
    frequent: np.ndarray
    vocab_size: int
    tokenizers: dict[str, str]

    def __post_init__(self) -> None:
        for name in ("table", "frequent"):
            ids = getattr(self, name)
            if ids.dtype != np.int32 or not ids.size or ids.min() < 0 or ids.max() >= self.vocab_size:
                raise ValueError(
                    f"Expected `{name}` of a shortlist to hold int32 ids from 0 to {self.vocab_size - 1}. Received: "
                    f"{ids.dtype} of shape {ids.shape}. Build the shortlist again."
                )

    @classmethod
    def of(cls, lists: np.ndarray, frequent: np.ndarray, tokenizers: TokenizerPair) -> "Shortlist":
        """The shortlist of a lexical table.

        EOS is added to the frequent ids and, where source and target share a vocabulary, each id to its own list:
        names and numbers are copied.

        Args:
            lists: (source vocabulary, W) integers, target ids; negative: none.
            frequent: (F,) integers.
        """
        eos = tokenizers.target.eos_id
        table = np.where(lists < 0, eos, lists).astype(np.int32)
        if tokenizers.shared:
            table = np.concatenate([table, np.arange(len(table), dtype=np.int32)[:, None]], axis=1)
        always = np.concatenate([[eos], frequent[frequent != eos]]).astype(np.int32)
        return cls(table, always, tokenizers.target.vocab_size, tokenizers.sha256)

    def save(self, path: str | os.PathLike) -> None:
        """Write the shortlist to a file, an archive of NumPy arrays."""
        facts = np.array([f"{side}={sha256}" for side, sha256 in sorted(self.tokenizers.items())])
        with atomic_write(path) as stream:
            np.savez_compressed(
                stream, format=_FORMAT, table=self.table, frequent=self.frequent, vocab_size=self.vocab_size,
                tokenizers=facts,
            )  # fmt: skip

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Shortlist":
        """Read a file that `save` wrote."""
        try:
            with np.load(path, allow_pickle=False) as arrays:
                if int(arrays["format"]) != _FORMAT:
                    raise ValueError(f"format {int(arrays['format'])}")
                tokenizers = dict(str(each).partition("=")[::2] for each in arrays["tokenizers"])
                return cls(arrays["table"], arrays["frequent"], int(arrays["vocab_size"]), tokenizers)
        except FileNotFoundError:
            raise
        except (ValueError, KeyError, TypeError, EOFError, OSError, zipfile.BadZipFile) as error:
            raise ValueError(
                f"{path}: expected a shortlist that `tf-transformer shortlist` wrote. Received: {error}. Build it "
                "again, with --marian if it is a `lex` file of Marian."
            ) from None

    def facts(self, path: str | os.PathLike | None = None) -> dict[str, object]:
        """Sizes of the table, and the SHA-256 of its file, for model cards and records."""
        file = {} if path is None else {"file": pathlib.Path(path).name, "sha256": sha256_of_file(path)}
        return {"per_source_id": self.table.shape[1], "frequent": len(self.frequent), **file}

    def candidates_of(self, ids: list[int]) -> np.ndarray:
        """The candidates of one sentence, given its source ids; for figures, outside of the graph."""
        return np.unique(np.concatenate([self.table[ids].reshape(-1), self.frequent]))


class Candidates(NamedTuple):
    """Candidates of a batch.

    vocabulary: the union, with its columns of logits.
    allowed: (B, U) bool, the columns that are candidates of each row.
    """

    vocabulary: CandidateVocabulary
    allowed: tf.Tensor


class CandidateTable(tf.Module):
    """A shortlist in the graph. Its table is a variable, so that an export stores it once for all signatures."""

    def __init__(self, shortlist: Shortlist):
        super().__init__(name="shortlist")
        always = np.zeros(shortlist.vocab_size, np.bool_)
        always[shortlist.frequent] = True
        with tf.device("/CPU:0"):
            self.table = tf.Variable(shortlist.table, trainable=False, name="shortlist_table")
            self.always = tf.Variable(always, trainable=False, name="shortlist_frequent")

    def of(self, source: tf.Tensor, lengths: tf.Tensor, prefix: tf.Tensor | None = None) -> Candidates:
        """The candidates of a batch.

        Args:
            source: (B, S) int32, of which the first `lengths` (B,) count.
            prefix: (B, P) int32, ids that a row's output begins with, or padding.
        """
        batch, vocab_size = tf.shape(source)[0], self.always.shape[0]
        counted = tf.range(tf.shape(source)[1]) < lengths[:, None]
        listed = tf.gather(self.table, source)  # (B, S, W)
        listed = tf.where(counted[..., None], listed, listed[:, :1, :1])
        listed = tf.reshape(listed, [batch, tf.shape(source)[1] * self.table.shape[1]])
        if prefix is not None:
            listed = tf.concat([listed, prefix], axis=1)
        rows = tf.broadcast_to(tf.range(batch)[:, None], tf.shape(listed))
        found = tf.scatter_nd(tf.stack([rows, listed], axis=-1), tf.ones_like(listed), [batch, vocab_size])
        allowed = (found > 0) | self.always[None]
        return _union(allowed, vocab_size)


def candidate_table(
    shortlist: Shortlist | CandidateTable | None, tokenizers: TokenizerPair, sampling: bool = False
) -> CandidateTable | None:
    """A shortlist in the graph; one of other tokenizers, or for sampling, is rejected. A table was checked before."""
    if shortlist is None or isinstance(shortlist, CandidateTable):
        return shortlist
    if sampling:
        raise ValueError("Expected a search with a shortlist. Received: decoding.sampling. Leave out one of them.")
    if shortlist.tokenizers != tokenizers.sha256:
        raise ValueError(
            "Expected a shortlist of the model's tokenizers. Received: one of other tokenizers. Build it from data "
            "that was prepared with the model's tokenizer."
        )
    return CandidateTable(shortlist)


def _union(allowed: tf.Tensor, vocab_size: int) -> Candidates:
    """The columns that any row allows, in the order of their ids; padded to a size that `top_candidates` can divide."""
    anywhere = tf.reduce_any(allowed, axis=0)
    ids = tf.cast(tf.reshape(tf.where(anywhere), [-1]), tf.int32)
    count = tf.size(ids)
    columns = tf.maximum(-(-count // COLUMN_BLOCK) * COLUMN_BLOCK, MIN_COLUMNS)
    padded = tf.pad(ids, [[0, columns - count]])
    own = tf.gather(allowed, padded, axis=1) & (tf.range(columns) < count)
    places = tf.where(anywhere, tf.cumsum(tf.cast(anywhere, tf.int32)) - 1, -1)
    return Candidates(CandidateVocabulary(padded, tf.ensure_shape(places, [vocab_size])), own)
