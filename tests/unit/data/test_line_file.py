"""Lines of plain and compressed files, and what is rejected."""

import gzip
import lzma

import pytest

from tf_transformer.data.corpora import _line_file as line_file
from tf_transformer.data.corpora._corpus import CorpusError
from tf_transformer.data.corpora._line_file import LineFile

TEXT = "erste\nzweite Zeile\r\nfünfte \u2028 noch fünfte\n\nletzte".encode()
LINES = TEXT.split(b"\n")


def gz(data):
    """Compresses without the current time in the header: the same bytes in every process."""
    return gzip.compress(data, mtime=0)


def write(path, data):
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("name", "compress"), [("a.de", bytes), ("a.gz", gz), ("a.de.XZ", lzma.compress)], ids=["plain", "gz", "xz"]
)
def test_reads_the_same_lines_from_every_kind_of_file(tmp_path, name, compress):
    file = LineFile(write(tmp_path / name, compress(TEXT)))
    assert list(file) == LINES
    assert list(file) == LINES  # a second time
    assert file.count() == len(LINES) == 5


def test_a_byte_order_mark_is_no_text(tmp_path):
    assert list(LineFile(write(tmp_path / "a", b"\xef\xbb\xbfHallo\n"))) == [b"Hallo"]


def test_an_empty_line_at_the_end_counts_only_with_its_line_feed(tmp_path):
    assert list(LineFile(write(tmp_path / "a", b"x\n\n"))) == [b"x", b""]
    assert LineFile(tmp_path / "a").count() == 2


@pytest.mark.parametrize(("name", "compress"), [("a.gz", gz), ("a.xz", lzma.compress)], ids=["gz", "xz"])
def test_a_truncated_archive_names_file_and_line(tmp_path, name, compress):
    data = compress(b"".join(b"line %d with %d\n" % (i, i * i * 7919) for i in range(60_000)))
    path = write(tmp_path / name, data[: len(data) * 2 // 3])
    for read in (lambda: list(LineFile(path)), lambda: LineFile(path).count()):
        with pytest.raises(CorpusError, match=rf"{name}, after line [1-9]\d*: .*truncated or damaged"):
            read()


def test_a_flipped_bit_in_an_archive_is_noticed(tmp_path):
    data = bytearray(gz(TEXT * 50))
    data[len(data) // 2] ^= 4
    path = write(tmp_path / "a.gz", bytes(data))
    with pytest.raises(CorpusError, match="truncated or damaged"):
        list(LineFile(path))


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("empty.de", b"", "empty"),
        ("mark.de", b"\xef\xbb\xbf", "empty"),
        ("empty.gz", gz(b""), "empty"),
        ("wide.gz", gz("zwei\n".encode("utf-16")), "iconv"),
        ("plain.gz", b"plain text\n", "expected gz data"),
        ("page.xz", b"<html></html>", "expected xz data"),
        ("wide.de", "zwei\n".encode("utf-16"), "iconv"),
    ],
    ids=["empty", "only a mark", "empty gz", "UTF-16 in gz", "text as gz", "page as xz", "UTF-16"],
)
def test_what_cannot_be_read_is_rejected_by_name(tmp_path, name, data, message):
    with pytest.raises(CorpusError, match=message) as caught:
        LineFile(write(tmp_path / name, data))
    assert str(tmp_path / name) in str(caught.value)


def test_missing_files_and_directories_are_rejected(tmp_path):
    with pytest.raises(CorpusError, match="Received: nothing"):
        LineFile(tmp_path / "none")
    with pytest.raises(CorpusError, match="Received: a directory"):
        LineFile(tmp_path)


def test_a_line_without_end_does_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(line_file, "MAX_LINE_BYTES", 100)
    path = write(tmp_path / "a", b"short\n" + b"x" * 1000)
    with pytest.raises(CorpusError, match=r"line 2: expected lines of text\. Received: more than 100 bytes"):
        list(LineFile(path))


def test_the_identity_follows_the_content_not_the_place(tmp_path):
    (tmp_path / "b").mkdir()
    first, copy = write(tmp_path / "x.de", b"eins\n"), write(tmp_path / "b" / "x.de", b"eins\n")
    assert LineFile(first).identity() == LineFile(copy).identity()
    before = LineFile(copy).identity()
    write(copy, b"zwei\n")
    assert LineFile(copy).identity() != before
