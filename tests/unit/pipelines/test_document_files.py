"""Files translated as a whole."""

import logging

import pytest

from tf_transformer.decoding import DocumentTranslation
from tf_transformer.pipelines._documents import DocumentFiles


class Shouting:
    """A model whose translations are upper case, and that warns of every text with an x."""

    def translate_document(self, texts):
        return [DocumentTranslation(text.decode().upper(), 1, ("split",) if b"x" in text else ()) for text in texts]


def test_text_and_subtitles_are_written_under_their_names(tmp_path, caplog):
    text = tmp_path / "letter.txt"
    text.write_bytes("\ufeffDear Ann,\r\n\r\n  - ext\n\n\n\nbye\xe9".encode("utf-8", "replace"))
    film = tmp_path / "film.srt"
    film.write_bytes(b"1\n00:00:01,000 --> 00:00:02,000\nhello \xff\n")
    counts = []
    with caplog.at_level(logging.INFO):
        found = list(DocumentFiles([text, film], tmp_path / "out" / "de").translate(Shouting(), counts.append))
    assert found == [tmp_path / "out" / "de" / name for name in ("letter.txt", "film.srt")]
    assert found[0].read_bytes().decode() == "\ufeffDEAR ANN,\r\n\r\n  - EXT\n\n\n\nBYEÉ"
    assert found[1].read_bytes().decode() == "1\n00:00:01,000 --> 00:00:02,000\nHELLO \ufffd\n"
    assert sum(counts) == 4
    assert "letter.txt: 3 sentences; 1 texts with the warning 'split'" in caplog.text


@pytest.mark.parametrize("name", ["empty.txt", "empty.vtt"])
def test_an_empty_file_gives_an_empty_file(tmp_path, name):
    (tmp_path / name).write_bytes(b"")
    (path,) = DocumentFiles([tmp_path / name], tmp_path / "out").translate(Shouting())
    assert path.read_bytes() == b""


def test_what_cannot_be_translated_is_rejected_before_anything_is_written(tmp_path):
    text, other = tmp_path / "a.txt", tmp_path / "sub" / "a.txt"
    other.parent.mkdir()
    for path in (text, other, tmp_path / "a.docx"):
        path.write_text("a")
    for paths, output, message in (
        ([tmp_path / "a.docx"], tmp_path / "out", "Expected .txt, .srt or .vtt files"),
        ([text, tmp_path / "none.txt"], tmp_path / "out", "Expected a file"),
        ([text, other], tmp_path / "out", "different names"),
        ([text], tmp_path, "would be replaced"),
        ([text], tmp_path / "a.docx", "Expected a directory"),
    ):
        with pytest.raises(ValueError, match=message):
            DocumentFiles(paths, output)
    assert not (tmp_path / "out").exists()
