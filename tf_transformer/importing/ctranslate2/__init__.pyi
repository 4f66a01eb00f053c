from ._model import argos_facts as argos_facts
from ._model import read_ctranslate2 as read_ctranslate2

__all__ = ["argos_facts", "read_ctranslate2"]
