from ._model import read_huggingface as read_huggingface

__all__ = ["read_huggingface"]
