from . import client as client
from . import grpc_client as grpc_client
from ._batching import BatchingOptions as BatchingOptions
from ._server import ModelServer as ModelServer
from ._server import ServerOptions as ServerOptions
from ._server import serve as serve
from ._server import server_in_thread as server_in_thread

__all__ = ["BatchingOptions", "ModelServer", "ServerOptions", "client", "grpc_client", "serve", "server_in_thread"]
