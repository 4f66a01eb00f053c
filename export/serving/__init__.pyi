from . import client as client
from . import grpc_client as grpc_client
from . import page as page
from ._batching import BatchingOptions as BatchingOptions
from ._model_config import read_model_config as read_model_config
from ._model_config import sources_of_directories as sources_of_directories
from ._models import ModelSource as ModelSource
from ._server import ModelServer as ModelServer
from ._server import ServerOptions as ServerOptions
from ._server import serve as serve
from ._server import server_in_thread as server_in_thread

__all__ = [
    "BatchingOptions",
    "ModelServer",
    "ModelSource",
    "ServerOptions",
    "client",
    "grpc_client",
    "page",
    "read_model_config",
    "serve",
    "server_in_thread",
    "sources_of_directories",
]
