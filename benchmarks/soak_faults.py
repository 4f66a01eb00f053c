"""The faults of the soak test: what a broken or hostile client does with one connection.

Each function takes a connected socket and a source of chance, and returns the status of the answer if it waits for one.
"""

import gzip
import json
import random
import socket
import struct
import time

BAD_BODIES = [
    b"",
    b"{",
    b"[" * 2000,
    b'{"instances": ["\\ud800"]}',
    b'{"instances": [["a", "b"]]}',
    b'{"instances": [' + b'"",' * 200_000 + b'""]}',
    b'{"signature_name": "nowhere", "instances": ["a"]}',
    bytes(range(256)),
]


def _head(length: int, *lines: str) -> bytes:
    return "\r\n".join(
        ["POST /v1/models/toy:predict HTTP/1.1", "Host: x", f"Content-Length: {length}", *lines, "", ""]
    ).encode()


def _status(sock: socket.socket) -> int:
    """The status of the final response."""
    file = sock.makefile("rb")
    while True:
        words = file.readline().split()
        if not words:
            raise OSError("no response")
        while file.readline().strip():
            pass
        if int(words[1]) != 100:
            file.read()
            return int(words[1])


def _body(chance: random.Random, rows: int = 3) -> bytes:
    return json.dumps({"instances": [f"fault {chance.random()}"] * rows}).encode()


def drop(sock, chance):
    """Disconnects at a random byte of a request, or just after it; with or without a reset."""
    body = _body(chance, 30)
    request = _head(len(body)) + body
    sock.sendall(request[: chance.choice([len(request), chance.randrange(len(request))])])
    if chance.random() < 0.5:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def slow_reader(sock, chance):
    """Reads a large answer a little at a time, and sometimes not to its end."""
    body = _body(chance, 1000)
    sock.sendall(_head(len(body), "Connection: close") + body)
    for _ in range(chance.randrange(20)):
        time.sleep(0.05)
        if not sock.recv(512):
            return


def broken_body(sock, chance):
    sock.sendall(_head(1000, "Connection: close") + _body(chance)[: chance.randrange(20)])
    return _status(sock)  # 408


def bad_body(sock, chance):
    body = chance.choice(BAD_BODIES)
    sock.sendall(_head(len(body), "Connection: close") + body)
    return _status(sock)


def bomb(sock, chance):
    body = gzip.compress(bytes(40_000_000), 1)
    sock.sendall(_head(len(body), "Content-Encoding: gzip", "Connection: close") + body)
    return _status(sock)


def many_rows(sock, chance):
    body = json.dumps({"instances": ["a"] * 1025}).encode()
    sock.sendall(_head(len(body), "Connection: close") + body)
    return _status(sock)


def half_close(sock, chance):
    body = _body(chance)
    sock.sendall(_head(len(body)) + body)
    sock.shutdown(socket.SHUT_WR)
    return _status(sock)


FAULTS = [drop, slow_reader, broken_body, bad_body, bomb, many_rows, half_close]
