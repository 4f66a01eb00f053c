"""An ablation as one call: rows are trained and scored one after another."""

import dataclasses
import logging
import os
import pathlib
import shutil
import statistics
from collections.abc import Callable, Sequence

import numpy as np

from tf_transformer._files import atomic_write, write_json, write_text
from tf_transformer._processes import hardware
from tf_transformer.analysis.ablation._report import RESULT, RowResult, Setting, ablation_figure, as_json, markdown
from tf_transformer.analysis.ablation._rows import PAPER, AblationOptions, row_configs, run_name, with_steps
from tf_transformer.config import Config
from tf_transformer.data import PreparedDataset
from tf_transformer.decoding import LoadedModel, Translator
from tf_transformer.evaluation import evaluate
from tf_transformer.presets import ROWS, count_parameters
from tf_transformer.training import TrainingResult, check_config, check_dataset, read_log, train, with_vocabulary
from tf_transformer.workdir import CONFIG, Workdir, average_last, package_versions

PROBE_STEPS = 100
"""Steps that measure how many fit into a number of minutes."""


def score_row(
    directory: pathlib.Path, prepared: PreparedDataset, split: str, training: TrainingResult, averaged: bool = False
) -> RowResult:
    """Score the last checkpoint on a split, as the paper's Table 3 does, or the average of the last checkpoints."""
    workdir = Workdir(directory)
    row = workdir.config.preset
    sources, references = prepared.lines(split)
    if averaged:
        average_last(workdir)
    model = LoadedModel(Translator.from_workdir(directory, "average" if averaged else "latest"), row)
    evaluation = evaluate(model, sources, references, prepared.target_language, bootstrap=0)
    scores = {score.key: score for score in evaluation.scores}
    return RowResult(
        row=row,
        steps=training.step,
        ended=training.ended,
        split=split,
        parameters=count_parameters(workdir.config.model),
        perplexity=evaluation.perplexity,
        sacrebleu=scores["sacrebleu"].value,
        chrf=scores["chrf"].value,
        compound_split_bleu=scores["tokenized_compound_split_bleu"].value,
        signature=scores["sacrebleu"].signature,
        sentences=len(sources),
        training_seconds=step_seconds(workdir),
        scoring_seconds=evaluation.seconds,
        seed=workdir.config.training.seed,
        averaged=averaged,
    )


def step_seconds(workdir: Workdir) -> float:
    """Seconds spent in the training steps of a run, over all its sessions, from its log."""
    events = [event for event in read_log(workdir.logs) if event["event"] == "train"]
    return sum(event["tokens"] / event["tokens_per_second"] for event in events if event["tokens_per_second"])


def seconds_per_step(workdir: Workdir) -> float:
    """Median time of a training step, from the log of a run; the first line has the compilation, and is left out."""
    events = [event for event in read_log(workdir.logs) if event["event"] == "train" and event["tokens_per_second"]]
    steps = np.diff([0, *(event["step"] for event in events)])
    times = [event["tokens"] / event["tokens_per_second"] / count for event, count in zip(events, steps)]
    return statistics.median(times[1:] or times)


TABLE = "table"

logger = logging.getLogger(__name__)


class Ablation:
    """Rows of the paper's Table 3, or any presets, on one's own data. Every row has a work directory under `workdir`.

    Called again, it keeps finished rows and resumes an interrupted one.

    Args:
        data: a prepared directory.
        workdir: is made; `<row>/` for each row, and the table.
        rows: names of presets, in the order they are trained in.
        options: what all rows have in common.
        split: that rows are scored on; the paper's is the validation set.
        command: recorded in the table.
        train: trains one row: (data, workdir, config) to a `TrainingResult`.
    """

    def __init__(
        self,
        data: str | os.PathLike,
        workdir: str | os.PathLike,
        rows: Sequence[str],
        options: AblationOptions,
        split: str = "validation",
        command: str = "",
        train: Callable[..., TrainingResult] = train,
    ) -> None:
        self._prepared = PreparedDataset(data)
        if "language_pairs" in self._prepared.info:
            raise ValueError(f"Expected data of one language pair. Received: {data}, {self._prepared.languages}.")
        self._prepared.lines(split)  # Complains now rather than after the first training.
        self.workdir = pathlib.Path(workdir)
        self._options, self._split, self._train = options, split, train
        self._configs = self._configs_of(rows)
        title = "The rows of Table 3" if PAPER.keys() & set(rows) else "Contribution of each technique"
        self._setting = Setting(
            command, _described(self._prepared), split, options, hardware(), package_versions(), title
        )

    def run(self) -> tuple[list[RowResult], TrainingResult | None]:
        """Train what is missing.

        Returns:
            The rows of the table in the order of the presets: those of this call, and others that finished in `workdir`
            with these options; and the training that was interrupted, or None.
        """
        results = self._finished_before()
        for index, name in enumerate(self._configs, start=1):
            directory, place = self.workdir / name, f"row {name} ({index} of {len(self._configs)})"
            config, training = self._with_time(name)
            result = None if training else self._kept(directory, config)
            if result is None:
                logger.info("%s", place)
                training = training or self._train(self._prepared.path, directory, config)
                if training.ended == "interrupted":
                    return _in_order(results), training
                result = score_row(directory, self._prepared, self._split, training, self._options.averaged)
                result.save(directory)
            else:
                logger.info("%s is finished: kept", place)
            results.append(result)
            self._write(_in_order(results))
        return _in_order(results), None

    def _configs_of(self, rows: Sequence[str]) -> dict[str, Config]:
        configs = row_configs(rows, self._options)
        return {name: with_vocabulary(config, self._prepared.tokenizers) for name, config in configs.items()}

    def _with_time(self, name: str) -> tuple[Config, TrainingResult | None]:
        """The configuration of a row with the steps that fit into its minutes; the training if it was interrupted.

        They are measured once, in a training that is discarded; a row that was begun keeps its number of steps.
        """
        config, directory = self._configs[name], self.workdir / name
        if self._options.minutes is None:
            return config, None
        if (directory / CONFIG).is_file():
            return with_steps(config, Workdir(directory).config.training.max_steps), None
        probe = self.workdir / f"{name}.probe"
        short = with_steps(config, PROBE_STEPS)
        short = dataclasses.replace(
            short, training=dataclasses.replace(short.training, validation_steps=PROBE_STEPS + 1)
        )
        training = self._train(self._prepared.path, probe, short)
        if training.ended == "interrupted":
            return config, training
        steps = max(1, round(60 * self._options.minutes / seconds_per_step(Workdir(probe))))
        shutil.rmtree(probe)
        logger.info("row %s: %d steps in %g minutes", name, steps, self._options.minutes)
        return with_steps(config, steps), None

    def _finished_before(self) -> list[RowResult]:
        """Rows that are not part of this call, but of the same table."""
        results = []
        for row in ROWS:
            for name in (run_name(row, seed) for seed in self._options.seeds or (None,)):
                if name not in self._configs and (self.workdir / name / RESULT).is_file():
                    try:
                        config = self._configs_of([row])[name]
                        if self._options.minutes is not None:
                            config = with_steps(config, Workdir(self.workdir / name).config.training.max_steps)
                        result = self._kept(self.workdir / name, config)
                    except ValueError as error:
                        logger.info("Row %s stays out of the table: %s", name, error)
                        continue
                    results += [result] if result else []
        return results

    def markdown(self, results: Sequence[RowResult]) -> str:
        """The table."""
        return markdown(self._setting, results)

    def to_dict(self, results: Sequence[RowResult]) -> dict:
        """The table for JSON."""
        return as_json(self._setting, results)

    def _kept(self, directory: pathlib.Path, config: Config) -> RowResult | None:
        """The result of a row that needs no more; a row of another configuration is rejected, not overwritten."""
        if not (directory / CONFIG).is_file():
            return None
        saved = Workdir(directory)
        check_config(saved.config, config, directory)
        check_dataset(saved.dataset_info, self._prepared.info, directory, self._prepared.path)
        result = RowResult.load(directory)
        if result is None or (result.split, result.averaged) != (self._split, self._options.averaged):
            return None
        return result if result.ended == "early stopping" or result.steps >= config.training.max_steps else None

    def _write(self, results: Sequence[RowResult]) -> None:
        table = self.workdir / TABLE
        write_text(table.with_suffix(".md"), self.markdown(results))
        write_json(table.with_suffix(".json"), self.to_dict(results))
        figure = ablation_figure(results, self._setting.title)
        for ending in ("png", "svg"):
            with atomic_write(table.with_suffix(f".{ending}")) as stream:
                figure.savefig(stream, dpi=150, format=ending)


def _in_order(results: Sequence[RowResult]) -> list[RowResult]:
    """Rows in the order of the presets, which is that of the paper."""
    return sorted(results, key=lambda result: (list(ROWS).index(result.row), result.seed))


def _described(prepared: PreparedDataset) -> str:
    info = prepared.info
    languages = f"{info['source_language']}-{info['target_language']}"
    vocabulary = info["tokenizer"]["target_vocab_size"]
    pairs = info["splits"]["train"]["pairs"]
    name = info["corpus"]["spec"]
    name = prepared.path.resolve().name if name == "files" else name
    return f"{name} {languages}, {pairs:,} training pairs, a vocabulary of {vocabulary:,}"
