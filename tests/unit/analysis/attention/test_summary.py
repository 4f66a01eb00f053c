"""The summary of heads: on attention whose habits are known, every measure has the value one can work out."""

import csv
import io
import types

import numpy as np
import pytest
from toy_attention import SENTENCES, toy_model, toy_tokenizers

from tf_transformer.analysis.attention._maps import KINDS
from tf_transformer.analysis.attention._overviews import summary_figure
from tf_transformer.analysis.attention._summary import role_of, summarize_heads, summary_csv, summary_rows, summary_text

PAIRS = [(source, target) for source in SENTENCES for target in SENTENCES[:2]]


class _KnownHeads:
    """A model of one layer whose heads look at the previous, the same, the next, the last key, and everywhere."""

    config = types.SimpleNamespace(pad_id=0, bos_id=2, num_heads=5)

    def __call__(self, inputs, training, return_attention_scores):
        assert return_attention_scores and not training
        source, target = inputs["source"] != 0, inputs["target"] != 0
        maps = {
            "encoder": self._weights(source, source),
            "decoder": self._weights(target, target),
            "cross": self._weights(target, source),
        }
        return None, {kind: [weights] for kind, weights in maps.items()}

    def _weights(self, queries, keys):
        weights = np.zeros((len(queries), 5, queries.shape[1], keys.shape[1]), "float32")
        for row, (n, m) in enumerate(zip(queries.sum(axis=1), keys.sum(axis=1))):
            for query in range(n):
                for head, key in enumerate((query - 1, query, query + 1, m - 1)):
                    weights[row, head, query, np.clip(key, 0, m - 1)] = 1.0
                weights[row, 4, query, :m] = 1.0 / m
        return weights


@pytest.fixture(scope="module")
def known():
    heads = summarize_heads(_KnownHeads(), toy_tokenizers(), PAIRS)
    return {(head.kind, head.head): head for head in heads}


def test_shares_of_neighbours(known):
    before, same, after, end, everywhere = (known["encoder", head] for head in range(1, 6))
    assert before.previous == pytest.approx(1.0) and before.same < 0.2 and before.next == 0.0
    assert same.same == pytest.approx(1.0) and same.previous == same.next == same.distance == 0.0
    assert after.next == pytest.approx(1.0)
    assert end.last == pytest.approx(1.0)
    assert [head.role for head in (before, same, after, end, everywhere)] == [
        "previous position", "same position", "next position", "last token", "everywhere",
    ]  # fmt: skip


def test_entropy_in_bits_and_reach(known):
    lengths = [len(toy_tokenizers().source.encode(source)) for source, _ in PAIRS]
    even = known["encoder", 5]
    assert even.entropy == pytest.approx(np.average(np.log2(lengths), weights=lengths), rel=1e-4)
    assert even.reach == pytest.approx(1.0, abs=1e-4)
    assert known["encoder", 1].entropy == pytest.approx(0.0, abs=1e-6)


def test_distance_in_tokens(known):
    lengths = np.array([len(toy_tokenizers().source.encode(source)) for source, _ in PAIRS])
    assert known["encoder", 1].distance == pytest.approx((lengths - 1).sum() / lengths.sum(), rel=1e-4)
    assert known["encoder", 4].distance == pytest.approx((lengths * (lengths - 1) / 2).sum() / lengths.sum(), rel=1e-4)


def test_a_real_model_is_summarised_head_by_head():
    heads = summarize_heads(toy_model(), toy_tokenizers(), PAIRS[:3])
    assert [(head.kind, head.layer, head.head) for head in heads] == [
        (kind, layer, head)
        for kind, layers in (("encoder", 3), ("decoder", 2), ("cross", 2))
        for layer in range(1, layers + 1)
        for head in range(1, 6)
    ]
    assert all(0 <= head.reach <= 1 + 1e-5 for head in heads)
    assert all(head.next == 0.0 for head in heads if head.kind == "decoder")


def test_batches_change_nothing(monkeypatch):
    model = toy_model()
    together = summarize_heads(model, toy_tokenizers(), PAIRS)
    monkeypatch.setattr("tf_transformer.analysis.attention._summary.BATCH_SENTENCES", 1)
    alone = summarize_heads(model, toy_tokenizers(), PAIRS)
    for one, other in zip(together, alone):
        assert one.entropy == pytest.approx(other.entropy, abs=1e-5)
        assert one.distance == pytest.approx(other.distance, abs=1e-5)


def test_roles_without_a_favourite_position():
    measures = dict.fromkeys(("previous", "same", "next", "first", "last"), 0.1)
    assert role_of(measures | {"reach": 0.2}) == "a few tokens"
    assert role_of(measures | {"reach": 0.6}) == "mixed"
    assert role_of(measures | {"reach": 0.9}) == "everywhere"


def test_no_pairs_are_rejected():
    with pytest.raises(ValueError, match="Received: none"):
        summarize_heads(toy_model(), toy_tokenizers(), [])


def test_tables_say_the_same(known):
    heads = list(known.values())
    lines = summary_text(heads).splitlines()
    assert len(lines) == 1 + len(heads)
    assert lines[1].split()[:3] == ["encoder", "1", "1"] and "100%" in lines[1]
    rows = list(csv.DictReader(io.StringIO(summary_csv(heads))))
    assert [float(row["previous"]) for row in rows] == [row["previous"] for row in summary_rows(heads)]
    assert rows[0]["role"] == "previous position"


def test_the_picture_has_a_row_a_kind_and_a_cell_a_head(known):
    figure = summary_figure(list(known.values()))
    titles = [axis.get_title() for axis in figure.axes if axis.get_title()]
    assert len(figure.axes) == len(KINDS) * len(titles)
    previous = figure.axes[titles.index("previous, %")].images[0].get_array()
    assert previous.shape == (1, 5)
    assert previous[0, 0] == pytest.approx(100.0)
