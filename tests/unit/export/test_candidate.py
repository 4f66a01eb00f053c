"""The search of an export: the work directory's with changes."""

import logging
import types

import pytest

from tf_transformer.config import Config, ConfigError, DecodingConfig
from tf_transformer.export._candidate import _warn_without_vnni, search_of


def workdir(**decoding):
    return types.SimpleNamespace(config=Config(decoding=DecodingConfig(**decoding)))


def test_nbest_is_the_work_directory_s_unless_it_is_given():
    assert search_of(workdir(), {}).nbest is None
    assert search_of(workdir(nbest=3), {}).nbest == 3
    assert search_of(workdir(nbest=3), {"nbest": 2}).nbest == 2


def test_more_than_there_are_beams_is_rejected_wherever_it_was_set():
    for found, changes in ((workdir(nbest=3), {"beam_size": 2}), (workdir(beam_size=2), {"nbest": 3})):
        with pytest.raises(ConfigError, match=r"nbest of at most decoding\.beam_size = 2\. Received: 3"):
            search_of(found, changes)


@pytest.mark.parametrize(
    ("flags", "warned"), [("avx2 fma", True), ("avx2 avx_vnni", False), ("avx512f avx512_vnni", False), ("", False)]
)
def test_int8_warns_on_cpus_that_gain_nothing(caplog, flags, warned):
    with caplog.at_level(logging.WARNING):
        _warn_without_vnni(frozenset(flags.split()))
    assert ("no VNNI" in caplog.text) == warned
