"""Teacher and student side by side: quality, size and decoding speed, measured in one process in alternation."""

import dataclasses
import datetime
import os
import pathlib
import statistics
import time
from collections.abc import Callable
from typing import Any

from tf_transformer._files import write_json
from tf_transformer._processes import hardware

ROUNDS = 3
TIMED_SENTENCES = 256

RECORD = "distillation.json"


@dataclasses.dataclass(frozen=True)
class ModelFacts:
    """Figures of one model.

    Attributes:
        workdir, checkpoint: where its weights are.
        layers: of encoder and decoder.
        parameters: number of weights.
        bytes: size of its weights in float32.
        beam_size: of its search.
        sacrebleu, chrf: by split.
        signature: sacreBLEU's.
        sentences_per_second: median of the rounds, on all cores.
    """

    workdir: str
    checkpoint: str
    preset: str
    layers: tuple[int, int]
    parameters: int
    bytes: int
    beam_size: int
    sacrebleu: dict[str, float]
    chrf: dict[str, float]
    signature: str
    sentences_per_second: float


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Teacher and student, and what the student keeps and gains.

    Attributes:
        quality: sacreBLEU of the student by that of the teacher, by split; None where the teacher has 0.
        speed: decoding speed of the student by that of the teacher.
        size: parameters of the student by those of the teacher.
        hardware: on which the speed was measured.
        timed_sentences, rounds: of the measurement.
    """

    teacher: ModelFacts
    student: ModelFacts
    quality: dict[str, float | None]
    speed: float
    size: float
    hardware: str
    timed_sentences: int
    rounds: int
    versions: dict[str, str]
    created: str
    command: str = ""

    def save(self, directory: str | os.PathLike) -> pathlib.Path:
        """Write `distillation.json` into a directory."""
        path = pathlib.Path(directory) / RECORD
        write_json(path, dataclasses.asdict(self))
        return path

    def markdown(self) -> str:
        """The table, with a row per model and one for the ratios."""
        splits = list(self.teacher.sacrebleu)
        scores = [f"sacreBLEU, {split}" for split in splits]
        head = ["", "layers", "parameters", "weights", "beam", *scores, "sentences/s"]
        rows = [head, ["---"] * len(head)]
        for name, facts in (("teacher", self.teacher), ("student", self.student)):
            rows.append([
                name, f"{facts.layers[0]} + {facts.layers[1]}", f"{facts.parameters:,}", f"{facts.bytes / 1e6:.1f} MB",
                str(facts.beam_size), *(f"{facts.sacrebleu[split]:.2f}" for split in splits),
                f"{facts.sentences_per_second:.1f}",
            ])  # fmt: skip
        kept = ["–" if self.quality[split] is None else f"{self.quality[split]:.1%}" for split in splits]
        rows.append(["student / teacher", "", f"{self.size:.2f}", f"{self.size:.2f}", "", *kept, f"{self.speed:.2f} ×"])
        lines = "\n".join(f"| {' | '.join(row)} |" for row in rows)
        return (
            f"{lines}\n\nSpeed: median of {self.rounds} rounds in alternation, {self.timed_sentences:,} sentences "
            f"each, on {self.hardware}. sacreBLEU: {self.student.signature}\n"
        )


def compare(
    teacher: tuple[str, str, dict],
    student: tuple[str, str, dict],
    data: str,
    command: str,
    report: Callable[[int], None],
    rounds: int = ROUNDS,
) -> Comparison:
    """Evaluate two models on validation and test, and measure their speed in alternation, on all cores.

    Args:
        teacher, student: work directory, checkpoint, and fields of `DecodingConfig` to change.
        data: a prepared directory with the test sets.
        command: recorded.
        report: receives the number of sentences of each translated batch.
        rounds: of the measurement of speed.
    """
    from tf_transformer.data import PreparedDataset
    from tf_transformer.decoding import use_one_thread_per_op
    from tf_transformer.workdir import package_versions

    use_one_thread_per_op()
    prepared = PreparedDataset(data)
    models = [_Contender(*each) for each in (teacher, student)]
    texts = []
    for split in (name for name in prepared.splits if name != "train"):
        sources, references = prepared.lines(split)
        texts = sources[:TIMED_SENTENCES]
        for model in models:
            model.evaluate(split, sources, references, prepared.target_language, report)
    for _ in range(rounds):
        for model in models:
            model.time(texts, report)
    facts = [model.facts(len(texts)) for model in models]
    quality = {
        split: facts[1].sacrebleu[split] / value if value else None for split, value in facts[0].sacrebleu.items()
    }
    return Comparison(
        teacher=facts[0],
        student=facts[1],
        quality=quality,
        speed=facts[1].sentences_per_second / facts[0].sentences_per_second,
        size=facts[1].parameters / facts[0].parameters,
        hardware=hardware(),
        timed_sentences=len(texts),
        rounds=rounds,
        versions=package_versions(),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        command=command,
    )


class _Contender:
    """One of the models: its scores and times."""

    def __init__(self, workdir: str, checkpoint: str, decoding: dict[str, Any]):
        from tf_transformer.decoding import LoadedModel, Translator
        from tf_transformer.workdir import Workdir

        self._workdir = Workdir(workdir)
        self._checkpoint = self._workdir.checkpoint(checkpoint)
        self._translator = Translator.from_workdir(workdir, self._checkpoint, **decoding)
        self._model = LoadedModel(self._translator, workdir)
        self._scores: dict[str, dict] = {}
        self._seconds: list[float] = []

    def evaluate(
        self, split: str, sources: list[str], references: list[str], language: str | None, report: Callable[[int], None]
    ) -> None:
        from tf_transformer.evaluation import evaluate

        found = evaluate(self._model, sources, references, language, bootstrap=0, done=report)
        self._scores[split] = {score.key: score for score in found.scores}

    def time(self, sources: list[str], report: Callable[[int], None]) -> None:
        """Measure one round; everything is compiled already."""
        from tf_transformer.decoding import in_batches, parallel_batches

        texts = [source.encode() for source in sources]
        begun = time.monotonic()
        in_batches(self._model.translate_sentences, texts, threads=parallel_batches(), done=report)
        self._seconds.append(time.monotonic() - begun)

    def facts(self, sentences: int) -> ModelFacts:
        model = self._workdir.config.model
        parameters = self._translator.model.count_params()
        return ModelFacts(
            workdir=str(self._workdir.path),
            checkpoint=self._checkpoint.name,
            preset=self._workdir.config.preset,
            layers=(model.num_layers, model.decoder_layers),
            parameters=parameters,
            bytes=4 * parameters,
            beam_size=self._translator.decoding.beam_size,
            sacrebleu={split: round(scores["sacrebleu"].value, 3) for split, scores in self._scores.items()},
            chrf={split: round(scores["chrf"].value, 3) for split, scores in self._scores.items()},
            signature=next((scores["sacrebleu"].signature for scores in self._scores.values()), ""),
            sentences_per_second=round(sentences / statistics.median(self._seconds), 3),
        )
