"""`prepare --engine beam` writes what `prepare` writes: the same pairs, counts, vocabulary and ids, byte for byte."""

import dataclasses
import gzip
import itertools
import os
import random
import signal

import pytest

pytest.importorskip("apache_beam")
pytestmark = pytest.mark.slow

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from tf_transformer._beam import BeamError, BeamJobs, index_lines  # noqa: E402
from tf_transformer.data import BadUtf8, Cleaner, PreparedDataset, PrepareOptions, WeightedFiles, open_corpus, prepare  # noqa: E402
from tf_transformer.data.corpora import blocks_of, open_text_files_on_beam  # noqa: E402
from tf_transformer.data.preparation.on_beam import BeamEngine, prepare_on_beam  # noqa: E402
from tf_transformer.pipelines import cli  # noqa: E402

IN_PROCESS = "direct_running_mode=in_memory"
WORDS = "the a small house dog man sees likes red green book and of 12 Baum Haus ist grün".split()  # noqa: SIM905
OPTIONS = PrepareOptions(vocab_size=180, shard_pairs=300, vocabulary_pairs=400, max_length=30)


def lines(count: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    return [" ".join(chance.choice(WORDS) for _ in range(chance.randint(1, 9))) for _ in range(count)]


def write_files(folder) -> list[WeightedFiles]:
    """Three training files with what cleaning drops, duplicates within and across files, and a marked first line."""
    for name, count, seed in (("a", 1100, 1), ("b", 230, 2)):
        sources, targets = lines(count, seed), lines(count, seed + 10)
        for place in range(0, count, 7):
            sources[place], targets[place] = sources[place // 2], targets[place // 2]
        sources[5], targets[11], sources[13] = "", "x " * 50, sources[13] + "\r"
        # A mark at the start of the file is none of the text; at the start of a block it is.
        sources[0], sources[64], sources[128] = "\ufeff" + sources[0], "\ufeff" + sources[64], "\u3000"
        (folder / f"{name}.en").write_bytes("\n".join(sources).encode() + (b"\n" if name == "a" else b""))
        (folder / f"{name}.de").write_bytes("\n".join(targets).encode() + b"\n")
    pairs = zip(lines(150, 1), lines(150, 11))
    with gzip.open(folder / "c.tsv.gz", "wb") as file:
        file.write("".join(f"{source}\t{target}\n" for source, target in pairs).encode() + b"bad \xff\tschlecht\n")
    return [
        WeightedFiles(str(folder / "a.en"), str(folder / "a.de")),
        WeightedFiles(str(folder / "[b].en"), str(folder / "[b].de"), 1.5),
        WeightedFiles(str(folder / "c.tsv.gz")),
    ]


def assert_equal_directories(first, second) -> None:
    names = sorted(path.name for path in first.iterdir())
    assert sorted(path.name for path in second.iterdir()) == names
    for name in names:
        if name != "dataset.json":
            assert (first / name).read_bytes() == (second / name).read_bytes(), name
    infos = [PreparedDataset(path).info for path in (first, second)]
    for info in infos:
        del info["created"], info["command"]
    assert infos[0] == infos[1]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """The files, and what one machine makes of them."""
    folder = tmp_path_factory.mktemp("prepared")
    files = {"train": write_files(folder)}
    corpus = open_corpus("files", source_language="en", target_language="de", files=files)
    return files, prepare(corpus, folder / "data", OPTIONS, workers=1)


@pytest.mark.parametrize("options", [IN_PROCESS, "direct_running_mode=multi_processing direct_num_workers=2"])
def test_the_directories_are_equal(tmp_path, prepared, options):
    files, expected = prepared
    with BeamJobs.open(tmp_path / "data", options) as jobs:
        corpus = open_text_files_on_beam(files, "en", "de", jobs, block_lines=64)
        assert len(blocks_of(corpus.splits["train"].parts[0][0])) == 18
        prepare_on_beam(corpus, tmp_path / "data", jobs, OPTIONS)
    assert_equal_directories(expected.path, tmp_path / "data")
    dropped = expected.info["splits"]["train"]["cleaning"]["dropped"]
    assert dropped["duplicate"] > 200 and dropped["empty"] and dropped["too_long"] and dropped["bad_utf8"]
    assert len(expected.info["splits"]["train"]["shards"]) > 3
    assert os.listdir(tmp_path) == ["data"]


def test_the_command_writes_what_the_plain_command_writes(tmp_path, capsys):
    command = [
        "prepare",
        "--data",
        "files",
        "--source-language",
        "en",
        "--target-language",
        "de",
        "--vocab-size",
        "180",
    ]
    for number, split in enumerate(("train", "validation", "test")):
        for side in ("source", "target"):
            path = tmp_path / f"{split}.{side}"
            path.write_text("\n".join(lines(200, 2 * number + (side == "source"))) + "\n", encoding="utf-8")
            command += [f"--{split}-{side}", str(path)]
    for engine in ("local", "beam"):
        flags = ["--engine", engine, "--output", str(tmp_path / engine)]
        flags += ["--beam-options", IN_PROCESS] if engine == "beam" else []
        assert cli.main([*command, "--keep-duplicates", *flags]) == 0
    assert f"{tmp_path / 'beam'}: en to de" in capsys.readouterr().out
    assert_equal_directories(tmp_path / "local", tmp_path / "beam")
    # The same inputs on either engine are the same dataset: nothing is done again.
    made = (tmp_path / "local" / "dataset.json").read_bytes()
    again = ["--keep-duplicates", "--engine", "beam", "--beam-options", IN_PROCESS, "--output", str(tmp_path / "local")]
    assert cli.main([*command, *again]) == 0
    assert (tmp_path / "local" / "dataset.json").read_bytes() == made


def test_a_corpus_without_files_is_read_by_one_worker(tmp_path):
    corpus = open_corpus("phrasebook")
    small = dataclasses.replace(corpus, splits={"train": FirstPairs(corpus.splits["train"], 700)})
    options = PrepareOptions(vocab_size=300, shard_pairs=200)
    prepare(small, tmp_path / "local", options, workers=1)
    with BeamJobs.open(tmp_path / "beam", IN_PROCESS) as jobs:
        prepare_on_beam(small, tmp_path / "beam", jobs, options)
    assert_equal_directories(tmp_path / "local", tmp_path / "beam")


@dataclasses.dataclass(frozen=True)
class FirstPairs:
    split: object
    count: int

    def __iter__(self):
        return itertools.islice(iter(self.split), self.count)


def test_another_file_system_gets_the_same_files(tmp_path, prepared, toy_file_system):
    files, expected = prepared
    (tmp_path / "store").mkdir()
    for path in expected.path.parent.iterdir():
        if path.is_file():
            (tmp_path / "store" / path.name).write_bytes(path.read_bytes())
    folder = f"{expected.path.parent}/"

    def moved(path):
        return path and str(path).replace(folder, "toy://bucket/")

    elsewhere = {"train": [WeightedFiles(moved(f.source), moved(f.target), f.weight) for f in files["train"]]}
    for _ in range(2):
        with BeamJobs.open("toy://bucket/out/data", IN_PROCESS) as jobs:
            corpus = open_text_files_on_beam(elsewhere, "en", "de", jobs, block_lines=64)
            found = prepare_on_beam(corpus, "toy://bucket/out/data", jobs, OPTIONS)
        assert found.info["splits"]["train"]["pairs"] == expected.info["splits"]["train"]["pairs"]
    assert_equal_directories(expected.path, tmp_path / "store" / "out" / "data")
    assert [path.name for path in (tmp_path / "store" / "out").iterdir()] == ["data"]


@pytest.fixture
def toy_file_system(tmp_path):
    """A file system whose addresses `toy://…` are files below a directory."""
    from apache_beam.io.filesystem import BeamIOError, FileMetadata
    from apache_beam.io.localfilesystem import LocalFileSystem

    root = str(tmp_path / "store")

    class ToyFileSystem(LocalFileSystem):
        @classmethod
        def scheme(cls):
            return "toy"

        def join(self, base, *paths):
            return "/".join([base.rstrip("/"), *paths])

        def split(self, path):
            return tuple(path.rsplit("/", 1))

        def _list(self, dir_or_prefix):
            for found in super()._list(here(dir_or_prefix)):
                yield FileMetadata(there(found.path), found.size_in_bytes)

        def _path_open(self, path, *more, **named):
            return super()._path_open(here(path), *more, **named)

        def create(self, path, *more, **named):
            os.makedirs(os.path.dirname(here(path)), exist_ok=True)
            return self._path_open(path, "wb", *more, **named)

        def rename(self, sources, destinations):
            if any(map(self.exists, destinations)):  # as HDFS
                raise BeamIOError("rename", {destinations[0]: "exists"})
            super().rename(list(map(here, sources)), list(map(here, destinations)))

        def exists(self, path):
            return super().exists(here(path))

        def delete(self, paths):
            super().delete([here(path).rstrip("/") for path in paths])

    def here(path):
        return path.replace("toy://bucket", root)

    def there(path):
        return path.replace(root, "toy://bucket")

    yield ToyFileSystem
    ToyFileSystem.scheme = classmethod(lambda cls: "gone")


def test_a_killed_worker_ends_the_command_and_leaves_nothing(tmp_path, prepared):
    class KilledOnce(BadUtf8):
        """The first filter of a cleaner, in the first process that comes here."""

        def __call__(self, source, target):
            if not (mark := tmp_path / "killed").exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return super().__call__(source, target)

    files, _ = prepared
    cleaner = Cleaner(filters=(KilledOnce(),))
    with BeamJobs.open(tmp_path / "data", "", workers=2) as jobs:
        corpus = open_text_files_on_beam(files, "en", "de", jobs, block_lines=64)
        with pytest.raises(BeamError, match="a worker process ended"):
            BeamEngine(jobs).clean(corpus, cleaner, tmp_path, 10, 1)
        found = BeamEngine(jobs).clean(corpus, cleaner, tmp_path, 10, 1)
        assert found.pairs == sum(report.kept for report in found.reports) == 1480
    assert [path.name for path in tmp_path.iterdir()] == ["killed"]


def test_a_truncated_file_is_named(tmp_path, capsys):
    whole = gzip.compress("\n".join(lines(5000, 3)).encode())
    (tmp_path / "a.en.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "a.de").write_text("\n".join(lines(5000, 4)))
    command = ["prepare", "--data", "files", "--source-language", "en", "--target-language", "de", "--train-source",
               str(tmp_path / "a.en.gz"), "--train-target", str(tmp_path / "a.de"), "--engine", "beam",
               "--beam-options", IN_PROCESS, "--output", str(tmp_path / "data")]  # fmt: skip
    assert cli.main(command) == 1
    assert "a.en.gz, after line" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_a_damaged_intermediate_file_is_named(tmp_path, prepared):
    files, _ = prepared
    with BeamJobs.open(tmp_path / "data", IN_PROCESS) as jobs:
        corpus = open_text_files_on_beam(files, "en", "de", jobs, block_lines=64)
        engine = BeamEngine(jobs)
        found = engine.clean(corpus, Cleaner(drop_duplicates=False), tmp_path, 400, 1)
        path = found.chunks[0].slices[0][0].path
        with open(path, "r+b") as file:
            file.truncate(100)
        with pytest.raises(BeamError, match=f"{path}: expected 64 pairs"):
            found.sample()


def test_different_numbers_of_lines_are_rejected(tmp_path, capsys):
    (tmp_path / "a.en").write_text("one\ntwo\n")
    (tmp_path / "a.de").write_text("eins\n")
    command = ["prepare", "--data", "files", "--source-language", "en", "--target-language", "de", "--train-source",
               str(tmp_path / "a.en"), "--train-target", str(tmp_path / "a.de"), "--engine", "beam",
               "--beam-options", IN_PROCESS, "--output", str(tmp_path / "data")]  # fmt: skip
    assert cli.main(command) == 1
    assert "Received: 2 in" in capsys.readouterr().err


@settings(derandomize=True, deadline=None)
@given(st.lists(st.sampled_from([b"", b"a", b"bc", b"\r", b"\xef\xbb\xbf"])), st.booleans(), st.integers(1, 5))
def test_an_index_finds_every_block_of_lines(tmp_path_factory, content, ends, step):
    path = tmp_path_factory.mktemp("index") / "text"
    data = b"\n".join(content) + (b"\n" if ends and content else b"")
    path.write_bytes(data)
    expected = data.split(b"\n")
    expected = expected[:-1] if not expected[-1] else expected
    index = index_lines(str(path), step)
    assert index.lines == len(expected) and index.size == len(data)
    if expected:
        assert [data[offset:].split(b"\n")[0] for offset in index.offsets] == expected[::step]


def test_options_without_the_engine_are_rejected(tmp_path, capsys):
    command = ["prepare", "--data", "phrasebook", "--output", str(tmp_path / "data"), "--beam-options", "a=b"]
    assert cli.main(command) == 1
    assert "Expected --engine beam" in capsys.readouterr().err
    assert not os.listdir(tmp_path)
