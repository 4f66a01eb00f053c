"""Marian's binary files, byte by byte, for tests of what reads them."""

import struct

import numpy as np

EMBEDDINGS = ("Wemb", "encoder_Wemb", "decoder_Wemb")
TYPES = {"float32": 0x404, "float16": 0x402, "int8": 0x101}
INTGEMM8, INTGEMM16 = 0x4101, 0x4102
MAGIC = 0xF11A48D5013417F5


def quantized(name: str, matrix: np.ndarray, kind: int = INTGEMM8) -> bytes:
    """The data of an intgemm tensor: integers, (out, in) unless it is an embedding, and the factor."""
    most, dtype = (127, np.int8) if kind == INTGEMM8 else (32767, np.int16)
    factor = np.float32(most / np.abs(matrix).max())
    integers = np.rint((matrix if name in EMBEDDINGS else matrix.T) * factor).astype(dtype)
    return integers.tobytes() + factor.tobytes()


def binary_model(tensors: dict[str, np.ndarray], integers: dict[str, int] | None = None, padded: bool = True) -> bytes:
    """A model; `integers` gives the type of tensors that are quantized."""
    integers = integers or {}
    headers, names, shapes, contents = b"", b"", b"", b""
    for name, value in tensors.items():
        kind = integers.get(name, TYPES[str(value.dtype)])
        content = quantized(name, value, kind) if name in integers else value.tobytes()
        content += bytes(-len(content) % 256) if padded and kind != TYPES["int8"] else b""
        headers += struct.pack("<4Q", len(name) + 1, kind, value.ndim, len(content))
        names += name.encode() + b"\0"
        shapes += struct.pack(f"<{value.ndim}i", *value.shape)
        contents += content
    start = struct.pack("<2Q", 1, len(tensors)) + headers + names + shapes
    padding = -(len(start) + 8) % 256
    return start + struct.pack("<Q", padding) + bytes(padding) + contents


def shortlist(lists: list[list[int]], frequent: int = 2, magic: int = MAGIC) -> bytes:
    """A lexical shortlist with one list of target rows for each source row."""
    offsets = np.cumsum([0, *(len(each) for each in lists)]).astype("<u8")
    targets = np.array([row for each in lists for row in each], "<u4")
    header = struct.pack("<6Q", magic, 0, frequent, 100, len(offsets), len(targets))
    return header + offsets.tobytes() + targets.tobytes()
