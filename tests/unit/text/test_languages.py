"""The languages of a multilingual model: codes, tokens and their places."""

import json

import pytest

from tf_transformer.text import LanguageError, Languages, TokenizerError, tag_of, two_letters

NLLB = Languages({"eng_Latn": 7, "deu_Latn": 8, "zho_Hans": 9})
OURS = Languages({"de": 4, "fr": 5}, source_token="target", target_token=False, pairs=(("en", "de"), ("it", "fr")))


def test_a_pair_has_its_tokens():
    assert NLLB.tagged("eng_Latn", "deu_Latn", [[20, 3]], [[21, 3]]) == ([[7, 20, 3]], [[8, 21, 3]])
    assert OURS.tagged("en", "fr", [[20, 3], [3]], [[21, 3], [3]]) == ([[5, 20, 3], [5, 3]], [[21, 3], [3]])
    legacy = Languages(NLLB.tokens, place="end")
    assert legacy.tagged("eng_Latn", "deu_Latn", [[20, 3]], [[21, 3]]) == ([[20, 3, 7]], [[8, 21, 3]])


def test_sides_have_their_languages():
    assert NLLB.sources == NLLB.targets == ("eng_Latn", "deu_Latn", "zho_Hans")
    assert (OURS.sources, OURS.targets) == (("en", "it"), ("de", "fr"))


@pytest.mark.parametrize(
    ("side", "code", "message"),
    [
        ("target", "deu_Lat", r"Received: 'deu_Lat'\. Did you mean deu_Latn"),
        ("target", "zh", r"Did you mean zho_Hans\?"),
        ("source", "xxxxx", r"Received: 'xxxxx'\. The model has eng_Latn, deu_Latn, zho_Hans\."),
        ("source", None, r"Received: none\. Give --source-language, one of eng_Latn"),
    ],
)
def test_unknown_codes_are_rejected_with_similar_ones(side, code, message):
    with pytest.raises(LanguageError, match=message):
        NLLB.check(side, code)


def test_a_file_gives_back_what_was_written(tmp_path):
    for languages in (NLLB, OURS):
        (tmp_path / "languages.json").write_text(languages.to_json())
        assert Languages.from_file(tmp_path / "languages.json", 10) == languages


@pytest.mark.parametrize(
    "wrong",
    [
        {"tokens": {}},
        {"tokens": {"de": -1}},
        {"tokens": {"de": "4"}},
        {"tokens": {"de": 4}, "place": "middle"},
        {"tokens": {"de": 4}, "target_token": 1},
        {"tokens": {"de": 4}, "pairs": [["en"]]},
        {"tokens": {"de": 400}},
        {"tokens": {"de": 4}, "other": 1},
        [],
    ],
)
def test_a_malformed_file_is_rejected(wrong, tmp_path):
    (tmp_path / "languages.json").write_text(json.dumps(wrong))
    with pytest.raises(TokenizerError, match=r"languages\.json: expected .*Get or make it again"):
        Languages.from_file(tmp_path / "languages.json", 10)


def test_codes_are_those_of_two_letters():
    codes = ["de_DE", "deu_Latn", "de-AT", "de", "zh_CN", "ace_Arab", None]
    assert [two_letters(code) for code in codes] == ["de", "de", "de", "de", "zh", "ace", None]
    assert tag_of("de") == "<2de>"
