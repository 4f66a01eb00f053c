from ._files import checksum_problems as checksum_problems
from ._files import read_graph as read_graph
from ._inspect import NotASavedModel as NotASavedModel
from ._inspect import inspect_saved_model as inspect_saved_model
from ._report import Problem as Problem
from ._report import Report as Report

__all__ = ["NotASavedModel", "Problem", "Report", "checksum_problems", "inspect_saved_model", "read_graph"]
