import pytest

from tf_transformer.importing._external_model import ImportedModelError
from tf_transformer.importing.marian._vocabulary import read_marian_vocabulary


def test_every_way_to_write_a_token(tmp_path):
    file = tmp_path / "vocab.yml"
    lines = [
        "</s>: 0", '"<unk>": 1', r'"\"": 2', r'"\\": 3', "'it''s': 4", '":": 5', "a:b: 6", r'"\x85": 7',
        r'"\u2028x": 8', r'"\U0001F600": 9', "? long", ": 10", "\u2028: 11", '"#": 12', "▁the: 14", "'\"': 13",
    ]  # fmt: skip
    file.write_bytes(("\n".join(lines) + "\r\n").encode())
    assert read_marian_vocabulary(file) == [
        "</s>", "<unk>", '"', "\\", "it's", ":", "a:b", "\x85", "\u2028x", "\U0001f600", "long", "\u2028", "#",
        '"', "▁the",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "no number here\n", "a: 0\nb: 0\n", "a: 0\nb: 4000000000\n", "<html>\n</html>\n"])
def test_other_files_are_rejected(text, tmp_path):
    file = tmp_path / "vocab.yml"
    file.write_text(text)
    with pytest.raises(ImportedModelError, match=r"vocab\.yml"):
        read_marian_vocabulary(file)
