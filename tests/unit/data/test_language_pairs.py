"""Corpora of several language pairs: one vocabulary with tags, sampling by temperature, validation per pair."""

import pathlib

import numpy as np
import pytest

from tf_transformer.data import PrepareOptions, WeightedFiles, open_corpus, prepare
from tf_transformer.data.corpora import CorpusError
from tf_transformer.data.preparation._language_pairs import balance
from tf_transformer.data.preparation._spool import Spool
from tf_transformer.text import LanguageError, load_tokenizers

pytestmark = pytest.mark.long

WORDS = {"en": "one two three four five", "de": "eins zwei drei vier fünf", "fr": "un deux trois quatre cinq"}
OPTIONS = PrepareOptions(vocab_size=170, shard_pairs=1000)


def write_lines(path: pathlib.Path, language: str, numbers: range) -> pathlib.Path:
    words = WORDS[language].split()
    lines = [" ".join(words[n // 5**place % 5] for place in range(6)) for n in numbers]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def pair_files(folder: pathlib.Path, pair: str, numbers: range) -> WeightedFiles:
    source, target = pair.split("-")
    files = [write_lines(folder / f"{pair}.{numbers.start}.{code}", code, numbers) for code in (source, target)]
    return WeightedFiles(*files, languages=(source, target))


def open_pairs(folder: pathlib.Path, **splits: list[WeightedFiles]):
    folder.mkdir(exist_ok=True)
    train = [pair_files(folder, "en-de", range(200)), pair_files(folder, "en-fr", range(1000, 1050))]
    return open_corpus("files", files={"train": train} | splits)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    held_out = {
        name: [
            pair_files(folder, "en-de", range(first, first + 7)),
            pair_files(folder, "en-fr", range(first, first + 3)),
        ]
        for name, first in (("validation", 3000), ("test", 4000))
    }
    return prepare(open_pairs(folder, **held_out), folder / "data", OPTIONS, workers=1)


def test_languages_and_tags_are_recorded(prepared):
    languages = prepared.tokenizers.languages
    assert languages.pairs == (("en", "de"), ("en", "fr")) and not languages.target_token
    assert prepared.tokenizers.source.pieces(languages.tokens.values()) == ["<2de>", "<2fr>"]
    assert (prepared.source_language, prepared.target_language) == ("en", None)
    assert prepared.languages == "en to de, en to fr"
    assert load_tokenizers(prepared.path).languages == languages
    assert "<2de>" not in "".join(prepared.tokenizers.source.pieces(prepared.tokenizers.source.encode("<2de> one")))[:5]


def test_held_out_lines_know_their_languages(prepared):
    sources, references = prepared.lines("test")
    pairs = prepared.language_pairs("test")
    assert len(sources) == len(references) == len(pairs) == 10
    assert pairs == [("en", "de")] * 7 + [("en", "fr")] * 3
    assert references[0].split()[0] in WORDS["de"] and references[-1].split()[0] in WORDS["fr"]


def test_training_parts_have_languages_and_counts(prepared):
    parts = prepared.info["splits"]["train"]["corpora"]
    assert [(part["languages"], part["pairs"]) for part in parts] == [("en-de", 200), ("en-fr", 50)]


def test_temperature_repeats_small_pairs(tmp_path):
    corpus = open_pairs(tmp_path / "files")
    options = PrepareOptions(vocab_size=170, temperature=2.0, held_out_pairs=0)
    parts = prepare(corpus, tmp_path / "data", options, workers=1).info["splits"]["train"]["corpora"]
    assert parts[0]["pairs"] == 200 and 90 <= parts[1]["pairs"] <= 110  # 50 * (200 / 50) ** 0.5 = 100


def test_weights_by_temperature(tmp_path):
    spool = Spool(tmp_path / "spool", chunk_pairs=10)
    for part, count in enumerate((80, 20, 5)):
        spool.start_part(part, 1.0)
        for number in range(count):
            spool.add((b"%d" % number, b"x"))
    spool.close()
    languages = (("en", "de"), ("en", "fr"), ("en", "fr"))
    balance(spool, languages, 4.0)
    weights = {chunk.part: chunk.weight for chunk in spool.chunks}
    assert weights[0] == 1.0 and weights[1] == weights[2]
    np.testing.assert_allclose(weights[1], (80 / 25) ** 0.75)
    balance(spool, languages, 1.0)
    assert {chunk.part: chunk.weight for chunk in spool.chunks} == weights


def test_held_out_training_pairs_know_their_languages(tmp_path):
    prepared = prepare(open_pairs(tmp_path / "files"), tmp_path / "data", OPTIONS, workers=1)
    pairs = prepared.language_pairs("validation")
    references = prepared.lines("validation")[1]
    assert len(pairs) == 12
    assert all(line.split()[0] in WORDS[target] for line, (_, target) in zip(references, pairs))


def test_a_given_tokenizer_must_have_the_languages(prepared, tmp_path):
    files = [pair_files(tmp_path, "de-en", range(50)), pair_files(tmp_path, "fr-en", range(50))]
    with pytest.raises(LanguageError, match="Expected a target language of the model"):
        prepare(
            open_corpus("files", files={"train": files}), tmp_path / "data", OPTIONS, tokenizers=prepared.tokenizers
        )


@pytest.mark.parametrize("pair", ["en-en", "de-fr"])
def test_pairs_that_are_not_trained_are_rejected(pair, tmp_path):
    with pytest.raises(CorpusError, match=f"Expected two different languages.* Received: {pair}"):
        open_pairs(tmp_path, validation=[pair_files(tmp_path, pair, range(3))])
