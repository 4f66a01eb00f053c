"""Marian's binary files: models (`.bin`) and lexical shortlists (`lex.*.bin`). All numbers are little-endian.

A model is: version (uint64, 1), number of tensors (uint64), then for each tensor the length of its name, its type, its
rank and the length of its data (uint64 each), then all names with a NUL, all shapes (int32), the length of a padding
(uint64), the padding, and the data of all tensors. The data of an intgemm tensor are integers, followed by the factor
that they were multiplied by (float32). Matrices are stored as (out, in) then, embeddings as they are.
"""

import dataclasses
import math
import pathlib

import numpy as np

from tf_transformer.importing._binary_file import BinaryFile
from tf_transformer.importing._settings import show
from tf_transformer.text import Tokenizer, TokenizerPair

VERSION = 1
OPTIONS = "special:model.yml"
_MAX_NAME = 256
_MAX_RANK = 4
# Marian rounds the length of the data of a tensor up to this.
_ALIGNMENT = 256
_PLAIN = {0x404: "<f4", 0x402: "<f2", 0x101: "i1"}
_INTGEMM = {0x4101: "i1", 0x4102: "<i2"}
# What was multiplied with the activations before they were rounded: ours are not rounded.
_ACTIVATIONS = "_QuantMultA"
_EMBEDDINGS = ("Wemb", "encoder_Wemb", "decoder_Wemb")


def is_marian_binary(file: pathlib.Path) -> bool:
    """Return whether a file begins like a model of Marian's."""
    with file.open("rb") as opened:
        start = opened.read(16)
    return len(start) == 16 and start[:8] == VERSION.to_bytes(8, "little") and start[8:] != bytes(8)


def read_marian_binary(path: pathlib.Path) -> dict[str, np.ndarray]:
    """The tensors of a model by name: quantized ones as float32 (in, out), without the factors of activations."""
    with BinaryFile(path, "a model of Marian") as file:
        if file.number("<Q") != VERSION:
            raise file.error("a file that is not in Marian's binary format, version 1")
        headers = file.array("<u8", (file.number("<Q"), 4)).tolist()
        names = [_name(file, length) for length, *_ in headers]
        shapes = [_shape(file, name, header[2]) for name, header in zip(names, headers)]
        file.skip_to(file.number("<Q") + file.position)
        if len(set(names)) != len(names):
            raise file.error("two tensors of the same name")
        tensors = {}
        for name, shape, (_, kind, _, length) in zip(names, shapes, headers):
            end = file.position + length
            if not name.endswith(_ACTIVATIONS):
                tensors[name] = _tensor(file, name, shape, kind, length)
            file.skip_to(end)
        file.check_end()
    return tensors


def _name(file: BinaryFile, length: int) -> str:
    raw = file.take(min(length, _MAX_NAME + 1))
    text = raw[:-1].decode("ascii", "replace")
    if not 2 <= length <= _MAX_NAME or raw[-1] or not text.isascii() or not text.isprintable():
        raise file.error(f"no name of a tensor near byte {file.position}")
    return text


def _shape(file: BinaryFile, name: str, rank: int) -> tuple[int, ...]:
    if rank > _MAX_RANK:
        raise file.error(f"{show(name)} of {rank} dimensions")
    shape = tuple(file.array("<i4", (rank,)).tolist())
    if any(size < 1 for size in shape):
        raise file.error(f"{show(name)} of shape {shape}")
    return shape


def _tensor(file: BinaryFile, name: str, shape: tuple[int, ...], kind: int, length: int) -> np.ndarray:
    form = _PLAIN.get(kind) or _INTGEMM.get(kind)
    if form is None:
        raise file.error(
            f"{show(name)} of type {kind:#x}, which is packed for one kind of processor",
            "Get the model with float32 or generic int8 weights (`intgemm.alphas.bin`).",
        )
    needed = math.prod(shape) * np.dtype(form).itemsize + (4 if kind in _INTGEMM else 0)
    if not needed <= length < needed + 2 * _ALIGNMENT:
        raise file.error(f"{show(name)} of shape {shape} with {length:,} bytes instead of {needed:,}")
    if kind in _PLAIN:
        return file.array(form, shape)
    if len(shape) != 2 or name.endswith("_Wt"):
        raise file.error(f"{show(name)} of shape {shape}, quantized, which is no matrix of a layer and no embedding")
    quantized = file.array(form, shape if name in _EMBEDDINGS else shape[::-1])
    factor = file.array("<f4", ())
    if not np.isfinite(factor) or factor <= 0:
        raise file.error(f"the factor {factor} of {show(name)}")
    value = quantized.astype(np.float32) / factor
    return value if name in _EMBEDDINGS else value.T


SHORTLIST_MAGIC = 0xF11A48D5013417F5


@dataclasses.dataclass(frozen=True)
class MarianShortlist:
    """A lexical shortlist: the target rows that may translate a source row.

    Attributes:
        frequent: the first rows of the target vocabulary, so many, are always allowed.
        offsets: (source rows + 1,): where the list of each source row begins.
        targets: target rows, the lists one after the other.
    """

    frequent: int
    offsets: np.ndarray
    targets: np.ndarray

    def of(self, source_row: int) -> np.ndarray:
        """The target rows of one source row."""
        return self.targets[self.offsets[source_row] : self.offsets[source_row + 1]]

    def in_ids(self, tokenizers: TokenizerPair) -> tuple[np.ndarray, np.ndarray]:
        """The lists in the ids of an imported model: (source vocabulary, W) int32, -1 where a list ends; frequent ids.

        Rows of Marian's vocabularies are the pieces of the SentencePiece models (`vocab*.spm`).
        """
        source, target = (_ids_of_pieces(each) for each in (tokenizers.source, tokenizers.target))
        rows, largest = len(self.offsets) - 1, int(self.targets.max(initial=0))
        if rows > len(source) or max(largest + 1, self.frequent) > len(target):
            raise ValueError(
                f"Expected a shortlist of the model's vocabularies, with at most {len(source):,} source and "
                f"{len(target):,} target rows. Received: {rows:,} and {max(largest + 1, self.frequent):,}. Give the "
                "`lex` file that came with the model."
            )
        sizes = np.diff(self.offsets)
        lists = np.full((tokenizers.source.vocab_size, max(int(sizes.max(initial=1)), 1)), -1, np.int32)
        row = np.repeat(np.arange(rows), sizes)
        lists[source[row], np.arange(len(row)) - np.repeat(self.offsets[:-1], sizes)] = target[self.targets]
        return lists, target[: self.frequent]


def _ids_of_pieces(tokenizer: Tokenizer) -> np.ndarray:
    """The model's id of each SentencePiece id."""
    return np.arange(tokenizer.vocab_size) if tokenizer.id_map is None else tokenizer.id_map.to_model()


def is_binary_shortlist(path: pathlib.Path) -> bool:
    """Return whether a file begins like a binary shortlist of Marian's."""
    if not path.is_file():
        return False
    with path.open("rb") as opened:
        return opened.read(8) == SHORTLIST_MAGIC.to_bytes(8, "little")


def read_shortlist(path: pathlib.Path) -> MarianShortlist:
    """Read a `lex.*.bin`: magic number, checksum, two counts, two lengths (uint64 each), offsets, target rows."""
    with BinaryFile(path, "a shortlist of Marian") as file:
        if file.number("<Q") != SHORTLIST_MAGIC:
            raise file.error("a file that is not in Marian's binary format")
        file.skip_to(file.position + 8)
        frequent, _, offsets, targets = file.array("<u8", (4,)).tolist()
        table = file.array("<u8", (offsets,))
        listed = file.array("<u4", (targets,))
        file.check_end()
        rising = offsets > 1 and not table[0] and table[-1] == targets and bool((table[1:] >= table[:-1]).all())
        if not rising or frequent >= 2**31:
            raise file.error("offsets that do not lead through the lists")
    return MarianShortlist(frequent, table.astype(np.int64), listed)
