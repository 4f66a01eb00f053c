"""Flags of the commands that use a trained model: the model and its search."""

import argparse
import pathlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tf_transformer.config import DecodingConfig
    from tf_transformer.decoding import ExportedModel, LoadedModel, Shortlist

# Flags that are fields of DecodingConfig: an export has its search inside, so they cannot be given with one.
_DECODING = {
    "beam_size": (int, "K", "hypotheses kept in the search (default: the work directory's, in the paper 4)"),
    "alpha": (float, "A", "length penalty ((5 + length) / 6) ** A (default: the work directory's, in the paper 0.6)"),
}
_SAMPLING = {
    "temperature": (float, "T", "divides the logits before drawing (default: 1)"),
    "top_k": (int, "N", "draw from the N most probable ids only"),
    "top_p": (float, "P", "draw from the most probable ids whose probabilities sum to P only"),
    "seed": (int, "N", "random seed: the same seed gives the same translations"),
}


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --workdir, --saved-model and --checkpoint."""
    parser.add_argument("--workdir", metavar="DIR", help="work directory that `train` wrote")
    parser.add_argument("--saved-model", metavar="DIR", help="export to use instead: MODEL_BASE, or a version in it")
    parser.add_argument(
        "--checkpoint",
        metavar="NAME",
        help="average, best, latest, step-XXXXXXXX or a path (default: the first of these that exists)",
    )


def add_language_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --source-language and --target-language."""
    for side in ("source", "target"):
        text = f"{side} language of a multilingual model, such as deu_Latn (default: the work directory's)"
        parser.add_argument(f"--{side}-language", metavar="CODE", help=text)


def add_decoding_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the search."""
    _add(parser, _DECODING)
    parser.add_argument(
        "--set",
        dest="settings",
        metavar="decoding.FIELD=VALUE",
        action="append",
        default=[],
        help="any other field of the search, such as decoding.no_repeat_ngram=3; repeatable",
    )


def add_shortlist_argument(parser: argparse.ArgumentParser) -> None:
    """Add --shortlist."""
    parser.add_argument(
        "--shortlist",
        metavar="FILE",
        help="restrict each translation to the candidates of its source, by a table that `shortlist` wrote",
    )


def load_shortlist(args: argparse.Namespace) -> "Shortlist | None":
    """The table of --shortlist; None where it is not given."""
    if getattr(args, "shortlist", None) is None:
        return None
    from tf_transformer.decoding import Shortlist

    return Shortlist.load(args.shortlist)


def add_segmentation_argument(parser: argparse.ArgumentParser) -> None:
    """Add --no-segmentation."""
    parser.add_argument(
        "--no-segmentation",
        action="store_true",
        help="take each line for one sentence, for text that is segmented already; longer ones are truncated",
    )


def add_sampling_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of sampling."""
    parser.add_argument("--sample", action="store_true", help="draw translations instead of searching for the best")
    _add(parser, _SAMPLING)


def decoding_settings(args: argparse.Namespace) -> list[str]:
    """The settings of the search in the flags, as `Config.override` takes them."""
    given = {name: getattr(args, name, None) for name in (*_DECODING, *_SAMPLING)}
    settings = [f"decoding.{name}={value}" for name, value in given.items() if value is not None]
    if getattr(args, "sample", False):
        settings.append("decoding.sampling=true")
    elif any(given[name] is not None for name in _SAMPLING):
        raise ValueError(
            "Expected --sample with --temperature, --top-k, --top-p or --seed. Add --sample, or leave them out."
        )
    if getattr(args, "no_segmentation", False):
        settings.append("decoding.segmentation=false")
    settings += getattr(args, "settings", [])
    for setting in settings:
        if not setting.strip().startswith("decoding."):
            raise ValueError(f"Expected a field of the search, decoding.FIELD=VALUE. Received: {setting!r}.")
    return settings


def load_text_model(args: argparse.Namespace) -> "LoadedModel | ExportedModel":
    """The model that the flags name: a `LoadedModel`, or an `ExportedModel` for --saved-model.

    From then on, this process computes each operation on one thread, and several batches at a time.
    """
    from tf_transformer.decoding import use_one_thread_per_op

    use_one_thread_per_op()
    if args.saved_model is None:
        return _load_workdir(args)
    settings = decoding_settings(args) + ["--shortlist"] * (getattr(args, "shortlist", None) is not None)
    if settings or args.checkpoint is not None:
        given = settings[0] if settings else f"--checkpoint {args.checkpoint}"
        raise ValueError(
            f"Expected no settings of the search and no checkpoint with --saved-model, whose weights and search are "
            f"fixed. Received: {given}. Give --workdir instead, or leave it out."
        )
    from tf_transformer.decoding import ExportedModel

    if getattr(args, "source_language", None) is not None:
        raise ValueError(
            f"Expected no --source-language with --saved-model, whose source language is fixed. Received: "
            f"{args.source_language!r}. Leave it out, or export with it."
        )
    return ExportedModel(args.saved_model, getattr(args, "target_language", None))


def decoding_config(args: argparse.Namespace) -> "DecodingConfig":
    """The search of the work directory with the flags' settings."""
    from tf_transformer.workdir import Workdir

    return Workdir(args.workdir).config.override(decoding_settings(args)).decoding


def _load_workdir(args: argparse.Namespace) -> "LoadedModel":
    if args.workdir is None:
        raise ValueError(
            "Expected a model. Received: none. Give --workdir DIR, the work directory that `train` wrote, or "
            "--saved-model DIR, an export."
        )
    config = decoding_config(args)
    from tf_transformer.decoding import LoadedModel, Translator
    from tf_transformer.workdir import Workdir

    pair = Workdir(args.workdir).language_pair(*_languages(args))
    translator = Translator.from_workdir(
        args.workdir, args.checkpoint or "auto", load_shortlist(args), *pair, **config.to_dict()
    )
    return LoadedModel(translator, str(args.workdir), pair[1])


def _languages(args: argparse.Namespace) -> tuple[str | None, str | None]:
    return getattr(args, "source_language", None), getattr(args, "target_language", None)


def is_multilingual(args: argparse.Namespace) -> bool:
    """Whether the model of --workdir or --saved-model has several languages."""
    if args.saved_model is None:
        return args.workdir is not None and (pathlib.Path(args.workdir) / "languages.json").is_file()
    from tf_transformer.decoding import ExportedModel

    return ExportedModel.has_languages(args.saved_model)


def require_languages(model: "LoadedModel | ExportedModel") -> None:
    """Reject a multilingual model whose target language is not chosen, before anything is read."""
    languages = getattr(model, "languages", None)
    if languages is not None:
        languages.check("target", model.target_language)


def _add(parser: argparse.ArgumentParser, flags: dict) -> None:
    for name, (kind, metavar, text) in flags.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, metavar=metavar, help=text)
