"""Model files from untrusted sources: garbage, cuts and hostile offsets are errors that name the file."""

import pytest
from sentencepiece import sentencepiece_model_pb2

from tf_transformer.text._model_file import TokenizerError, read_model_file
from tf_transformer.text._subwords import IdMap, Subwords
from tf_transformer.text._vocabulary import train_model


@pytest.fixture(scope="module")
def model():
    return train_model(["the cat sat on the mat", "die Katze saß auf der Matte"] * 5, 151)


def read(tmp_path, data):
    path = tmp_path / "some.model"
    path.write_bytes(data)
    return read_model_file(path)


def test_a_good_file_is_read(tmp_path, model):
    assert read(tmp_path, model) == model


@pytest.mark.parametrize("junk", [b"", b"garbage", b"\x0a\x05abc", b"<html>503</html>", b"\x00" * 1024])
def test_garbage_is_rejected(tmp_path, junk):
    with pytest.raises(TokenizerError, match=r"some\.model: expected a SentencePiece model\. Received: "):
        read(tmp_path, junk)


@pytest.mark.parametrize("share", [0.01, 0.3, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_rejected(tmp_path, model, share):
    with pytest.raises(TokenizerError, match=r"some\.model"):
        read(tmp_path, model[: int(len(model) * share)])


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(TokenizerError, match=r"absent\.model"):
        read_model_file(tmp_path / "absent.model")


def hostile(model, change):
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    change(proto)
    return proto.SerializeToString()


def set_charsmap(proto, change):
    charsmap = bytearray(proto.normalizer_spec.precompiled_charsmap)
    change(charsmap)
    proto.normalizer_spec.precompiled_charsmap = bytes(charsmap)


CHANGES = {
    "type": lambda p: setattr(p.trainer_spec, "model_type", 3),
    "no pieces": lambda p: p.ClearField("pieces"),
    "no end": lambda p: p.pieces.pop(3),
    "no unknown": lambda p: setattr(p.pieces[1], "type", 1),
    "two unknown": lambda p: setattr(p.pieces[9], "type", 2),
    "repeated": lambda p: setattr(p.pieces[9], "piece", p.pieces[10].piece),
    "empty": lambda p: setattr(p.pieces[9], "piece", ""),
    "score": lambda p: setattr(p.pieces[9], "score", float("nan")),
    "trie size": lambda p: set_charsmap(p, lambda c: c.__setitem__(slice(0, 4), b"\xff\xff\xff\x7f")),
    "trie offset": lambda p: set_charsmap(p, lambda c: c.__setitem__(slice(4, 8), b"\x00\xfe\xff\x7f")),
    "trie value": lambda p: set_charsmap(p, lambda c: c.__setitem__(slice(8, 12), b"\xff\xff\xff\xff")),
    "no NUL": lambda p: set_charsmap(p, lambda c: c.append(65)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_hostile_contents_are_rejected(tmp_path, model, change):
    with pytest.raises(TokenizerError, match=r"some\.model: expected a SentencePiece model\. Received: "):
        read(tmp_path, hostile(model, change))


def test_special_ids_elsewhere_need_a_table(model):
    swapped = hostile(model, lambda p: p.pieces.insert(0, p.pieces.pop(3)))
    with pytest.raises(TokenizerError, match="pass an IdMap"):
        Subwords(swapped, name="some.model")


def test_a_table_of_another_size_is_rejected(model):
    with pytest.raises(TokenizerError, match=r"expected a table of 151 ids, one per piece. Received: 7 ids"):
        Subwords(model, IdMap(range(7), 7, 0, 1, 2, 3))


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"ids": [1.5]}', '{"ids": [0], "vocab_size": 1, "pad_id": 0}', "not json"]
)
def test_a_bad_table_is_rejected(tmp_path, text):
    (tmp_path / "t.ids.json").write_text(text)
    with pytest.raises(TokenizerError, match=r"t\.ids\.json: expected a table of ids\. Received: "):
        IdMap.from_file(tmp_path / "t.ids.json")


@pytest.mark.parametrize(
    "fields", [([5], 5, 0, 1, 2, 3), ([-1], 5, 0, 1, 2, 3), ([], 5, 0, 1, 2, 3), ([0], 5, 0, 1, 2, 2)]
)
def test_ids_out_of_range_are_rejected(fields):
    with pytest.raises(TokenizerError):
        IdMap(*fields)
