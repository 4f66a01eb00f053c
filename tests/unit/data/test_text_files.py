"""Corpora of one's own files."""

import gzip

import pytest

from tf_transformer.data.corpora._corpus import CorpusError
from tf_transformer.data.corpora._open import open_corpus
from tf_transformer.data.corpora._text_files import WeightedFiles


@pytest.fixture
def write(tmp_path):
    def write(name, *lines):
        data = "".join(f"{line}\n" for line in lines).encode()
        (tmp_path / name).write_bytes(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)
        return tmp_path / name

    return write


def open_files(files, source="en", target="de"):
    return open_corpus("files", source_language=source, target_language=target, files=files)


def test_splits_are_read_side_by_side(write):
    files = {
        "train": (write("t.en", "one", "two", "three"), write("t.de.gz", "eins", "zwei", "drei")),
        "validation": (write("v.tsv", "four\tvier", "five\tfünf\tthird column\tfourth"), None),
        "test": None,
    }
    corpus = open_files(files)
    assert list(corpus.splits) == ["train", "validation"]
    assert list(corpus.splits["train"]) == [(b"one", b"eins"), (b"two", b"zwei"), (b"three", b"drei")]
    assert list(corpus.splits["validation"]) == [(b"four", b"vier"), (b"five", "fünf".encode())]
    assert [split.count for split in corpus.splits.values()] == [3, 2]
    assert (corpus.source_language, corpus.target_language) == ("en", "de")


def test_globs_are_paired_in_the_order_of_their_names(write, tmp_path):
    for number in (2, 1):
        write(f"part{number}.en", f"one {number}"), write(f"part{number}.de", f"eins {number}")
    corpus = open_files({"train": [WeightedFiles(tmp_path / "part*.en", tmp_path / "part*.de", 2.0)]})
    assert list(corpus.splits["train"]) == [(b"one 1", b"eins 1"), (b"one 2", b"eins 2")]
    assert [weight for _, weight in corpus.splits["train"].parts] == [2.0, 2.0]
    write("part3.en", "one 3")
    with pytest.raises(CorpusError, match=r"Received: 3 for .*part\*\.en and 2 for .*part\*\.de"):
        open_files({"train": [WeightedFiles(tmp_path / "part*.en", tmp_path / "part*.de")]})


def test_a_file_whose_name_looks_like_a_glob_is_itself(write):
    path = write("t[1].tsv", "one\teins")
    assert list(open_files({"train": [WeightedFiles(path)]}).splits["train"]) == [(b"one", b"eins")]


def test_weights_are_part_of_the_fingerprint(write):
    path = write("t.tsv", "one\teins")
    prints = {open_files({"train": [WeightedFiles(path, weight=w)]}).fingerprint() for w in (1.0, 2.0, 3.0)}
    assert len(prints) == 3
    assert open_files({"train": (path, None)}).fingerprint() in prints


def test_different_numbers_of_lines_give_both_counts_before_any_work(write):
    source, target = write("t.en", "one", "two", "three"), write("t.de", "eins", "zwei")
    with pytest.raises(CorpusError, match=r"Received: 3 in .*t\.en and 2 in .*t\.de"):
        open_files({"train": (source, target)})


@pytest.mark.parametrize(("side", "counts"), [("t.en", "1 in .* and 2 in"), ("t.de", "2 in .* and 1 in")])
def test_a_file_that_shrinks_while_it_is_read_is_noticed(write, side, counts):
    source, target = write("t.en", "one", "two"), write("t.de", "eins", "zwei")
    corpus = open_files({"train": (source, target)})
    write(side, "only")
    with pytest.raises(CorpusError, match=counts):
        list(corpus.splits["train"])


def test_a_tsv_line_without_a_tab_is_named(write):
    path = write("t.tsv", "one\teins", "two zwei")
    with pytest.raises(CorpusError, match=r"t\.tsv, line 2: expected `source<TAB>target`"):
        list(open_files({"train": (path, None)}).splits["train"])


def test_a_file_that_is_no_tsv_is_rejected_on_opening(write):
    with pytest.raises(CorpusError, match="line 1: expected `source<TAB>target`"):
        open_files({"train": (write("t.en", "one"), None)})


def test_files_to_train_on_are_needed(write):
    with pytest.raises(CorpusError, match="--train-source"):
        open_files({"test": (write("t.tsv", "one\teins"), None)})
    with pytest.raises(CorpusError, match="--train-source"):
        open_corpus("files", source_language="en", target_language="de")


def test_a_target_alone_and_an_unknown_split_are_rejected(write):
    path = write("t.de", "eins")
    with pytest.raises(CorpusError, match="no --train-source"):
        open_files({"train": (None, path)})
    with pytest.raises(CorpusError, match="Received: dev"):
        open_files({"train": (write("t.tsv", "a\tb"), None), "dev": (path, None)})


@pytest.mark.parametrize(("source", "target"), [(None, "de"), ("en", None), ("en", "en")])
def test_both_languages_are_needed_and_differ(write, source, target):
    with pytest.raises(CorpusError, match="--source-language and --target-language"):
        open_files({"train": (write("t.tsv", "a\tb"), None)}, source, target)


def test_the_fingerprint_tells_other_input(write):
    def fingerprint(*lines, **languages):
        return open_files({"train": (write("t.tsv", *lines), None)}, **languages).fingerprint()

    first = fingerprint("one\teins")
    assert fingerprint("one\teins") == first
    assert fingerprint("one\tzwei") != first
    assert fingerprint("one\teins", source="de", target="en") != first


@pytest.mark.parametrize("spec", ["wmt", "tfds:", "phrasebook:en", "", "Files"])
def test_an_unknown_spec_is_answered_with_the_known_ones(spec):
    with pytest.raises(CorpusError, match=r"`phrasebook`, `files` or `tfds:<builder>/<pair>`"):
        open_corpus(spec)


def test_files_beside_another_spec_are_rejected(write):
    with pytest.raises(CorpusError, match="use one of the two"):
        open_corpus("phrasebook", files={"train": (write("t.tsv", "a\tb"), None)})
