"""Numbers, times and dates in words."""

import pytest

from tf_transformer.data.corpora.phrasebook.numbers import (
    clock_time,
    english_number,
    english_ordinal,
    german_number,
    german_ordinal,
)


@pytest.mark.parametrize(
    ("number", "english", "german"),
    [
        (0, "zero", "null"),
        (1, "one", "eins"),
        (12, "twelve", "zwölf"),
        (16, "sixteen", "sechzehn"),
        (17, "seventeen", "siebzehn"),
        (20, "twenty", "zwanzig"),
        (21, "twenty-one", "einundzwanzig"),
        (30, "thirty", "dreißig"),
        (36, "thirty-six", "sechsunddreißig"),
        (66, "sixty-six", "sechsundsechzig"),
        (77, "seventy-seven", "siebenundsiebzig"),
        (99, "ninety-nine", "neunundneunzig"),
        (100, "one hundred", "hundert"),
        (101, "one hundred and one", "hunderteins"),
        (121, "one hundred and twenty-one", "hunderteinundzwanzig"),
        (342, "three hundred and forty-two", "dreihundertzweiundvierzig"),
        (700, "seven hundred", "siebenhundert"),
        (999, "nine hundred and ninety-nine", "neunhundertneunundneunzig"),
    ],
)
def test_numbers(number, english, german):
    assert (english_number(number), german_number(number)) == (english, german)


def test_no_two_numbers_share_a_name():
    assert len({english_number(n) for n in range(1000)}) == len({german_number(n) for n in range(1000)}) == 1000


@pytest.mark.parametrize(
    ("number", "english", "german"),
    [
        (1, "first", "erst"),
        (2, "second", "zweit"),
        (3, "third", "dritt"),
        (5, "fifth", "fünft"),
        (7, "seventh", "siebt"),
        (8, "eighth", "acht"),
        (9, "ninth", "neunt"),
        (12, "twelfth", "zwölft"),
        (19, "nineteenth", "neunzehnt"),
        (20, "twentieth", "zwanzigst"),
        (21, "twenty-first", "einundzwanzigst"),
        (22, "twenty-second", "zweiundzwanzigst"),
        (30, "thirtieth", "dreißigst"),
        (31, "thirty-first", "einunddreißigst"),
    ],
)
def test_ordinals(number, english, german):
    assert (english_ordinal(number), german_ordinal(number)) == (english, german)


@pytest.mark.parametrize(
    ("hour", "minute", "english", "german"),
    [
        (7, 0, "seven o'clock", "sieben Uhr"),
        (1, 0, "one o'clock", "ein Uhr"),
        (1, 10, "ten past one", "zehn nach eins"),
        (7, 15, "a quarter past seven", "Viertel nach sieben"),
        (7, 20, "twenty past seven", "zwanzig nach sieben"),
        (7, 25, "twenty-five past seven", "fünf vor halb acht"),
        (7, 30, "half past seven", "halb acht"),
        (12, 30, "half past twelve", "halb eins"),
        (7, 35, "twenty-five to eight", "fünf nach halb acht"),
        (7, 45, "a quarter to eight", "Viertel vor acht"),
        (12, 55, "five to one", "fünf vor eins"),
    ],
)
def test_times(hour, minute, english, german):
    assert clock_time(hour, minute // 5) == (english, german)
