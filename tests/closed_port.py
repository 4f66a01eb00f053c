"""A port of the loopback at which nobody listens, and nobody else can begin to."""

import contextlib
import socket
from collections.abc import Iterator


@contextlib.contextmanager
def closed_port() -> Iterator[int]:
    """Holds a free port without listening while the block runs: connections to it are refused."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
