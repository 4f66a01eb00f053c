import math

import keras
import pytest

from tf_transformer.training._schedules import NoamSchedule, WarmupSchedule


@pytest.mark.parametrize("step", [1, 17, 3999, 4000, 4001, 100_000])
def test_is_equation_3_of_the_paper(step):
    expected = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
    assert float(NoamSchedule(512)(step)) == pytest.approx(expected, rel=1e-5)


def test_rises_until_the_end_of_the_warmup_and_falls_after_it():
    schedule = NoamSchedule(64, warmup_steps=7)
    assert float(schedule(6)) < float(schedule(7)) > float(schedule(8))


def test_step_zero_has_the_rate_zero():
    assert float(NoamSchedule(64)(0)) == 0.0


def test_scale_multiplies():
    assert float(NoamSchedule(64, scale=2.0)(5)) == pytest.approx(2 * float(NoamSchedule(64)(5)))


def test_an_optimizer_that_carries_it_can_be_saved_and_loaded():
    optimizer = keras.optimizers.Adam(NoamSchedule(48, warmup_steps=11, scale=0.5))
    loaded = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert loaded._learning_rate.get_config() == {"model_dim": 48, "warmup_steps": 11, "scale": 0.5}


def test_rejects_a_warmup_of_no_steps():
    with pytest.raises(ValueError, match=r"expects warmup_steps above 0\. Received: 0"):
        NoamSchedule(64, warmup_steps=0)


@pytest.mark.parametrize("step", [1, 3, 10, 11, 40, 100])
def test_warmup_schedules_are_their_formulas(step):
    warm = step / 10
    expected = {
        "inverse_sqrt": min(warm, (10 / max(step, 10)) ** 0.5),
        "constant": min(warm, 1.0),
        "cosine": min(warm, 0.5 * (1 + math.cos(math.pi * max(step - 10, 0) / 90))),
    }
    for decay, value in expected.items():
        schedule = WarmupSchedule(0.02, 10, decay, 100)
        assert float(schedule(step)) == pytest.approx(0.02 * value, rel=1e-5, abs=1e-9)


def test_a_warmup_schedule_can_be_saved_and_loaded():
    optimizer = keras.optimizers.Adam(WarmupSchedule(0.1, 7, "cosine", 70))
    loaded = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert loaded._learning_rate.get_config() == {"peak": 0.1, "warmup_steps": 7, "decay": "cosine", "total_steps": 70}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"peak": 0.0}, "peak and warmup_steps above 0. Received: peak=0.0"),
        ({"peak": 0.1, "decay": "linear"}, "Received: 'linear'"),
        ({"peak": 0.1, "decay": "cosine"}, "total_steps above warmup_steps"),
    ],
)
def test_wrong_warmup_schedules_are_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        WarmupSchedule(**arguments)
