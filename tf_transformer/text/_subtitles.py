"""Subtitle files, SRT and WebVTT: the text of their cues, and the file again with other text."""

import re
from collections.abc import Sequence
from typing import NamedTuple

_TIMES = re.compile(r"\s*(?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3}\s*-->\s*(?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3}")
_TAG = r"(?:<[^<>]*>|\{\\[^{}]*\})"
_DIALOGUE = re.compile(rf"\s*{_TAG}*[-–—]")


class _Text(NamedTuple):
    """A text to translate: the lines it stands on, and the tags around it."""

    lines: range
    opening: str
    text: str
    closing: str


class Subtitles:
    """The cues of an SRT or WebVTT file.

    The lines of a cue are one text, unless each speaker of a dialogue has a line that begins with a dash. Tags at the
    beginning and the end of a text stay, tags inside it do not.

    Args:
        content: of the file.

    Attributes:
        texts: to translate, in the order of the file.
    """

    def __init__(self, content: str):
        parts = re.split(r"(\r\n|\r|\n)", content)
        self._lines, self._ends = parts[::2], [*parts[1::2], ""]
        self._texts = [text for lines in self._cues() for text in self._texts_of(lines)]
        self.texts = [each.text for each in self._texts]

    def replaced(self, translations: Sequence[str]) -> str:
        """The file with `translations` in place of `texts`, on as many lines each; everything else stays."""
        lines = list(self._lines)
        for found, translation in zip(self._texts, translations, strict=True):
            wrapped = _wrap(f"{found.opening}{' '.join(translation.split())}{found.closing}", len(found.lines))
            for number, line in zip(found.lines, wrapped, strict=True):
                lines[number] = line
        return "".join(line + end for line, end in zip(lines, self._ends))

    def _cues(self) -> list[range]:
        """The lines of text of each cue: those behind a line with times, up to an empty line."""
        cues, number = [], 0
        while number < len(self._lines):
            number += 1
            if _TIMES.match(self._lines[number - 1]):
                first = number
                while number < len(self._lines) and self._lines[number].strip():
                    number += 1
                cues.append(range(first, number))
        return cues

    def _texts_of(self, lines: range) -> list[_Text]:
        dialogue = [number for number in lines if _DIALOGUE.match(self._lines[number])]
        starts = sorted({lines.start, *dialogue}) if dialogue else [lines.start]
        groups = [range(start, end) for start, end in zip(starts, [*starts[1:], lines.stop])]
        return [found for group in groups if group for found in [self._text(group)] if found.text]

    def _text(self, lines: range) -> _Text:
        joined = " ".join(self._lines[number].strip() for number in lines)
        parts = re.fullmatch(rf"(\s*{_TAG}*\s*)(.*?)(\s*(?:</[^<>]*>)*\s*)", joined, flags=re.S)
        opening, text, closing = parts.groups() if parts else ("", joined, "")
        return _Text(lines, opening, re.sub(_TAG, "", text), closing)


def _wrap(text: str, lines: int) -> list[str]:
    """`text` on so many lines of similar length, broken at spaces; lines that are not needed are empty at the end."""
    words, wrapped = text.split(" "), []
    for left in range(lines, 1, -1):
        width, line = len(" ".join(words)) / left, ""
        while words and (not line or len(line) + len(words[0]) / 2 < width):
            line = f"{line} {words.pop(0)}".strip()
        wrapped.append(line)
    return [*wrapped, " ".join(words)]
