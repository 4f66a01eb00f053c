"""`import`, and the commands after it, on models that were trained elsewhere."""

import json

import numpy as np
import pytest
from external_toys import huggingface_toy, marian_toy, student_toy
from toy_workdir import toy_sentences

from tf_transformer.pipelines.cli import main
from tf_transformer.workdir._workdir import Workdir
from tf_transformer.workdir.checkpoints import load_model_tensors, load_training_tensors


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("imported")
    toy = huggingface_toy(folder / "opus-mt-en-de")
    # OPUS-MT: two tokenizers, one vocabulary. A longer normaliser's name makes the target's another file.
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto.FromString((toy.folder / "target.spm").read_bytes())
    model.normalizer_spec.name += "_of_the_target"
    (toy.folder / "target.spm").write_bytes(model.SerializeToString())
    assert main(["import", "--from", str(toy.folder), "--workdir", str(folder / "run")]) == 0
    return folder / "run"


def prepared(tmp_path, workdir):
    command = ["prepare", "--data", "files", "--tokenizer", str(workdir), "--workers", "1"]
    command += ["--source-language", "en", "--target-language", "de", "--output", str(tmp_path / "data")]
    for split, count in (("train", 50), ("validation", 5)):
        file = tmp_path / f"{split}.txt"
        file.write_text("\n".join(toy_sentences(count)) + "\n", encoding="utf-8")
        command += [f"--{split}-source", str(file), f"--{split}-target", str(file)]
    assert main(command) == 0
    return tmp_path / "data"


def test_a_student_is_imported_with_a_report_and_translates(tmp_path, capsys):
    toy = student_toy(tmp_path / "external", quantized=True)
    (toy.folder / "model.toy.bin").rename(toy.folder / "model.enpt.intgemm.alphas.bin")
    (toy.folder / "config.toy.yml").unlink()
    command = ["import", "--from", str(toy.folder), "--workdir", str(tmp_path / "run"), "--licence", "MPL-2.0"]
    assert main(command) == 0
    report = capsys.readouterr().out
    parameters = sum(value.size for value in load_model_tensors(Workdir(tmp_path / "run").checkpoint()).values())
    for line in (f"Marian, {parameters:,} parameters", "Languages: en to pt", "Licence: MPL-2.0", "Search: beam 4"):
        assert line in report
    command = ["translate", "--workdir", str(tmp_path / "run"), "--input"]
    for beam_size in ("1", "3"):
        assert main([*command, lines(tmp_path / "a", toy_sentences(3)), "--beam-size", beam_size]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 3


def test_translate_and_score_take_it(imported, tmp_path, capsys):
    assert main(["translate", "--workdir", str(imported), "--input", lines(tmp_path / "a", toy_sentences(3))]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    pairs = [lines(tmp_path / side, toy_sentences(3, seed)) for seed, side in enumerate(("source", "target"))]
    assert main(["score", "--workdir", str(imported), "--source", pairs[0], "--target", pairs[1], "--json"]) == 0
    assert capsys.readouterr().out.strip()


def test_training_goes_on_from_the_imported_weights(imported, tmp_path):
    weights = load_model_tensors(Workdir(imported).checkpoint())
    settings = ["training.max_steps=2", "training.batch_tokens=200", "training.learning_rate_scale=1e-9"]
    settings += ["training.ema_decay=0.5", "model.dropout=0.0", "training.steps_per_call=1"]
    command = ["train", "--data", str(prepared(tmp_path, imported)), "--workdir", str(imported)]
    for setting in settings:
        command += ["--set", setting]
    assert main(command) == 0
    workdir = Workdir(imported)
    latest = workdir.checkpoint("latest")
    assert latest.name == "step-00000002"
    after = load_model_tensors(latest)
    assert sorted(after) == sorted(weights)
    for name, value in weights.items():
        np.testing.assert_allclose(after[name], value, atol=1e-6, err_msg=name)
    # Gradients did arrive: it is the learning rate that keeps the weights where they were.
    moments = load_training_tensors(latest)
    assert all(np.abs(value).max() > 0 for name, value in moments.items() if "feed_forward" in name)
    assert workdir.config.model.tied_embeddings == "all"
    assert not workdir.tokenizers.shared
    assert workdir.dataset_info["splits"]["train"]
    # The run has begun: what it is made of is fixed now, and the same command finds nothing left to do.
    assert main([*command, "--set", "training.label_smoothing=0.2"]) == 1
    assert main(command) == 0


def test_a_rejected_model_exits_with_its_name_and_leaves_nothing(tmp_path, capsys):
    toy = marian_toy(tmp_path / "external", type="amun")
    assert main(["import", "--from", str(toy.folder), "--workdir", str(tmp_path / "run")]) == 1
    assert "type is 'amun'; we have a part for 'transformer' only" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["external"]


def test_languages_and_licence_can_be_told(tmp_path):
    toy = marian_toy(tmp_path / "external")
    command = ["import", "--from", str(toy.folder / "model.npz"), "--workdir", str(tmp_path / "run")]
    command += ["--source-language", "fi", "--target-language", "sv", "--licence", "CC-BY 4.0"]
    assert main(command) == 0
    assert json.loads((tmp_path / "run" / "import.json").read_text())["licence"] == "CC-BY 4.0"
    info = Workdir(tmp_path / "run").dataset_info
    assert (info["source_language"], info["target_language"]) == ("fi", "sv")


def lines(file, texts):
    file.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return str(file)
