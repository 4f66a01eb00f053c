import numpy as np
import pytest
import tensorflow as tf
from sentencepiece import sentencepiece_model_pb2
from toy_workdir import toy_sentences, toy_tokenizers

from tf_transformer.importing._external_model import NEVER, ImportedModelError, RowOrder, vocabulary
from tf_transformer.importing._pieces import target_pieces, tokenizer
from tf_transformer.text._tokenizer import Tokenizer


@pytest.fixture(scope="module")
def shared():
    return toy_tokenizers().source


def tokens_of(shared):
    """A vocabulary as OPUS-MT has it: the end first, no padding, languages before text."""
    pieces = shared.pieces(range(shared.vocab_size))
    return ["</s>", "<unk>", ">>deu<<", *pieces[4:], ">>fra<<"]


def test_rows_come_in_our_order():
    order = RowOrder.of(vocabulary(["</s>", "<unk>", "a", "b"], "toy"), 5)
    assert order.rows.tolist() == [-1, 1, -1, 0, 2, 3, 4]
    assert order.invented == (0, 2)
    table = np.arange(10, dtype=np.float32).reshape(5, 2)
    np.testing.assert_array_equal(order.table(table)[:, 0], [0, 2, 0, 0, 4, 6, 8])
    np.testing.assert_array_equal(order.bias(table[:, 1]), [NEVER, 3, NEVER, 1, 5, 7, 9])
    np.testing.assert_array_equal(order.bias(None), [NEVER, 0, NEVER, 0, 0, 0, 0])
    assert order.ids(vocabulary(["</s>", "<unk>", "a", "b"], "toy")) == {"</s>": 3, "<unk>": 1, "a": 4, "b": 5}


def test_a_padding_that_starts_the_decoder_serves_both_ids():
    tokens = ["</s>", "<unk>", "a", "<pad>"]
    order = RowOrder.of(vocabulary(tokens, "toy", decoder_start="<pad>"), 4)
    assert order.rows.tolist() == [3, 1, 3, 0, 2]
    assert order.invented == (2,)
    assert order.ids(vocabulary(tokens, "toy"))["<pad>"] == 0


def test_our_own_order_stays():
    order = RowOrder.of(vocabulary(["<pad>", "<unk>", "<s>", "</s>", "a"], "toy", decoder_start="<s>"), 5)
    assert order.rows.tolist() == [0, 1, 2, 3, 4] and not order.invented
    assert order.bias(None) is None


def test_language_tokens_are_one_id_before_the_text(shared):
    known = vocabulary(tokens_of(shared), "toy")
    order = RowOrder.of(known, len(known.tokens))
    made = tokenizer(shared.model, known, order, "toy")
    ids = order.ids(known)
    text = toy_sentences(1)[0]
    for code in (">>deu<<", ">>fra<<"):
        assert made.encode(f"{code} {text}") == [ids[code], *made.encode(text)]
        assert made.tokenize(tf.constant([f"{code} {text}"])).to_list() == [made.encode(f"{code} {text}")]
    assert made.encode(f">>ita<< {text}")[0] != ids[">>deu<<"]
    assert made.decode(made.encode(text)) == text


def test_characters_that_only_the_vocabulary_knows_have_their_id(shared):
    tokens = [*tokens_of(shared), "饺", "鵰"]
    known = vocabulary(tokens, "toy")
    order = RowOrder.of(known, len(tokens))
    made = tokenizer(shared.model, known, order, "toy")
    ids = made.encode("the 饺子 house.")
    assert order.ids(known)["饺"] in ids
    assert made.unk_id in ids
    assert [i for i in made.encode("the house.") if i not in ids] == []
    assert made.tokenize(tf.constant(["the 饺子 house."])).to_list() == [ids]
    assert made.decode([*made.encode("鵰")]) == "鵰"


def test_pieces_of_other_kinds_are_not_added_again(shared):
    proto = sentencepiece_model_pb2.ModelProto.FromString(shared.model)
    proto.pieces.add(piece="€", score=0.0, type=sentencepiece_model_pb2.ModelProto.SentencePiece.USER_DEFINED)
    known = vocabulary([*tokens_of(shared), "€"], "toy")
    order = RowOrder.of(known, len(known.tokens))
    made = tokenizer(proto.SerializeToString(), known, order, "toy")
    assert order.ids(known)["€"] in made.encode("the € house.")


def test_pieces_that_the_vocabulary_lacks_are_unknown(shared):
    tokens = [token for token in tokens_of(shared) if token != "."]
    known = vocabulary(tokens, "toy")
    made = tokenizer(shared.model, known, RowOrder.of(known, len(tokens)), "toy")
    assert made.unk_id in made.encode("the house.")
    assert made.unk_id not in made.encode("the house")


def test_the_targets_pieces_are_made_where_only_the_sources_came(shared, caplog):
    words = [f"▁wort{i}" for i in range(200)] + ["▁haus", "es", "▁Haus"]
    known = vocabulary(["</s>", "<unk>", *words, *shared.pieces(range(4, 40))], "toy")
    order = RowOrder.of(known, len(known.tokens))
    made = tokenizer(target_pieces(shared.model, known), known, order, "toy")
    assert "one SentencePiece model for the source only" in caplog.text
    ids = order.ids(known)
    written = [ids["▁Haus"], ids["es"], ids["▁wort7"], made.eos_id]
    assert made.decode(written) == "Hauses wort7"
    assert made.encode("Hauses wort7") == written
    assert made.detokenize(tf.constant([written])).numpy().tolist() == [b"Hauses wort7"]


def test_one_model_that_has_the_whole_vocabulary_serves_both(shared):
    known = vocabulary(shared.pieces(range(shared.vocab_size)), "toy", decoder_start="<s>")
    assert target_pieces(shared.model, known) == shared.model
    made = tokenizer(shared.model, known, RowOrder.of(known, shared.vocab_size), "toy")
    assert made.id_map is None
    assert made.sha256 == Tokenizer(shared.model).sha256


def test_vocabularies_that_are_none_are_rejected():
    with pytest.raises(ImportedModelError, match=r"toy: expected each token once. Received: 1 repeated"):
        vocabulary(["</s>", "a", "a"], "toy")
    with pytest.raises(ImportedModelError, match="expected a vocabulary with '</s>'"):
        vocabulary(["a"], "toy")
    with pytest.raises(ImportedModelError, match="expected a vocabulary with '<s>', which the decoder starts from"):
        vocabulary(["</s>"], "toy", decoder_start="<s>")
