"""CTranslate2's model.bin, byte by byte, for tests of what reads it."""

import struct

import numpy as np

TYPES = {"float32": 0, "int8": 1, "int16": 2, "int32": 3, "float16": 4}


def string(text: str) -> bytes:
    return struct.pack("<H", len(text.encode()) + 1) + text.encode() + b"\0"


def variable(name: str, array: np.ndarray, kind: int | None = None) -> bytes:
    """A variable; `kind` is CTranslate2's number of the type where NumPy has no such type."""
    kind = TYPES[str(array.dtype)] if kind is None else kind
    shape = b"".join(struct.pack("<I", size) for size in array.shape)
    data = array.tobytes()
    return string(name) + struct.pack("B", array.ndim) + shape + struct.pack("<BI", kind, len(data)) + data


def model(*variables: bytes, aliases=(), version: int = 6, name: str = "TransformerSpec", revision: int = 7) -> bytes:
    head = struct.pack("<I", version) + string(name) + struct.pack("<II", revision, len(variables))
    tail = struct.pack("<I", len(aliases)) + b"".join(string(a) + string(b) for a, b in aliases)
    return head + b"".join(variables) + tail
