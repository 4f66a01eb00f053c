"""The real WMT builders of TensorFlow Datasets on small archives of the real layout, served over loopback."""

import gzip
import hashlib
import http.server
import io
import os
import re
import tarfile
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
from closed_port import closed_port
from toy_records import pairs_in

from tf_transformer.data import BatchOptions, text_dataset
from tf_transformer.data.corpora._corpus import CorpusError
from tf_transformer.data.corpora._open import open_corpus
from tf_transformer.data.corpora._tfds import open_tfds_corpus
from tf_transformer.text import TokenizerPair, train_tokenizer

EUROPARL = "http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz"
COMMONCRAWL = "http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz"
NEWS = "http://www.statmt.org/wmt14/training-parallel-nc-v9.tgz"
DEV = "http://data.statmt.org/wmt19/translation-task/dev.tgz"
UN = "http://www.statmt.org/wmt13/training-parallel-un.tgz"
GIGA = "http://www.statmt.org/wmt10/training-giga-fren.tar"

CASIA = "ftp://cwmt-wmt:cwmt-wmt@nlp.nju.edu.cn/parallel/casia2015.zip"

HTML_PAGE = b"<!DOCTYPE html><html><body>Too many requests</body></html>"


def gz(data: bytes) -> bytes:
    """Compressed without the current time: the same bytes whenever it is called."""
    return gzip.compress(data, mtime=0)


def archive(files: dict[str, str | bytes], compressed: bool = True) -> bytes:
    """A tar file of the given names and contents."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return gz(buffer.getvalue()) if compressed else buffer.getvalue()


def sgm(*sentences: str) -> str:
    return "<srcset>\n" + "".join(f'<seg id="{i}">{s}</seg>\n' for i, s in enumerate(sentences, 1)) + "</srcset>\n"


def parallel(stem: str, language: str, pairs: list[tuple[str, str]]) -> dict[str, str]:
    """Two files of parallel lines as they lie in the archives: `stem.de-en.de` and `stem.de-en.en`."""
    sides = list(zip(*pairs))
    return {
        f"{stem}.{language}-en.{language}": "\n".join(sides[0]) + "\n",
        f"{stem}.{language}-en.en": "\n".join(sides[1]) + "\n",
    }


def wmt14(language: str) -> dict[str, bytes]:
    """All that the pair `language`-en of WMT14 downloads, in a few lines each."""
    dev = {
        f"dev/newstest2013.{language}": f"{language} 2013\n",
        "dev/newstest2013.en": "en 2013\n",
        f"dev/newstest2014-{language}en-src.{language}.sgm": sgm("Wirt &amp; Gast", "&quot;Grüße&quot;"),
        f"dev/newstest2014-{language}en-ref.en.sgm": sgm("host &amp; guest", "&quot;Greetings&quot;"),
    }
    files = {
        EUROPARL: archive(parallel("training/europarl-v7", language, [("Öl A", "oil A"), ("b &amp; c", "B &amp; C")])),
        COMMONCRAWL: archive(parallel("commoncrawl", language, [("Crawl", "crawl")])),
        NEWS: archive(parallel("training/news-commentary-v9", language, [("Neues", "news"), ("", "no source")])),
        DEV: archive(dev),
    }
    if language == "fr":
        giga = {f"giga-fren.release2.fixed.{side}.gz": gz(f"giga {side}".encode()) for side in ("fr", "en")}
        files[UN] = archive(parallel("un/undoc.2000", "fr", [("ONU", "UN")]))
        files[GIGA] = archive(giga, compressed=False)
    return files


class Mirror:
    """A proxy on loopback that stands for all hosts: it answers from a table, or fails, and counts requests."""

    def __init__(self):
        self.files: dict[str, bytes] = {}
        self.failures: dict[str, list[int]] = {}  # status codes to answer with before the file itself
        self.requests: list[str] = []
        mirror = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                mirror.requests.append(self.path)
                codes = mirror.failures.get(self.path, [])
                if codes or self.path not in mirror.files:
                    self.send_error(codes.pop(0) if codes else 404)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(mirror.files[self.path])))
                self.end_headers()
                self.wfile.write(mirror.files[self.path])

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def mirror(monkeypatch):
    mirror = Mirror()
    use_proxy(monkeypatch, mirror.server.server_port)
    yield mirror
    mirror.server.shutdown()
    mirror.server.server_close()


def use_proxy(monkeypatch, port: int) -> None:
    """Sends every request to a port of the loopback until the test ends."""
    address = f"http://127.0.0.1:{port}"
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "ftp_proxy"):
        monkeypatch.setenv(name, address)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "")
    monkeypatch.setattr(urllib.request, "_opener", None)  # remembers the proxies of an earlier test


@pytest.fixture
def register(monkeypatch):
    """Registers the checksums of the small archives in place of the real ones, as data, until the test ends."""

    def register(files: dict[str, bytes]) -> None:
        import tensorflow_datasets as tfds
        from tensorflow_datasets.core.download import checksums

        builder = tfds.builder_cls("wmt14_translate")
        for url, data in files.items():
            name = url.rpartition("/")[2]
            info = checksums.UrlInfo(size=len(data), checksum=hashlib.sha256(data).hexdigest(), filename=name)
            monkeypatch.setitem(builder.url_infos, url, info)
            monkeypatch.setitem(checksums.get_all_url_infos(), url, info)

    return register


def open_wmt(tmp_path, pair="de-en", **options):
    return open_tfds_corpus(
        f"wmt14_translate/{pair}", data_dir=tmp_path / "data", first_pause=0.01, **{"attempts": 3, **options}
    )


def text(split) -> list[tuple[str, str]]:
    return [(source.decode(), target.decode()) for source, target in split]


@pytest.mark.parametrize("language", ["de", "fr"])
def test_the_builder_reads_what_the_hosts_send(tmp_path, mirror, register, language):
    mirror.files = wmt14(language)
    register(mirror.files)
    corpus = open_wmt(tmp_path, f"{language}-en")
    assert (corpus.source_language, corpus.target_language) == (language, "en")
    train = text(corpus.splits["train"])
    assert {("Öl A", "oil A"), ("Crawl", "crawl"), ("Neues", "news")} < set(train)
    assert (("giga fr", "giga en") in train) == (language == "fr")
    assert text(corpus.splits["validation"]) == [(f"{language} 2013", "en 2013")]
    assert len(train) == corpus.splits["train"].count
    assert text(corpus.splits["train"]) == train  # can be read again, in the same order


def test_it_reads_what_the_builder_itself_reads(tmp_path, mirror, register):
    mirror.files = wmt14("de")
    register(mirror.files)
    split = open_wmt(tmp_path).splits["train"]
    dataset = split.builder.as_dataset(split="train").as_numpy_iterator()
    assert sorted(split) == sorted((example["de"], example["en"]) for example in dataset)


@pytest.mark.parametrize("batching", ["bucket", "pack"])
def test_wmt_without_preparation(tmp_path, mirror, register, batching):
    """`tfds.load`, the in-graph tokenizer, and the batches of training: what docs/how-to/prepare-data.md shows."""
    import tensorflow_datasets as tfds

    mirror.files = wmt14("de")
    register(mirror.files)
    open_wmt(tmp_path)
    pairs = tfds.load("wmt14_translate/de-en", split="train", data_dir=tmp_path / "data", download=False)
    pairs = pairs.map(lambda pair: (pair["en"], pair["de"]))
    texts = [(source.decode(), target.decode()) for source, target in pairs.as_numpy_iterator()]
    tokenizers = TokenizerPair.of(train_tokenizer([side for pair in texts for side in pair], 150, exact=False))
    dataset = text_dataset(pairs, tokenizers, BatchOptions(batch_tokens=64, max_length=31, batching=batching), epochs=2)
    decode = tokenizers.source.decode
    seen = [
        (decode(source.tolist()), decode(labels.tolist()))
        for batch in dataset.as_numpy_iterator()
        for source, _, labels in pairs_in(batch)
    ]
    said = [tuple(decode(tokenizers.source.encode(side)) for side in pair) for pair in texts if all(pair)]
    assert sorted(seen) == sorted(said * 2) and len(seen) >= 6


def test_a_damaged_file_is_named(tmp_path, mirror, register):
    mirror.files = wmt14("de")
    register(mirror.files)
    corpus = open_wmt(tmp_path)
    [file] = corpus.splits["train"].builder.info.splits["train"].filepaths
    os.truncate(file, os.path.getsize(file) - 3)
    with pytest.raises(CorpusError, match=f"{re.escape(os.path.basename(file))}: expected a complete file"):
        list(corpus.splits["train"])


def test_a_corpus_prepared_in_another_format_is_rejected(tmp_path, mirror, register):
    import tensorflow_datasets as tfds

    mirror.files = wmt14("de")
    register(mirror.files)
    tfds.builder("wmt14_translate/de-en", data_dir=tmp_path / "data").download_and_prepare(file_format="array_record")
    with pytest.raises(CorpusError, match=r"prepared as tfrecord\. Received: array_record"):
        open_wmt(tmp_path)


def test_entities_are_unescaped_in_the_test_set_and_left_alone_in_train(tmp_path, mirror, register):
    mirror.files = wmt14("de")
    register(mirror.files)
    corpus = open_wmt(tmp_path)
    assert sorted(text(corpus.splits["test"])) == [('"Grüße"', '"Greetings"'), ("Wirt & Gast", "host & guest")]
    assert ("b &amp; c", "B &amp; C") in text(corpus.splits["train"])


def test_the_languages_turn_the_pair_round_without_downloading_again(tmp_path, mirror, register):
    mirror.files = wmt14("de")
    register(mirror.files)
    forward = open_wmt(tmp_path)
    count = len(mirror.requests)
    backward = open_wmt(tmp_path, source_language="en", target_language="de")
    assert (backward.source_language, backward.target_language) == ("en", "de")
    assert text(backward.splits["train"]) == [pair[::-1] for pair in text(forward.splits["train"])]
    assert len(mirror.requests) == count
    assert forward.fingerprint() != backward.fingerprint()
    assert forward.fingerprint() == open_wmt(tmp_path).fingerprint()


def test_other_text_gives_another_fingerprint(tmp_path, mirror, register):
    mirror.files = wmt14("de")
    register(mirror.files)
    first = open_wmt(tmp_path / "a")
    mirror.files[COMMONCRAWL] = archive(parallel("commoncrawl", "de", [("Crawl", "crawl"), ("mehr", "more")]))
    register(mirror.files)
    assert open_wmt(tmp_path / "b").fingerprint() != first.fingerprint()


def test_files_put_in_by_hand_are_taken_without_a_network(tmp_path, mirror, register):
    files = wmt14("de")
    register(files)
    manual = tmp_path / "by-hand"
    manual.mkdir()
    for url, data in files.items():
        (manual / url.rpartition("/")[2]).write_bytes(data)
    corpus = open_corpus("tfds:wmt14_translate/de-en", data_dir=tmp_path / "data", manual_dir=manual)
    assert len(text(corpus.splits["train"])) == 4
    assert mirror.requests == []


def test_a_host_that_answers_503_is_tried_again(tmp_path, mirror, register):
    mirror.files = wmt14("de")
    register(mirror.files)
    mirror.failures = {EUROPARL: [503, 503], DEV: [503]}
    corpus = open_wmt(tmp_path, attempts=4)
    assert corpus.splits["train"].count == 4
    assert mirror.requests.count(EUROPARL) == 3
    assert mirror.requests.count(COMMONCRAWL) == 1  # what has been downloaded is kept


def test_a_host_that_keeps_answering_503_ends_in_advice_that_works(tmp_path, mirror, register):
    mirror.files = wmt14("de")
    register(mirror.files)
    mirror.failures = {COMMONCRAWL: [503] * 9}
    with pytest.raises(CorpusError) as caught:
        open_wmt(tmp_path)
    message = str(caught.value)
    manual = tmp_path / "data" / "downloads" / "manual"
    assert mirror.requests.count(COMMONCRAWL) == 3
    assert "after 3 attempts" in message and str(manual) in message
    assert f"training-parallel-commoncrawl.tgz from {COMMONCRAWL}" in message
    assert EUROPARL not in message  # has been downloaded before
    manual.mkdir(parents=True)
    (manual / "training-parallel-commoncrawl.tgz").write_bytes(mirror.files[COMMONCRAWL])
    assert open_wmt(tmp_path).splits["train"].count == 4


def test_a_file_that_has_vanished_is_not_asked_for_again(tmp_path, mirror, register):
    mirror.files = wmt14("de")
    register(mirror.files)
    del mirror.files[NEWS]
    with pytest.raises(CorpusError, match=r"training-parallel-nc-v9\.tgz from"):
        open_wmt(tmp_path)
    assert mirror.requests.count(NEWS) == 1


def test_an_html_page_instead_of_an_archive_is_called_one_and_not_kept(tmp_path, mirror, register):
    mirror.files = wmt14("de")
    register(mirror.files)
    good = mirror.files[NEWS]
    mirror.files[NEWS] = HTML_PAGE
    with pytest.raises(CorpusError, match="the server sent an HTML page") as caught:
        open_wmt(tmp_path)
    assert f"training-parallel-nc-v9.tgz from {NEWS}" in str(caught.value)
    assert not list((tmp_path / "data").rglob("*.tmp.*/*"))
    mirror.files[NEWS] = good
    assert open_wmt(tmp_path).splits["train"].count == 4


def test_an_html_page_saved_by_hand_is_named_and_left_alone(tmp_path, mirror, register):
    mirror.files = wmt14("de")
    register(mirror.files)
    manual = tmp_path / "data" / "downloads" / "manual"
    manual.mkdir(parents=True)
    page = manual / "training-parallel-nc-v9.tgz"
    page.write_bytes(HTML_PAGE)
    with pytest.raises(CorpusError, match="found an HTML page in") as caught:
        open_wmt(tmp_path)
    assert str(page) in str(caught.value)
    assert page.read_bytes() == HTML_PAGE


def test_files_that_the_library_knows_no_name_of_are_found_by_that_of_their_address(tmp_path, mirror):
    """The archives of Chinese are registered without a name, and would never be looked for among those put in."""
    (tmp_path / "casia2015.zip").write_bytes(HTML_PAGE)
    with pytest.raises(CorpusError, match=r"found an HTML page in .*casia2015\.zip") as caught:
        open_tfds_corpus("wmt17_translate/zh-en", data_dir=tmp_path / "data", manual_dir=tmp_path, attempts=1)
    assert "neu2017.zip from ftp://" in str(caught.value)


@pytest.mark.parametrize(("code", "tries"), [(503, 2), (404, 1)])
def test_ftp_hosts_fail_as_others_do(tmp_path, mirror, code, tries):
    mirror.failures = {CASIA: [code] * 9}
    with pytest.raises(CorpusError, match=f"HTTP Error {code}") as caught:
        open_tfds_corpus("wmt17_translate/zh-en", data_dir=tmp_path, attempts=2, first_pause=0.01)
    assert f"casia2015.zip from {CASIA}" in str(caught.value)
    assert mirror.requests.count(CASIA) == tries


def test_without_a_network_the_message_lists_every_file_and_its_place(tmp_path, monkeypatch):
    with closed_port() as port, pytest.raises(CorpusError) as caught:
        use_proxy(monkeypatch, port)
        open_wmt(tmp_path, attempts=2)
    message = str(caught.value)
    for url in (EUROPARL, COMMONCRAWL, NEWS, DEV):
        assert f"{url.rpartition('/')[2]} from {url}" in message
    assert "657.6 MB" in message and str(tmp_path / "data" / "downloads" / "manual") in message


def test_czech_names_the_files_to_download_by_hand(tmp_path, mirror):
    with pytest.raises(CorpusError) as caught:
        open_wmt(tmp_path, "cs-en", manual_dir=tmp_path / "hand")
    message = str(caught.value)
    for number in range(10):
        assert f"data-plaintext-format.{number}.tar from http://ufal.mff.cuni.cz/czeng/czeng10" in message
    assert str(tmp_path / "hand") in message and "by hand" in message


def test_czech_is_read_once_the_files_are_there(tmp_path, mirror, register):
    mirror.files = wmt14("cs")
    register(mirror.files)
    hand = tmp_path / "hand"
    hand.mkdir()
    for number in range(10):
        rows = gz(f"id-b{number}-00train\t1.0\tčeština {number}\tCzech {number}\n".encode())
        (hand / f"data-plaintext-format.{number}.tar").write_bytes(
            archive({f"data.plaintext-format/0{number}train.gz": rows}, compressed=False)
        )
    corpus = open_wmt(tmp_path, "cs-en", manual_dir=hand, source_language="en")
    assert corpus.target_language == "cs"
    assert ("Czech 7", "čeština 7") in text(corpus.splits["train"])


def test_extraction_does_not_wait_for_its_own_threads(tmp_path, mirror, register, monkeypatch):
    from tensorflow_datasets.core.download import extractor

    mirror.files = wmt14("de")
    register(mirror.files)
    # A pool of one thread, which the extraction of the first archive would take and wait in for ever.
    monkeypatch.setattr(extractor.get_extractor(), "_executor", ThreadPoolExecutor(1))
    done = []
    thread = threading.Thread(target=lambda: done.append(open_wmt(tmp_path)), daemon=True)
    thread.start()
    thread.join(timeout=1200)
    assert done and done[0].splits["train"].count == 4


def test_an_archive_writes_nothing_outside_its_directory(tmp_path, mirror, register):
    mirror.files = wmt14("de")
    plain = parallel("training/news-commentary-v9", "de", [("Neues", "news")])
    evil = {"../../../escaped.txt": "x", "training/../../../../escaped.txt": "x", str(tmp_path / "absolute.txt"): "x"}
    buffer = io.BytesIO(archive({**evil, **plain}, compressed=False))
    with tarfile.open(fileobj=buffer, mode="a") as tar:
        link = tarfile.TarInfo("training/link")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
        tar.addfile(link)
        through = tarfile.TarInfo("training/link/through.txt")
        through.size = 1
        tar.addfile(through, io.BytesIO(b"x"))
    mirror.files[NEWS] = gz(buffer.getvalue())
    register(mirror.files)
    assert open_wmt(tmp_path).splits["train"].count == 4
    outside = [path for path in tmp_path.rglob("*.txt") if tmp_path / "data" not in path.parents]
    assert outside == []
    assert not list((tmp_path / "data").rglob("escaped.txt"))


def test_an_archive_without_the_expected_files_is_an_error(tmp_path, mirror, register):
    mirror.files = wmt14("de")
    mirror.files[NEWS] = archive({"something/else.txt": "x"})
    register(mirror.files)
    with pytest.raises(CorpusError, match="news-commentary-v9"):
        open_wmt(tmp_path)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("wmt14_translate", "missing pair"),
        ("wmt14_translate/xx-en", "cs-en, de-en, fr-en"),
        ("no_such_dataset/de-en", "wmt13_translate to wmt19_translate"),
        ("huggingface:wmt14/de-en", "namespace"),
        ("mnist/3.0.1", "3.0.1"),
    ],
)
def test_unknown_names_are_rejected(tmp_path, name, expected):
    with pytest.raises(CorpusError, match=expected):
        open_tfds_corpus(name, data_dir=tmp_path)


def test_a_language_that_the_pair_lacks_is_rejected_before_any_download(tmp_path, mirror):
    with pytest.raises(CorpusError, match="languages de and en"):
        open_wmt(tmp_path, source_language="en", target_language="fr")
    assert mirror.requests == []
