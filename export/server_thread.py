"""A ModelServer in a thread of the caller's process, while a block runs: for the demo and for tests."""

import asyncio
import contextlib
import threading

from tf_transformer.export.server import ModelServer, ServerOptions

START_SECONDS = 600


@contextlib.contextmanager
def server_in_thread(base, name: str | None = None, options: ServerOptions | None = None):
    """Serves `base` while the block runs; gives the started ModelServer, whose `port` is known then."""
    server = ModelServer(base, name, options or ServerOptions(port=0))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="server")
    thread.start()

    def call(coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(timeout=START_SECONDS)

    try:
        call(server.start())
        yield server
    finally:
        call(server.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
