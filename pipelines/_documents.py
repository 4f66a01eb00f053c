"""Files that are translated as a whole: text, and subtitles."""

import logging
import os
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from tf_transformer._files import atomic_write

if TYPE_CHECKING:
    from tf_transformer.decoding import ExportedModel, LoadedModel

logger = logging.getLogger(__name__)

_SUBTITLES = {".srt", ".vtt"}
_TEXT = {".txt"}


class DocumentFiles:
    """Files to translate into a directory, under their names.

    Args:
        paths: of `.txt`, `.srt` and `.vtt` files. Bytes that are not UTF-8 are replaced.
        output: the directory, made if it is not there.
    """

    def __init__(self, paths: Sequence[str | os.PathLike], output: str | os.PathLike) -> None:
        self._paths, self._output = [pathlib.Path(path) for path in paths], pathlib.Path(output)
        if self._output.exists() and not self._output.is_dir():
            raise ValueError(
                f"Expected a directory for the translated files. Received: {output}. Give another --output."
            )
        for path in self._paths:
            self._check(path)
        names = [path.name for path in self._paths]
        if len(set(names)) < len(names):
            raise ValueError(f"Expected files of different names. Received: {', '.join(names)}. Translate them apart.")

    def _check(self, path: pathlib.Path) -> None:
        if path.suffix.lower() not in _SUBTITLES | _TEXT:
            raise ValueError(f"Expected .txt, .srt or .vtt files. Received: {path}. Convert it to one of these first.")
        if not path.is_file():
            raise ValueError(f"Expected a file. Received: {path}. Check the path.")
        if (self._output / path.name).exists() and path.samefile(self._output / path.name):
            raise ValueError(f"{path} would be replaced by its translation; give another --output.")

    def translate(
        self, model: "LoadedModel | ExportedModel", done: Callable[[int], None] | None = None
    ) -> Iterator[pathlib.Path]:
        """Translate the files one by one, and give the path of each as soon as it is written.

        Args:
            model: a `LoadedModel` or an `ExportedModel`.
            done: called with the number of texts after each batch.
        """
        self._output.mkdir(parents=True, exist_ok=True)
        for path in self._paths:
            content = path.read_bytes().decode("utf-8", "replace")
            subtitles = path.suffix.lower() in _SUBTITLES
            translated = (_translate_subtitles if subtitles else _translate_text)(model, content, path, done)
            target = self._output / path.name
            with atomic_write(target) as stream:
                stream.write(translated.encode("utf-8"))
            yield target


def _translate_text(
    model: "LoadedModel | ExportedModel", content: str, path: pathlib.Path, done: Callable[[int], None] | None
) -> str:
    # Paragraphs are independent of each other, and translated side by side. A byte-order mark is no part of one.
    mark, body = content[: content.startswith("\ufeff")], content.removeprefix("\ufeff")
    parts = re.split(r"((?:\r?\n){2,})", body)
    parts[::2] = _translations(model, parts[::2], path, done)
    return mark + "".join(parts)


def _translate_subtitles(
    model: "LoadedModel | ExportedModel", content: str, path: pathlib.Path, done: Callable[[int], None] | None
) -> str:
    from tf_transformer.text import Subtitles

    subtitles = Subtitles(content)
    return subtitles.replaced(_translations(model, subtitles.texts, path, done))


def _translations(
    model: "LoadedModel | ExportedModel", texts: list[str], path: pathlib.Path, done: Callable[[int], None] | None
) -> list[str]:
    from tf_transformer.decoding import in_batches, parallel_batches

    rows = [text.encode() for text in texts]
    found = in_batches(model.translate_document, rows, threads=parallel_batches(), done=done)
    sentences = sum(document.sentences for document in found)
    codes = [code for document in found for code in document.warnings]
    warned = "".join(f"; {codes.count(code)} texts with the warning {code!r}" for code in sorted(set(codes)))
    logger.info(f"{path}: {sentences:,} sentences{warned}")
    return [document.text for document in found]
