from ._cleaning import BadUtf8 as BadUtf8
from ._cleaning import Cleaner as Cleaner
from ._cleaning import CleaningReport as CleaningReport
from ._cleaning import Empty as Empty
from ._cleaning import TooLong as TooLong
from ._prepare import PrepareOptions as PrepareOptions
from ._prepare import prepare as prepare

__all__ = ["BadUtf8", "Cleaner", "CleaningReport", "Empty", "PrepareOptions", "TooLong", "prepare"]
