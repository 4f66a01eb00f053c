"""Alignment error rate, by the formula of Och and Ney, and the Pharaoh format."""

import numpy as np
import pytest

from tf_transformer.evaluation import alignment_score, parse_links


def numpy_aer(found, sure, possible, shape=(7, 5)):
    """The formula on matrices of zeros and ones."""

    def matrices(rows):
        stacked = np.zeros((len(rows), *shape), bool)
        for matrix, links in zip(stacked, rows):
            for link in links:
                matrix[link] = True
        return stacked

    a, s = matrices(found), matrices(sure)
    p = matrices(possible) | s
    return 1 - ((a & s).sum() + (a & p).sum()) / (a.sum() + s.sum()), (a & p).sum() / a.sum(), (a & s).sum() / s.sum()


def test_scores_are_those_of_the_formula():
    random = np.random.default_rng(3)
    rows = [[set(map(tuple, random.integers(0, 5, (7, 2)).tolist())) for _ in range(11)] for _ in range(3)]
    np.testing.assert_allclose(alignment_score(*rows), numpy_aer(*rows))


def test_a_perfect_alignment_has_no_error():
    assert alignment_score([{(0, 0)}], [{(0, 0)}], [set()]) == (0.0, 1.0, 1.0)
    # A possible link may be missing or there.
    assert alignment_score([{(0, 0), (1, 1)}], [{(0, 0)}], [{(1, 1), (2, 2)}]) == (0.0, 1.0, 1.0)


def test_no_links_at_all():
    assert alignment_score([set()], [set()], [set()]) == (0.0, 1.0, 1.0)
    assert alignment_score([set()], [{(0, 0)}], [set()]) == (1.0, 1.0, 0.0)


def test_each_sentence_needs_a_gold_alignment():
    with pytest.raises(ValueError, match="shorter"):
        alignment_score([set(), set()], [set()], [set()])


def test_pharaoh_format():
    assert parse_links("0-0 1-2 2?2") == ({(0, 0), (1, 2)}, {(0, 0), (1, 2), (2, 2)})
    assert parse_links("") == (set(), set())
    for wrong in ("1", "a-b", "1-", "-1-2"):
        with pytest.raises(ValueError, match=r'such as "0-0 1-2 2\?2".*Received'):
            parse_links(wrong)
