"""TensorFlow Serving's model config file."""

import pathlib

import pytest

from tf_transformer.export.serving import ModelSource, read_model_config, sources_of_directories

CONFIG = """
# two models
model_config_list {
  config { name: 'en-de' base_path: '/models/en-de' model_platform: 'tensorflow' }
  config {
    name: "en-fr"
    base_path: "/models/en-fr"
    model_version_policy { specific { versions: 3 versions: 7 } }
    version_labels { key: 'stable' value: 3 }
  }
  config { name: 'a' base_path: '/a' model_version_policy { latest { num_versions: 2 } } }
  config { name: 'b' base_path: '/b' model_version_policy { all {} } }
}
"""


def read(tmp_path, text):
    (tmp_path / "models.config").write_text(text)
    return read_model_config(tmp_path / "models.config")


def test_models_policies_and_labels(tmp_path):
    assert read(tmp_path, CONFIG) == [
        ModelSource("en-de", pathlib.Path("/models/en-de")),
        ModelSource("en-fr", pathlib.Path("/models/en-fr"), None, frozenset({3, 7}), {"stable": 3}),
        ModelSource("a", pathlib.Path("/a"), 2),
        ModelSource("b", pathlib.Path("/b"), None),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model_config_list {", "is not a model config file"),
        ("nonsense: 5", "is not a model config file"),
        ("", "Received: no model"),
        ("model_config_list { config { name: 'a' } }", "expected 'name' and 'base_path'"),
        ("model_config_list { config { name: 'a' base_path: 'b' } }", "expected an absolute base_path of 'a'"),
        ("model_config_list { config { name: 'a' base_path: '/b' model_platform: 'x' } }", "Received: 'x'"),
        (
            "model_config_list { config { name: 'a' base_path: '/b' } config { name: 'a' base_path: '/c' } }",
            "Received: a twice",
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, message):
    with pytest.raises(ValueError, match=message) as error:
        read(tmp_path, text)
    assert "models.config" in str(error.value)


def test_directories():
    assert sources_of_directories(["x/en-de", "x/en-fr"]) == [
        ModelSource("en-de", pathlib.Path("x/en-de")),
        ModelSource("en-fr", pathlib.Path("x/en-fr")),
    ]
    assert sources_of_directories(["x/en-de"], "other")[0].name == "other"
    with pytest.raises(ValueError, match="one MODEL_BASE with a name"):
        sources_of_directories(["x/a", "x/b"], "other")
    with pytest.raises(ValueError, match="a twice"):
        sources_of_directories(["x/a", "y/a"])
