"""Preparing: what is written is what was given, once, whole, and the same whoever does it."""

import dataclasses
import json
import os
import re
import shutil
import types

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer._files import atomic_directory
from tf_transformer.data._datasets import BatchOptions, training_dataset, validation_dataset
from tf_transformer.data._gathering import Replicas
from tf_transformer.data._prepared import PreparedDataset, PreparedError
from tf_transformer.data._record_layout import RecordError
from tf_transformer.data._shapes import LengthCounts
from tf_transformer.data.corpora._corpus import Corpus
from tf_transformer.data.corpora._text_files import LineFile
from tf_transformer.data.preparation._dataset_info import differences
from tf_transformer.data.preparation._encoding import Encoder, encode_chunks
from tf_transformer.data.preparation._prepare import PrepareOptions, prepare
from tf_transformer.data.preparation._spool import Spool
from tf_transformer.text._model_file import TokenizerError

pytestmark = pytest.mark.long

NUMBERS = "one two three four five six seven eight nine ten eleven twelve thirteen".split()  # noqa: SIM905
ZAHLEN = "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn".split()  # noqa: SIM905


class ListedSplit(list):
    """A split in memory."""

    @property
    def count(self):
        return len(self)


def pairs(first, count):
    """Distinct pairs: numbers spelled in the words of a clock of thirteen."""

    def spell(words, number):
        return " ".join(words[number // 13**place % 13] for place in range(3 + number % 5)).encode()

    return ListedSplit((spell(NUMBERS, n), spell(ZAHLEN, n)) for n in range(first, first + count))


def corpus(train=None, version=1, **splits):
    splits = {"validation": pairs(3000, 31), "test": pairs(4000, 37)} | splits
    splits = {"train": pairs(0, 1009) if train is None else train} | {k: v for k, v in splits.items() if v}
    return Corpus("listed", "en", "de", splits, {"version": version})


OPTIONS = PrepareOptions(vocab_size=211, shard_pairs=101)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return prepare(corpus(), tmp_path_factory.mktemp("prepared") / "data", OPTIONS, workers=1, command="a command")


@pytest.fixture
def copy(prepared, tmp_path):
    return shutil.copytree(prepared.path, tmp_path / "copy")


def texts_of(prepared, split="train"):
    """The pairs of the records, decoded, in the order of the shards."""
    reader, decode = prepared.reader(split), prepared.tokenizers.source.decode
    texts = []
    for shard in range(len(reader.pairs)):
        ids = reader.read(tf.constant([shard], tf.int64))
        sides = [tf.RaggedTensor.from_row_splits(ids[i], ids[i + 1]).to_list() for i in (0, 2)]
        texts += [(decode(source).encode(), decode(target).encode()) for source, target in zip(*sides)]
    return texts


def test_records_hold_the_training_text_in_random_order(prepared):
    texts = texts_of(prepared)
    assert sorted(texts) == sorted(pairs(0, 1009)) and texts != pairs(0, 1009)
    sizes = [shard["pairs"] for shard in prepared.info["splits"]["train"]["shards"]]
    assert len(sizes) == 10 and min(sizes) > 60
    assert texts_of(prepared, "validation") == pairs(3000, 31)


def test_equal_inputs_make_equal_records(prepared, tmp_path):
    other = prepare(corpus(), tmp_path / "data", OPTIONS, workers=1)
    shards = [[s["sha256"] for s in made.info["splits"]["train"]["shards"]] for made in (prepared, other)]
    assert shards[0] == shards[1]


def test_validation_and_test_are_plain_text(prepared):
    sources, references = prepared.lines("test")
    assert sources == [source.decode() for source, _ in pairs(4000, 37)]
    assert references == [target.decode() for _, target in pairs(4000, 37)]
    assert len(prepared.lines("validation")[0]) == 31
    with pytest.raises(PreparedError, match=r"the text of one of the splits .* Received: 'train'"):
        prepared.lines("train")


def test_the_description_is_true(prepared):
    info = json.loads((prepared.path / "dataset.json").read_text())
    train = info["splits"]["train"]
    encode = prepared.tokenizers.source.encode
    lengths = np.array([(len(encode(source)), len(encode(target))) for source, target in pairs(0, 1009)])
    assert train["pairs"] == sum(shard["pairs"] for shard in train["shards"]) == 1009
    assert (train["source_tokens"], train["target_tokens"]) == tuple(lengths.sum(0))
    assert train["source_lengths"]["max"] == lengths[:, 0].max()
    assert train["target_lengths"]["mean"] == round(float(lengths[:, 1].mean()), 2)
    ratio = lengths[:, 1].sum() / lengths[:, 0].sum()
    spread = (lengths[:, 1] - ratio * lengths[:, 0]) / np.sqrt(lengths[:, 0])
    # Of 1,009 pairs, 99.9 % are all but one.
    expected = {"ratio": ratio, "low": spread.min(), "high": spread.max()}
    assert train["length_ratio"] == {name: round(float(value), 4) for name, value in expected.items()}
    counts, expected = prepared.length_counts(), LengthCounts.of(lengths)
    np.testing.assert_array_equal(counts.lengths, expected.lengths)
    np.testing.assert_array_equal(counts.pairs, expected.pairs)
    assert info["tokenizer"]["source_vocab_size"] == 211
    assert info["command"] == "a command" and info["versions"]["sentencepiece"]
    assert {"train-00000.tfrecord", "tokenizer.model", "test.target.txt"} <= set(os.listdir(prepared.path))
    assert "train.spool" not in os.listdir(prepared.path)
    assert "train: 1,009 of 1,009 pairs (dropped: none)" in prepared.summary()


def test_running_again_does_nothing(copy, caplog):
    caplog.set_level("INFO")
    before = (copy / "dataset.json").stat().st_mtime_ns
    prepare(corpus(), copy, OPTIONS)
    assert (copy / "dataset.json").stat().st_mtime_ns == before and "nothing to do" in caplog.text


def test_other_inputs_are_named_and_rejected_unless_overwritten(copy):
    other = dataclasses.replace(OPTIONS, vocab_size=223)
    with pytest.raises(PreparedError, match=r"(?s)differs in\n  vocab_size: 211 → 223\n.*--overwrite"):
        prepare(corpus(), copy, other)
    with pytest.raises(PreparedError, match=r"differs in\n  version: 1 → 2\n"):
        prepare(corpus(version=2), copy, OPTIONS)
    assert PreparedDataset(copy).tokenizers.source.vocab_size == 211
    assert prepare(corpus(), copy, other, overwrite=True, workers=1).tokenizers.source.vocab_size == 223
    assert os.listdir(copy.parent) == ["copy"]


def test_what_differs_between_files_is_named(tmp_path):
    (tmp_path / "a.en").write_bytes(b"one\n")
    (tmp_path / "a.de").write_bytes(b"eins\n")
    (tmp_path / "b.de").write_bytes(b"zwei zwei\n")
    files = {side: LineFile(tmp_path / side).identity() for side in ("a.en", "a.de", "b.de")}

    def described(target, **splits):
        identity = {"train": {"source": files["a.en"], "target": files[target]}}
        return Corpus("files", "en", "de", {"train": pairs(0, 3)} | splits, identity)

    before, after = described("a.de"), described("b.de", test=pairs(9, 2))
    info = {
        "inputs": {"corpus": before.fingerprint(), "seed": 1, "tokenizer": None},
        "corpus": {"spec": "files", "identity": before.identity},
        "splits": {"train": {}, "validation": {"held_out_of": "train"}},
        "source_language": "en",
        "target_language": "de",
    }
    inputs = {"corpus": after.fingerprint(), "seed": 2, "tokenizer": {"source": "a" * 64, "target": "b" * 64}}
    splits, target, *options = differences(info, after, inputs)
    assert splits == "splits: train → train, test"
    assert re.fullmatch(r"train.target: a.de 5 bytes \(SHA-256 \w{8}…\) → b.de 10 bytes \(SHA-256 \w{8}…\)", target)
    assert options == ["seed: 1 → 2", "tokenizer: trained on the corpus → given (aaaaaaaa… and bbbbbbbb…)"]
    same = {"corpus": before.fingerprint(), "seed": 1, "tokenizer": None}
    assert differences(info, before, same) == []


def test_a_damaged_directory_of_the_same_inputs_is_made_anew(copy):
    os.truncate(copy / "train-00000.tfrecord", 100)
    prepare(corpus(), copy, OPTIONS, workers=1)
    assert len(texts_of(PreparedDataset(copy))) == 1009


@pytest.mark.parametrize("name", ["train.lengths.npy", "tokenizer.model", "validation-00000.tfrecord"])
def test_a_directory_without_one_of_its_files_is_made_anew(copy, name):
    (copy / name).unlink()
    prepare(corpus(), copy, OPTIONS, workers=1)
    assert len(texts_of(PreparedDataset(copy))) == 1009


def test_the_same_inputs_are_prepared_again_where_that_is_asked_for(copy):
    damaged = bytearray((copy / "train-00000.tfrecord").read_bytes())
    damaged[30] ^= 1
    (copy / "train-00000.tfrecord").write_bytes(damaged)
    with pytest.raises(RecordError, match="again with --overwrite"):
        PreparedDataset(copy).verify()
    prepare(corpus(), copy, OPTIONS, workers=1, overwrite=True)
    PreparedDataset(copy).verify()


def test_what_lies_beside_an_output_is_left_alone(copy):
    backup = copy.with_name("copy.old")
    backup.mkdir()
    prepare(corpus(), copy, OPTIONS, workers=1, overwrite=True)
    assert sorted(os.listdir(copy.parent)) == ["copy", "copy.old"]


def test_a_replaced_directory_that_a_kill_left_is_no_obstacle(copy):
    left = copy.with_name(".copy.writing-12345678") / "old"
    left.mkdir(parents=True)
    (left / "dataset.json").write_text("{}")
    prepare(corpus(), copy, OPTIONS, workers=1, overwrite=True)
    assert os.listdir(copy.parent) == ["copy"]


def test_a_work_directory_is_never_replaced(copy):
    (copy / "checkpoints" / "step-00000010").mkdir(parents=True)
    for overwrite in (False, True):
        with pytest.raises(PreparedError, match="the work directory of a model"):
            prepare(corpus(), copy, OPTIONS, overwrite=overwrite)
    assert (copy / "checkpoints" / "step-00000010").is_dir()


def test_pairs_of_spaces_that_are_not_ascii_are_dropped_and_counted(tmp_path):
    odd = [("\u3000\u00a0".encode(), b"a word"), (b"a word", "\u200b".encode())]
    prepared = prepare(corpus(train=ListedSplit([*odd, *pairs(0, 1009)])), tmp_path / "data", OPTIONS, workers=1)
    facts = prepared.info["splits"]["train"]
    assert (facts["pairs"], facts["cleaning"]["dropped"]["empty"]) == (1009, 2)
    assert facts["cleaning"]["kept"] == 1009


def test_a_directory_of_something_else_is_never_touched(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(PreparedError, match=r"which has no dataset\.json"):
        prepare(corpus(), tmp_path, OPTIONS, overwrite=True)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


class Interrupted(ListedSplit):
    def __iter__(self):
        yield from super().__iter__()
        raise KeyboardInterrupt


def test_an_interrupted_run_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        prepare(corpus(train=Interrupted(pairs(0, 53))), tmp_path / "data", OPTIONS)
    assert os.listdir(tmp_path) == []


def test_an_interrupted_overwrite_leaves_the_old(copy):
    with pytest.raises(KeyboardInterrupt):
        prepare(corpus(train=Interrupted(pairs(0, 53)), version=2), copy, OPTIONS, overwrite=True)
    assert len(texts_of(PreparedDataset(copy))) == 1009 and os.listdir(copy.parent) == ["copy"]


def test_what_a_killed_run_left_is_cleared(tmp_path):
    (tmp_path / ".data.writing-12345678" / "new" / "deep").mkdir(parents=True)
    (tmp_path / ".data.writing-12345678" / "new" / "train-00099.tfrecord").write_bytes(b"half")
    made = prepare(corpus(), tmp_path / "data", OPTIONS, workers=1)
    assert os.listdir(tmp_path) == ["data"] and not (made.path / "train-00099.tfrecord").exists()


def test_two_runs_at_once_are_rejected(tmp_path):
    with (
        atomic_directory(tmp_path / "data"),
        pytest.raises(OSError, match=r"Another process is writing .*data .*Wait until it ends"),
    ):
        prepare(corpus(), tmp_path / "data", OPTIONS)


def test_drops_are_counted_by_reason(tmp_path):
    bad = [(b"", b"leer"), (b"\xff\xfe", b"kaputt"), (b"word " * 5000, b"wort " * 5000), (b"short", b"lang" * 40)]
    bad += [(b"qzxwvkjyqpzfbgdhqmcuqzkxjwvpyfqbkz", b"zqkbxjwpvqyfdhgzcmuqxkzjbwpvfyqdgh"), pairs(0, 1)[0]]
    made = prepare(
        corpus(train=ListedSplit([*pairs(0, 503), *bad])),
        tmp_path / "data",
        dataclasses.replace(OPTIONS, max_length=29, vocab_size=139),
        workers=1,
    )
    train = made.info["splits"]["train"]
    dropped = {why: count for why, count in train["cleaning"]["dropped"].items() if count}
    assert dropped == {
        "empty": 1, "bad_utf8": 1, "too_long": 1, "length_ratio": 1, "duplicate": 1, "too_many_tokens": 1,
    }  # fmt: skip
    assert train["pairs"] == train["cleaning"]["kept"] == 503 and train["cleaning"]["read"] == 509


def test_nothing_left_is_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"Received: none of 2 .*'empty': 2"):
        prepare(corpus(train=ListedSplit([(b"", b"a"), (b"b", b"")])), tmp_path / "data", OPTIONS)
    assert os.listdir(tmp_path) == []


def test_a_default_vocabulary_shrinks_and_an_explicit_one_is_rejected(tmp_path):
    made = prepare(corpus(), tmp_path / "default", dataclasses.replace(OPTIONS, vocab_size=None), workers=1)
    size = made.tokenizers.source.vocab_size
    assert 211 < size < 2000
    with pytest.raises(TokenizerError, match=f"of at most {size}"):
        prepare(corpus(), tmp_path / "explicit", dataclasses.replace(OPTIONS, vocab_size=37_000))


def test_without_validation_some_training_pairs_are_held_out(tmp_path):
    made = prepare(corpus(validation=None), tmp_path / "data", OPTIONS, workers=1)
    sources, references = made.lines("validation")
    held = {(s.encode(), t.encode()) for s, t in zip(sources, references)}
    everything = set(pairs(0, 1009))
    assert len(held) == 50 and held < everything
    assert set(texts_of(made)) == everything - held
    assert set(texts_of(made, "validation")) == held


def test_a_given_tokenizer_is_used(prepared, tmp_path):
    made = prepare(corpus(train=pairs(5000, 211)), tmp_path / "data", OPTIONS, tokenizers=prepared.tokenizers)
    assert made.tokenizers.sha256 == prepared.tokenizers.sha256
    assert made.info["inputs"]["tokenizer"] == prepared.tokenizers.sha256


def test_workers_change_nothing(prepared, tmp_path):
    spool = Spool(tmp_path / "spool", chunk_pairs=83)
    for pair in pairs(0, 1009):
        spool.add(pair)
    spool.close()
    subwords = prepared.tokenizers.source.subwords
    encoder = Encoder(subwords, subwords, 23, frozenset({5, 500, 1008}), shards=7, seed=3)
    alone, together = (list(encode_chunks(encoder, spool.chunks, workers)) for workers in (1, 2))
    assert len(alone) == 13
    for one, other in zip(alone, together, strict=True):
        for ours, theirs in zip((*one.ids, one.shard_counts), (*other.ids, other.shard_counts), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert one.held_out == other.held_out
    assert [pair for encoded in alone for pair in encoded.held_out] == [pairs(n, 1)[0] for n in (5, 500, 1008)]


@pytest.mark.parametrize("batching", ["bucket", "pack"])
def test_batches_of_a_prepared_directory(prepared, batching):
    options = BatchOptions(batch_tokens=307, batching=batching)

    def labels(dataset):
        return sum(int((batch["labels"] > 0).sum()) for batch in dataset.as_numpy_iterator())

    assert labels(training_dataset(prepared, options, epochs=1)) == prepared.info["splits"]["train"]["target_tokens"]
    expected = sum(len(prepared.tokenizers.target.encode(text)) for text in prepared.lines("validation")[1])
    assert labels(validation_dataset(prepared, options)) == expected
    halves = [validation_dataset(prepared, options, replicas=Replicas(2, i, 1)) for i in (0, 1)]
    assert sum(map(labels, halves)) == expected


class TestDamage:
    def test_no_directory(self, tmp_path):
        with pytest.raises(PreparedError, match=r"Received: .* without dataset\.json"):
            PreparedDataset(tmp_path)

    @pytest.mark.parametrize("text", ["{", "[]", '{"format": 99}'])
    def test_description(self, copy, text):
        (copy / "dataset.json").write_text(text)
        with pytest.raises(PreparedError, match=r"dataset\.json"):
            PreparedDataset(copy)

    def test_tokenizer(self, copy, prepared):
        other = prepare(corpus(), copy.parent / "other", dataclasses.replace(OPTIONS, vocab_size=199), workers=1)
        shutil.copy(other.path / "tokenizer.model", copy)
        with pytest.raises(PreparedError, match="expected the tokenizer that made the records"):
            _ = PreparedDataset(copy).tokenizers

    def test_text(self, copy):
        (copy / "test.target.txt").write_text("changed\n")
        with pytest.raises(PreparedError, match=r"test\.target\.txt: expected the file as it was prepared"):
            PreparedDataset(copy).lines("test")

    def test_a_missing_or_truncated_shard_is_named_before_anything_is_read(self, copy):
        os.truncate(copy / "train-00003.tfrecord", 100)
        with pytest.raises(
            RecordError, match=r"train-00003\.tfrecord: expected \d+ bytes.* Received: 100; .*--overwrite"
        ):
            training_dataset(PreparedDataset(copy))
        (copy / "train-00003.tfrecord").unlink()
        with pytest.raises(RecordError, match=r"train-00003\.tfrecord: expected a shard .* Received: No such file"):
            training_dataset(PreparedDataset(copy))

    def test_a_flipped_bit_is_found(self, copy):
        data = bytearray((copy / "train-00004.tfrecord").read_bytes())
        data[len(data) // 2] ^= 1
        (copy / "train-00004.tfrecord").write_bytes(data)
        with pytest.raises(tf.errors.DataLossError) as loss:
            list(training_dataset(PreparedDataset(copy), BatchOptions(batch_tokens=307), epochs=1))
        assert "train-00004.tfrecord" in str(PreparedDataset(copy).explain(loss.value))
        with pytest.raises(
            RecordError, match=r"train-00004\.tfrecord: expected the SHA-256 \w+.* Received: \w+; the file"
        ):
            PreparedDataset(copy).verify()

    def test_a_shard_of_another_dataset_is_named(self, copy, tmp_path):
        """As where another run of `prepare` replaced the directory while a run was reading it."""
        other = prepare(corpus(version=2), tmp_path / "other", OPTIONS, workers=1)
        dataset = training_dataset(PreparedDataset(copy), BatchOptions(batch_tokens=307), epochs=1)
        shutil.copy(other.path / "train-00005.tfrecord", copy)
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"train-00005\.tfrecord: expected records of the dataset"
        ):
            list(dataset)

    def test_ids_outside_the_vocabulary(self, prepared):
        """The files are whole, so that what the check in the graph says is all there is to say."""
        message = "assertion failed: [/a/train: expected source ids from 0 to 5. Received: 7] [[node]]"
        error = prepared.explain(tf.errors.InvalidArgumentError(None, None, message))
        assert isinstance(error, RecordError)
        assert str(error).startswith("/a/train: expected source ids from 0 to 5. Received: 7; prepare")
        for other in (tf.errors.ResourceExhaustedError(None, None, "OOM"), tf.errors.NotFoundError(None, None, "gone")):
            assert prepared.explain(other) is other

    def test_lengths(self, copy):
        (copy / "train.lengths.npy").write_bytes(b"junk")
        with pytest.raises(RecordError, match=r"train\.lengths\.npy"):
            PreparedDataset(copy).length_counts()


def test_tables_of_ids_whose_padding_is_not_0_are_rejected(tmp_path):
    sides = types.SimpleNamespace(source=types.SimpleNamespace(pad_id=0), target=types.SimpleNamespace(pad_id=65000))
    with pytest.raises(PreparedError, match=r"padding has the id 0\. Received: 65000 for the target"):
        prepare(corpus(), tmp_path / "data", OPTIONS, tokenizers=sides)
