import json

import pytest

from tf_transformer.decoding import Alignment, Translation
from tf_transformer.decoding._text_model import LineTranslation
from tf_transformer.text import Word


class Shouting:
    """A model that shouts, and keeps how many lines it is given at a time; lines beyond 20 bytes are truncated."""

    name, limit = "Shouting", 3

    def __init__(self):
        self.batches = []

    def translate(self, texts):
        return [found._replace(texts=found.texts[:1]) for found in self.nbest(texts)]

    def nbest(self, texts):
        self.batches.append(len(texts))
        return [self._of(text.decode("utf-8", "replace")) for text in texts]

    def _of(self, text):
        texts = [text.upper(), f"{text}?\n{text}", text]
        return Translation(texts, [-1.5, -2.25, -1e9], len(text) > 20)


def test_every_line_has_one_line_in_its_place():
    lines = [b"a" * (37 * n % 11) for n in range(101)]
    model = Shouting()
    chunks = list(LineTranslation(model, chunk_lines=23)(iter(lines)))
    assert "".join(chunks) == "".join(f"{line.decode().upper()}\n" for line in lines)
    assert [chunk.count("\n") for chunk in chunks] == [23, 23, 23, 23, 9]
    assert max(model.batches) <= 23


def test_a_chunk_is_given_out_before_the_next_is_read():
    read = []

    def lines():
        for number in range(10):
            read.append(number)
            yield b"a"

    output = LineTranslation(Shouting(), chunk_lines=3)(lines())
    next(output)
    assert read == [0, 1, 2]


def test_line_ends_in_a_translation_become_spaces():
    assert list(LineTranslation(Shouting())([b"a\rb\xe2\x80\xa8c"])) == ["A B C\n"]


def test_a_table_of_the_best():
    output = list(LineTranslation(Shouting(), nbest=3)([b"x\ty", b""]))
    assert output == ["1\t1\t-1.500000\tX Y\n1\t2\t-2.250000\tx y? x y\n2\t1\t-1.500000\t\n2\t2\t-2.250000\t? \n"]


class Aligning(Shouting):
    def align(self, texts):
        return [self._aligned(text.decode()) for text in texts]

    def _aligned(self, text):
        words = [Word(letter, place, place + 1) for place, letter in enumerate(text) if letter != " "]
        links = [(i, i) for i in range(len(words))]
        return Alignment(text, words, words[::-1], [0.5] * len(words), links, 2 if "." in text else 1)


def test_alignment_as_pharaoh_and_as_json():
    translation = LineTranslation(Aligning(), alignment="pharaoh")
    assert list(translation([b"a b", b"", b"."])) == ["a b ||| b a ||| 0-0 1-1\n |||  ||| \n. ||| . ||| 0-0\n"]
    assert (translation.lines, translation.num_several) == (3, 1)
    (line,) = LineTranslation(Aligning(), alignment="json")([b"a"])
    assert json.loads(line) == {
        "translation": "a",
        "source": [{"text": "a", "start": 0, "end": 1}],
        "target": [{"text": "a", "start": 0, "end": 1, "confidence": 0.5}],
        "links": [[0, 0]],
        "sentences": 1,
    }


def test_more_than_the_model_has_is_rejected():
    for count in (0, 4):
        with pytest.raises(ValueError, match=rf"from 1 to 3 translations per line from Shouting\. Received: {count}\."):
            LineTranslation(Shouting(), nbest=count)


def test_cut_lines_are_counted_and_the_first_are_named():
    translation = LineTranslation(Shouting(), chunk_lines=2)
    list(translation([b"a" * (30 if n % 2 else 3) for n in range(20)]))
    assert translation.lines == 20
    assert translation.num_truncated == 10
    assert translation.truncated == [2, 4, 6, 8, 10]


def test_no_lines_no_output():
    assert list(LineTranslation(Shouting())([])) == []
