"""`tf-transformer export`: a version that loads without this package, and none at all if a check fails."""

import dataclasses
import json
import shutil
import stat
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from exported_toy import BEAMS, N_BEST, SMALL, exported_toy
from toy_workdir import randomize, toy_sentences, toy_tokenizers

from tf_transformer.config import Config, DecodingConfig
from tf_transformer.decoding._translator import Translator
from tf_transformer.export import _publishing as publishing
from tf_transformer.export import _saved_model as saved_model
from tf_transformer.export import _verify as verify
from tf_transformer.export._candidate import Candidate
from tf_transformer.export._saved_model import export_saved_model
from tf_transformer.export._serving_assets import read_warmup_requests
from tf_transformer.export._verify import ExportRejected, answer
from tf_transformer.export.inspection._inspect import inspect_saved_model
from tf_transformer.model import Transformer
from tf_transformer.pipelines import cli
from tf_transformer.text._subwords import IdMap
from tf_transformer.text._tokenizer import Tokenizer, TokenizerPair
from tf_transformer.workdir import checkpoints
from tf_transformer.workdir._weights import model_tensors
from tf_transformer.workdir._workdir import Workdir


@pytest.fixture(scope="module")
def workdir():
    return exported_toy()[0]


@pytest.fixture(scope="module")
def version():
    return exported_toy()[1]


@pytest.fixture(scope="module")
def candidate(workdir):
    """Made by a process whose policy is that of a mixed training."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        return Candidate(workdir, workdir.checkpoint(), "float32", {})
    finally:
        keras.config.set_dtype_policy(before)


@pytest.fixture(scope="module")
def written(candidate, tmp_path_factory):
    """Requests and answers of the candidate, and its SavedModel."""
    directory = tmp_path_factory.mktemp("candidate") / "written"
    sentences = candidate.sentences[:7]
    requests = [("serving_default", {"text": sentences})]
    expected = answer(candidate.signatures, requests)
    candidate.save(directory, "toy", expected[0]["translation"].tolist())
    return requests, expected, directory


def test_the_version_is_complete(version):
    assert [path.name for path in version.parent.iterdir()] == ["1"]
    names = {"saved_model.pb", "README.md", "model.json", "batching_params.pbtxt", "variables/variables.index"}
    assert names | {"assets.extra/tf_serving_warmup_requests"} <= set(publishing.files_of(version))
    assert stat.S_IMODE(version.stat().st_mode) & 0o700 == 0o700
    assert inspect_saved_model(version).problems == ()


def test_the_options_of_the_search_are_fixed_in_it(version):
    shapes = {
        each.name: {out.name: out.shape for out in each.outputs} for each in inspect_saved_model(version).signatures
    }
    rows = (-1,)
    assert shapes["nbest"] == {
        "translations": (-1, N_BEST),
        "scores": (-1, N_BEST),
        "truncated": rows,
        "sentences": rows,
    }
    assert shapes["document"] == {"translation": rows, "sentences": rows, "warnings": rows}
    assert shapes["serving_default"] == {"translation": (-1,)}
    words = {f"{side}_{name}": (-1, -1) for side in ("source", "target") for name in ("words", "starts", "ends")}
    aligned = {"translation": rows, "confidences": (-1, -1), "links": (-1, -1, 2), "sentences": rows}
    assert shapes["alignment"] == words | aligned
    assert shapes["score"] == {"score": rows, "tokens": rows, "sentences": rows}


def test_without_segmentation_the_signatures_are_of_sentences(workdir):
    candidate = Candidate(workdir, workdir.checkpoint(), "float32", {"segmentation": False})
    names = {"serving_default", "nbest", "score", "attention", "alignment", "model_card"}
    assert set(candidate.signatures) == names
    assert not any("sentences" in each.structured_outputs for each in candidate.signatures.values())
    text = tf.constant(["the dog. The cat."])
    found = candidate.signatures["serving_default"](text=text)["translation"].numpy()
    expected = Translator.from_workdir(workdir.path).best(["the dog. The cat."], as_sentences=True)
    assert found[0].decode() == expected[0].texts[0]


@pytest.fixture(scope="module")
def loaded(version):
    return tf.saved_model.load(str(version))


def test_it_translates_as_the_translator_in_memory(loaded, workdir):
    sentences = toy_sentences(29, seed=3)
    found = loaded.signatures["serving_default"](text=tf.constant(sentences))["translation"].numpy()
    expected = Translator.from_workdir(workdir.path, beam_size=BEAMS)(sentences)
    assert [text.decode() for text in found] == expected


def test_every_warm_up_request_is_answered(version, loaded):
    requests = list(read_warmup_requests(version))
    assert len(requests) == 2 * len(loaded.signatures)
    for name, inputs in requests:
        outputs = loaded.signatures[name](**{key: tf.constant(value) for key, value in inputs.items()})
        assert {len(value) for value in outputs.values()} == {len(next(iter(inputs.values())))}


def test_the_card_tells_what_it_is(version, workdir):
    card = json.loads((version / "model.json").read_text())
    assert {name: card["checkpoint"][name] for name in ("name", "step")} == {"name": "step-00000007", "step": 7}
    assert len(card["checkpoint"]["sha256"]) == 64
    assert card["tokenizer"]["sha256"] == workdir.tokenizers.sha256
    assert card["oldest_server"] == "2.12.1"
    assert (card["decoding"]["beam_size"], card["decoding"]["nbest"]) == (BEAMS, N_BEST)
    assert publishing.checksums(version).items() >= card["files"].items()
    readme = (version / "README.md").read_text()
    assert "import tensorflow_text" in readme and "2.12.1" in readme
    assert str(workdir.path) not in readme + json.dumps(card)


def test_without_tensorflow_text_loading_fails_as_documented(version):
    script = f"import tensorflow as tf; tf.saved_model.load({str(version)!r})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode != 0
    assert "Op type not registered 'Sentencepiece" in done.stderr
    assert "Op type not registered 'Sentencepiece" in (version / "README.md").read_text()


def test_nothing_but_the_weights_and_the_search_is_stored(version, candidate):
    report = inspect_saved_model(version)
    assert report.sizes.parameters == candidate.model.count_params()
    assert not {op for op in report.ops if "Random" in op or "Gradient" in op} - {"StopGradient"}


def rejected(candidate, base, match):
    base.mkdir(exist_ok=True)
    before = publishing.checksums(base)
    with publishing.workspace(base) as place, pytest.raises(ExportRejected, match=match):
        saved_model._publish(candidate, place, base)
    assert publishing.checksums(base) == before and not list(base.glob(".*"))


class Spoilt:
    """A candidate whose SavedModel is damaged by `spoil` after it is written."""

    def __init__(self, written, spoil):
        self.requests, self.expected, self.directory = written
        self.spoil = spoil

    def trial(self):
        return self.requests, self.expected, 1.0

    def save(self, directory, *args):
        shutil.copytree(self.directory, directory)
        self.spoil(directory)


def flip_a_bit(file, place):
    content = bytearray(file.read_bytes())
    content[place] ^= 4
    file.write_bytes(content)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda model: flip_a_bit(model / "variables" / "variables.data-00000-of-00001", 5003),
        lambda model: flip_a_bit(model / "saved_model.pb", 50021),
        lambda model: flip_a_bit(model / "variables" / "variables.index", 101),
        lambda model: (model / "saved_model.pb").write_bytes((model / "saved_model.pb").read_bytes()[:100_003]),
        lambda model: (model / "variables" / "variables.data-00000-of-00001").write_bytes(b""),
    ],
    ids=["bit in weights", "bit in graph", "bit in index", "truncated graph", "no weights"],
)
def test_a_damaged_export_never_appears(written, tmp_path, spoil):
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "saved_model.pb").write_bytes(b"the good one")
    rejected(Spoilt(written, spoil), tmp_path, "has problems; nothing was published")


def test_an_export_that_translates_otherwise_never_appears(written, tmp_path, monkeypatch):
    other = [{"translation": written[1][0]["translation"][::-1]}]
    monkeypatch.setattr(verify, "answers_of_clean_process", lambda *_: (other, 0.5))
    match = r"differ from the checkpoint(?s:.)*checkpoint:(?s:.)*export:"
    rejected(Spoilt(written, lambda _: None), tmp_path, match)


def test_an_export_that_writes_into_its_own_directory_never_appears(written, tmp_path, monkeypatch):
    def write(directory, *_):
        publishing.set_modes(directory, 0o755, 0o644)
        (directory / "cache").write_text("left behind")
        return written[1], 0.5

    monkeypatch.setattr(verify, "answers_of_clean_process", write)
    rejected(Spoilt(written, lambda _: None), tmp_path, "files of the export changed while it was loaded")


def test_weights_that_are_not_finite_are_rejected_before_anything_is_written(workdir, tmp_path, capsys):
    tensors = checkpoints.load_model_tensors(workdir.checkpoint())
    tensors["decoder/layer_0/feed_forward/inner/kernel"][3, 5] = np.nan
    checkpoints.save_checkpoint(tmp_path / "broken", tensors, step=7)
    base = tmp_path / "base"
    flags = ["--workdir", str(workdir.path), "--output", str(base), "--checkpoint", str(tmp_path / "broken")]
    assert cli.main(["export", *flags]) == 1
    assert "holds 1 values that are NaN or infinite" in capsys.readouterr().err
    assert not base.exists()


def test_the_graph_is_float32_for_any_device_whatever_the_policy(candidate):
    for function in candidate.signatures.values():
        graph = function.graph.as_graph_def()
        nodes = [*graph.node, *(node for each in graph.library.function for node in each.node_def)]
        types = {value.type for node in nodes for value in node.attr.values()}
        assert not types & {tf.float16.as_datatype_enum, tf.bfloat16.as_datatype_enum}
        assert {node.device for node in nodes} == {""}


def test_more_results_than_beams_are_rejected(workdir, tmp_path):
    with pytest.raises(ValueError, match=r"decoding\.nbest of at most decoding\.beam_size = 2\. Received: 3"):
        export_saved_model(workdir, tmp_path / "base", beam_size=2, nbest=3)


def test_a_version_is_no_place_for_versions(workdir, version):
    with pytest.raises(ValueError, match=r"Received: .*, a SavedModel\. Give the directory above it"):
        export_saved_model(workdir, version)


def test_the_search_is_no_part_of_ctranslate2(workdir, tmp_path, capsys):
    flags = ["--workdir", str(workdir.path), "--output", str(tmp_path / "ct2"), "--format", "ctranslate2"]
    assert cli.main(["export", *flags, "--beam-size", "5"]) == 1
    assert "Received: decoding.beam_size=5. Leave it out" in capsys.readouterr().err
    assert cli.main(["export", *flags, "--packed"]) == 1
    assert "Expected no --packed with --format ctranslate2. Leave it out" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["float16", "bfloat16", "int8"])
def test_smaller_weights_are_published_and_halve_the_variables(version, workdir, tmp_path, weights):
    found = export_saved_model(Workdir(workdir.path), tmp_path / "base", weights=weights, beam_size=2)
    sizes = [inspect_saved_model(path).sizes.variables_bytes for path in (version, found.path)]
    assert sizes[1] < 0.75 * sizes[0]
    card = json.loads((found.path / "model.json").read_text())
    assert card["weights"] == weights and card["rounding"]["per_token"] < 0.01


@pytest.mark.slow
def test_packed_weights_are_published_and_translate_as_the_others(version, workdir, tmp_path):
    flags = ["--workdir", str(workdir.path), "--output", str(tmp_path / "base"), "--beam-size", str(BEAMS)]
    assert cli.main(["export", *flags, "--packed"]) == 0
    report = inspect_saved_model(tmp_path / "base" / "1")
    assert report.ops["_MklNativeFusedMatMul"] and report.oldest_server == "2.12.1"
    assert json.loads((tmp_path / "base" / "1" / "model.json").read_text())["packed"] is True
    assert report.sizes.variables_bytes < 1.1 * inspect_saved_model(version).sizes.variables_bytes
    text = tf.constant(toy_sentences(7))
    found, expected = (
        tf.saved_model.load(str(path)).signatures["serving_default"](text=text)["translation"].numpy().tolist()
        for path in (tmp_path / "base" / "1", version)
    )
    assert found == expected


@pytest.mark.slow
def test_a_model_with_two_tokenizers_and_ids_of_its_own_is_published(tmp_path):
    pair = toy_tokenizers()
    size = pair.source.vocab_size
    # As in OPUS-MT: the end is 0, the last id is both padding and start.
    ids = (size - 1, 1, size - 1, 0, *range(size - 2, 3, -1), 2)
    tables = [IdMap(order, size, size - 1, 1, size - 1, 0) for order in (ids, (*ids[:4], *ids[:3:-1]))]
    tokenizers = TokenizerPair(*(Tokenizer(pair.source.model, table) for table in tables))
    special = {"pad_id": size - 1, "bos_id": size - 1, "eos_id": 0}
    options = {"positions": "learned", "max_positions": 17, "norm": "pre", "tied_embeddings": "none"}
    model = dataclasses.replace(SMALL, vocab_size=size, output_bias=True, **special, **options)
    config = Config(
        preset="imported",
        model=model,
        decoding=DecodingConfig(beam_size=2, max_source_length=13, failure_detection=False),
    )
    workdir = Workdir.create(tmp_path / "run", config, tokenizers, {})
    transformer = Transformer(model)
    randomize(transformer)
    checkpoints.save_checkpoint(workdir.checkpoints / "step-00000000", model_tensors(transformer), step=0)

    loaded = tf.saved_model.load(str(export_saved_model(workdir, tmp_path / "base").path))
    sentences = toy_sentences(11)
    found = loaded.signatures["serving_default"](text=tf.constant(sentences))["translation"].numpy()
    assert [text.decode() for text in found] == Translator(transformer, tokenizers, config.decoding)(sentences)
