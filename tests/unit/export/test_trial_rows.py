"""The rows an export is tried on: all kinds of bad text, lengths around the limit, the validation set."""

import json

import pytest
from toy_workdir import toy_tokenizers, toy_workdir

from tf_transformer.data._prepared import FORMAT, INFO, text_name
from tf_transformer.data.preparation._dataset_info import file_facts
from tf_transformer.export._trial_rows import (
    ADVERSARIAL,
    LONGEST_TEXT,
    PLAIN,
    batches_of,
    beginnings,
    documents_of,
    long_rows,
    sentences_of,
    unusual_batches,
)


@pytest.fixture(scope="module")
def tokenizer():
    return toy_tokenizers().source


def is_utf8(row):
    try:
        return bool(row.decode() or True)
    except UnicodeDecodeError:
        return False


def test_adversarial_rows_are_of_all_kinds():
    assert sum(not row.strip() for row in ADVERSARIAL) >= 3 and sum(not is_utf8(row) for row in ADVERSARIAL) >= 4
    for part in (b"\x00", b"</s>", b"<pad>", "▁".encode(), b"<b>", b"https://", "🎉".encode(), b"ha ha ha ha"):
        assert any(part in row for row in ADVERSARIAL)


def test_long_rows_lie_around_the_limit_and_far_beyond(tokenizer):
    limit = 23
    below, at, above, far, huge = long_rows(tokenizer, limit)
    assert [len(tokenizer.encode(row)) for row in (below, at, above)] == [limit - 1, limit, limit + 1]
    assert len(tokenizer.encode(far)) > 10_000
    assert len(huge) == 5_000_000 and b" " not in huge


def test_batches_hold_every_row_in_order():
    rows = [b"row %d" % i for i in range(70)]
    batches = batches_of(rows)
    assert [len(batch) for batch in batches] == [32, 32, 6]
    assert [row for batch in batches for row in batch] == rows


def test_unusual_batches_hold_all_kinds_of_rows_and_none(tokenizer):
    batches = unusual_batches(tokenizer, 23)
    assert [] in batches and all(any(row in batch for batch in batches) for row in ADVERSARIAL)
    assert all(any(row in batch and b"" in batch for batch in batches) for row in long_rows(tokenizer, 23))


def test_documents_have_several_lines_and_sentences():
    first, second, third = documents_of([b"One.", b"Two.", b"Three.", b"Four."])
    assert first == b"One. Four.\n\n  - Two.\r\n  - Three.\n"
    assert (second, third) == (b"Two.", b"Three.\tOne. Four.")


def test_of_long_rows_there_is_a_beginning(tokenizer):
    assert all(len(row) <= LONGEST_TEXT for row in beginnings(long_rows(tokenizer, 23)))
    assert beginnings([b"short", b""]) == [b"short", b""]


def prepared(directory, count):
    """A prepared directory, as far as its validation set goes."""
    directory.mkdir()
    files = {}
    for side in ("source", "target"):
        path = directory / text_name("validation", side)
        path.write_text("".join(f"{side} number {i}\n" for i in range(count)))
        files[path.name] = file_facts(path)
    train = {"pairs": 1, "id_type": "<u2", "lengths_sha256": ""}
    train["shards"] = [{"file": "train-00000.tfrecord", "pairs": 1, "bytes": 0, "sha256": ""}]
    info = {"format": FORMAT, "source_language": "en", "target_language": "de", "fingerprint": "", "inputs": {}}
    info["tokenizer"] = {"sha256": {}}
    info["splits"] = {"train": train, "validation": {"pairs": count, "files": files}}
    (directory / INFO).write_text(json.dumps(info))
    return directory


def test_sentences_are_the_validation_sets(tmp_path):
    workdir = toy_workdir(tmp_path / "run")
    info = {"directory": str(prepared(tmp_path / "prepared", 7))}
    (workdir.path / "dataset.json").write_text(json.dumps(info))
    assert sentences_of(workdir, 5) == ([b"source number %d" % i for i in range(5)], "of the validation set")


@pytest.mark.parametrize("info", [{}, {"directory": "/nowhere"}])
def test_without_a_validation_set_sentences_are_built_in(tmp_path, info):
    workdir = toy_workdir(tmp_path / "run")
    (workdir.path / "dataset.json").write_text(json.dumps(info))
    assert sentences_of(workdir, 5) == (list(PLAIN), "built in")


def test_an_empty_validation_set_is_none(tmp_path):
    workdir = toy_workdir(tmp_path / "run")
    info = {"directory": str(prepared(tmp_path / "prepared", 0))}
    (workdir.path / "dataset.json").write_text(json.dumps(info))
    assert sentences_of(workdir, 5) == (list(PLAIN), "built in")
