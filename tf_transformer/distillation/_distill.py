"""Distillation as one call (Kim and Rush 2016, https://aclanthology.org/D16-1139): translate, prepare, train, compare.

STUDENT/translations/    the teacher's translations, in parts
STUDENT/data/            the prepared directory of the student
STUDENT/…                the student's work directory
STUDENT/distillation.json
"""

import dataclasses
import logging
import os
import pathlib
from collections.abc import Callable
from typing import Any

from tf_transformer._progress import Progress
from tf_transformer.config import Config, DecodingConfig
from tf_transformer.data import PreparedDataset, prepare
from tf_transformer.distillation._child_process import StoppedError, run_in_child
from tf_transformer.distillation._comparison import ROUNDS, TIMED_SENTENCES, Comparison, compare
from tf_transformer.distillation._on_beam import BeamTeacher, translate_on_beam
from tf_transformer.distillation._translation import PART_PAIRS, TeacherTranslations, distilled_options
from tf_transformer.training import RunLock, StopRequest, TrainingResult, train
from tf_transformer.workdir import Workdir, average_last
from tf_transformer.workdir.checkpoints import read_info

TRANSLATIONS, DATA = "translations", "data"

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Teacher:
    """Model that translates the training sources.

    Attributes:
        workdir: its work directory.
        checkpoint: as in `Workdir.checkpoint`.
        decoding: fields of `DecodingConfig` to change in its search.
    """

    workdir: str
    checkpoint: str = "auto"
    decoding: dict[str, Any] = dataclasses.field(default_factory=dict)

    def resolved(self) -> "Teacher":
        """The teacher with the checkpoint that exists now, and its whole search."""
        workdir = Workdir(self.workdir)
        search = dataclasses.replace(workdir.config.decoding, **self.decoding)
        path = workdir.checkpoint(self.checkpoint)
        return Teacher(self.workdir, str(path.resolve()), search.to_dict())

    def origin(self) -> dict[str, object]:
        """The settings that determine its translations.

        Fields of the search with default values are left out: a later version may have more of them.
        """
        usual = DecodingConfig().to_dict()
        search = {name: value for name, value in self.decoding.items() if value != usual.get(name)}
        return {"teacher": read_info(pathlib.Path(self.checkpoint))["files"], "decoding": search}


class Distillation:
    """Distillation of a teacher into a student. Called again, it resumes: finished parts and steps are kept.

    Args:
        teacher: of the data's tokenizer.
        data: a prepared directory, whose training sources are translated.
        workdir: the student's.
        config: the student's.
        command: recorded in the data and in the comparison.
        part_pairs: training pairs per part of the translations.
        beam: export of the teacher that translates on Beam; None translates on this machine.
    """

    def __init__(
        self,
        teacher: Teacher,
        data: str | os.PathLike,
        workdir: str | os.PathLike,
        config: Config,
        command: str = "",
        part_pairs: int = PART_PAIRS,
        beam: BeamTeacher | None = None,
    ):
        self._teacher = teacher.resolved()
        self._prepared, self._workdir, self._config = PreparedDataset(data), pathlib.Path(workdir), config
        self._command = command
        if self._workdir.resolve() == pathlib.Path(teacher.workdir).resolve():
            raise ValueError(f"Expected a work directory for the student. Received: the teacher's, {workdir}.")
        if self._prepared.splits == ("train",):
            raise ValueError(
                f"Expected data with a validation or a test split, to compare the models on. Received: {data}, which "
                "has none. Prepare it with --validation-source and --validation-target."
            )
        _check_tokenizers(Workdir(teacher.workdir), self._prepared)
        self._translations = TeacherTranslations(
            self._workdir / TRANSLATIONS, self._prepared, self._teacher.origin(), part_pairs
        )
        self._part_pairs, self._beam = part_pairs, beam

    def run(self) -> tuple[Comparison | None, TrainingResult | None, int | None]:
        """Do what is missing.

        Returns:
            The comparison and the training of this call, each None if an interruption came before; and the signal
            that interrupted it, or None.
        """
        # The student's training leaves memory for the process that compares it with its teacher.
        os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
        with StopRequest() as stop:
            try:
                with RunLock(self._workdir):
                    self._translate(stop)
                    self._prepare()
            except StoppedError:
                return None, None, stop.signal
            if stop.requested:
                return None, None, stop.signal
        training = train(self._workdir / DATA, self._workdir, self._config)
        if training.ended == "interrupted":
            return None, training, training.signal
        with StopRequest() as stop:
            try:
                return self._compare(stop), training, None
            except StoppedError:
                return None, training, stop.signal

    def _translate(self, stop: StopRequest) -> None:
        if self._beam is not None:
            arguments = self._beam, self._teacher.checkpoint, str(self._prepared.path), self._part_pairs
            run_in_child(translate_on_beam, *arguments, stop=stop)
            return
        translations = self._translations
        translations.open()
        missing = sum(part.pairs for part in translations.missing)
        if not missing:
            logger.info("All %s training sources are translated.", f"{translations.pairs:,}")
            return
        done = translations.pairs - missing
        with Progress("translating with the teacher", translations.pairs, "pairs", done) as progress:
            run_in_child(
                translate_sources, self._teacher, str(self._prepared.path), str(self._workdir), self._part_pairs,
                stop=stop, progress=progress.update,
            )  # fmt: skip

    def _prepare(self) -> None:
        prepared = prepare(
            self._beam.corpus(self._prepared) if self._beam else self._translations.corpus(),
            self._workdir / DATA,
            distilled_options(self._prepared),
            tokenizers=self._prepared.tokenizers,
            command=self._command,
        )
        logger.info("%s", prepared.summary())

    def _compare(self, stop: StopRequest) -> Comparison:
        average_last(Workdir(self._workdir))
        splits = [name for name in self._prepared.splits if name != "train"]
        sizes = [len(self._prepared.lines(name)[0]) for name in splits]
        total = 2 * (sum(sizes) + ROUNDS * min(TIMED_SENTENCES, sizes[-1]))
        teacher = self._teacher.workdir, self._teacher.checkpoint, self._teacher.decoding
        with Progress("comparing teacher and student", total, "sentences") as progress:
            comparison: Comparison = run_in_child(
                compare, teacher, (str(self._workdir), "average", {}), str(self._prepared.path), self._command,
                stop=stop, progress=progress.update,
            )  # fmt: skip
        comparison.save(self._workdir)
        return comparison


def translate_sources(teacher: Teacher, data: str, workdir: str, part_pairs: int, report: Callable) -> None:
    """Translate the missing parts, on all cores: what the process of the teacher does."""
    from tf_transformer.decoding import LoadedModel, Translator, use_one_thread_per_op

    use_one_thread_per_op()
    directory = pathlib.Path(workdir) / TRANSLATIONS
    translations = TeacherTranslations(directory, PreparedDataset(data), teacher.origin(), part_pairs)
    model = LoadedModel(Translator.from_workdir(teacher.workdir, teacher.checkpoint, **teacher.decoding))
    translations.translate(model, report)


def _check_tokenizers(teacher: Workdir, prepared: PreparedDataset) -> None:
    # By their recorded hashes: loading them would start TensorFlow, and the teacher's process needs the GPU.
    if teacher.dataset_info.get("tokenizer", {}).get("sha256") != prepared.info["tokenizer"]["sha256"]:
        raise ValueError(
            f"Expected data prepared with the tokenizer of the teacher, {teacher.path}. Received: {prepared.path}, "
            "which has another vocabulary. Prepare the data with `tf-transformer prepare --tokenizer "
            f"{teacher.path} …`."
        )
