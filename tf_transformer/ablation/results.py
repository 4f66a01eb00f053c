"""What a trained row came to, kept as a file in its work directory."""

import dataclasses
import json
import os
import pathlib

RESULT = "ablation.json"


@dataclasses.dataclass(frozen=True)
class RowResult:
    """One finished row of the table.

    Args:
        row: the preset.
        steps: of training.
        ended: why it ended there: "finished" or "early stopping".
        split: it was scored on.
        parameters: weights of the model as it was trained.
        perplexity: a token of the references.
        sacrebleu, chrf, compound_split_bleu: corpus scores; the last is the measure of the paper.
        signature: sacreBLEU's.
        sentences: of the set it was scored on.
        training_seconds: wall time of the steps of training, over all its starts, without validation and saving.
        scoring_seconds: that translating the set took.
    """

    row: str
    steps: int
    ended: str
    split: str
    parameters: int
    perplexity: float
    sacrebleu: float
    chrf: float
    compound_split_bleu: float
    signature: str
    sentences: int
    training_seconds: float
    scoring_seconds: float

    def save(self, directory: str | os.PathLike) -> None:
        """Writes the result into the row's work directory, whole or not at all."""
        file = pathlib.Path(directory) / RESULT
        beside = file.with_name(f".{RESULT}.writing")
        beside.write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n", encoding="utf-8")
        beside.replace(file)

    @classmethod
    def load(cls, directory: str | os.PathLike) -> "RowResult | None":
        """The result of a row's work directory, or None where the row is not finished."""
        file = pathlib.Path(directory) / RESULT
        return cls(**json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else None
