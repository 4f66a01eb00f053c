"""Our search against CTranslate2's, an independent one, on the same weights."""

import dataclasses

import pytest
from ctranslate2_agreement import compare_searches
from toy_training import train_toy
from toy_workdir import TOY, toy_sentences, toy_workdir

COUNT = 503


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    model = dataclasses.replace(TOY, num_layers=1, num_decoder_layers=1)
    workdir = toy_workdir(tmp_path_factory.mktemp("search") / "run", model)
    train_toy(workdir, steps=250)
    return workdir


@pytest.mark.parametrize("beam_size", [1, 4])
def test_translations_and_scores_agree(workdir, beam_size, tmp_path):
    agreement = compare_searches(workdir, tmp_path / "exported", toy_sentences(COUNT, seed=11), beam_size)
    assert agreement.distinct > COUNT / 2
    assert len(agreement.differences) <= 0.01 * COUNT, agreement.differences
    assert agreement.score_distance < 1e-3


def test_ctranslate2s_default_search_is_that_of_its_imports(workdir, tmp_path):
    """A beam of 2, scores divided by the length, the end when two outputs are finished."""
    texts = toy_sentences(COUNT, seed=11)
    agreement = compare_searches(workdir, tmp_path / "exported", texts, beam_size=2, length_penalty=1.0)
    assert len(agreement.differences) <= 0.01 * COUNT, agreement.differences
