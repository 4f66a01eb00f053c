"""The commands that write something, each with its inputs and what makes its result complete."""

import dataclasses
import json
import pathlib
import shutil
from collections.abc import Callable

from exported_toy import SEARCH, SMALL
from external_toys import marian_toy
from forked_commands import Command
from toy_data import SETTINGS
from toy_workdir import toy_sentences, toy_workdir

from tf_transformer.data import PreparedDataset
from tf_transformer.export.inspection import checksum_problems
from tf_transformer.workdir import Workdir
from tf_transformer.workdir.checkpoints import load_model_tensors, save_checkpoint, verify_checkpoint

RESULT = "result"


@dataclasses.dataclass(frozen=True)
class Verb:
    """A command that is interrupted.

    Attributes:
        argv: its arguments, given the folder of inputs and the folder that it writes into.
        check: raises an error unless the result in the folder is complete.
        set_up: puts into the folder what is there before.
        again: whether the command succeeds where its result is complete already; otherwise it rejects it.
        check_steps: for a command that resumes: raises an error unless each part of the result that is there is
            complete. None: the result appears in one step.
        slow: whether ten interruptions are too many for the fast tests.
    """

    argv: Callable[[pathlib.Path, pathlib.Path], list]
    check: Callable[[pathlib.Path], None]
    set_up: Callable[[pathlib.Path, pathlib.Path], None] = lambda inputs, folder: None
    again: bool = True
    check_steps: Callable[[pathlib.Path], None] | None = None
    slow: bool = True

    def command(self, inputs: pathlib.Path, folder: pathlib.Path, **options) -> Command:
        return Command([str(word) for word in self.argv(inputs, folder)], str(folder), **options)

    def folder(self, inputs: pathlib.Path, parent: pathlib.Path, name: str) -> pathlib.Path:
        """A new folder to write into."""
        (folder := parent / name).mkdir()
        self.set_up(inputs, folder)
        return folder


def write_inputs(folder: pathlib.Path) -> pathlib.Path:
    """Everything that the commands read: two corpora, a run with three checkpoints, an external model as a zip."""
    folder.mkdir()
    for number, name in enumerate(("train", "other")):
        (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in toy_sentences(300, 1 + number)))
    (folder / "lines.txt").write_text("".join(f"{line}\n" for line in toy_sentences(23, 3)))
    workdir = toy_workdir(folder / "run", SMALL, **SEARCH)
    tensors = load_model_tensors(workdir.checkpoints / "step-00000007")
    for step in (11, 13):
        save_checkpoint(workdir.checkpoints / f"step-{step:08d}", tensors, step=step)
    _run(["prepare", *_corpus(folder / "train.txt"), "--tokenizer", folder / "run", "--output", folder / "data"])
    marian_toy(folder / "marian")
    shutil.make_archive(str(folder / "marian"), "zip", folder / "marian")
    return folder


def _run(words: list) -> None:
    from tf_transformer.pipelines.cli import main

    if main([str(word) for word in words]):
        raise RuntimeError(f"{words[0]} failed")


def _corpus(path: pathlib.Path) -> list:
    return ["--data", "files", "--source-language", "en", "--target-language", "de", "--workers", "1",
            "--train-source", path, "--train-target", path]  # fmt: skip


def _prepare(inputs: pathlib.Path, folder: pathlib.Path, corpus: str = "train") -> list:
    return ["prepare", *_corpus(inputs / f"{corpus}.txt"), "--vocab-size", "150", "--output", folder / RESULT]


def _check_prepared(folder: pathlib.Path) -> None:
    prepared = PreparedDataset(folder / RESULT)
    prepared.verify()
    assert len(prepared.lines("validation")[0]) == 14 and prepared.length_counts().pairs.sum() == 268


def _prepare_other(inputs: pathlib.Path, folder: pathlib.Path) -> None:
    _run(_prepare(inputs, folder, "other"))


def _copy_run(inputs: pathlib.Path, folder: pathlib.Path) -> None:
    shutil.copytree(inputs / "run", folder / RESULT)


def _average_before(inputs: pathlib.Path, folder: pathlib.Path) -> None:
    _copy_run(inputs, folder)
    shutil.copytree(folder / RESULT / "checkpoints" / "step-00000007", folder / RESULT / "checkpoints" / "average")


def _check_average(folder: pathlib.Path) -> None:
    verify_checkpoint(folder / RESULT / "checkpoints" / "average")


def _check_imported(folder: pathlib.Path) -> None:
    workdir = Workdir(folder / RESULT)
    verify_checkpoint(workdir.checkpoint("latest"))
    assert workdir.tokenizers.source.vocab_size <= workdir.config.model.vocab_size
    assert json.loads((workdir.path / "import.json").read_text())["parameters"] > 0


def _check_versions(folder: pathlib.Path) -> None:
    versions = sorted((folder / RESULT).iterdir())
    assert versions and all(checksum_problems(version) == [] for version in versions if version.name.isdecimal())


def _check_ctranslate2(folder: pathlib.Path) -> None:
    names = {path.name for path in (folder / RESULT).iterdir()}
    assert names == {"model.bin", "config.json", "shared_vocabulary.json", "tokenizer.model"}


def _check_lines(folder: pathlib.Path) -> None:
    assert (folder / RESULT).read_text(encoding="utf-8").count("\n") == 23


def _distill(inputs: pathlib.Path, folder: pathlib.Path) -> list:
    settings = (*SETTINGS, "model.num_decoder_layers=none", "training.max_steps=4", "training.checkpoint_steps=2")
    flags = [word for setting in settings for word in ("--set", setting)]
    return ["distill", "--teacher", inputs / "run", "--data", inputs / "data", "--workdir", folder / RESULT,
            "--preset", "tiny-ssru", "--part-pairs", "64", *flags]  # fmt: skip


def _check_distilled(folder: pathlib.Path) -> None:
    _check_distilled_parts(folder)
    assert json.loads((folder / RESULT / "distillation.json").read_text())["speed"] > 0
    verify_checkpoint(Workdir(folder / RESULT).checkpoint())


def _check_distilled_parts(folder: pathlib.Path) -> None:
    student = folder / RESULT
    for part in (student / "translations").glob("part-*"):
        *lines, last = part.read_text(encoding="utf-8").split("\n")
        assert last == "" and all(line.count("\t") == 1 for line in lines), part
    if (student / "data").exists():
        PreparedDataset(student / "data").verify()
    for checkpoint in (student / "checkpoints").glob("[!.]*"):
        verify_checkpoint(checkpoint)


_RUN = ["--checkpoint", "step-00000013"]
VERBS = {
    "prepare": Verb(_prepare, _check_prepared, slow=False),
    "prepare-overwrite": Verb(
        lambda inputs, folder: [*_prepare(inputs, folder), "--overwrite"], _check_prepared, _prepare_other, slow=False
    ),
    "average": Verb(
        lambda _, folder: ["average", "--workdir", folder / RESULT, "--last", "2"],
        _check_average,
        _average_before,
        slow=False,
    ),
    "import": Verb(
        lambda inputs, folder: ["import", "--from", inputs / "marian.zip", "--workdir", folder / RESULT],
        _check_imported,
        again=False,
    ),
    "export": Verb(
        lambda inputs, folder: ["export", "--workdir", inputs / "run", *_RUN, "--output", folder / RESULT],
        _check_versions,
    ),
    "export-ctranslate2": Verb(
        lambda inputs, folder: [
            *("export", "--workdir", inputs / "run", *_RUN, "--output", folder / RESULT, "--format", "ctranslate2")
        ],
        _check_ctranslate2,
        again=False,
    ),
    "distill": Verb(_distill, _check_distilled, check_steps=_check_distilled_parts),
    "translate": Verb(
        lambda inputs, folder: [
            *("translate", "--workdir", inputs / "run", *_RUN, "--input", inputs / "lines.txt"),
            *("--output", folder / RESULT),
        ],
        _check_lines,
        lambda _, folder: (folder / RESULT).write_text("an earlier line\n" * 23) and None,
    ),
}
