"""The pictures: a panel a head, the right tokens on the right axes, any character drawn as itself."""

import io
import warnings

import numpy as np
import pytest
from matplotlib.figure import Figure
from toy_attention import toy_maps

from tf_transformer.analysis.attention._figures import heatmaps, lines
from tf_transformer.analysis.attention._overviews import position_vectors, positions_figure
from tf_transformer.analysis.attention._page import write_figure


def saved(figure, kind="svg") -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.savefig(buffer, format=kind)
    return buffer.getvalue()


def panels(figure):
    return [axis for axis in figure.axes if axis.get_title()]


def test_heatmaps_have_a_panel_for_every_layer_and_head():
    maps = toy_maps()
    figure = heatmaps(maps, "cross")
    titles = [axis.get_title() for axis in panels(figure)]
    assert titles == [f"layer {layer}, head {head}" for layer in (1, 2) for head in (1, 2, 3)]
    for axis, matrix in zip(panels(figure), maps.cross.reshape(-1, 2, 4)):
        np.testing.assert_array_equal(axis.images[0].get_array(), matrix)


def test_heatmaps_label_queries_downwards_and_keys_to_the_right():
    maps = toy_maps()
    corner = panels(heatmaps(maps, "cross", layers=[1], heads=[2]))[0]
    assert [label.get_text() for label in corner.get_yticklabels()] == maps.predicted
    assert [label.get_text() for label in corner.get_xticklabels()] == maps.source


def test_heatmaps_of_chosen_heads_and_their_mean():
    maps = toy_maps()
    axes = panels(heatmaps(maps, "encoder", layers=[1], heads=[0, 2], mean=True))
    assert [axis.get_title() for axis in axes] == ["layer 2, head 1", "layer 2, head 3", "layer 2, mean"]
    np.testing.assert_allclose(axes[2].images[0].get_array(), (maps.encoder[1, 0] + maps.encoder[1, 2]) / 2)


def test_a_layer_that_there_is_not_is_named():
    with pytest.raises(ValueError, match=r"layers from 1 to 2, which this model has\. Received: \[3\]"):
        heatmaps(toy_maps(), "cross", layers=[2])
    with pytest.raises(ValueError, match=r"heads from 1 to 3, which this model has\. Received: \[9\]"):
        lines(toy_maps(), "cross", heads=[8])


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_dollars_and_markup_are_plain_text(kind):
    maps = toy_maps(source=("▁$", "^_\\frac{", "<&>", "%", "</s>"))
    assert saved(heatmaps(maps, "encoder"), kind)
    assert saved(lines(maps, "encoder"), kind)


def test_lines_are_as_strong_as_the_weights():
    maps = toy_maps()
    figure = lines(maps, "cross", layer=1, heads=[2], query=1)
    (collection,) = figure.axes[0].collections
    weights = maps.cross[1, 2, 1]
    ends = [segment[1][1] for segment in collection.get_segments()]
    np.testing.assert_allclose(collection.get_alpha(), weights[np.array(ends, int)], atol=1e-6)
    assert {segment[0][1] for segment in collection.get_segments()} == {1.0}


def test_heads_that_look_at_the_same_token_do_not_hide_one_another():
    figure = lines(toy_maps(), "encoder", query=1)
    starts = [collection.get_segments()[0][0][1] for collection in figure.axes[0].collections]
    assert len(set(starts)) == 3
    assert all(abs(start - 1) < 0.3 for start in starts)


def test_lines_of_the_last_layer_and_all_tokens_by_default():
    figure = lines(toy_maps(), "encoder")
    assert figure.axes[0].get_title() == "Encoder self-attention, layer 2 of 2"
    assert len(figure.axes[0].collections) == 3


def test_dot_products_of_sinusoids_depend_on_the_distance_alone():
    vectors = position_vectors("sinusoidal", dim=26, length=17)
    assert vectors.shape == (17, 26)
    figure = positions_figure(vectors)
    image = figure.axes[1].images[0].get_array()
    np.testing.assert_allclose(np.diagonal(image), 13.0, atol=1e-4)
    for offset in (1, 5):
        diagonal = np.diagonal(image, offset)
        np.testing.assert_allclose(diagonal, diagonal[0], atol=1e-4)


def test_learned_positions_have_no_formula():
    with pytest.raises(ValueError, match="Received: 'learned'"):
        position_vectors("learned")


def test_characters_that_the_font_lacks_are_reported_once_per_picture(tmp_path, caplog):
    figure = Figure()
    figure.text(0.1, 0.1, "\U0001f980 \U0001f981 \U0001f982")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        paths = write_figure(figure, tmp_path / "picture")
    assert [path.name for path in paths] == ["picture.png", "picture.svg"] and all(
        path.stat().st_size for path in paths
    )
    assert len(caplog.messages) == 1 and "lacks some characters" in caplog.messages[0]
