"""The figures of one trained row."""

import pathlib

from tf_transformer.ablation.results import RowResult
from tf_transformer.data.prepared import PreparedDataset
from tf_transformer.decoding.text_model import LoadedModel
from tf_transformer.decoding.translator import Translator
from tf_transformer.evaluation.evaluation import evaluate
from tf_transformer.presets import count_parameters
from tf_transformer.training.run import TrainingResult
from tf_transformer.training.run_log import read_log
from tf_transformer.workdir import Workdir


def score_row(
    row: str, directory: pathlib.Path, prepared: PreparedDataset, split: str, training: TrainingResult
) -> RowResult:
    """Scores the last checkpoint on a split, as the paper's Table 3 does: beam search, no averaging."""
    workdir = Workdir(directory)
    sources, references = prepared.lines(split)
    model = LoadedModel(Translator.from_workdir(directory, "latest"), row)
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
    )


def step_seconds(workdir: Workdir) -> float:
    """How long the steps of a run took, by its log: over all its starts, and after a kill too."""
    events = [event for event in read_log(workdir.logs) if event["event"] == "train"]
    return sum(event["tokens"] / event["tokens_per_second"] for event in events if event["tokens_per_second"])
