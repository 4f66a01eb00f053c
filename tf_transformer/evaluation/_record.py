"""Record of an evaluation: a directory with everything needed to reproduce its scores.

hypotheses.txt  source.txt  reference.txt    one sentence per line
scores.json      the figures
config.json      the model, the search, the versions
commands.txt     the commands that made it, that score hypotheses.txt again, and sacreBLEU's own command
"""

import os
import pathlib
import re
import shlex
from collections.abc import Sequence

from tf_transformer._files import atomic_directory, write_json, write_text
from tf_transformer.evaluation._evaluation import Evaluation
from tf_transformer.evaluation._scores import SACREBLEU, tokenizer_name
from tf_transformer.text import as_line

FILES = ("hypotheses.txt", "source.txt", "reference.txt", "scores.json", "config.json", "commands.txt")


def record_name(*parts: object) -> str:
    """Name of a record, valid as the name of a directory: "test-average-beam4-alpha0.6"."""
    return re.sub(r"[^\w.+-]+", "_", "-".join(str(part) for part in parts)).lstrip(".") or "evaluation"


def check_replaceable(directory: str | os.PathLike) -> None:
    """Reject a path with anything but an older record: writing a record there would delete it."""
    directory = pathlib.Path(directory)
    if not directory.exists():
        return
    if not directory.is_dir():
        raise ValueError(
            f"Expected a directory for the record. Received: {directory} is a file. Use another directory."
        )
    others = sorted({path.name for path in directory.iterdir()} - set(FILES))
    if others:
        raise ValueError(
            f"Expected a new directory or an older record to replace. Received: {directory}, which has other files, "
            f"such as {others[0]!r}. Use another directory."
        )


def write_record(
    directory: str | os.PathLike,
    evaluation: Evaluation,
    sources: Sequence[str],
    references: Sequence[str],
    config: dict,
    commands: Sequence[Sequence[str]],
) -> pathlib.Path:
    """Write a record atomically, replacing an older one of that name.

    Args:
        directory: `WORKDIR/evaluation/<name>`. A directory with other files than a record's is rejected.
        config: JSON-able facts about the model and the search.
        commands: commands that reproduce the evaluation, and that score the hypotheses again, as lists of words.
    """
    directory = pathlib.Path(directory).resolve()
    check_replaceable(directory)
    texts = {"source.txt": sources, "reference.txt": references, "hypotheses.txt": evaluation.hypotheses}
    with atomic_directory(directory) as new:
        for name, lines in texts.items():
            write_text(new / name, "".join(f"{as_line(line)}\n" for line in lines))
        write_json(new / "scores.json", evaluation.to_dict())
        write_json(new / "config.json", config)
        write_text(new / "commands.txt", _commands(evaluation, commands))
    return directory


def _commands(evaluation: Evaluation, commands: Sequence[Sequence[str]]) -> str:
    tokenizer = next(tokenizer_name(score) for score in evaluation.scores if score.name == SACREBLEU)
    sacrebleu = f"sacrebleu reference.txt -i hypotheses.txt -m bleu chrf -tok {tokenizer} -w 2".split()
    return "".join(f"{shlex.join(command)}\n" for command in (*commands, sacrebleu))
