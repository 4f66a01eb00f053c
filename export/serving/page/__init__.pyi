from ._page import Page as Page
from ._page import write_page as write_page

__all__ = ["Page", "write_page"]
