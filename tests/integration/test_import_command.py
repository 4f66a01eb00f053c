"""`import`, and the commands after it, on models that were trained elsewhere."""

import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from external_toys import huggingface_toy, marian_toy, student_toy
from hub_server import COMMIT, hub_server
from toy_workdir import toy_sentences

from tf_transformer.export._ctranslate2 import export_ctranslate2
from tf_transformer.importing import report
from tf_transformer.pipelines.cli import main
from tf_transformer.workdir._workdir import Workdir
from tf_transformer.workdir.checkpoints import load_model_tensors, load_training_tensors


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("imported")
    toy = huggingface_toy(folder / "opus-mt-en-de")
    # OPUS-MT: two tokenizers, one vocabulary. A longer normalizer's name makes the target's another file.
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
    check_report(report, tmp_path / "run", "vocab.toy.spm", "model.enpt.intgemm.alphas.bin")
    for line in (f"Marian, {parameters:,} parameters", "Languages: en to pt", "Licence: MPL-2.0", "Search: beam 4"):
        assert line in report
    assert "Sample: The weather is beautiful today. -> " in report
    command = ["translate", "--workdir", str(tmp_path / "run"), "--input"]
    for beam_size in ("1", "3"):
        assert main([*command, lines(tmp_path / "a", toy_sentences(3)), "--beam-size", beam_size]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 3


def check_report(report, workdir, *files):
    """Every part of the report, printed and in import.json."""
    facts = json.loads((workdir / "import.json").read_text())
    read = {file["name"]: file for file in facts["files"]}
    for name in files:
        assert f"  {name} ({read[name]['bytes']:,} bytes)\n" in report
        assert len(read[name]["sha256"]) == 64
    parts = [f"From: {facts['from']}", f"Files read: {len(read)}", f"{facts['parameters']:,} parameters", "Licence: "]
    parts += [f"Sample: {facts['sample']['source']} -> {facts['sample']['translation']}", "Languages: "]
    parts += [f"tf-transformer translate --workdir {workdir}", f"tf-transformer export --workdir {workdir} --output"]
    for part in parts:
        assert part in report


@pytest.mark.slow
def test_the_other_families_end_with_a_report_too(imported, tmp_path, capsys):
    files = ("config.json", "model.safetensors", "vocab.json", "source.spm", "target.spm", "tokenizer_config.json")
    check_report(report(Workdir(imported)), imported, *files, "README.md")
    folder = export_ctranslate2(Workdir(imported), tmp_path / "converted")
    package = tmp_path / "translate-en_de.argosmodel"
    with zipfile.ZipFile(package, "w") as archive:
        archive.writestr("package/metadata.json", json.dumps({"from_code": "en", "to_code": "de"}))
        for file in folder.iterdir():
            archive.write(file, f"package/model/{file.name}")
    command = ["import", "--from", str(package), "--workdir", str(tmp_path / "run"), "--sample", "the house"]
    capsys.readouterr()
    assert main(command) == 0
    printed = capsys.readouterr().out
    check_report(printed, tmp_path / "run", "model.bin", "metadata.json")
    assert "Sample: the house -> " in printed and "Languages: en to de" in printed


def test_translate_and_score_take_it(imported, tmp_path, capsys):
    assert main(["translate", "--workdir", str(imported), "--input", lines(tmp_path / "a", toy_sentences(3))]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    pairs = [lines(tmp_path / side, toy_sentences(3, seed)) for seed, side in enumerate(("source", "target"))]
    assert main(["score", "--workdir", str(imported), "--source", pairs[0], "--target", pairs[1], "--json"]) == 0
    assert capsys.readouterr().out.strip()


def test_training_starts_from_the_imported_weights(imported, tmp_path):
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
    assert "expected 'transformer' as Marian's option type. Received: 'amun'" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["external"]


def test_languages_and_licence_can_be_given(tmp_path, capsys):
    toy = marian_toy(tmp_path / "external")
    capsys.readouterr()
    command = ["import", "--from", str(toy.folder / "model.npz"), "--workdir", str(tmp_path / "run")]
    command += ["--source-language", "fi", "--target-language", "sv", "--licence", "CC-BY 4.0"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    check_report(printed, tmp_path / "run", "model.npz", "vocab.yml", "source.spm", "target.spm")
    assert "Sample: Tänään on kaunis sää. -> " in printed
    assert json.loads((tmp_path / "run" / "import.json").read_text())["licence"] == "CC-BY 4.0"
    info = Workdir(tmp_path / "run").dataset_info
    assert (info["source_language"], info["target_language"]) == ("fi", "sv")


def lines(file, texts):
    file.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return str(file)


@pytest.mark.slow
def test_a_model_of_the_hub_is_imported_by_name(tmp_path):
    """The command in a process of its own, so that HF_ENDPOINT and HF_HOME are read as users set them."""
    toy = huggingface_toy(tmp_path / "toy")
    command = [sys.executable, "-m", "pipelines.import_weights", "--from", "hf:Helsinki-NLP/opus-mt-en-de"]
    with hub_server() as hub:
        hub.repositories["Helsinki-NLP/opus-mt-en-de"] = toy.folder
        settings = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home"), "PYTHONUTF8": "1"}
        done = subprocess.run(
            [*command, "--workdir", str(tmp_path / "run")],
            env=os.environ | settings,
            check=True,
            capture_output=True,
            text=True,
        )
        check_report(done.stdout, tmp_path / "run", "model.safetensors")
        assert f"From: hf:Helsinki-NLP/opus-mt-en-de (commit {COMMIT})\n" in done.stdout
        assert f"is kept in {tmp_path / 'home' / 'hub'}" in done.stderr
        hub.repositories.clear()
        done = subprocess.run(
            [*command, "--workdir", str(tmp_path / "other")],
            env=os.environ | settings,
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 1
        assert "Received: 404 of the hub" in done.stderr and "`--from opus-mt-en-de`" in done.stderr
