"""A local server with TensorFlow Serving's REST interface and a translation page, and clients for REST and gRPC."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
