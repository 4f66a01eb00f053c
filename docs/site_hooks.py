"""Hooks of the documentation's site (mkdocs.yml): the API's source tree, and tutorials written as Python scripts."""

import pathlib
import re
import shutil

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation, Section

ROOT = pathlib.Path(__file__).resolve().parents[1]
SECTIONS = ("Tutorials", "How to", "Reference", "Explanation", "Benchmarks")


def on_startup(**_) -> None:
    """Copy the packages together as they are installed: `pipelines` and `export` inside `tf_transformer`.

    Before the plugins are configured: mkdocstrings ignores folders that do not exist then.
    """
    package = ROOT / "build" / "api" / "tf_transformer"
    shutil.rmtree(package, ignore_errors=True)
    for source, target in (
        ("tf_transformer", package),
        ("pipelines", package / "pipelines"),
        ("export", package / "export"),
    ):
        shutil.copytree(ROOT / source, target, ignore=shutil.ignore_patterns("__pycache__"))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for every tutorial that is a script with `# %%` cells."""
    for script in sorted((ROOT / "docs" / "tutorials").glob("*.py")):
        page = f"tutorials/{script.stem}.md"
        files.append(File.generated(config, page, content=script_page(script.read_text(encoding="utf-8"))))
    return files


def on_page_markdown(markdown: str, **_) -> str:
    """Point links to a tutorial's script at its page."""
    return re.sub(r"\]\(([\w./-]*)\.py\)", r"](\1.md)", markdown)


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    """Order the folders as a reader needs them; pages stay in alphabetical order."""
    nav.items.sort(key=lambda item: SECTIONS.index(item.title) if isinstance(item, Section) else -1)
    return nav


def script_page(source: str) -> str:
    """The Markdown page of a script: `# %% [markdown]` cells as text, `# %%` cells as code."""
    parts = []
    for kind, body in re.findall(r"^# %%( \[markdown\])?[^\n]*\n(.*?)(?=^# %%|\Z)", source, re.DOTALL | re.MULTILINE):
        if kind:
            parts.append(re.sub(r"^# ?", "", body, flags=re.MULTILINE).strip())
        elif body.strip():
            parts.append(f"```python\n{body.strip()}\n```")
    return "\n\n".join(parts) + "\n"
