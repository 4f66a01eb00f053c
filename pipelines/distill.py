"""Distill a model into a smaller and faster one: a teacher translates the training sources of a prepared directory, a
student is trained on these translations, and both are compared on validation and test: quality, size and speed.

Everything is written to the student's work directory. Run again after an interruption, the command resumes: finished
parts of the translation and finished training steps are kept. Exit codes are those of `train`.

    tf-transformer distill --teacher run --data data --workdir student --preset tiny-ssru
"""

import argparse
import dataclasses
import json
import signal

from tf_transformer.pipelines import cli
from tf_transformer.pipelines.train import STOPPED


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--teacher", required=True, metavar="DIR", help="work directory of the teacher")
    parser.add_argument("--data", required=True, metavar="DIR", help="prepared directory, of the teacher's tokenizer")
    parser.add_argument("--workdir", required=True, metavar="DIR", help="work directory of the student")
    parser.add_argument(
        "--preset", default="tiny-ssru",
        help="configuration of the student, such as tiny-ssru or deep-shallow (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--set", dest="settings", action="append", default=[], metavar="SECTION.FIELD=VALUE",
        help="change a field of the student's configuration, such as training.max_steps=60; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--teacher-checkpoint", default="auto", metavar="NAME",
        help="average, best, latest, step-XXXXXXXX or a path (default: the first of these that exists)",
    )  # fmt: skip
    parser.add_argument(
        "--teacher-beam-size", type=int, metavar="K", help="beam of the teacher's search (default: its own)"
    )
    parser.add_argument(
        "--part-pairs", type=int, metavar="N",
        help="training pairs per part of the translations, the unit that an interruption loses (default: 1024)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the comparison as one JSON object")


def run(args: argparse.Namespace) -> int:
    from tf_transformer.distillation import PART_PAIRS, Distillation, Teacher
    from tf_transformer.presets import get_preset

    search = {} if args.teacher_beam_size is None else {"beam_size": args.teacher_beam_size}
    teacher = Teacher(args.teacher, args.teacher_checkpoint, search)
    config = get_preset(args.preset).override(args.settings)
    part_pairs = PART_PAIRS if args.part_pairs is None else args.part_pairs
    distillation = Distillation(teacher, args.data, args.workdir, config, args.command, part_pairs)
    comparison, _, stopped = distillation.run()
    if comparison is not None:
        print(json.dumps(dataclasses.asdict(comparison), indent=2) if args.json else comparison.markdown(), end="")
        return 0
    return cli.INTERRUPTED if stopped == signal.SIGINT else STOPPED


if __name__ == "__main__":
    cli.main_of("distill")
