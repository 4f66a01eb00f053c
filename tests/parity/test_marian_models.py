"""Toy models that Marian trained: our log-probabilities and translations are Marian's own.

tests/marian_reference.py wrote the models and what Marian computes with them.
"""

import json
import pathlib

import numpy as np
import pytest
from marian_reference import MODELS, SEARCH

from tf_transformer.decoding import Translator
from tf_transformer.importing import import_model

FOLDER = pathlib.Path(__file__).parents[1] / "marian_models"
TOLERANCE = 1e-4


@pytest.fixture(scope="module", params=MODELS)
def imported(request, tmp_path_factory):
    """The work directory of a model, and what Marian computes with it."""
    folder = FOLDER / request.param
    workdir = import_model(folder, tmp_path_factory.mktemp("imported") / "run", licence="none")
    return workdir, json.loads((folder / "reference.json").read_text())


def log_probs(workdir, source, target):
    """The log-probability of each token of a target, EOS included."""
    model, tokenizers = workdir.load_model(), workdir.tokenizers
    ids = [np.asarray(side.encode(text)) for side, text in ((tokenizers.source, source), (tokenizers.target, target))]
    shifted = np.concatenate([[2], ids[1][:-1]])
    logits = np.asarray(model({"source": ids[0][None], "target": shifted[None]}), np.float64)[0]
    normalized = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return normalized[np.arange(len(ids[1])), ids[1]]


def test_each_token_has_the_log_probability_that_marian_prints(imported):
    workdir, reference = imported
    for source, target, expected in zip(reference["source"], reference["target"], reference["word_scores"]):
        np.testing.assert_allclose(log_probs(workdir, source, target), expected, atol=TOLERANCE)


def test_scores_and_nbest_lists_are_those_of_marian(imported):
    workdir, reference = imported
    assert (workdir.config.decoding.beam_size, workdir.config.decoding.alpha) == tuple(SEARCH.values())
    # Marian has neither the second search after a failure nor the copying of unknown pieces.
    translator = Translator.from_workdir(workdir.path, failure_detection=False, unknown="keep")
    scores = translator.score(reference["source"], reference["target"])
    np.testing.assert_allclose([score.log_prob for score in scores], reference["scores"], atol=TOLERANCE)
    if "nbest" in reference:
        for found, expected in zip(translator.nbest(reference["source"]), reference["nbest"], strict=True):
            # Marian's beam becomes narrower with each finished hypothesis, so the last ones of a list can differ.
            assert found.texts[0] == expected[0][0]
            ours, theirs = dict(zip(found.texts, found.log_probs)), dict(expected)
            common = [text for text in ours if text in theirs]
            np.testing.assert_allclose([ours[t] for t in common], [theirs[t] for t in common], atol=TOLERANCE)
