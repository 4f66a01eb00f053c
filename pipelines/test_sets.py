"""The sentences that `evaluate` and `score` are given: a split of the prepared data, or two files."""

import argparse
import pathlib


def lines_of_files(source: str, target: str) -> tuple[list[str], list[str]]:
    """The lines of two files of one length, bad UTF-8 replaced."""
    from tf_transformer.text.lines import read_lines

    sides = []
    for path in (source, target):
        with open(path, "rb") as stream:
            sides.append([line.decode("utf-8", "replace") for line in read_lines(stream)])
    if len(sides[0]) != len(sides[1]):
        raise ValueError(
            f"{source} and {target} must have as many lines as each other; they have {len(sides[0]):,} and "
            f"{len(sides[1]):,}. Are they of the same test set?"
        )
    return sides[0], sides[1]


def lines_of_split(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Sources and references of `--split` of the data that the model was trained on."""
    from tf_transformer.data.prepared import PreparedDataset

    return PreparedDataset(prepared_directory(args)).lines(args.split)


def prepared_directory(args: argparse.Namespace) -> pathlib.Path:
    """--data, or where the work directory says that its data is."""
    if args.data is not None:
        return pathlib.Path(args.data)
    if args.workdir is None:
        raise ValueError("Which sentences? Give --data DIR, what `prepare` wrote, or --source F and --reference F.")
    from tf_transformer.workdir import Workdir

    directory = Workdir(args.workdir).dataset_info.get("directory")
    if directory is None:
        raise ValueError(
            f"{args.workdir} does not say where its data is; give --data DIR, what `prepare` wrote, or --source F and "
            "--reference F."
        )
    return pathlib.Path(directory)
