"""Scores of a training recipe on a parallel corpus: prepare, train, average and evaluate by the commands.

    python -m benchmarks.recipe --corpus multi30k --train train --validation val --test test_2016_flickr \
        --source en --target de --preset multi30k --workdir runs/ende --json

Files of the corpus are called PREFIX.LANGUAGE. All is kept in --workdir, and a second run continues there. Scores
are sacreBLEU, chrF, and BLEU as papers on Multi30k report it (Wu et al. 2021): lower-cased, punctuation normalized,
tokenized by Moses, unsmoothed. Higher is better. The test set is scored only with --test.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

import sacrebleu
import sacremoses

ENVIRONMENT = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow"}


def main() -> None:
    args = _parse()
    workdir = pathlib.Path(args.workdir)
    workdir.mkdir(parents=True, exist_ok=True)
    prepare(args, workdir / "data")
    seconds = train(args, workdir)
    run_command("average", "--workdir", str(workdir / "run"))
    figures: dict[str, object] = {"minutes": round(seconds / 60, 1)}
    for split, prefix in (("validation", args.validation), ("test", args.test)):
        if prefix:
            figures[split] = scores(args, workdir, split, prefix)
    print(json.dumps(figures) if args.json else "\n".join(f"{name}: {value}" for name, value in figures.items()))


def prepare(args: argparse.Namespace, data: pathlib.Path) -> None:
    if (data / "dataset.json").exists():
        return
    files = []
    for split, prefix in (("train", args.train), ("validation", args.validation), ("test", args.test)):
        for side, language in (("source", args.source), ("target", args.target)):
            files += [f"--{split}-{side}", f"{args.corpus}/{prefix}.{language}"] if prefix else []
    languages = ["--source-language", args.source, "--target-language", args.target]
    flags = [*files, *languages, "--vocab-size", str(args.vocab_size), "--output", str(data)]
    run_command("prepare", "--data", "files", *flags)


def train(args: argparse.Namespace, workdir: pathlib.Path) -> float:
    """Seconds of the training."""
    began = time.perf_counter()
    command = ["train", "--data", str(workdir / "data"), "--workdir", str(workdir / "run")]
    command += ["--preset", args.preset] + [word for setting in args.set for word in ("--set", setting)]
    run_command(*command)
    return time.perf_counter() - began


def scores(args: argparse.Namespace, workdir: pathlib.Path, split: str, prefix: str) -> dict[str, float]:
    output = workdir / f"evaluation-{split}"
    run_command(
        "evaluate", "--workdir", str(workdir / "run"), "--data", str(workdir / "data"), "--split", split,
        "--bootstrap", "0", "--output", str(output),
    )  # fmt: skip
    translations, references = (
        path.read_text(encoding="utf-8").splitlines()
        for path in (output / "hypotheses.txt", pathlib.Path(args.corpus, f"{prefix}.{args.target}"))
    )
    return {
        "sacrebleu": round(sacrebleu.corpus_bleu(translations, [references]).score, 2),
        "chrf": round(sacrebleu.corpus_chrf(translations, [references]).score, 2),
        "lowercased_bleu": round(lowercased_bleu(translations, references, args.target), 2),
    }


def lowercased_bleu(translations: list[str], references: list[str], language: str) -> float:
    """Corpus BLEU of lines that are brought into the form of Multi30k's files `*.lc.norm.tok.*` first."""
    normalizer, tokenizer = sacremoses.MosesPunctNormalizer(lang=language), sacremoses.MosesTokenizer(lang=language)
    sides = [
        [tokenizer.tokenize(normalizer.normalize(line.lower()), return_str=True) for line in side]
        for side in (translations, references)
    ]
    metric = sacrebleu.metrics.BLEU(tokenize="none", smooth_method="none", force=True)
    return metric.corpus_score(sides[0], [sides[1]]).score


def run_command(verb: str, *flags: str) -> None:
    subprocess.run([sys.executable, "-m", f"pipelines.{verb}", *flags], check=True, stdout=sys.stderr, env=ENVIRONMENT)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", metavar="DIR", required=True, help="directory of the corpus' files")
    parser.add_argument("--train", metavar="PREFIX", default="train")
    parser.add_argument("--validation", metavar="PREFIX", default="val")
    parser.add_argument("--test", metavar="PREFIX", help="default: no test set")
    parser.add_argument("--source", metavar="LANGUAGE", default="en")
    parser.add_argument("--target", metavar="LANGUAGE", default="de")
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--preset", default="multi30k")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.FIELD=VALUE", help="as in `train`")
    parser.add_argument("--workdir", metavar="DIR", required=True)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
