"""The parts of pieces, compared with what SentencePiece does where the piece is missing."""

import io

import numpy as np
import pytest
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from tf_transformer.text import IdMap, Subwords, piece_splits, train_model

TEXTS = [
    f"the {size} {animal} of the {place} sleeps in a {place}house"
    for size in ("small", "smaller", "smallest", "large", "larger")
    for animal in ("cat", "dog", "mouse", "elephant")
    for place in ("garden", "green", "boat", "farm")
]


def trained(model_type, size):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 5), model_writer=model, model_type=model_type, vocab_size=size, pad_id=0,
        unk_id=1, bos_id=2, eos_id=3, hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    return model.getvalue()


def merged_before(model, score):
    """The model with characters, and the pieces of a score above `score`: those merged before it."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    kept = [
        piece for piece in proto.pieces if piece.type != piece.NORMAL or len(piece.piece) == 1 or piece.score > score
    ]
    del proto.pieces[:]
    proto.pieces.extend(kept)
    proto.normalizer_spec.add_dummy_prefix = False
    proto.normalizer_spec.name, proto.normalizer_spec.precompiled_charsmap = "identity", b""
    return sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())


def test_the_parts_of_a_bpe_piece_are_what_is_left_if_it_was_never_merged():
    model = train_model(TEXTS * 5, 200, exact=False)
    subwords, proto = Subwords(model), sentencepiece_model_pb2.ModelProto.FromString(model)
    table, seen = piece_splits(subwords), 0
    for number, piece in enumerate(proto.pieces):
        if piece.type != piece.NORMAL or len(piece.piece) == 1:
            assert table[number].tolist() == [-1, -1]
            continue
        assert subwords.pieces(table[number]) == merged_before(model, piece.score).encode(piece.piece, out_type=str)
        seen += 1
    assert seen > 20


def test_the_parts_of_a_unigram_piece_have_the_largest_score():
    model = trained("unigram", 90)
    subwords, proto = Subwords(model), sentencepiece_model_pb2.ModelProto.FromString(model)
    table, scores = piece_splits(subwords), {piece.piece: piece.score for piece in proto.pieces}
    split = [number for number in range(len(table)) if table[number, 0] >= 0]
    assert len(split) > 5
    for number in split:
        piece, parts = proto.pieces[number].piece, subwords.pieces(table[number])
        totals = [
            scores[piece[:i]] + scores[piece[i:]]
            for i in range(1, len(piece))
            if piece[:i] in scores and piece[i:] in scores
        ]
        assert "".join(parts) == piece and np.isclose(scores[parts[0]] + scores[parts[1]], max(totals))


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_with_a_table_of_ids_the_parts_are_ids_of_the_model(model_type):
    model = trained(model_type, 90)
    plain = Subwords(model)
    count = plain.vocab_size
    # The ids in reverse, and the last piece without one.
    ids = [*(count - i for i in range(count - 1)), count - 1]
    mapped = Subwords(model, IdMap(tuple(ids), count + 1, ids[0], ids[1], ids[2], ids[3]))
    before, after = piece_splits(plain), piece_splits(mapped)
    assert (after >= 0).any()
    for number in range(count):
        if after[ids[number], 0] >= 0:
            assert after[ids[number]].tolist() == [ids[part] for part in before[number]]
