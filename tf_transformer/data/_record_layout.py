"""Layout of a shard of records, checked in its bytes before TensorFlow reads them.

A TFRecord file states the length of each record, and a record, a `tf.train.Example`, the length of each value in it.
TensorFlow 2.21 trusts both: it reserves the length that a record states, which ends the process if there is not so much
memory, and its parser of examples copies as many bytes as a value states, beyond the end of the record. Records have
always the same layout, so their lengths are checked with a few reads of some bytes per record.
"""

import pathlib
from typing import BinaryIO

FEATURES = ("source", "target", "lengths", "origin")

# A record: its length and a checksum of that, its bytes, and a checksum of these.
_HEAD_BYTES, _TAIL_BYTES = 12, 4
# Where one feature begins: the tags and lengths of four nested messages, and a name.
_FEATURE_HEAD_BYTES = 64
# Protocol buffers: field 1 and field 2, both with a length.
_FIRST, _SECOND = 0x0A, 0x12


class RecordError(ValueError):
    """A shard of records that is damaged, missing or not the one that `dataset.json` describes."""


def check_layout(path: pathlib.Path, size: int, id_bytes: int) -> None:
    """Raise RecordError unless a file consists of records whose lengths fit, as `prepare` writes them.

    Args:
        path: of the shard.
        size: of the file.
        id_bytes: bytes of an id.
    """
    place = number = 0
    with path.open("rb", buffering=0) as file:
        while place < size:
            head = _read(file, place, _HEAD_BYTES)
            start, place = place + _HEAD_BYTES, place + _HEAD_BYTES + int.from_bytes(head[:8], "little") + _TAIL_BYTES
            try:
                if len(head) < _HEAD_BYTES or place > size:
                    raise ValueError("one that does not end within the file")
                _check_record(file, start, place - _TAIL_BYTES, id_bytes)
            except ValueError as error:
                raise _damaged(path, f"record {number} is {error}") from None
            number += 1
    if not number:
        raise _damaged(path, "there are none")


def _damaged(path: pathlib.Path, reason: str) -> RecordError:
    return RecordError(
        f"{path}: expected records as `prepare` writes them. Received: {reason}. Restore the file, or prepare the "
        "directory again with --overwrite."
    )


def _check_record(file: BinaryIO, start: int, end: int, id_bytes: int) -> None:
    """Raise ValueError unless bytes are an example of the four features, each with one value."""
    units = dict(zip(FEATURES, (id_bytes, id_bytes, 8, 1)))
    place, length = _message(_read(file, start, _FEATURE_HEAD_BYTES), 0, _FIRST)
    place += start
    if place + length != end:
        raise ValueError("no example")
    while place < end:
        head = _read(file, place, _FEATURE_HEAD_BYTES)
        inside, length = _message(head, 0, _FIRST)
        last = inside + length
        inside, length = _message(head, inside, _FIRST)
        name = head[inside : inside + length].decode("ascii", "replace")
        inside, length = _message(head, inside + length, _SECOND)
        for _ in ("feature", "list"):  # each contains the next and nothing else
            _require_end(inside + length, last)
            inside, length = _message(head, inside, _FIRST)
        _require_end(inside + length, last)
        if name not in units or length % units.pop(name):
            raise ValueError(f"one with {length} bytes of {name[:20]!r}")
        place += last
    if units or place != end:
        raise ValueError("one with other features")


def _require_end(found: int, expected: int) -> None:
    if found != expected:
        raise ValueError("one whose lengths do not fit")


def _message(data: bytes, place: int, tag: int) -> tuple[int, int]:
    """The place and length of what follows a tag; ValueError if there is another tag or no such length."""
    if data[place : place + 1] != bytes([tag]):
        raise ValueError("no example")
    length = 0
    for number, byte in enumerate(data[place + 1 : place + 6]):
        length |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            return place + 2 + number, length
    raise ValueError("one whose lengths do not fit")


def _read(file: BinaryIO, place: int, size: int) -> bytes:
    file.seek(place)
    return file.read(size)
