import hypothesis
import pytest
from hypothesis import strategies as st

from tf_transformer.text import Subtitles

SRT = (
    "\ufeff1\r\n00:00:01,000 --> 00:00:02,500\r\n<i>The dog\r\nsleeps.</i>\r\n\r\n"
    "2\r\n00:00:03,000 --> 00:00:04,000 X1:1\r\n- Who?\r\n- The {\\b1}cat{\\b0}.\r\n\r\n"
    "3\r\n00:00:05,000 --> 00:00:06,000\r\n\r\n"
)
VTT = (
    "WEBVTT - a title\n\nNOTE not this\n\nSTYLE\n::cue { color: red }\n\nintro\n00:01.000 --> 00:02.000 line:0\n"
    "<v Ann>Hello there.\n\n01:00:03.000 --> 01:00:04.000\nBye <b>now</b>.\n"
)


def test_only_the_text_of_cues_is_translated():
    assert Subtitles(SRT).texts == ["The dog sleeps.", "- Who?", "- The cat."]
    assert Subtitles(VTT).texts == ["Hello there.", "Bye now."]
    assert Subtitles("").texts == [] and Subtitles("no times\n").texts == []


def test_numbers_times_settings_tags_and_line_ends_stay():
    shouted = Subtitles(SRT).replaced([text.upper() for text in Subtitles(SRT).texts])
    assert shouted == (
        "\ufeff1\r\n00:00:01,000 --> 00:00:02,500\r\n<i>THE DOG\r\nSLEEPS.</i>\r\n\r\n"
        "2\r\n00:00:03,000 --> 00:00:04,000 X1:1\r\n- WHO?\r\n- THE CAT.\r\n\r\n"
        "3\r\n00:00:05,000 --> 00:00:06,000\r\n\r\n"
    )
    assert Subtitles(VTT).replaced(["Hallo.", "Tschüss."]) == VTT.replace("Hello there.", "Hallo.").replace(
        "Bye <b>now</b>.", "Tschüss."
    )


@pytest.mark.parametrize("translation", ["", "word", "two words", "a translation\nof several lines", "x" * 90])
def test_a_cue_keeps_its_number_of_lines(translation):
    found = Subtitles("00:01.000 --> 00:02.000\none\ntwo\nthree\n\nrest").replaced([translation])
    assert len(found.split("\n")) == 6
    assert "".join(found.split("\n")[1:4]).replace(" ", "") == "".join(translation.split())


def test_as_many_translations_as_texts_are_needed():
    with pytest.raises(ValueError, match="zip"):
        Subtitles(VTT).replaced(["one"])


LINES = st.sampled_from(["", "1", "00:00:01,000 --> 00:00:02,000", "text", "- said", "<i>", "</i>", "a --> b", "\r"])


@hypothesis.settings(max_examples=200, deadline=None, derandomize=True)
@hypothesis.given(st.one_of(st.text(max_size=60), st.lists(LINES).map("\n".join)))
def test_lines_outside_the_cues_stay(content):
    subtitles = Subtitles(content)
    again = subtitles.replaced(subtitles.texts)
    assert again.count("\n") == content.count("\n") and again.count("\r") == content.count("\r")
    assert Subtitles(again).replaced(Subtitles(again).texts) == again
