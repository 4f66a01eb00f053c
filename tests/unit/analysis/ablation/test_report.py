"""The table and the plot of an ablation: our figures beside the paper's, each under its name."""

import dataclasses
import io
import json

import numpy as np

from tf_transformer.analysis.ablation._report import RowResult, Setting, ablation_figure, as_json, markdown
from tf_transformer.analysis.ablation._rows import AblationOptions

BASE = RowResult(
    row="base", steps=70, ended="finished", split="validation", parameters=2_310_000, perplexity=4.0,
    sacrebleu=31.5, chrf=50.0, compound_split_bleu=32.0,
    signature="nrefs:1|case:mixed|tok:13a", sentences=101, training_seconds=90.0, scoring_seconds=7.0,
)  # fmt: skip
RESULTS = [
    BASE,
    dataclasses.replace(BASE, row="B16", perplexity=5.0, sacrebleu=29.0),
    dataclasses.replace(BASE, row="tiny", perplexity=3.0, sacrebleu=33.0),
]
SETTING = Setting(
    command="tf-transformer ablate --data d",
    data="phrasebook en-de, 7,919 pairs",
    split="validation",
    options=AblationOptions(steps=70, scale=0.25, settings=("training.batch_tokens=1024",)),
    hardware="2 cores",
    versions={"tensorflow": "2.21.0"},
)


def rows_of(text):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]


def test_the_table_has_our_figures_beside_the_papers():
    heading, _, base, b16, tiny = rows_of(markdown(SETTING, RESULTS))
    assert heading == [
        "row", "change in the paper", "parameters", "perplexity", "sacreBLEU", "tokenized compound-split BLEU",
        "minutes", "paper: perplexity", "paper: tokenized compound-split BLEU", "paper: parameters",
    ]  # fmt: skip
    assert base == ["base", "", "2.31M", "4.000", "31.50", "32.00", "1.5", "4.92", "25.8", "65M"]
    assert b16 == ["B16", "d_k=16", "2.31M", "5.000", "29.00", "32.00", "1.5", "5.16", "25.1", "58M"]
    assert tiny[7:] == ["", "", ""]


def test_the_table_has_a_caption():
    text = markdown(SETTING, RESULTS)
    assert text.startswith("# The rows of Table 3, scaled down\n")
    for fact in (
        "phrasebook en-de, 7,919 pairs", "validation (101 sentences)", "70 steps per row", "widths times 0.25",
        "`training.batch_tokens=1024`", "nrefs:1|case:mixed|tok:13a", "2 cores", "`tf-transformer ablate --data d`",
    ):  # fmt: skip
        assert fact in text
    full = dataclasses.replace(SETTING, options=AblationOptions())
    assert markdown(full, RESULTS).startswith("# The rows of Table 3\n")


def test_several_seeds_have_mean_and_spread():
    rows = [
        dataclasses.replace(BASE, row="multi30k-ema", seed=seed, sacrebleu=score, training_seconds=60.0 * seed)
        for seed, score in ((1, 39.0), (2, 40.0), (3, 41.0))
    ]
    options = AblationOptions(minutes=2, seeds=(1, 2, 3), averaged=True)
    setting = dataclasses.replace(SETTING, options=options, rows="Contribution of each technique")
    text = markdown(setting, rows)
    heading, _, cells = rows_of(text)
    assert heading == ["row", "parameters", "perplexity", "sacreBLEU", "tokenized compound-split BLEU", "minutes"]
    assert cells == ["multi30k-ema", "2.31M", "4.000 ± 0.000", "40.00 ± 1.00", "32.00 ± 0.00", "2.0"]
    for fact in ("# Contribution of each technique\n", "2 minutes per row", "over the seeds 1, 2, 3", "the average of"):
        assert fact in text
    assert "paper" not in text
    _, right = ablation_figure([BASE, *rows]).axes
    np.testing.assert_allclose(right.collections[0].get_offsets()[:, 0], [0.0, 8.5])


def test_the_json_has_the_same():
    table = json.loads(json.dumps(as_json(SETTING, RESULTS)))
    assert table["rows"][1]["sacrebleu"] == 29.0
    assert table["rows"][1]["paper"]["bleu"] == 25.1
    assert table["rows"][2]["paper"] is None
    assert table["options"]["scale"] == 0.25


def test_the_plot_shows_differences_to_the_first_row():
    figure = ablation_figure(RESULTS)
    left, right = figure.axes
    np.testing.assert_allclose(left.collections[0].get_offsets()[:, 0], [0.0, 25.0, -25.0])
    np.testing.assert_allclose(right.collections[0].get_offsets()[:, 0], [0.0, -2.5, 1.5])
    np.testing.assert_allclose(right.collections[1].get_offsets(), [[0.0, 0], [25.1 - 25.8, 1]])
    figure.savefig(io.BytesIO(), format="png")


def test_without_a_row_of_the_paper_in_front_the_plot_has_only_ours():
    left, _ = ablation_figure([RESULTS[2], BASE]).axes
    assert len(left.collections) == 1


def test_results_are_kept_in_the_rows_directory(tmp_path):
    assert RowResult.load(tmp_path) is None
    BASE.save(tmp_path)
    assert RowResult.load(tmp_path) == BASE
    assert [path.name for path in tmp_path.iterdir()] == ["ablation.json"]
