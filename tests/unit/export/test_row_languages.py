"""The target languages of rows, which `serve` checks before it merges requests."""

import types

import numpy as np
import pytest

from tf_transformer.export.serving._errors import BadRequest
from tf_transformer.export.serving._loading import ServedModel

CARD = {"languages": {"source": "eng_Latn", "target": "deu_Latn", "targets": ["deu_Latn", "fra_Latn"]}}


def check(card, *codes):
    tensors = {"text": np.array([b"a"] * len(codes), object), "target_language": np.array(codes, object)}
    ServedModel.check_languages(types.SimpleNamespace(card=card), tensors)


def test_unknown_codes_are_rejected_with_similar_ones():
    check(CARD, b"deu_Latn", b"fra_Latn")
    with pytest.raises(BadRequest, match=r"Received: 'deu'\. Did you mean deu_Latn\?"):
        check(CARD, b"fra_Latn", b"deu")
    with pytest.raises(BadRequest, match="Expected a target language of the model"):
        check(CARD, b"\xff\xfe")


def test_models_without_a_list_of_languages_decide_themselves():
    for card in ({}, {"languages": None}, {"languages": {"source": "en", "target": "de"}}):
        check(card, b"xx")
    ServedModel.check_languages(types.SimpleNamespace(card=CARD), {"text": np.array([b"a"], object)})
