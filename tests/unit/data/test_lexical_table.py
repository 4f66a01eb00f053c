"""Lexical tables: IBM model 1 beside a plain implementation, and a corpus whose translations are known."""

import collections

import numpy as np
import pytest
from toy_data import toy_data

from tf_transformer.data import PreparedDataset, lexical_table
from tf_transformer.data._lexical_table import IBMModel1, _Chunk, _divided

PAIRS = [([4, 5, 6], [14, 15]), ([4, 6], [14, 16, 16]), ([5], [15]), ([7, 7, 4], [14, 17])]


def chunk_of(pairs):
    source, target = (np.array([i for pair in pairs for i in pair[side]]) for side in (0, 1))
    return _Chunk(source, target, np.array([(len(s), len(t)) for s, t in pairs]))


def plain_model_1(pairs, rounds):
    """IBM model 1 with dictionaries, started from the frequencies of occurring together."""
    counts = collections.Counter((s, t) for source, target in pairs for s in source for t in target)
    for number in range(rounds + 1):
        totals = collections.Counter()
        for (s, _), count in counts.items():
            totals[s] += count
        probs = {(s, t): count / totals[s] for (s, t), count in counts.items()}
        if number == rounds:
            return probs
        counts = collections.Counter()
        for source, target in pairs:
            for t in target:
                total = sum(probs[s, t] for s in source)
                for s in source:
                    counts[s, t] += probs[s, t] / total


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_probabilities_are_those_of_a_plain_implementation(parts):
    chunks = [chunk_of(PAIRS[i::parts]) for i in range(parts)]
    model = IBMModel1(20)
    for chunk in chunks:
        model.see(chunk)
    model.start()
    for _ in range(3):
        for chunk in chunks:
            model.count(chunk)
        model.update()
    expected = plain_model_1(PAIRS, 3)
    found = {(int(key) // 20, int(key) % 20): prob for key, prob in zip(model._keys, model._probs)}
    assert found.keys() == expected.keys()
    for key, prob in expected.items():
        assert found[key] == pytest.approx(prob)
    table = model.best(8, 2)
    for source in (4, 5, 6, 7):
        ranked = sorted((t for s, t in expected if s == source), key=lambda t: (-expected[source, t], t))
        assert table[source].tolist() == [*ranked, -1, -1][:2]
    assert (table[:4] == -1).all()


def test_chunks_are_divided_without_loss(monkeypatch):
    monkeypatch.setattr("tf_transformer.data._lexical_table._CHUNK_LINKS", 7)
    chunk = chunk_of(PAIRS)
    parts = list(_divided(chunk))
    assert len(parts) > 1
    for name in ("source", "target", "lengths"):
        np.testing.assert_array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(chunk, name))


def test_copied_sentences_have_each_token_as_its_own_translation(tmp_path):
    prepared = PreparedDataset(toy_data(tmp_path))
    table = lexical_table(prepared, best=5, frequent=3)
    assert table.targets.shape == (prepared.tokenizers.source.vocab_size, 5) and len(table.frequent) == 3
    assert table.pairs == prepared.info["splits"]["train"]["pairs"]
    seen = {i for line in prepared.lines("validation")[0] for i in prepared.tokenizers.source.encode(line)[:-1]}
    first = [i for i in seen if table.targets[i, 0] == i]
    assert len(first) >= 0.8 * len(seen)
    assert lexical_table(prepared, best=2, frequent=1, max_pairs=50).pairs == 50


def test_sizes_are_checked(tmp_path):
    prepared = PreparedDataset(toy_data(tmp_path))
    with pytest.raises(ValueError, match="Expected best of at least 1"):
        lexical_table(prepared, best=0, frequent=1)
