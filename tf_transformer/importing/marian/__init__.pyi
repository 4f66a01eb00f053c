from ._model import read_marian as read_marian

__all__ = ["read_marian"]
