"""Score a model on a test set: sacreBLEU with its signature, chrF, the paper's tokenized compound-split BLEU, each with
a 95 % confidence interval, perplexity, and the number of truncated inputs.

Hypotheses, scores, configuration and commands are written to WORKDIR/evaluation/<name>/.

    tf-transformer evaluate --workdir run
    tf-transformer evaluate --workdir run --source newstest2014.en --reference newstest2014.de
    tf-transformer evaluate --saved-model exported --source newstest2014.en --reference newstest2014.de
    tf-transformer evaluate --hypotheses mine.de --reference newstest2014.de --target-language de

Data of several language pairs is scored pair by pair, or with --target-language only to that language.
"""

import argparse
import json
import logging
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from tf_transformer.pipelines import cli
from tf_transformer.pipelines._model_arguments import (
    add_decoding_arguments,
    add_model_arguments,
    decoding_config,
    is_multilingual,
    load_text_model,
    require_languages,
)
from tf_transformer.pipelines._text_io import lines_of_files, lines_of_split, prepared_directory

if TYPE_CHECKING:
    from tf_transformer.decoding import ExportedModel, LoadedModel
    from tf_transformer.evaluation import Evaluation

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser)
    parser.add_argument(
        "--split", default="test", help="split of the prepared data: test or validation (default: test)"
    )
    parser.add_argument("--data", metavar="DIR", help="prepared directory (default: the one the model was trained on)")
    parser.add_argument("--source", metavar="FILE", help="source sentences instead, one per line")
    parser.add_argument("--reference", metavar="FILE", help="reference translations of --source")
    parser.add_argument("--hypotheses", metavar="FILE", help="translations to score without a model")
    parser.add_argument("--source-language", metavar="CODE", help="source language of a multilingual model")
    parser.add_argument(
        "--target-language", metavar="CODE", help="language to translate to and for tokenization (default: the model's)"
    )
    parser.add_argument("--tokenize", metavar="NAME", help="sacreBLEU's tokenizer (default: 13a, or the language's)")
    parser.add_argument(
        "--bootstrap",
        type=int,
        default=1000,
        metavar="N",
        help="bootstrap resamples; 0: no confidence interval (default: 1000)",
    )
    parser.add_argument("--name", help="name of the record (default: from test set, checkpoint and search)")
    parser.add_argument("--output", metavar="DIR", help="directory of the record (default: WORKDIR/evaluation/<name>)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_decoding_arguments(parser)


def run(args: argparse.Namespace) -> int:
    if args.hypotheses is not None:
        return _score_hypotheses(args)
    sources, references = _test_set(args)
    groups = _groups(args, sources, references)
    checkpoint = _resolve_checkpoint(args)
    # The language of a model of one pair is for tokenization only.
    alone = {} if is_multilingual(args) else {"source_language": None, "target_language": None}
    model = load_text_model(argparse.Namespace(**vars(args) | alone))
    if groups is not None and not hasattr(model, "for_languages"):
        raise ValueError("Expected --workdir for data of several language pairs. Received: --saved-model. Replace it.")
    if groups is None:
        require_languages(model)
        figures, report = _score_model(args, model, checkpoint, sources, references)
        _print(args, figures, report)
        return 0
    scored = {}
    for (source, target), lines in groups.items():
        own = argparse.Namespace(**vars(args) | {"target_language": target, "pair": f"{source}-{target}"})
        one = cast("LoadedModel", model).for_languages(source, target)
        scored[own.pair] = _score_model(own, one, checkpoint, *zip(*lines))
    reports = "\n\n".join(f"{pair}\n{report}" for pair, (_, report) in scored.items())
    _print(args, {pair: figures for pair, (figures, _) in scored.items()}, reports)
    return 0


def _groups(
    args: argparse.Namespace, sources: list[str], references: list[str]
) -> dict[tuple[str, str], list[tuple[str, str]]] | None:
    """The lines of each language pair, for a split of data of several; else None."""
    if args.source is not None:
        return None
    from tf_transformer.data import PreparedDataset

    prepared = PreparedDataset(prepared_directory(args))
    if "language_pairs" not in prepared.info:
        return None
    groups: dict = {}
    for pair, line in zip(prepared.language_pairs(args.split), zip(sources, references)):
        if args.target_language in (None, pair[1]) and args.source_language in (None, pair[0]):
            groups.setdefault(pair, []).append(line)
    if not groups:
        received = f"--source-language {args.source_language}, --target-language {args.target_language}"
        raise ValueError(f"Expected languages of {prepared.path}, {prepared.languages}. Received: {received}.")
    args.target_language = args.source_language = None
    return groups


def _score_model(
    args: argparse.Namespace,
    model: "LoadedModel | ExportedModel",
    checkpoint: dict | None,
    sources: Sequence[str],
    references: Sequence[str],
) -> tuple[dict, str]:
    """Translate and score, write the record, and return the figures and the report."""
    from tf_transformer.evaluation import check_replaceable, write_record

    sources, references = list(sources), list(references)
    if args.target_language == model.target_language:
        args.target_language = None  # as if not given: the record of a repeated command has the same name
    identity = _identity(args, model, checkpoint)
    directory = _record_directory(args, identity)
    args.target_language = args.target_language or model.target_language
    if directory is not None:
        check_replaceable(directory)  # before the translation, which may take an hour
    evaluation = _evaluate(args, model, sources, references)
    record = {"directory": None if directory is None else str(directory)}
    if directory is not None:
        write_record(directory, evaluation, sources, references, identity, _commands(args, identity))
        logger.info(f"Written to {directory}.")
    return evaluation.to_dict() | identity | record, evaluation.report()


def _score_hypotheses(args: argparse.Namespace) -> int:
    """Score existing translations, without a model."""
    if args.reference is None:
        raise ValueError(
            "Expected --reference FILE with --hypotheses. Received: none. Give the reference translations."
        )
    for name in ("workdir", "saved_model", "checkpoint", "data", "source", "name", "output", "beam_size", "alpha"):
        if getattr(args, name) is not None:
            raise ValueError(
                f"Expected --hypotheses without flags of a model or a record. Received: --{name.replace('_', '-')}. "
                "Leave it out; give the language by --target-language."
            )
    if args.settings:
        raise ValueError("Expected --hypotheses without flags of a search. Received: --set. Leave it out.")
    from tf_transformer.evaluation import corpus_scores

    hypotheses, references = lines_of_files(args.hypotheses, args.reference)
    scores = corpus_scores(hypotheses, references, args.target_language, args.tokenize, args.bootstrap)
    _print(args, {score.key: score.to_dict() for score in scores}, "\n".join(map(str, scores)))
    return 0


def _print(args: argparse.Namespace, figures: dict, report: str) -> None:
    print(json.dumps(figures, indent=2, ensure_ascii=False) if args.json else report)


def _test_set(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    if (args.source is None) != (args.reference is None):
        raise ValueError(
            "Expected --source and --reference together. Received: one of them. Give both, or neither for a split."
        )
    return lines_of_files(args.source, args.reference) if args.source else lines_of_split(args)


def _evaluate(
    args: argparse.Namespace, model: "LoadedModel | ExportedModel", sources: list[str], references: list[str]
) -> "Evaluation":
    from tf_transformer._progress import Progress
    from tf_transformer.evaluation import evaluate

    with Progress("translating", len(sources), "lines") as progress:
        return evaluate(
            model,
            sources,
            references,
            target_language=args.target_language,
            tokenizer=args.tokenize,
            bootstrap=args.bootstrap,
            done=progress.update,
        )


def _resolve_checkpoint(args: argparse.Namespace) -> dict | None:
    """Set --checkpoint to the one that exists now, and return its description.

    A run in progress may write newer ones while this one is loaded and translates.
    """
    if args.saved_model is not None or args.workdir is None:
        return None
    from tf_transformer.workdir import Workdir
    from tf_transformer.workdir.checkpoints import read_info

    workdir = Workdir(args.workdir)
    path = workdir.checkpoint(args.checkpoint or "auto")
    args.checkpoint = path.name if path.parent == workdir.checkpoints else str(path)
    info = read_info(path)
    return {"name": path.name, "step": info["step"], "files": info["files"]}


def _identity(args: argparse.Namespace, model: "LoadedModel | ExportedModel", checkpoint: dict | None) -> dict:
    """The description of an evaluation: model, test set and versions of packages."""
    from tf_transformer.workdir import package_versions

    pair = getattr(args, "pair", None)
    name = _test_set_name(args) if pair is None else f"{_test_set_name(args)}-{pair}"
    facts = {"test_set": name, "versions": package_versions()}
    if checkpoint is None:
        return {"saved_model": model.name} | facts
    return {"checkpoint": checkpoint, "decoding": decoding_config(args).to_dict()} | facts


def _test_set_name(args: argparse.Namespace) -> str:
    if args.source:
        return f"{pathlib.Path(args.source).name}-{pathlib.Path(args.reference).name}"
    return args.split if args.data is None else f"{pathlib.Path(args.data).resolve().name}-{args.split}"


def _record_directory(args: argparse.Namespace, identity: dict) -> pathlib.Path | None:
    from tf_transformer.evaluation import record_name

    if args.output is not None:
        return pathlib.Path(args.output)
    if args.workdir is None:
        logger.info("No record is written. Give --output DIR, or --workdir DIR too, for one.")
        return None
    from tf_transformer.workdir import Workdir

    name = args.name or record_name(identity["test_set"], *_model_parts(args, identity))
    return Workdir(args.workdir).evaluation / record_name(name)


def _model_parts(args: argparse.Namespace, identity: dict) -> list[str]:
    """The parts of a record's name for the model and for what differs from the work directory's search."""
    options = {"tok": args.tokenize, "lang": args.target_language}
    scoring = [f"{label}-{value}" for label, value in options.items() if value is not None]
    if "decoding" not in identity:
        return ["export", *pathlib.Path(identity["saved_model"]).resolve().parts[-2:], *scoring]
    from tf_transformer.workdir import Workdir

    decoding, usual = identity["decoding"], Workdir(args.workdir).config.decoding.to_dict()
    changed = [name for name in decoding if decoding[name] != usual[name] and name not in ("beam_size", "alpha")]
    search = [f"beam{decoding['beam_size']}", f"alpha{decoding['alpha']:g}"]
    return [identity["checkpoint"]["name"], *search, *(f"{name}{decoding[name]}" for name in changed), *scoring]


def _commands(args: argparse.Namespace, identity: dict) -> list[list[str]]:
    """The commands that repeat this evaluation and that only score again, as lists of words."""
    words = ["tf-transformer", "evaluate"]
    scoring = "target_language tokenize bootstrap"
    paths = ("workdir", "saved_model", "data", "source", "reference", "output")
    files = [name for name in paths if vars(args)[name] is not None]
    absolute = {name: str(pathlib.Path(vars(args)[name]).resolve()) for name in files}
    flags = f"workdir saved_model split data source reference beam_size alpha name output source_language {scoring}"
    again = [*words, "--hypotheses", "hypotheses.txt", "--reference", "reference.txt"]
    again += _words(vars(args), scoring)
    words += _words(dict(vars(args), split=None if args.source else args.split) | absolute, flags)
    if "checkpoint" in identity:
        words += ["--checkpoint", args.checkpoint]
    for setting in args.settings:
        words += ["--set", setting]
    return [words, again]


def _words(values: dict, names: str) -> list[str]:
    given = [(name, values[name]) for name in names.split() if values[name] is not None]
    return [word for name, value in given for word in (f"--{name.replace('_', '-')}", str(value))]


if __name__ == "__main__":
    cli.main_of("evaluate")
