from ._by_name import download_model as download_model
from ._by_name import is_remote as is_remote
from ._download import Download as Download
from ._download import check_sha256 as check_sha256

__all__ = ["Download", "check_sha256", "download_model", "is_remote"]
