"""Toy models trained by Marian itself, with its scores and translations: run by a Python that has `pymarian`.

    python tests/marian_reference.py tests/marian_models

Per model a folder is written: model.npz, vocab.spm and decoder.yml, and reference.json with the log-probability of each
target token (`marian score`) and the n-best lists (`marian decode`). There are none for pre-norm with self-attention:
there Marian 1.12's `decode` differs from its own training and `score`, because it keeps keys and values of earlier
positions that were not normalized, and prints words like "uuuuuu". The folders in tests/marian_models were written by
pymarian 1.12.42, Marian v1.12.42 (b7be0e964).
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile

SEARCH = {"beam-size": 3, "normalize": 0.6}
_SSRU = ["--transformer-decoder-autoreg", "rnn", "--dec-cell", "ssru", "--transformer-ffn-activation", "relu"]
_PRE_NORM = ["--transformer-preprocess", "n", "--transformer-postprocess", "da", "--transformer-postprocess-top", "n"]
MODELS = {"ssru": _SSRU, "pre-norm": _PRE_NORM, "pre-norm-ssru": _PRE_NORM + _SSRU}
_NOUNS = ["dog", "cat", "house", "tree", "river", "child", "book", "stone", "bird", "garden"]
_OTHERS = ["red", "small", "old", "green", "quiet", "big"], ["sees", "likes", "finds", "reads", "carries"]
_PAIRS = 400
_SCORED = 6


def sentences() -> tuple[list[str], list[str]]:
    """Pairs whose target is the source with its parts exchanged and its words reversed."""
    choose = random.Random(7)
    sources, targets = [], []
    for _ in range(_PAIRS):
        nouns, adjectives = choose.choices(_NOUNS, k=2), choose.choices(_OTHERS[0], k=2)
        verb = choose.choice(_OTHERS[1])
        sources.append(f"the {adjectives[0]} {nouns[0]} {verb} a {adjectives[1]} {nouns[1]}.")
        back = [word[::-1] for word in (adjectives[1], nouns[1], verb, adjectives[0], nouns[0])]
        targets.append("a {} {} {} the {} {}.".format(*back))
    return sources, targets


def marian(*arguments: str, folder: pathlib.Path) -> list[str]:
    """The lines that a command of Marian's prints."""
    command = [sys.executable, "-m", "pymarian", *arguments, "--cpu-threads", "1", "--workspace", "300", "--quiet"]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def train(folder: pathlib.Path, options: list[str]) -> None:
    sources, targets = sentences()
    for name, lines in (("train.source", sources), ("train.target", targets)):
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    for name, lines in (("score.source", sources[:_SCORED]), ("score.target", targets[:_SCORED])):
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = ["--type", "transformer", "--seed", "3", "--no-shuffle", "--train-sets", "train.source", "train.target"]
    command += ["--vocabs", "vocab.spm", "vocab.spm", "--dim-vocabs", "64", "64", "--model", "model.npz"]
    command += ["--sentencepiece-options", "--normalization_rule_name=identity", "--tied-embeddings-all"]
    command += ["--dim-emb", "16", "--transformer-heads", "2", "--transformer-dim-ffn", "20", "--enc-depth", "2"]
    command += ["--dec-depth", "2", "--after", "80u", "--mini-batch", "32", "--learn-rate", "0.01", "--overwrite"]
    marian("train", *command, *options, folder=folder)


def reference(folder: pathlib.Path, searched: bool) -> dict:
    """Results of Marian with a model: scores of pairs, and n-best lists if `searched`."""
    files = ["--vocabs", "vocab.spm", "vocab.spm"]
    scores = marian(
        "score", "--model", "model.npz", *files, "-t", "score.source", "score.target", "--word-scores", folder=folder
    )
    texts = {side: (folder / f"score.{side}").read_text(encoding="utf-8").splitlines() for side in ("source", "target")}
    words = [[float(word) for word in line.partition("WordScores=")[2].split()] for line in scores if "Word" in line]
    sums = [float(line.partition("|||")[0]) for line in scores if "WordScores=" in line]
    found = texts | {"scores": sums, "word_scores": words}
    return found if not searched else found | {"nbest": nbest(folder, files, len(sums))}


def nbest(folder: pathlib.Path, files: list[str], count: int) -> list[list]:
    search = ["--beam-size", str(SEARCH["beam-size"]), "--normalize", str(SEARCH["normalize"]), "--n-best"]
    decode = marian("decode", "--models", "model.npz", *files, "-i", "score.source", *search, folder=folder)
    lists: list[list] = [[] for _ in range(count)]
    for line in decode:
        number, text, log_prob, _ = (part.strip() for part in line.split("|||"))
        lists[int(number)].append([text, float(log_prob.removeprefix("F0="))])
    return lists


def main(place: pathlib.Path, only: str | None = None) -> None:
    for name, options in MODELS.items():
        if only not in (None, name):
            continue
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            train(folder, options)
            found = reference(folder, searched="--dec-cell" in options)
            written = place / name
            written.mkdir(parents=True, exist_ok=True)
            for file in ("model.npz", "vocab.spm"):
                (written / file).write_bytes((folder / file).read_bytes())
        # JSON is YAML, too.
        settings = {"models": ["model.npz"], "vocabs": ["vocab.spm"] * 2} | SEARCH
        (written / "decoder.yml").write_text(json.dumps(settings) + "\n", encoding="utf-8")
        (written / "reference.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), *sys.argv[2:])
