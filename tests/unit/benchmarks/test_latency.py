"""The latency benchmark: ratios, and CTranslate2 in the place of a SavedModel."""

import argparse
import types

import pytest
from toy_workdir import toy_workdir

from benchmarks import latency
from tf_transformer.export.serving._loading import ServedModel


def test_ratios_are_medians_within_rounds():
    rounds = {
        ("ours", 1): [{"p50_ms": 10.0}, {"p50_ms": 20.0}, {"p50_ms": 10.0}],
        ("peer", 1): [{"p50_ms": 15.0}, {"p50_ms": 20.0}, {"p50_ms": 5.0}],
        ("ours", 8): [{"requests_per_second": 30.0}] * 3,
        ("peer", 8): [{"requests_per_second": value} for value in (10.0, 15.0, 60.0)],
    }
    assert latency.ratios(rounds, [1, 8]) == {"ratio_peer": 1.0, "ratio_peer_at_8_clients": 2.0}


def test_ctranslate2_answers_as_a_served_model(tmp_path, monkeypatch):
    ctranslate2 = pytest.importorskip("ctranslate2")
    workdir = toy_workdir(tmp_path / "run")
    tokenizers = workdir.tokenizers
    calls = []

    class StubTranslator:
        def __init__(self, directory, **options):
            calls.append(directory)

        def translate_batch(self, rows, **options):
            calls.append(options)
            return [types.SimpleNamespace(hypotheses=[row[:-1]]) for row in rows]

    monkeypatch.setattr(ctranslate2, "Translator", StubTranslator)
    args = argparse.Namespace(child="ctranslate2_float32", beam=4, workdir=None)
    model = latency.CTranslate2Model(workdir.path, 1, "toy", args)
    text = b"the small house."
    assert model.signature("serving_default")({"text": [text]})["translation"].tolist() == [text]
    length = len(tokenizers.source.encode(text)) + latency.EXTRA_LENGTH
    assert calls[-1] == {"beam_size": 4, "max_decoding_length": length, "min_decoding_length": length}
    assert model.mergeable and not model.padded and list(model.inputs) == ["text"]
    served = {name for name in vars(ServedModel) if not name.startswith("_")}
    assert {"signature", "check_languages"} <= served <= set(dir(model))
