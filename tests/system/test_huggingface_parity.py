"""Our import of a Marian model against `transformers` with torch: logits, greedy and beam outputs."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from foreign_toys import END, PAD, START, UNKNOWN, huggingface_toy
from toy_workdir import toy_sentences, toy_tokenizers

from tf_transformer.decoding.translator import Translator
from tf_transformer.importing.importer import import_model

REFERENCE = pathlib.Path(__file__).parents[1] / "huggingface_reference.py"
# A Python with torch and transformers, where they are not in this one. There is no way to skip: install them.
PYTHON = os.environ.get("TORCH_PYTHON", sys.executable)


@pytest.mark.slow
@pytest.mark.parametrize("scaled", [True, False])
def test_an_imported_model_is_the_same_model(scaled, tmp_path):
    toy = huggingface_toy(tmp_path / "foreign")
    (toy.folder / "model.safetensors").unlink()
    # Without the scale positions weigh more, and random weights then write sentences that end.
    config = json.loads((toy.folder / "config.json").read_text())
    (toy.folder / "config.json").write_text(json.dumps(config | {"scale_embedding": scaled}))
    ids = np.array([END, UNKNOWN, *range(4, len(toy.pieces)), PAD])  # of their rows
    rows = np.argsort(ids)  # of our ids but START: 0, 1, 3, 4 …
    rows = np.insert(rows, START, rows[PAD])
    texts = toy_sentences(17, seed=21)
    encoded = toy_tokenizers().source.encode_batch(texts)
    source = np.full((17, max(map(len, encoded))), PAD)
    for row, each in zip(source, encoded):
        row[: len(each)] = each
    target = np.random.default_rng(5).integers(4, len(toy.pieces), (17, 9))
    target[:, 0] = START
    np.savez(toy.folder / "ids.npz", source=rows[source], source_mask=(source != PAD) * 1, target=rows[target])
    command = [PYTHON, str(REFERENCE), str(toy.folder)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    reference = np.load(toy.folder / "reference.npz")

    workdir = import_model(toy.folder, tmp_path / "run")
    logits = np.asarray(workdir.load_model()({"source": source, "target": target}))
    np.testing.assert_allclose(logits[..., ids], reference["logits"], atol=1e-4)
    for name, beam in () if scaled else (("greedy", 1), ("beam", 4)):
        found = Translator.from_workdir(workdir.path, beam_size=beam, alpha=0.0, min_length=7)(texts)
        # Those that ended: the longest output is another in each.
        pairs = [(text, ids[row[1:]]) for text, row in zip(found, reference[name]) if (row[1:] == rows[END]).any()]
        assert len({text for text, _ in pairs}) > 1
        assert [text for text, _ in pairs] == [workdir.tokenizers.target.decode(expected) for _, expected in pairs]
