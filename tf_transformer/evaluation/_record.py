"""The record of an evaluation: a directory with all that its score can be repeated from.

hypotheses.txt  source.txt  reference.txt    one sentence a line
scores.json      the figures
config.json      the model, the search, the versions
commands.txt     what made it, what scores hypotheses.txt again, and sacreBLEU's own command
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
    """A name for a record that is also one of a directory: "test-average-beam4-alpha0.6"."""
    return re.sub(r"[^\w.+-]+", "_", "-".join(str(part) for part in parts)).lstrip(".") or "evaluation"


def check_replaceable(directory: str | os.PathLike) -> None:
    """Rejects a place where there is anything but an older record: writing a record there would delete it."""
    directory = pathlib.Path(directory)
    if not directory.exists():
        return
    if not directory.is_dir():
        raise ValueError(f"A record is a directory, but {directory} is a file; give another place.")
    others = sorted({path.name for path in directory.iterdir()} - set(FILES))
    if others:
        raise ValueError(
            f"Expected a new directory or an older record to replace, but {directory} holds other files, {others[0]!r} "
            "for one; give a directory of its own."
        )


def write_record(
    directory: str | os.PathLike,
    evaluation: Evaluation,
    sources: Sequence[str],
    references: Sequence[str],
    config: dict,
    commands: Sequence[Sequence[str]],
) -> pathlib.Path:
    """Writes a record, in place of an older one of that name; it appears complete.

    Args:
        directory: `WORKDIR/evaluation/<name>`. A directory with other files than a record's is rejected.
        config: JSON-able facts about the model and the search.
        commands: that repeat it all, and that score the hypotheses again, as words.
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
