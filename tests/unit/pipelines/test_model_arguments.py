import argparse

import pytest

from tf_transformer.pipelines import _model_arguments as model_arguments


def parsed(*words):
    parser = argparse.ArgumentParser()
    model_arguments.add_model_arguments(parser)
    model_arguments.add_decoding_arguments(parser)
    model_arguments.add_sampling_arguments(parser)
    return parser.parse_args(words)


def test_flags_become_settings_and_settings_come_last():
    args = parsed("--beam-size", "7", "--alpha", "0", "--set", "decoding.beam_size=3")
    settings = model_arguments.decoding_settings(args)
    assert settings == ["decoding.beam_size=7", "decoding.alpha=0.0", "decoding.beam_size=3"]


def test_sampling_flags():
    args = parsed("--sample", "--top-k", "5", "--seed", "0")
    settings = model_arguments.decoding_settings(args)
    assert settings == ["decoding.top_k=5", "decoding.seed=0", "decoding.sampling=true"]
    with pytest.raises(ValueError, match="Add --sample"):
        model_arguments.decoding_settings(parsed("--top-p", "0.9"))


def test_only_the_search_can_be_set():
    with pytest.raises(ValueError, match=r"decoding\.FIELD=VALUE\. Received: 'model.num_layers=3'"):
        model_arguments.decoding_settings(parsed("--set", "model.num_layers=3"))


def test_a_model_has_to_be_named():
    with pytest.raises(ValueError, match="--workdir DIR"):
        model_arguments.load_text_model(parsed())


@pytest.mark.parametrize("words", [["--beam-size", "3"], ["--checkpoint", "best"], ["--set", "decoding.alpha=1"]])
def test_an_export_takes_no_options_of_the_search(words):
    with pytest.raises(ValueError, match=r"whose weights and search are fixed\. Received: "):
        model_arguments.load_text_model(parsed("--saved-model", "somewhere", *words))
