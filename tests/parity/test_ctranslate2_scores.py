"""Our model against CTranslate2's runtime: the same log-probability for every given id, whatever the options."""

import dataclasses

import ctranslate2
import keras
import numpy as np
import pytest
from toy_workdir import TOY, toy_sentences, toy_workdir

from tf_transformer.export._ctranslate2 import export_ctranslate2

OPTIONS = {
    "paper": {},
    "t2t": {"norm": "pre", "positions": "t2t", "position_offset": 2, "attention_bias": False},
    "mBART": {"norm": "pre", "positions": "learned", "activation": "gelu", "embedding_norm": True},
    "marian": {
        "positions": "marian",
        "activation": "swish",
        "output_bias": True,
        "tied_embeddings": "target",
        "target_vocab_size": 160,
    },
    "learned": {"positions": "learned", "activation": "gelu", "scale_embeddings": False, "tied_embeddings": "none"},
    "wide keys": {"key_dim": 11, "value_dim": 3, "norm_epsilon": 1e-2},
}


def padded(rows: list[list[int]]) -> np.ndarray:
    longest = max(map(len, rows))
    return np.array([row + [0] * (longest - len(row)) for row in rows])


@pytest.mark.parametrize("name", OPTIONS)
def test_log_probabilities_agree(name, tmp_path):
    workdir = toy_workdir(tmp_path / "run", dataclasses.replace(TOY, **OPTIONS[name]))
    tokenizer = workdir.tokenizers.source
    sources, targets = (tokenizer.encode_batch(toy_sentences(23, seed)) for seed in (3, 4))
    logits = workdir.load_model()({"source": padded(sources), "target": padded([[2, *ids[:-1]] for ids in targets])})
    log_probs = np.asarray(keras.ops.log_softmax(logits))
    runtime = ctranslate2.Translator(str(export_ctranslate2(workdir, tmp_path / "exported")), intra_threads=1)
    scored = runtime.score_batch(*([tokenizer.pieces(ids[:-1]) for ids in side] for side in (sources, targets)))
    for row, (ids, theirs) in enumerate(zip(targets, scored)):
        ours = log_probs[row, np.arange(len(ids)), ids]
        np.testing.assert_allclose(ours, theirs.log_probs, atol=2e-5)
