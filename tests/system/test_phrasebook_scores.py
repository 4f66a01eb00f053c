"""A model that has learned some of the phrasebook, scored and translated by independent ways that must agree."""

import json

import pytest
from ctranslate2_agreement import compare_searches

from tf_transformer.data._prepared import PreparedDataset
from tf_transformer.pipelines.cli import main
from tf_transformer.workdir._workdir import Workdir

pytestmark = pytest.mark.slow

COUNT = 601


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with `data` and `run`: tiny, 300 steps, and the average of its last checkpoints."""
    folder = tmp_path_factory.mktemp("phrasebook")
    data, run = str(folder / "data"), str(folder / "run")
    settings = ("training.max_steps=300", "training.checkpoint_steps=50", "training.average_last=3")
    flags = [word for setting in settings for word in ("--set", setting)]
    assert main(["prepare", "--data", "phrasebook", "--output", data]) == 0
    assert main(["train", "--data", data, "--workdir", run, "--preset", "tiny", *flags]) == 0
    assert main(["average", "--workdir", run]) == 0
    return folder


@pytest.mark.parametrize("beam_size", [1, 4])
def test_ctranslate2_translates_the_same(folder, beam_size, tmp_path):
    texts = PreparedDataset(folder / "data").lines("test")[0][:COUNT]
    agreement = compare_searches(Workdir(folder / "run"), tmp_path / "exported", texts, beam_size)
    assert agreement.distinct > COUNT / 2
    assert len(agreement.differences) <= 0.01 * COUNT, agreement.differences
    assert agreement.score_distance < 1e-3


def test_checkpoint_average_and_export_have_the_same_score(folder, capsys):
    run, base = str(folder / "run"), str(folder / "exported")
    assert main(["export", "--workdir", run, "--output", base]) == 0
    path = Workdir(run).checkpoint("average")
    models = (
        ["--workdir", run],
        ["--workdir", run, "--checkpoint", "average"],
        ["--workdir", run, "--checkpoint", str(path)],
        ["--saved-model", base, "--data", str(folder / "data")],
    )
    reports = []
    for model in models:
        capsys.readouterr()
        assert main(["evaluate", "--json", "--split", "validation", "--bootstrap", "100", *model]) == 0
        reports.append(json.loads(capsys.readouterr().out))
    assert reports[0]["sacrebleu"]["score"] > 10
    for report in reports[1:]:
        for name in ("sacrebleu", "chrf", "tokenized_compound_split_bleu", "tokens", "sentences", "truncated"):
            assert report[name] == reports[0][name], name
        assert report["perplexity"] == pytest.approx(reports[0]["perplexity"], rel=1e-5)
