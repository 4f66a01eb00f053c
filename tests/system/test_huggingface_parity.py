"""Our import of a Marian model against `transformers` with torch: logits, greedy and beam outputs."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from external_toys import BOS, EOS, PAD, UNKNOWN, ExternalToy, huggingface_toy
from toy_workdir import toy_sentences, toy_tokenizers

from tf_transformer.decoding._translator import Translator
from tf_transformer.importing._importer import import_model
from tf_transformer.workdir.checkpoints import load_model_tensors

REFERENCE = pathlib.Path(__file__).parents[1] / "huggingface_reference.py"
# A Python with torch and transformers, where they are not in this one. There is no way to skip: install them.
PYTHON = os.environ.get("TORCH_PYTHON", sys.executable)
TEXTS = toy_sentences(31, seed=21)


class Reference:
    """Results of transformers for a toy, and the ids and rows between the two.

    ids: ours of their rows. rows: theirs of our ids.
    """

    def __init__(self, toy: ExternalToy, scaled: bool):
        (toy.folder / "model.safetensors").unlink()
        config = json.loads((toy.folder / "config.json").read_text())
        (toy.folder / "config.json").write_text(json.dumps(config | {"scale_embedding": scaled}))
        self.folder = toy.folder
        self.ids = np.array([EOS, UNKNOWN, *range(4, len(toy.pieces)), PAD])
        rows = np.argsort(self.ids)
        self.rows = np.insert(rows, BOS, rows[PAD])
        encoded = toy_tokenizers().source.encode_batch(TEXTS)
        self.source = np.full((len(TEXTS), max(map(len, encoded))), PAD)
        for row, each in zip(self.source, encoded):
            row[: len(each)] = each
        self.target = np.random.default_rng(5).integers(4, len(toy.pieces), (len(TEXTS), 9))
        self.target[:, 0] = BOS
        given = {"source": self.rows[self.source], "source_mask": (self.source != PAD) * 1}
        np.savez(toy.folder / "ids.npz", target=self.rows[self.target], **given)
        command = [PYTHON, str(REFERENCE), str(toy.folder)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        self.outputs = np.load(toy.folder / "reference.npz")


@pytest.fixture(scope="module", params=[True, False], ids=["scaled", "unscaled"])
def reference(request, tmp_path_factory):
    return Reference(huggingface_toy(tmp_path_factory.mktemp("toy") / "external"), request.param)


@pytest.mark.slow
def test_an_imported_model_is_the_same_model(reference, tmp_path):
    workdir = import_model(reference.folder, tmp_path / "run")
    logits = np.asarray(workdir.load_model()({"source": reference.source, "target": reference.target}))
    np.testing.assert_allclose(logits[..., reference.ids], reference.outputs["logits"], atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "beam"), [("greedy", 1), ("beam", 4)])
def test_it_finds_the_same_translations(reference, name, beam, tmp_path):
    """Without a length penalty, of which the two have different ones, and for the sentences that ended.

    Where the length was the limit the two have to differ: ours depends on the source.
    """
    workdir = import_model(reference.folder, tmp_path / "run")
    plain = {"failure_detection": False, "unknown": "keep"}
    found = Translator.from_workdir(workdir.path, beam_size=beam, alpha=0.0, min_length=7, **plain)(TEXTS)
    end = reference.rows[EOS]
    pairs = [(text, row[1:]) for text, row in zip(found, reference.outputs[name]) if (row[1:] == end).any()]
    expected = [workdir.tokenizers.target.decode(reference.ids[row]) for _, row in pairs]
    assert len(pairs) >= 10 and len(set(expected)) >= 5  # few would prove little
    assert [text for text, _ in pairs] == expected


@pytest.mark.slow
def test_torchs_own_file_gives_what_safetensors_does(reference, tmp_path):
    tensors = load_model_tensors(import_model(reference.folder, tmp_path / "first").checkpoint())
    (reference.folder / "model.safetensors").rename(tmp_path / "aside")
    try:
        workdir = import_model(reference.folder, tmp_path / "second")
    finally:
        (tmp_path / "aside").rename(reference.folder / "model.safetensors")
    found = load_model_tensors(workdir.checkpoint())
    assert sorted(found) == sorted(tensors)
    assert all(np.array_equal(found[name], value) for name, value in tensors.items())
