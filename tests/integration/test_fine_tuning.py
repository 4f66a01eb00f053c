"""Fine-tuning: `train --init-from`, other schedules and optimizers, frozen parts, R-Drop."""

import numpy as np
import pytest
from toy_data import SETTINGS, toy_data

from tf_transformer.pipelines.cli import main
from tf_transformer.training import read_log
from tf_transformer.workdir import Workdir, checkpoints


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return toy_data(tmp_path_factory.mktemp("corpus"))


def train(data, workdir, *more, settings=SETTINGS, preset="tiny"):
    words = ["train", "--data", str(data), "--workdir", str(workdir), *(["--preset", preset] if preset else [])]
    for setting in settings:
        words += ["--set", setting]
    return main([*words, *more])


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("trained") / "run"
    assert train(data, workdir, "--set", "training.max_steps=5") == 0
    return Workdir(workdir)


def weights(workdir, which="latest"):
    return checkpoints.load_model_tensors(Workdir(workdir).checkpoint(which))


FEW_STEPS = ("training.max_steps=3", "training.checkpoint_steps=3", "training.checkpoint_minutes=none",
             "training.warmup_steps=2")  # fmt: skip


def test_a_new_run_starts_from_the_weights_of_another(data, trained, tmp_path, capsys):
    new = tmp_path / "new"
    settings = (*FEW_STEPS, "training.schedule=constant", "training.learning_rate=1e-9", "model.dropout=0.3")
    assert train(data, new, "--init-from", str(trained.path), settings=settings, preset=None) == 0
    before, after = weights(trained.path, "auto"), weights(new)
    for name, value in before.items():
        np.testing.assert_allclose(after[name], value, atol=1e-6, err_msg=name)
    config = Workdir(new).config
    assert config.model.dropout == 0.3 and config.model.model_dim == trained.config.model.model_dim
    assert [event["learning_rate"] for event in read_log(Workdir(new).logs) if event["event"] == "train"] == [
        pytest.approx(1e-9)
    ]
    # The same command again finds a finished run; with another origin it is rejected, without one it is not.
    assert train(data, new, "--init-from", str(trained.path), settings=settings, preset=None) == 0
    capsys.readouterr()
    assert train(data, new, "--init-from", str(trained.path / "checkpoints" / "best"), settings=(), preset=None) == 1
    assert "Leave out --init-from to resume it" in capsys.readouterr().err
    assert train(data, new, settings=(), preset=None) == 0


def test_a_run_of_its_own_is_not_initialized_again(data, trained, tmp_path, capsys):
    assert train(data, trained.path, "--init-from", str(tmp_path), settings=(), preset=None) == 1
    assert "which was not begun from other weights. Leave out --init-from" in capsys.readouterr().err


def test_a_checkpoint_can_be_named(data, trained, tmp_path):
    checkpoint = trained.checkpoints / "step-00000005"
    settings = (*FEW_STEPS, "training.learning_rate=1e-9", "training.schedule=cosine")
    assert train(data, tmp_path / "new", "--init-from", str(checkpoint), settings=settings, preset=None) == 0
    first = tmp_path / "new" / "checkpoints" / "step-00000000"
    for name, value in checkpoints.load_model_tensors(checkpoint).items():
        np.testing.assert_array_equal(checkpoints.load_model_tensors(first)[name], value)


def test_frozen_parts_keep_their_weights(data, trained, tmp_path):
    settings = (*FEW_STEPS, "training.freeze=encoder,embeddings", "training.optimizer=adamw", "training.r_drop=5",
                "training.schedule=inverse_sqrt", "training.learning_rate=0.01")  # fmt: skip
    assert train(data, tmp_path / "new", "--init-from", str(trained.path), settings=settings, preset=None) == 0
    before, after = weights(trained.path, "auto"), weights(tmp_path / "new")
    for name, value in before.items():
        assert np.array_equal(after[name], value) == (not name.startswith("decoder/")), name


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--init-from", "nowhere"], "Expected a work directory, or a checkpoint such as WORKDIR/checkpoints/best"),
        (["--set", "model.num_heads=1"], "model.num_heads=1 instead of 2"),
        (["--set", "training.freeze=tail"], "training.freeze must be a part of 'encoder,decoder,embeddings'"),
        (["--set", "training.freeze=encoder,decoder,embeddings"], "training.freeze must be"),
    ],
)
def test_what_cannot_be_is_rejected(data, trained, tmp_path, capsys, words, message):
    words = words if "--init-from" in words else ["--init-from", str(trained.path), *words]
    assert train(data, tmp_path / "new", *words, settings=FEW_STEPS, preset=None) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "new" / "config.json").exists()


def test_data_with_another_vocabulary_is_rejected(trained, tmp_path, capsys):
    other = toy_data(tmp_path, vocabulary=140, seed=9)
    assert train(other, tmp_path / "new", "--init-from", str(trained.path), settings=FEW_STEPS, preset=None) == 1
    assert "tf-transformer prepare --tokenizer" in capsys.readouterr().err
