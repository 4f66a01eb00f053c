"""Marian's lexical shortlist as text: `target source probability` in each line, as its `--shortlist` reads it."""

import array
import gzip
import pathlib
import zlib
from collections.abc import Iterator
from typing import BinaryIO, cast

import numpy as np

from tf_transformer.importing._archive import MAX_RATIO
from tf_transformer.importing._external_model import ImportedModelError
from tf_transformer.importing._settings import shorten
from tf_transformer.text import LineTooLongError, Tokenizer, TokenizerPair, read_lines

_GZIP = b"\x1f\x8b"
_NULL = b"NULL"
# Bytes that any compressed file may unpack to.
_SMALL = 2**20
_FORM = "`target source probability` in each line"


def read_text_shortlist(
    path: pathlib.Path, tokenizers: TokenizerPair, best: int = 100, frequent: int = 100
) -> tuple[np.ndarray, np.ndarray]:
    """Read a `lex.s2t` or `lex.s2t.gz`: (source vocabulary, W) int32, -1 where a list ends; frequent ids.

    As in Marian, unknown tokens count as UNK, pairs with NULL are left out, and of equal pairs the last one counts.

    Args:
        best: target tokens per source token, those with the highest probabilities above 0.
        frequent: so many first rows of the target vocabulary.
    """
    for name, value in (("best", best), ("frequent", frequent)):
        if value < 1:
            raise ValueError(f"Expected {name} of at least 1. Received: {value}.")
    sources, targets, probabilities = _pairs(path, tokenizers)
    lists = _best_targets(sources, targets, probabilities, best, tokenizers.source.vocab_size)
    return lists, _first_rows(tokenizers.target, frequent)


def _pairs(path: pathlib.Path, tokenizers: TokenizerPair) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Source ids, target ids and probabilities of all lines."""
    source_ids, target_ids = _ids_of_tokens(tokenizers.source), _ids_of_tokens(tokenizers.target)
    source_unk, target_unk = tokenizers.source.unk_id, tokenizers.target.unk_id
    sources, targets, probabilities = array.array("i"), array.array("i"), array.array("f")
    known = 0
    for number, line in enumerate(_lines(path), 1):
        fields = line.split()
        if not fields:
            continue
        probability = _probability(fields)
        if probability is None:
            text = line[:80].decode("utf-8", "replace")
            raise ImportedModelError(
                f"{path}, line {number}: expected a shortlist of Marian, {_FORM}. Received: {text!r}. Get the file "
                "again, and decompress a binary one (`.bin.gz`) first."
            )
        target, source, _ = fields
        if _NULL in (target, source):
            continue
        known += target in target_ids and source in source_ids
        sources.append(source_ids.get(source, source_unk))
        targets.append(target_ids.get(target, target_unk))
        probabilities.append(probability)
    if 2 * known <= len(sources):
        raise ImportedModelError(
            f"{path}: expected a shortlist of the model's vocabularies, {_FORM}. Received: {len(sources):,} pairs, of "
            f"which {known:,} have tokens of both. Give the file that was made with the model's vocabularies, from "
            "source to target (`lex.s2t`)."
        )
    return np.array(sources, np.int64), np.array(targets, np.int64), np.array(probabilities, np.float32)


def _lines(path: pathlib.Path) -> Iterator[bytes]:
    """The lines of a plain or gzip file."""
    if not path.is_file():
        raise ImportedModelError(f"{path}: expected a shortlist of Marian. Received: no file. Check the path.")
    number, size, most = 0, 0, MAX_RATIO * path.stat().st_size + _SMALL
    try:
        with _open(path) as file:
            for line in read_lines(file, truncate=False):
                number, size = number + 1, size + len(line) + 1
                if size > most:
                    raise ImportedModelError(
                        f"{path}: expected a file that unpacks to at most {most:,} bytes. Received: a larger one. Get "
                        "the file again."
                    )
                yield line
    except LineTooLongError:
        raise ImportedModelError(
            f"{path}, line {number + 1}: expected a shortlist of Marian, {_FORM}. Received: a line without an end. Get "
            "the file again."
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise ImportedModelError(
            f"{path}, after line {number}: expected a file that can be read. Received: {shorten(error)}. Get the file "
            "again."
        ) from None


def _open(path: pathlib.Path) -> BinaryIO:
    with path.open("rb") as file:
        compressed = file.read(2) == _GZIP
    return cast(BinaryIO, gzip.open(path)) if compressed else path.open("rb")


def _probability(fields: list[bytes]) -> float | None:
    """The third of three fields; None where the line is malformed."""
    try:
        _, _, text = fields
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= 1 else None


def _ids_of_tokens(tokenizer: Tokenizer) -> dict[bytes, int]:
    """The model's id of each piece."""
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    # Ids that no piece has are called as UNK.
    return {piece.encode(): i for i, piece in enumerate(pieces)} | {pieces[tokenizer.unk_id].encode(): tokenizer.unk_id}


def _first_rows(tokenizer: Tokenizer, count: int) -> np.ndarray:
    """The ids of the first rows of Marian's vocabulary: the import keeps their order, and adds PAD and BOS."""
    ids = np.arange(tokenizer.vocab_size, dtype=np.int32)
    return ids[(ids != tokenizer.pad_id) & (ids != tokenizer.bos_id)][:count]


def _best_targets(
    sources: np.ndarray, targets: np.ndarray, probabilities: np.ndarray, best: int, rows: int
) -> np.ndarray:
    """The likeliest targets of each source: (rows, W) int32, -1 where there are no more; ties as in Marian."""
    pairs = sources << 32 | targets
    last = len(pairs) - 1 - np.unique(pairs[::-1], return_index=True)[1]
    last = last[probabilities[last] > 0]
    order = last[np.lexsort((-targets[last], -probabilities[last], sources[last]))]
    sources, targets = sources[order], targets[order]
    ranks = np.arange(len(order)) - np.searchsorted(sources, sources)
    kept = ranks < best
    lists = np.full((rows, int(ranks[kept].max(initial=0)) + 1), -1, np.int32)
    lists[sources[kept], ranks[kept]] = targets[kept]
    return lists
