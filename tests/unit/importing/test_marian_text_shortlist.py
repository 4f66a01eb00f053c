"""Marian's text shortlists: `target source probability` per line, in the rows of an imported model."""

import gzip

import numpy as np
import pytest
from toy_workdir import toy_tokenizers

from tf_transformer.importing import ImportedModelError
from tf_transformer.importing.marian import read_text_shortlist
from tf_transformer.text import IdMap, Tokenizer, TokenizerPair


@pytest.fixture(scope="module")
def tokenizers():
    return toy_tokenizers()


def lines_of(tokenizers, *entries):
    """One line per (target id, source id, probability)."""
    target, source = tokenizers.target, tokenizers.source
    lines = (f"{target.pieces([t])[0]} {source.pieces([s])[0]} {p}" for t, s, p in entries)
    return "".join(f"{line}\n" for line in lines).encode()


def read(tmp_path, data, tokenizers, **options):
    file = tmp_path / "lex.s2t"
    file.write_bytes(data)
    return read_text_shortlist(file, tokenizers, **options)


def listed(lists, source):
    return [int(i) for i in lists[source] if i >= 0]


ENTRIES = [(31, 7, 0.25), (37, 7, 0.5), (41, 7, 0.125), (43, 11, 1), (31, 11, 0), (47, 11, "1e-05")]


@pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("separator", [b" ", b"\t"])
def test_the_likeliest_targets_come_first(tmp_path, tokenizers, compress, separator):
    data = lines_of(tokenizers, *ENTRIES).replace(b" ", separator) + b"\n"
    lists, frequent = read(tmp_path, compress(data), tokenizers, best=2, frequent=5)
    assert lists.shape == (tokenizers.source.vocab_size, 2) and lists.dtype == np.int32
    assert listed(lists, 7) == [37, 31] and listed(lists, 11) == [43, 47]
    assert (np.delete(lists, [7, 11], axis=0) == -1).all()
    # UNK, EOS and the first pieces: Marian has neither PAD nor BOS.
    assert frequent.tolist() == [1, 3, 4, 5, 6]


def test_the_last_of_equal_pairs_counts_and_null_is_left_out(tmp_path, tokenizers):
    data = lines_of(tokenizers, (37, 7, 0.5), (41, 7, 0.4), (37, 7, 0.3), (43, 7, 0.4))
    piece = tokenizers.target.pieces([31])[0].encode()
    null = b"NULL NULL 0.5\n" + piece + b" NULL 0.9\nNULL " + piece + b" 0.9\n"
    lists, _ = read(tmp_path, null + data, tokenizers)
    assert lists.shape[1] == 3
    assert listed(lists, 7) == [43, 41, 37]  # of equal probabilities Marian takes the higher row first


def test_unknown_tokens_are_unk(tmp_path, tokenizers):
    data = lines_of(tokenizers, *ENTRIES) + "猫 ▁猫 0.5\n".encode() + b"\xff\xfe \xff 0.25\n"
    lists, _ = read(tmp_path, data, tokenizers)
    assert listed(lists, tokenizers.source.unk_id) == [tokenizers.target.unk_id]


def test_ids_are_those_of_the_model(tmp_path, tokenizers):
    """An imported model has a table from pieces to ids; ids that no piece has are UNK's to Marian as well."""
    size = tokenizers.source.vocab_size
    ids = np.arange(size)
    ids[4:] = ids[4:][::-1]
    mapped = Tokenizer(tokenizers.source.model, IdMap(tuple(ids), size + 2, 0, 1, 2, 3))
    pair = TokenizerPair(mapped, tokenizers.target)
    data = lines_of(tokenizers, *ENTRIES)
    lists, _ = read(tmp_path, data, pair)
    assert len(lists) == size + 2
    assert listed(lists, ids[7]) == [37, 31, 41]


BAD = {
    "two fields": (b"a 0.5\n", r"line 7: expected a shortlist of Marian.*Received: 'a 0\.5'"),
    "four fields": (b"a b 0.5 0.5\n", "line 7.*Received: 'a b 0.5 0.5'"),
    "no number": (b"a b c\n", "line 7.*Received: 'a b c'"),
    "negative": (b"a b -0.5\n", "line 7"),
    "above 1": (b"a b 1.5\n", "line 7"),
    "nan": (b"a b nan\n", "line 7"),
    "long": (b"a" * (1 << 20), "line 7.*a line without an end"),
}


@pytest.mark.parametrize("kind", BAD)
def test_malformed_lines_are_named(tmp_path, tokenizers, kind):
    bad, message = BAD[kind]
    with pytest.raises(ImportedModelError, match=message) as error:
        read(tmp_path, lines_of(tokenizers, *ENTRIES) + bad, tokenizers)
    assert "lex.s2t" in str(error.value)


def test_files_that_are_no_shortlist_are_rejected(tmp_path, tokenizers):
    data = lines_of(tokenizers, *ENTRIES)
    compressed = gzip.compress(data * 99)
    for bad, message in (
        (b"", "Received: 0 pairs, of which 0"),
        (b"\xff \xfe 0.5\n" * 3 + data[: data.index(b"\n") + 1], "Received: 4 pairs, of which 1 have tokens of both"),
        (compressed[:-9], "after line .*expected a file that can be read"),
        (compressed[:50] + b"\0" * 9 + compressed[59:], "expected a file that can be read|expected a shortlist"),
        (gzip.compress(b"a b 0.5\n" * 400_000), "unpacks to at most"),
    ):
        with pytest.raises(ImportedModelError, match=message) as error:
            read(tmp_path, bad, tokenizers)
        assert "lex.s2t" in str(error.value)
    with pytest.raises(ImportedModelError, match="Received: no file"):
        read_text_shortlist(tmp_path / "missing", tokenizers)
    for name in ("best", "frequent"):
        with pytest.raises(ValueError, match=f"Expected {name} of at least 1. Received: 0"):
            read(tmp_path, data, tokenizers, **{name: 0})
