"""Random changes of files: bytes of any format, members of zip archives, values of JSON documents."""

import io
import json
import random
import struct
import zipfile

_EDGES = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**63 - 1, 2**64 - 1)
_SNIPPETS = [b"[" * 64, b"{" * 64, b"(" * 5000, b"&a ", b"*a", b"<<: ", b"!!bool ", b"\\ud800", b"9" * 400, b"1e999"]
_SNIPPETS += [
    b"\0",
    b"\xff\xfe",
    b"NaN",
    b"null",
    b"''",
    b'""',
    b"\xe2\x96\x81",
    b"</s>",
    b"<unk>",
    b"../",
    b"\n",
    b": ",
]
_VALUES = [None, True, -1, 0, 1.5, 2**31, 10**30, "", "x", [], {}, [[]], {"a": {}}, "\ud800", [1] * 100]


def mutate(data: bytes, choose: random.Random) -> bytes:
    """`data` with one to eight random changes."""
    changed = bytearray(data)
    for _ in range(choose.choice((1, 1, 1, 2, 4, 8))):
        choose.choice(_CHANGES)(changed, choose)
    return bytes(changed)


def mutate_json(data: bytes, choose: random.Random) -> bytes:
    """A JSON document with one value replaced by one of another kind, or with changed bytes."""
    if choose.random() < 0.5:
        return mutate(data, choose)
    values = json.loads(data)
    parent, key = values, None
    while isinstance(parent, dict | list) and parent:
        key = choose.choice(list(parent) if isinstance(parent, dict) else range(len(parent)))
        if not isinstance(parent[key], dict | list) or not parent[key] or choose.random() < 0.3:
            break
        parent = parent[key]
    if key is not None:
        parent[key] = choose.choice(_VALUES)
    return json.dumps(values).encode()


def mutate_zip(data: bytes, choose: random.Random) -> bytes:
    """An archive with changed bytes, or with a changed member and correct checksums."""
    if choose.random() < 0.4:
        return mutate(data, choose)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = choose.choice(list(members))
    content = members.pop(name)
    new_name = mutate(name.encode(), choose).decode("utf-8", "replace") if choose.random() < 0.2 else name
    # Most of an array is numbers; what is read is in its first bytes.
    start = mutate(content[:200], choose)
    members[new_name.replace("\0", "") or "a"] = start + content[200:]
    return zipped(members, choose.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))


def mutate_safetensors(data: bytes, choose: random.Random) -> bytes:
    """A safetensors file with changed bytes, or with a changed header of the right length."""
    if choose.random() < 0.4:
        return mutate(data, choose)
    size = int.from_bytes(data[:8], "little")
    header = mutate_json(data[8 : 8 + size], choose)
    return struct.pack("<Q", len(header)) + header + data[8 + size :]


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _place(data: bytearray, choose: random.Random) -> int:
    """A place in the data: often near the start, where headers are."""
    if choose.random() < 0.5:
        return choose.randrange(min(len(data), 256) + 1)
    return choose.randrange(len(data) + 1)


def _flip(data: bytearray, choose: random.Random) -> None:
    if data:
        data[min(_place(data, choose), len(data) - 1)] ^= 1 << choose.randrange(8)


def _set(data: bytearray, choose: random.Random) -> None:
    if data:
        data[min(_place(data, choose), len(data) - 1)] = choose.randrange(256)


def _edge(data: bytearray, choose: random.Random) -> None:
    width, place = choose.choice((1, 2, 4, 8)), _place(data, choose)
    value = choose.choice(_EDGES) & (2 ** (8 * width) - 1)
    data[place : place + width] = value.to_bytes(width, choose.choice(("little", "big")))


def _truncate(data: bytearray, choose: random.Random) -> None:
    del data[_place(data, choose) :]


def _delete(data: bytearray, choose: random.Random) -> None:
    place = _place(data, choose)
    del data[place : place + choose.choice((1, 4, 17, 256))]


def _repeat(data: bytearray, choose: random.Random) -> None:
    place = _place(data, choose)
    part = bytes(data[place : place + choose.choice((1, 4, 17, 256))])
    data[place:place] = part * choose.choice((1, 2, 50))


def _insert(data: bytearray, choose: random.Random) -> None:
    place = _place(data, choose)
    data[place:place] = choose.choice(_SNIPPETS)


_CHANGES = (_flip, _flip, _set, _edge, _edge, _truncate, _delete, _repeat, _insert)
