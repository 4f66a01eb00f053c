"""Multilingual models through the command line: trained on two pairs, and imported from a folder of NLLB-200's kind."""

import json

import pytest
import tensorflow as tf
from multilingual_toys import multilingual_toy

from tf_transformer.export.inspection import inspect_saved_model
from tf_transformer.export.serving import server_in_thread
from tf_transformer.export.serving.client import Client, RequestRejected
from tf_transformer.pipelines.cli import main

pytestmark = pytest.mark.slow

WORDS = {"en": "one two three four five", "de": "eins zwei drei vier fünf", "fr": "un deux trois quatre cinq"}
SMALL = ["model.num_layers=1", "model.model_dim=32", "model.feed_forward_dim=32", "model.num_heads=2"]
SMALL += ["model.key_dim=16", "model.value_dim=16", "training.max_steps=6", "training.batch_tokens=300"]
SMALL += [
    "training.validation_steps=3",
    "training.bleu_steps=3",
    "training.bleu_samples=4",
    "decoding.max_extra_length=3",
]


def write_lines(path, language, numbers):
    words = WORDS[language].split()
    lines = [" ".join(words[n // 5**place % 5] for place in range(4)) for n in numbers]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The work directory of a model of en-de and en-fr, trained for six steps by the commands."""
    folder = tmp_path_factory.mktemp("multilingual")
    flags = ["prepare", "--output", str(folder / "data"), "--vocab-size", "150", "--temperature", "2"]
    ranges = {"pair": range(200), "validation-pair": range(300, 311), "test-pair": range(400, 407)}
    for flag, numbers in ranges.items():
        for target in ("de", "fr"):
            files = [write_lines(folder / f"{flag}.{target}.{code}", code, numbers) for code in ("en", target)]
            flags += [f"--{flag}", f"en-{target}:{files[0]}:{files[1]}"]
    assert main(flags) == 0
    settings = [word for setting in SMALL for word in ("--set", setting)]
    command = ["train", "--preset", "tiny", "--data", str(folder / "data"), "--workdir", str(folder / "run"), *settings]
    assert main(command) == 0
    return folder / "run"


def translated(path, arguments, tmp_path):
    source, target = tmp_path / "source.txt", tmp_path / "target.txt"
    source.write_text("one two\nthree\n", encoding="utf-8")
    code = main(["translate", *path, "--input", str(source), "--output", str(target), *arguments])
    return target.read_text(encoding="utf-8").splitlines() if code == 0 else None


def test_evaluate_reports_each_pair(run, capsys):
    assert main(["evaluate", "--workdir", str(run), "--bootstrap", "0", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["en-de", "en-fr"]
    assert all(found[pair]["sentences"] == 7 and found[pair]["test_set"] == f"test-{pair}" for pair in found)
    assert found["en-de"]["directory"] != found["en-fr"]["directory"]
    assert main(["evaluate", "--workdir", str(run), "--bootstrap", "0", "--target-language", "fr"]) == 0
    output = capsys.readouterr().out
    assert output.startswith("en-fr\n") and "en-de" not in output


def test_the_target_language_is_chosen(run, tmp_path, capsys):
    assert len(translated(["--workdir", str(run)], ["--target-language", "fr"], tmp_path)) == 2
    assert translated(["--workdir", str(run)], [], tmp_path / "..") is None
    assert "Expected a target language for a model of several" in capsys.readouterr().err
    assert translated(["--workdir", str(run)], ["--target-language", "fra"], tmp_path / "..") is None
    assert "Did you mean fr?" in capsys.readouterr().err


def test_a_trained_model_is_exported_with_its_languages(run, tmp_path):
    assert main(["export", "--workdir", str(run), "--output", str(tmp_path / "models"), "--target-language", "de"]) == 0
    check_export(tmp_path / "models", ["de", "fr"], tmp_path)


def test_an_imported_model_is_exported_and_served_with_its_languages(tmp_path, capsys):
    toy = multilingual_toy(tmp_path / "toy")
    run, models = tmp_path / "run", tmp_path / "models"
    assert main(["import", "--from", str(toy.folder), "--workdir", str(run), "--source-language", "eng_Latn"]) == 0
    assert main(["export", "--workdir", str(run), "--output", str(models), "--beam-size", "2"]) == 1
    assert "Expected a target language for a model of several" in capsys.readouterr().err
    flags = ["--beam-size", "2", "--max-extra-length", "3", "--target-language", "deu_Latn"]
    assert main(["export", "--workdir", str(run), "--output", str(models), *flags]) == 0
    codes = ["deu_Latn", "eng_Latn", "fra_Latn", "zho_Hans"]
    check_export(models, codes, tmp_path)
    with server_in_thread(str(models), name="toy") as server:
        client = Client(f"http://127.0.0.1:{server.port}", "toy")
        texts = ["the dog.", "a cat."]
        assert client.translate(texts, "deu_Latn") == client.translate(texts)
        mixed = client.translate(texts, ["deu_Latn", "fra_Latn"])
        assert mixed[0] == client.translate(texts[:1])[0]
        for codes in ("deu", ["fra_Latn", "deu"]):
            with pytest.raises(RequestRejected, match=r"Received: 'deu'\. Did you mean deu_Latn\?"):
                client.translate(texts, codes)
    rows = tf.saved_model.load(str(models / "1")).signatures["translate_to"](
        text=tf.constant(texts), target_language=tf.constant(["deu", "fra_Latn"])
    )
    assert [text.decode() for text in rows["translation"].numpy()] == ["", french(models, texts[1])]


def french(models, text):
    """The French translation of a text, alone in its batch."""
    call = tf.saved_model.load(str(models / "1")).signatures["translate_to"]
    found = call(text=tf.constant([text]), target_language=tf.constant(["fra_Latn"]))["translation"]
    return found.numpy()[0].decode()


def check_export(models, codes, tmp_path):
    """The signature, the model card, the report of `inspect` and `translate --saved-model`."""
    loaded = tf.saved_model.load(str(models / "1"))
    call = loaded.signatures["translate_to"]
    text = tf.constant(["one two", "three"])
    default = loaded.signatures["serving_default"](text=text)["translation"].numpy().tolist()
    assert call(text=text, target_language=tf.constant([codes[0]] * 2))["translation"].numpy().tolist() == default
    card = json.loads((models / "1" / "model.json").read_text(encoding="utf-8"))
    assert card["languages"]["targets"] == codes and card["languages"]["target"] == codes[0]
    assert "translate_to" in (models / "1" / "README.md").read_text(encoding="utf-8")
    assert f"translate_to: {', '.join(codes)}" in inspect_saved_model(models / "1").to_text()
    assert len(translated(["--saved-model", str(models)], ["--target-language", codes[1]], tmp_path)) == 2
