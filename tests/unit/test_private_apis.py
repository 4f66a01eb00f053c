"""Private and deprecated APIs of other packages: each is used in one module, and still is what that module expects.

A failure after an upgrade names the module to change and what to look for.
"""

import argparse
import asyncio
import pathlib
import re

import aiohttp.web
import numpy as np
import pytest
import sacrebleu
import tensorflow as tf
import tensorflow_text

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Where each may be used. A new use belongs into the same module, or into a public API instead.
PLACES = {
    r"tensorflow_datasets\.(core|translate)|tfds\.core\.\w+\.": ["tf_transformer/data/corpora/_tfds_downloads.py"],
    r"tensorflow_text\.python": ["tf_transformer/text/_tokenizer.py"],
    r"tensorflow\.python\.framework": ["export/inspection/_inspect.py"],
    r"tensorflow\.python\.saved_model": ["export/inspection/_files.py"],
    r"tensorflow\.python\.(?!framework|saved_model)": [],
    r"keras\.src": [],
    r"Inplace(Update|Add|Sub)|tf\.compat\.v1": ["tf_transformer/decoding/_decoder_step.py"],
    r"_option_string_actions|_fill_text": ["pipelines/cli.py"],
    r"argparse\._": [],
    r"\._(mean|ci)\b": ["tf_transformer/evaluation/_scores.py"],
    r"self\._waiter\b": ["export/serving/_http.py"],
    r"_resource_handle\b": ["export/_stored_weights.py"],
}


@pytest.mark.parametrize("pattern", PLACES)
def test_each_is_used_in_one_marked_module(pattern):
    files = [path for name in ("tf_transformer", "export", "pipelines") for path in sorted((ROOT / name).rglob("*.py"))]
    found = [path for path in files if re.search(pattern, path.read_text(encoding="utf-8"))]
    names = [path.relative_to(ROOT).as_posix() for path in found]
    assert names == PLACES[pattern], (
        f"{pattern} is used in {names}, expected in {PLACES[pattern]}: use a public API, or put it there."
    )
    for path in found:
        told = re.search("Private API|is deprecated", path.read_text(encoding="utf-8"))
        assert told, f"Mark the use in {path} with a comment 'Private API'."


def check(condition, package, module, what):
    assert condition, (
        f"{package} has changed: {what} is not what {module} expects. Read the release notes of {package}, adapt that "
        "module and this test, or pin the older version in setup.cfg."
    )


def test_tensorflow_datasets():
    from tensorflow_datasets.core.download import checksums, download_manager, downloader, extractor, resource, util
    from tensorflow_datasets.translate import wmt

    module = "tf_transformer/data/corpora/_tfds_downloads.py"
    shared = extractor.get_extractor()
    for what, condition in {
        "checksums.get_all_url_infos() (a dict of addresses)": isinstance(checksums.get_all_url_infos(), dict),
        "checksums.compute_url_info": callable(getattr(checksums, "compute_url_info", None)),
        "downloader.MAX_RETRIES (tries per file)": isinstance(getattr(downloader, "MAX_RETRIES", None), int),
        "extractor.get_extractor()._executor (its thread pool)": hasattr(getattr(shared, "_executor", None), "submit"),
        "extractor.ExtractError": issubclass(extractor.ExtractError, Exception),
        "util.DownloadError": issubclass(util.DownloadError, Exception),
        "download_manager.NonMatchingChecksumError": issubclass(download_manager.NonMatchingChecksumError, Exception),
        "resource.get_dl_fname(url, checksum)": resource.get_dl_fname("http://a/b.tgz", "0" * 64).endswith(".tgz"),
        "translate.wmt.DATASET_MAP": hasattr(wmt.DATASET_MAP["newstest2014"], "get_url"),
        "translate.wmt._CZENG17_FILTER": hasattr(getattr(wmt, "_CZENG17_FILTER", None), "get_url"),
    }.items():
        check(condition, "tensorflow-datasets", module, what)


def test_tensorflow_text():
    from tensorflow_text.python.ops import sentencepiece_tokenizer
    from toy_attention import toy_tokenizers

    module = "tf_transformer/text/_tokenizer.py"
    generated = getattr(sentencepiece_tokenizer, "gen_sentencepiece_tokenizer", None)
    check(hasattr(generated, "sentencepiece_op"), "tensorflow-text", module, "sentencepiece_op(model, shared_name)")
    tokenizer = tensorflow_text.SentencepieceTokenizer(toy_tokenizers().source.model)
    what = "SentencepieceTokenizer._model_resource (the model that its ops read)"
    check(hasattr(tokenizer, "_model_resource"), "tensorflow-text", module, what)


def test_the_registry_of_operations():
    from tensorflow.python.framework import op_def_registry

    known = op_def_registry.get("MatMul") is not None and op_def_registry.get("NoSuchOperation") is None
    check(known, "tensorflow", "export/inspection/_inspect.py", "op_def_registry.get(name) (None for unknown names)")


def test_the_fingerprint(tmp_path):
    from tensorflow.core.protobuf import fingerprint_pb2
    from tensorflow.python.saved_model.pywrap_saved_model import fingerprinting

    tf.saved_model.save(tf.Module(), str(tmp_path / "1"))
    written, found = fingerprint_pb2.FingerprintDef(), fingerprint_pb2.FingerprintDef()
    written.ParseFromString((tmp_path / "1" / "fingerprint.pb").read_bytes())
    found.ParseFromString(fingerprinting.CreateFingerprintDef(str(tmp_path / "1")))
    what = "fingerprinting.CreateFingerprintDef(directory) (serialized, as in fingerprint.pb)"
    same = written.saved_model_checksum == found.saved_model_checksum
    check(same, "tensorflow", "export/inspection/_files.py", what)


def test_the_handle_of_a_resource():
    what = "TrackableResource._resource_handle (what resource_handle returns instead of creating one)"
    resource = tf.saved_model.experimental.TrackableResource()
    resource._resource_handle = "given"
    check(resource.resource_handle == "given", "tensorflow", "export/_stored_weights.py", what)


def test_the_flags_of_a_parser():
    parser = argparse.ArgumentParser()
    parser.add_argument_group("group").add_argument("--flag")
    known = set(getattr(parser, "_option_string_actions", ()))
    check(known == {"-h", "--help", "--flag"}, "Python", "pipelines/cli.py", "ArgumentParser._option_string_actions")
    filled = argparse.HelpFormatter("prog")._fill_text("a\nb", 20, "")
    check(filled == "a b", "Python", "pipelines/cli.py", "HelpFormatter._fill_text(text, width, indent)")


def test_the_confidence_interval():
    result = sacrebleu.metrics.CHRF().corpus_score(["a b c"] * 4, [["a b d"] * 4], n_bootstrap=8)
    known = all(np.isfinite(getattr(result, name, np.nan)) for name in ("_mean", "_ci"))
    check(known, "sacrebleu", "tf_transformer/evaluation/_scores.py", "Score._mean and Score._ci of n_bootstrap > 1")


def test_the_server_of_aiohttp():
    async def names():
        server = aiohttp.web.Server(None)
        handler = server()
        return {*vars(server), *(name for name in dir(handler) if hasattr(handler, name))}

    expected = {"_loop", "_kwargs", "_waiter"}
    what = "Server._loop, Server._kwargs and RequestHandler._waiter (what a connection waits for)"
    check(expected <= asyncio.run(names()), "aiohttp", "export/serving/_http.py", what)
