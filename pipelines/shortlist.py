"""Build a shortlist: a table of the target tokens that may translate each source token. A model that decodes with it
computes the logits of a sentence's candidates only.

The table is estimated from the training pairs of a prepared directory, or read from a `lex` file of Marian, binary or
text. Give --workdir to translate the validation set with and without it: sacreBLEU, speed and candidates per sentence.

    tf-transformer shortlist --data data --workdir run --output shortlist.npz
    tf-transformer translate --workdir run --shortlist shortlist.npz --input text.en
    tf-transformer export --workdir run --shortlist shortlist.npz --output models/en-de
    tf-transformer shortlist --marian lex.50.50.enpt.s2t.bin --workdir imported --output shortlist.npz
    tf-transformer shortlist --marian lex.s2t.gz --best 50 --frequent 50 --workdir imported --output shortlist.npz
"""

import argparse
import dataclasses
import json
import logging
import pathlib
from typing import TYPE_CHECKING

from tf_transformer.pipelines import cli
from tf_transformer.pipelines._model_arguments import add_decoding_arguments, decoding_config

if TYPE_CHECKING:
    from tf_transformer.decoding import Shortlist
    from tf_transformer.text import TokenizerPair

# sacreBLEU that a shortlist may cost on the split before the command warns.
_MAX_LOSS = 0.1

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", metavar="DIR", help="prepared directory, for the table and the validation set")
    parser.add_argument(
        "--marian",
        metavar="FILE",
        help="a shortlist of Marian to convert instead: binary (`lex.*.bin`), or text (`lex.s2t`, `lex.s2t.gz`) with "
        "`target source probability` in each line",
    )
    parser.add_argument("--output", required=True, metavar="FILE", help="file to write, such as shortlist.npz")
    for flag, default, summary in (
        ("--best", 100, "target tokens per source token"),
        ("--frequent", 100, "frequent target tokens that are always candidates"),
        ("--max-pairs", 500_000, "training pairs to count"),
    ):
        parser.add_argument(flag, type=int, default=default, metavar="N", help=f"{summary} (default: %(default)s)")
    parser.add_argument("--workdir", metavar="DIR", help="model to measure the effect with; needed for --marian")
    parser.add_argument("--checkpoint", metavar="NAME", help="its checkpoint (default: as in `translate`)")
    parser.add_argument("--split", default="validation", help="split to measure on (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    add_decoding_arguments(parser)


def run(args: argparse.Namespace) -> int:
    if args.data is None and args.marian is None:
        raise ValueError("Expected --data DIR or --marian FILE. Received: neither. Give a prepared directory.")
    if args.workdir is not None:
        from tf_transformer.decoding import use_one_thread_per_op

        use_one_thread_per_op()
    shortlist, tokenizers = _marian(args) if args.marian else _estimated(args)
    shortlist.save(args.output)
    logger.info("Written to %s.", args.output)
    figures = {"output": args.output} | shortlist.facts() | _measured(args, shortlist, tokenizers)
    _warn_of_loss(figures)
    print(json.dumps(figures, indent=2) if args.json else _report(figures))
    return 0


def _estimated(args: argparse.Namespace) -> "tuple[Shortlist, TokenizerPair]":
    from tf_transformer.data import PreparedDataset, lexical_table
    from tf_transformer.decoding import Shortlist
    from tf_transformer.workdir import Workdir

    prepared = PreparedDataset(args.data)
    if args.workdir is not None and Workdir(args.workdir).tokenizers.sha256 != prepared.tokenizers.sha256:
        raise ValueError(
            f"Expected data prepared with the tokenizers of {args.workdir}. Received: {args.data}, with others. "
            "Prepare it with --tokenizer."
        )
    table = lexical_table(prepared, args.best, args.frequent, args.max_pairs)
    return Shortlist.of(table.targets, table.frequent, prepared.tokenizers), prepared.tokenizers


def _marian(args: argparse.Namespace) -> "tuple[Shortlist, TokenizerPair]":
    if args.workdir is None:
        raise ValueError("Expected --workdir DIR, the imported model, with --marian. Received: none. Add --workdir.")
    from tf_transformer.decoding import Shortlist
    from tf_transformer.importing.marian import is_binary_shortlist, read_shortlist, read_text_shortlist
    from tf_transformer.workdir import Workdir

    tokenizers, file = Workdir(args.workdir).tokenizers, pathlib.Path(args.marian)
    if is_binary_shortlist(file):
        lists, frequent = read_shortlist(file).in_ids(tokenizers)
    else:
        lists, frequent = read_text_shortlist(file, tokenizers, args.best, args.frequent)
    return Shortlist.of(lists, frequent, tokenizers), tokenizers


def _measured(args: argparse.Namespace, shortlist: "Shortlist", tokenizers: "TokenizerPair") -> dict:
    """Figures of the shortlist on a split, and of the model of --workdir with it."""
    if args.data is None:
        return {}
    from tf_transformer.data import PreparedDataset
    from tf_transformer.evaluation import candidate_figures, shortlist_effect

    prepared = PreparedDataset(args.data)
    sources, references = prepared.lines(args.split)
    figures = {"split": args.split} | candidate_figures(shortlist, tokenizers, sources, references)
    if args.workdir is None:
        return figures
    from tf_transformer.decoding import LoadedModel, Translator

    search, checkpoint = decoding_config(args).to_dict(), args.checkpoint or "auto"
    full, short = (
        LoadedModel(Translator.from_workdir(args.workdir, checkpoint, table, **search)) for table in (None, shortlist)
    )
    effect = shortlist_effect(full, short, sources, references, prepared.target_language)
    return figures | dataclasses.asdict(effect) | {"sacrebleu_loss": round(effect.loss, 3)}


def _warn_of_loss(figures: dict) -> None:
    if figures.get("sacrebleu_loss", 0.0) > _MAX_LOSS:
        logger.warning(
            f"The shortlist costs {figures['sacrebleu_loss']:.2f} sacreBLEU on {figures['split']}, more than "
            f"{_MAX_LOSS}. Build one with more candidates per token: raise --best and --frequent, with --data if the "
            "table is a binary one of Marian, which is pruned already."
        )


def _report(figures: dict) -> str:
    lines = [f"{figures['per_source_id']} candidates per source token and {figures['frequent']} frequent ones"]
    if "split" in figures:
        lines.append(
            f"{figures['split']}: {figures['candidates_mean']:,} candidates per sentence on average (99 %: at most "
            f"{figures['candidates_p99']:,.0f}) of {figures['vocab_size']:,}; {figures['coverage']:.2%} of the "
            "references' tokens are among them"
        )
    if "speed" in figures:
        lines.append(
            f"sacreBLEU {figures['sacrebleu_full']:.2f} without and {figures['sacrebleu_shortlist']:.2f} with the "
            f"shortlist ({figures['signature']}); {figures['changed']:,} of {figures['sentences']:,} translations "
            f"differ; {figures['speed']:.2f} × the speed"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    cli.main_of("shortlist")
