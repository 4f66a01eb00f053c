"""Words with offsets: every visible character is in one word, and a word is where its offsets say."""

import itertools
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_transformer.text import split_words

MARKS = "\ufdd0\ufdd1\ufdd2\ufdd3"


def texts_of(text):
    return [word.text for word in split_words([text])[0]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" \t\n ", []),
        ("Don't go, please!", ["Don't", "go", ",", "please", "!"]),
        ("state-of-the-art 3.14 at 10:30...", ["state-of-the-art", "3.14", "at", "10:30", "..."]),
        ("Ελληνικά, русский", ["Ελληνικά", ",", "русский"]),
        ("العربية، हिन्दी।", ["العربية", "،", "हिन्दी", "।"]),
        ("日本語です。スーパー", ["日", "本", "語", "で", "す", "。", "スー", "パー"]),
        ("👩‍👩‍👧🎉🇩🇪 👍🏽 1️⃣", ["👩‍👩‍👧", "🎉", "🇩🇪", "👍🏽", "1️⃣"]),
        ("e\u0301te\u0301 \u200bab\ufeff", ["e\u0301te\u0301", "ab"]),
        ("می‌خواهم", ["می‌خواهم"]),
        ("a\ufdd0b", ["a", "\ufffd", "b"]),
    ],
)
def test_words_of_many_scripts(text, words):
    assert texts_of(text) == words


def test_offsets_count_characters_not_bytes():
    assert split_words(["  é 日本"]) == [[("é", 2, 3), ("日", 4, 5), ("本", 5, 6)]]


def test_bytes_that_are_not_utf_8_are_one_character_each():
    assert split_words([b"\xff\xfe ab"]) == [[("\ufffd", 0, 1), ("\ufffd", 1, 2), ("ab", 3, 5)]]


@settings(derandomize=True, deadline=None, max_examples=25)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), min_size=1, max_size=4))
def test_words_are_in_the_text_and_cover_it(texts):
    texts = [text.translate(dict.fromkeys(map(ord, MARKS), "x")) for text in texts]
    rows = split_words(texts)
    assert rows == [split_words([text])[0] for text in texts]
    for text, words in zip(texts, rows):
        assert all(text[word.start : word.end] == word.text for word in words)
        assert all(one.end <= other.start for one, other in itertools.pairwise(words))
        covered = {place for word in words for place in range(word.start, word.end)}
        # Characters that RE2's tables know and Python's do not, or the other way round, are left out.
        visible = [i for i, c in enumerate(text) if unicodedata.category(c) not in ("Cc", "Cf", "Cn", "Zs", "Zl", "Zp")]
        assert covered.issuperset(visible)
        assert not any(text[place].isspace() for place in covered)
