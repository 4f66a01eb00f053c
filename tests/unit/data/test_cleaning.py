"""Cleaning: each step alone, their order, and the counts they leave."""

import json
import pickle

import pytest

from tf_transformer.data.preparation import _cleaning as cleaning
from tf_transformer.data.preparation._cleaning import (
    BadUtf8,
    Cleaner,
    CleaningReport,
    Identical,
    LengthRatio,
    TooLong,
    held_out_cleaner,
    training_cleaner,
)


def clean(cleaner, pairs):
    report = CleaningReport()
    return list(cleaner.clean(pairs, report)), report


def one_dropped(cleaner, pair, reason):
    kept, report = clean(cleaner, [pair])
    assert kept == [] and report.dropped[reason] == 1 and sum(report.dropped.values()) == 1


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        ((b"", b"eins"), "empty"),
        ((b"one", b" \t\r"), "empty"),
        ((b"\x00\x00", b"eins"), "empty"),
        ((b"one", b"\xff\xfe"), "bad_utf8"),
        ((b"caf\xc3", b"Kaffee"), "bad_utf8"),
        ((b"\xc0\xaf overlong", b"eins"), "bad_utf8"),
        ((b"\xed\xa0\x80 surrogate", b"eins"), "bad_utf8"),
        ((b"a " * 10_000, b"b " * 10_000), "too_long"),
        ((b"x" * 5_000_000, b"y"), "too_long"),
        ((b"Yes.", b"w" * 33), "length_ratio"),
    ],
)
def test_each_fault_is_counted_under_its_name(pair, reason):
    one_dropped(training_cleaner(), pair, reason)


def test_a_good_pair_passes_untouched():
    pair = ("Über alles".encode(), b"above all")
    kept, report = clean(training_cleaner(), [pair])
    assert kept == [pair]
    assert not any(report.dropped.values()) and not any(report.changed.values())


def test_changes_are_made_first_and_counted_by_name():
    kept, report = clean(
        training_cleaner(), [(b"one\r", b"eins\r"), (b"a\x00b", b"a\tb"), (b"  three ", b"drei"), (b"\xc2\xa0x", b"y")]
    )
    assert kept == [(b"one", b"eins"), (b"a b", b"a b"), (b"three", b"drei"), (b"\xc2\xa0x", b"y")]
    assert report.changed == {"carriage_return": 1, "control_characters": 1, "whitespace": 1}


def test_line_ends_inside_a_sentence_become_spaces():
    kept, _ = clean(held_out_cleaner(), [(b"two\nlines", b"zwei\rZeilen")])
    assert kept == [(b"two lines", b"zwei Zeilen")]


@pytest.mark.parametrize(("words", "kept"), [(6, True), (7, True), (8, False)])
def test_too_long_counts_words_on_both_sides(words, kept):
    step = TooLong(max_words=7, max_bytes=1000)
    text = b" ".join([b"w"] * words)
    assert step(text, b"w") is kept and step(b"w", text) is kept


@pytest.mark.parametrize(("size", "kept"), [(52, True), (53, False)])
def test_the_length_ratio_allows_a_slack_and_counts_characters(size, kept):
    step = LengthRatio(max_ratio=3.0, slack=20)
    shorter, longer = b"ten signs.", b"x" * (size - 2)
    assert step(shorter, longer) is kept and step(longer, shorter) is kept
    # four-byte characters are one each
    assert step(shorter, "😀".encode() * (size - 2)) is kept


def test_the_report_lists_every_step_and_survives_json():
    _, report = clean(training_cleaner(drop_identical=True), [])
    assert report.to_dict() == {
        "read": 0,
        "kept": 0,
        "changed": {"carriage_return": 0, "control_characters": 0, "whitespace": 0},
        "dropped": {"bad_utf8": 0, "empty": 0, "too_long": 0, "length_ratio": 0, "identical": 0, "duplicate": 0},
    }
    assert json.loads(json.dumps(report.to_dict())) == report.to_dict()


def test_duplicates_are_dropped_after_the_changes_within_and_across_batches(monkeypatch):
    monkeypatch.setattr(cleaning, "_BATCH", 3)
    pairs = [(b"a", b"x"), (b"a ", b"x\r"), (b"a", b"y"), (b"b", b"x"), (b"a", b"x"), (b"b", b"x"), (b"ax", b"")]
    kept, report = clean(training_cleaner(), pairs)
    assert kept == [(b"a", b"x"), (b"a", b"y"), (b"b", b"x")]
    assert report.dropped["duplicate"] == 3 and report.dropped["empty"] == 1
    assert report.read == 7 and report.kept == 3


def test_identical_sides_are_dropped_only_on_request():
    pairs = [(b"Berlin", b"Berlin")]
    assert clean(training_cleaner(), pairs)[0] == pairs
    one_dropped(training_cleaner(drop_identical=True), pairs[0], "identical")


def test_held_out_sets_keep_duplicates_and_long_sentences():
    pairs = [(b"a " * 999 + b"a", b"x")] * 2
    assert clean(held_out_cleaner(), pairs)[0] == pairs


def test_steps_can_be_put_together_at_will():
    kept, report = clean(Cleaner(changes=(), filters=(Identical(),)), [(b" a", b" a"), (b" a", b"")])
    assert kept == [(b" a", b"")]
    assert report.dropped == {"identical": 1} and report.changed == {}


def test_the_order_of_the_pairs_stays_and_reading_is_lazy():
    def endless():
        number = 0
        while True:
            yield b"en %d" % number, b"de %d" % number
            number += 1

    stream = training_cleaner().clean(endless(), CleaningReport())
    assert [next(stream)[0] for _ in range(20_000)] == [b"en %d" % number for number in range(20_000)]


def test_workers_can_have_a_cleaner_and_their_reports_add_up():
    cleaner = pickle.loads(pickle.dumps(training_cleaner(max_words=5)))
    assert cleaner == training_cleaner(max_words=5)
    total = CleaningReport()
    for _ in range(2):
        _, report = clean(cleaner, [(b"a", b"b"), (b"", b"b"), (b"c\r", b"d")])
        total.add(report)
    assert (total.read, total.kept) == (6, 4)
    assert total.dropped["empty"] == 2 and total.changed["carriage_return"] == 2


def test_utf8_of_every_length_is_valid():
    assert BadUtf8()("a é 漢 😀".encode(), b"x")
