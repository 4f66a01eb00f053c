"""A small prepared directory of made-up sentences, and the command line that trains on it."""

import os
import pathlib
import signal
import subprocess
import sys

from toy_workdir import toy_sentences

from tf_transformer.config import Config
from tf_transformer.pipelines.cli import main
from tf_transformer.presets import get_preset

SETTINGS = (
    "model.num_layers=1", "model.model_dim=16", "model.feed_forward_dim=24", "model.num_heads=2", "model.key_dim=8",
    "model.value_dim=8", "training.batch_tokens=300", "training.max_length=32", "training.max_steps=24",
    "training.warmup_steps=5", "training.checkpoint_steps=5", "training.validation_steps=10",
    "training.keep_checkpoints=3", "training.steps_per_call=4", "training.checkpoint_minutes=none",
)  # fmt: skip


def toy_data(folder: pathlib.Path, vocabulary: int = 150, seed: int = 1) -> pathlib.Path:
    """Prepares sentences that are to be copied; returns the directory."""
    output = folder / "data"
    command = ["prepare", "--data", "files", "--source-language", "en", "--target-language", "de",
               "--vocab-size", str(vocabulary), "--workers", "1", "--output", str(output)]  # fmt: skip
    for number, (split, count) in enumerate((("train", 300), ("validation", 7))):
        path = folder / f"{split}.txt"
        path.write_text("\n".join(toy_sentences(count, seed + number)) + "\n", encoding="utf-8")
        command += [f"--{split}-source", str(path), f"--{split}-target", str(path)]
    if main(command) != 0:
        raise RuntimeError("prepare failed")
    return output


def toy_config(*settings: str) -> Config:
    return get_preset("tiny").override([*SETTINGS, *settings])


def train_command(data: pathlib.Path, workdir: pathlib.Path, *more: str) -> list[str]:
    """The command line of a run with `toy_config`."""
    command = [sys.executable, "-m", "tf_transformer.pipelines.cli", "train", "--preset", "tiny"]
    command += ["--data", str(data), "--workdir", str(workdir)]
    for setting in SETTINGS:
        command += ["--set", setting]
    return [*command, *more]


def start_training(data: pathlib.Path, workdir: pathlib.Path, *more: str, **environment: str) -> subprocess.Popen:
    """A process of its own that trains. Its messages can be read from `stderr`."""
    return subprocess.Popen(
        train_command(data, workdir, *more),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment},
    )  # fmt: skip


def train_until_killed(data: pathlib.Path, workdir: pathlib.Path, operation: int, *more: str) -> None:
    """Trains in a process that is killed before its operation number `operation` on the files of `workdir`."""
    script = pathlib.Path(__file__).with_name("killed_training.py")
    command = [sys.executable, str(script), str(operation), str(workdir), *train_command(data, workdir, *more)[3:]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600)
    if done.returncode != -signal.SIGKILL:
        raise AssertionError(f"The training was not killed, but ended with {done.returncode}: {done.stderr[-3000:]}")
