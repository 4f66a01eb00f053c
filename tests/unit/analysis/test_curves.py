"""Learning curves from the logs of runs."""

import json

import pytest

from tf_transformer.analysis import curves_figure, read_curves
from tf_transformer.pipelines import cli


@pytest.fixture
def runs(tmp_path):
    """Two runs of 4 logged intervals with one validation and one BLEU sample each."""
    for number, name in enumerate(("base", "rdrop")):
        logs = tmp_path / name / "logs"
        logs.mkdir(parents=True)
        events = [
            {"event": "train", "step": step, "loss": 7.0 - step / 10 - number, "perplexity": 2.0, "tokens": 36_000,
             "tokens_per_second": 10.0, "learning_rate": step * 1e-3}
            for step in (20, 40, 60, 80)
        ]  # fmt: skip
        events.insert(2, {"event": "validation", "step": 40, "loss": 5.0, "perplexity": 12.5, "tokens": 99})
        events.append({"event": "sample", "step": 80, "bleu": 21.5})
        (logs / "log.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events) + '{"event": "tr')
    return tmp_path


def test_curves_have_the_values_of_the_log(runs):
    curves = {(curve.panel, curve.split): curve for curve in read_curves(runs / "base")}
    assert set(curves) == {("loss", "train"), ("loss", "validation"), ("perplexity", "validation"),
                           ("bleu", "validation"), ("learning_rate", "train")}  # fmt: skip
    assert curves["loss", "train"].values == [5.0, 3.0, 1.0, -1.0]
    assert curves["loss", "train"].hours == [1.0, 2.0, 3.0, 4.0]
    assert curves["loss", "train"].tokens == pytest.approx([0.036, 0.072, 0.108, 0.144])
    validation = curves["perplexity", "validation"]
    assert (validation.steps, validation.hours, validation.values) == ([40], [2.0], [12.5])
    assert (curves["bleu", "validation"].steps, curves["bleu", "validation"].values) == ([80], [21.5])


def test_a_figure_has_one_panel_per_quantity(runs):
    figure = curves_figure({name: read_curves(runs / name) for name in ("base", "rdrop")}, "hours")
    titles = [axis.get_title() for axis in figure.axes]
    assert titles == ["loss per token (smoothed)", "validation perplexity", "sacreBLEU of a validation sample",
                      "learning rate"]  # fmt: skip
    lines = figure.axes[0].get_lines()
    assert [line.get_label() for line in lines] == ["base", "base", "rdrop", "rdrop"]
    assert list(lines[0].get_xdata()) == [1.0, 2.0, 3.0, 4.0]
    with pytest.raises(ValueError, match=r"Expected x to be one of steps, hours, tokens\. Received: 'days'"):
        curves_figure({}, "days")


def test_perplexities_are_plain_numbers(runs):
    curve = next(curve for curve in read_curves(runs / "base") if curve.panel == "perplexity")
    curve.steps[:], curve.values[:] = [1, 2], [4.0, 60.0]
    figure = curves_figure({"base": [curve]})
    figure.draw_without_rendering()
    axis = figure.axes[0].yaxis
    shown = [label.get_text() for label in [*axis.get_ticklabels(), *axis.get_ticklabels(minor=True)]]
    assert {"5", "10", "20", "30", "50"} <= set(shown)
    assert all(text.replace(".", "").isdigit() for text in shown if text)


def test_the_command_draws_and_prints(runs, capsys):
    output = runs / "figures" / "curves.svg"
    assert cli.main(["plot", str(runs / "base"), str(runs / "rdrop"), "--output", str(output)]) == 0
    assert output.read_text().startswith("<?xml")
    assert cli.main(["plot", str(runs / "base"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.split("\n", 1)[1])["base"][0]["steps"] == [20, 40, 60, 80]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing"], "Expected a work directory with the log of a run in it"),
        (["base", "base"], "Expected different work directories"),
        (["base", "--output", "x.gif"], "Expected --output to end in"),
    ],
)
def test_wrong_arguments_are_rejected(runs, monkeypatch, capsys, words, message):
    monkeypatch.chdir(runs)
    assert cli.main(["plot", *words]) == 1
    assert message in capsys.readouterr().err
