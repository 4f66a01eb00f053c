from ._translation import SHARD_LINES as SHARD_LINES
from ._translation import FileTranslation as FileTranslation
from ._translation import TranslatedFile as TranslatedFile

__all__ = ["SHARD_LINES", "FileTranslation", "TranslatedFile"]
