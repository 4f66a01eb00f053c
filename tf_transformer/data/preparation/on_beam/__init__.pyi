from ._engine import BeamEngine as BeamEngine
from ._engine import prepare_on_beam as prepare_on_beam

__all__ = ["BeamEngine", "prepare_on_beam"]
