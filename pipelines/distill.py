"""Distill a model into a smaller and faster one: a teacher translates the training sources of a prepared directory, a
student is trained on these translations, and both are compared on validation and test: quality, size and speed.

Everything is written to the student's work directory. Run again after an interruption, the command resumes: finished
parts of the translation and finished training steps are kept. Exit codes are those of `train`.

    tf-transformer distill --teacher run --data data --workdir student --preset tiny-ssru
    tf-transformer distill --teacher run --teacher-export exported --data data --workdir student --engine beam
"""

import argparse
import dataclasses
import json
import signal

from tf_transformer.pipelines import cli
from tf_transformer.pipelines._beam_arguments import add_engine_arguments, check_engine
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
    add_engine_arguments(parser)
    parser.add_argument(
        "--teacher-export", metavar="DIR", help="export of the teacher, which translates with --engine beam"
    )
    parser.add_argument(
        "--translations", metavar="DIR",
        help="where --engine beam writes sources and translations (default: WORKDIR/translations)",
    )  # fmt: skip
    parser.add_argument("--workers", type=int, metavar="N", help="processes of --engine beam (default: one per core)")
    parser.add_argument("--json", action="store_true", help="print the comparison as one JSON object")


def run(args: argparse.Namespace) -> int:
    from tf_transformer.distillation import PART_PAIRS, BeamTeacher, Distillation, Teacher
    from tf_transformer.presets import get_preset

    check_engine(args, "beam_options", "teacher_export", "translations", "workers")
    beam = None
    if args.engine == "beam":
        _check_beam_arguments(args)
        directory = args.translations or f"{args.workdir}/translations"
        beam = BeamTeacher(args.teacher_export, directory, args.beam_options, args.workers)
    search = {} if args.teacher_beam_size is None else {"beam_size": args.teacher_beam_size}
    teacher = Teacher(args.teacher, args.teacher_checkpoint, search)
    config = get_preset(args.preset).override(args.settings)
    part_pairs = PART_PAIRS if args.part_pairs is None else args.part_pairs
    distillation = Distillation(teacher, args.data, args.workdir, config, args.command, part_pairs, beam)
    comparison, _, stopped = distillation.run()
    if comparison is not None:
        print(json.dumps(dataclasses.asdict(comparison), indent=2) if args.json else comparison.markdown(), end="")
        return 0
    return cli.INTERRUPTED if stopped == signal.SIGINT else STOPPED


def _check_beam_arguments(args: argparse.Namespace) -> None:
    if args.teacher_export is None:
        raise ValueError(
            "Expected --teacher-export with --engine beam. Received: none. Export the teacher with `tf-transformer "
            f"export --workdir {args.teacher} --output DIR`, and give DIR."
        )
    if args.teacher_beam_size is not None:
        raise ValueError(
            f"Expected no --teacher-beam-size with --engine beam, because an export has its own. Received: "
            f"{args.teacher_beam_size}. Export the teacher with `--beam-size {args.teacher_beam_size}`."
        )


if __name__ == "__main__":
    cli.main_of("distill")
