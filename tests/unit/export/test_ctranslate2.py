import builtins
import dataclasses
import json

import numpy as np
import pytest
from toy_workdir import TOY, toy_tokenizers, toy_workdir

from tf_transformer.export._ctranslate2 import QUANTIZATIONS, export_ctranslate2, vocabulary
from tf_transformer.text._subwords import IdMap
from tf_transformer.text._tokenizer import Tokenizer, load_tokenizers
from tf_transformer.workdir.checkpoints import load_model_tensors, save_checkpoint


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    return toy_workdir(tmp_path_factory.mktemp("ctranslate2") / "run")


def test_the_directory_is_complete(workdir, tmp_path):
    output = export_ctranslate2(workdir.path, tmp_path / "models" / "toy")
    assert sorted(file.name for file in output.iterdir()) == [
        "config.json",
        "model.bin",
        "shared_vocabulary.json",
        "tokenizer.model",
    ]
    pieces = json.loads((output / "shared_vocabulary.json").read_text())
    assert pieces[:4] == ["<pad>", "<unk>", "<s>", "</s>"]
    assert len(pieces) == workdir.config.model.vocab_size
    assert load_tokenizers(output).sha256 == workdir.tokenizers.sha256
    assert [file.name for file in output.parent.iterdir()] == ["toy"]


def test_models_with_ssrus_are_rejected(tmp_path):
    workdir = toy_workdir(tmp_path / "run", dataclasses.replace(TOY, decoder_autoregression="ssru"))
    with pytest.raises(ValueError, match=r"CTranslate2 has no SSRU.*Received: decoder_autoregression='ssru'"):
        export_ctranslate2(workdir, tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


def test_a_length_reward_is_warned_of(tmp_path, caplog):
    workdir = toy_workdir(tmp_path / "run")
    for reward, warned in ((0.0, False), (0.6, True)):
        decoding = dataclasses.replace(workdir.config.decoding, length_reward=reward)
        dataclasses.replace(workdir.config, decoding=decoding).save(workdir.path / "config.json")
        export_ctranslate2(workdir.path, tmp_path / f"exported-{reward}")
        assert ("decoding.length_reward=0.6 is not part of the export" in caplog.text) == warned


def test_quantization_makes_it_smaller(workdir, tmp_path):
    sizes = {
        kind: (export_ctranslate2(workdir, tmp_path / str(kind), quantization=kind) / "model.bin").stat().st_size
        for kind in (None, *QUANTIZATIONS)
    }
    assert sizes[None] == sizes["float32"]
    assert sizes["float16"] < 0.6 * sizes["float32"]
    assert sizes["int8_float16"] < sizes["int8"] < sizes["int16"] < sizes["float32"]


def test_an_unknown_quantization_is_rejected_before_anything_is_written(workdir, tmp_path):
    with pytest.raises(ValueError, match=r"among float32.*Received: 'bfloat16'.*compute_type"):
        export_ctranslate2(workdir, tmp_path / "toy", quantization="bfloat16")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_output_is_kept(workdir, tmp_path):
    (tmp_path / "toy").mkdir()
    with pytest.raises(ValueError, match="which exists"):
        export_ctranslate2(workdir, tmp_path / "toy")


def test_weights_that_are_not_finite_are_rejected(workdir, tmp_path):
    tensors = load_model_tensors(workdir.checkpoint())
    tensors["decoder/layer_1/feed_forward/inner/bias"][3] = np.nan
    broken = save_checkpoint(tmp_path / "broken", tensors, step=1)
    with pytest.raises(ValueError, match="decoder/layer_1/feed_forward/inner/bias"):
        export_ctranslate2(workdir, tmp_path / "toy", checkpoint=broken)


def test_without_the_package_the_error_names_the_extra(workdir, tmp_path, monkeypatch):
    real_import = builtins.__import__

    def no_ctranslate2(name, *args, **kwargs):
        if name.endswith("ctranslate2_spec"):
            raise ModuleNotFoundError("No module named 'ctranslate2'")
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_ctranslate2)
    with pytest.raises(ValueError, match=r"pip install tf_transformer\[ctranslate2\]"):
        export_ctranslate2(workdir, tmp_path / "toy")


def test_ids_without_a_piece_of_their_own_get_a_name():
    model = toy_tokenizers().source
    size = model.vocab_size
    # As in OPUS-MT: </s> is 0, <unk> is 1, the padding, which also starts, is the last id; one id has no piece.
    ids = [size, 1, 1, 0, *range(3, size - 1)]
    table = IdMap(tuple(ids), size + 1, pad_id=size, unk_id=1, bos_id=size, eos_id=0)
    pieces = vocabulary(Tokenizer(model.model, table), size + 3)
    assert len(pieces) == len(set(pieces)) == size + 3
    assert pieces[:3] == ["</s>", "<unk>", "<unused_2>"]
    assert pieces[3] == model.pieces([4])[0]
    assert pieces[size:] == ["<s>", f"<unused_{size + 1}>", f"<unused_{size + 2}>"]
