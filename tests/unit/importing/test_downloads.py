"""Downloads of models against a loopback server that mimics the Hugging Face hub and a file server."""

import hashlib
import io
import json
import sys
import zipfile

import huggingface_hub.constants
import pytest
from closed_port import closed_port
from external_toys import huggingface_toy, marian_toy
from hub_server import COMMIT, hub_server

from tf_transformer.importing import ImportedModelError, import_model
from tf_transformer.importing.downloads import _archive_file, _download, download_model
from tf_transformer.importing.downloads._hub import required_files

pytestmark = pytest.mark.long

NAME = "Helsinki-NLP/opus-mt-en-de"
ZIP = "/OPUS-MT-models/en-de/opus-2020-02-26.zip"
UNNEEDED = ("flax_model.msgpack", "rust_model.ot", "pytorch_model.bin", "tf_model.h5", "benchmark.txt")


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = huggingface_toy(tmp_path_factory.mktemp("hub") / "opus-mt-en-de").folder
    for name in UNNEEDED:
        (folder / name).write_bytes(b"unneeded")
    return folder


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """An OPUS-MT release, as zipped bytes."""
    folder, buffer = marian_toy(tmp_path_factory.mktemp("release") / "toy").folder, io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as opened:
        for file in sorted(folder.iterdir()):
            opened.write(file, file.name)
    return buffer.getvalue()


@pytest.fixture
def hub(tmp_path, monkeypatch, repository, archive):
    monkeypatch.setenv("TF_TRANSFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(_download, "FIRST_PAUSE", 0.0)
    # The library's own pauses between attempts.
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda seconds: None)
    with hub_server() as running:
        use(monkeypatch, running.url)
        running.repositories[NAME] = repository
        running.files[ZIP] = archive
        yield running


def use(monkeypatch, url):
    """Makes `url` the hub's address, as HF_ENDPOINT does when the library is imported."""
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", url)
    monkeypatch.setattr(
        huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", url + "/{repo_id}/resolve/{revision}/{filename}"
    )


def rejected(name, *parts, **arguments):
    with pytest.raises(ImportedModelError) as error:
        download_model(name, **arguments)
    for part in parts:
        assert part in str(error.value)
    return str(error.value)


def test_only_the_required_files_of_a_pinned_commit_are_downloaded(hub, repository):
    found = download_model(f"hf:{NAME}")
    assert found.facts == {"from": f"hf:{NAME}", "revision": COMMIT}
    assert found.licence == "cc-by-4.0"
    there = {file.name for file in repository.iterdir()} - set(UNNEEDED)
    assert {file.name for file in found.path.iterdir()} == there
    assert (found.path / "model.safetensors").read_bytes() == (repository / "model.safetensors").read_bytes()
    downloaded = {path for method, path, _ in hub.requests if "/resolve/" in path}
    assert all(f"/resolve/{COMMIT}/" in path for path in downloaded)
    # The second time nothing is downloaded.
    hub.requests.clear()
    assert download_model(f"hf:{NAME}@v1").path == found.path
    assert not [path for _, path, _ in hub.requests if "/resolve/" in path]


def test_the_commit_is_recorded_in_the_work_directory(hub, tmp_path):
    workdir = import_model(f"hf:{NAME}@v1", tmp_path / "run")
    facts = json.loads((workdir.path / "import.json").read_text())
    assert (facts["from"], facts["revision"]) == (f"hf:{NAME}@v1", COMMIT)
    # The files' own statement comes before the hub's.
    assert facts["licence"] == "apache-2.0"
    weights = next(file for file in facts["files"] if file["name"] == "model.safetensors")
    data = (hub.repositories[NAME] / "model.safetensors").read_bytes()
    assert weights == {"name": "model.safetensors", "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def test_an_interrupted_file_is_resumed(hub, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "DOWNLOAD_CHUNK_SIZE", 4096)
    hub.faults["model.safetensors"] = ["truncated"]
    found = download_model(f"hf:{NAME}")
    assert (found.path / "model.safetensors").read_bytes() == (
        hub.repositories[NAME] / "model.safetensors"
    ).read_bytes()
    first, second = hub.downloads("model.safetensors")
    assert not first
    assert second.startswith("bytes=")


def test_a_busy_hub_is_asked_again(hub):
    hub.faults |= {"api": [503], "config.json": [503]}
    assert download_model(f"hf:{NAME}").facts["revision"] == COMMIT


def test_a_hub_that_stays_busy_is_reported_with_the_files_to_download(hub, repository):
    hub.faults["vocab.json"] = [503] * 1000
    message = rejected(f"hf:{NAME}", f"Expected to download hf:{NAME}. Received, after 5 attempts", "503")
    for name in ("config.json", "vocab.json", "source.spm", "model.safetensors"):
        assert f"  {hub.url}/{NAME}/resolve/{COMMIT}/{name}\n" in message
    assert "Put them into one folder, for example opus-mt-en-de, and import it: `--from opus-mt-en-de`." in message


def test_changed_content_is_removed_and_downloaded_again(hub):
    hub.faults |= {"model.safetensors": ["changed"], "vocab.json": ["changed"]}
    found = download_model(f"hf:{NAME}")
    for name in ("model.safetensors", "vocab.json"):
        assert (found.path / name).read_bytes() == (hub.repositories[NAME] / name).read_bytes()
    hub.faults["source.spm"] = ["changed"] * 1000
    (found.path / "source.spm").resolve().unlink()
    (found.path / "source.spm").unlink()
    rejected(f"hf:{NAME}", "source.spm: expected the checksum", "the file was removed")
    assert not (found.path / "source.spm").exists()


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("hf:Helsinki-NLP/opus-mt-en-xx", "404 of the hub: there is no such repository"),
        (f"hf:{NAME}@other", "404 of the hub: there is no such repository, revision or file"),
        ("hf:opus-mt", "Expected hf:OWNER/NAME or hf:OWNER/NAME@REVISION"),
        ("hf:a/../b", "Expected hf:OWNER/NAME"),
    ],
)
def test_unknown_repositories_are_rejected_at_once(hub, name, part):
    rejected(name, part)
    assert len(hub.requests) <= 1


def test_without_a_network_the_error_states_what_to_download(hub, monkeypatch):
    with closed_port() as port:
        use(monkeypatch, url := f"http://127.0.0.1:{port}")
        rejected(
            f"hf:{NAME}",
            "after 5 attempts",
            f"{url}/{NAME}/tree/main in another way: config.json",
            "`--from opus-mt-en-de`",
        )
        rejected(f"{url}{ZIP}", f"Download {url}{ZIP} in another way, put it at ", "`--from FILE`")


def test_without_a_network_a_complete_download_is_taken_from_the_cache(hub, monkeypatch, caplog):
    found = download_model(f"hf:{NAME}@{COMMIT}")
    with closed_port() as port:
        use(monkeypatch, f"http://127.0.0.1:{port}")
        again = download_model(f"hf:{NAME}@{COMMIT}")
    assert (again.path, again.facts["revision"]) == (found.path, COMMIT)
    assert "is taken from the cache" in caplog.text


def test_the_missing_library_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    rejected(f"hf:{NAME}", 'pip install "tf_transformer[hub]"')


def test_safetensors_come_before_pickles():
    config, card = ["config.json", "vocab.json"], ["README.md", "train.log", "onnx/model.onnx"]
    three = ["tf_model.h5", "pytorch_model.bin", "model.safetensors"]
    assert required_files([*three, *config, *card], "x") == ["README.md", *config, "model.safetensors"]
    assert required_files([*three[:2], *config], "x")[-1] == "pytorch_model.bin"
    assert required_files([*three[:1], *config], "x")[-1] == "tf_model.h5"
    shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"]
    assert required_files([*shards, *three[:2], *config], "x")[-3:] == shards
    assert required_files(["model.bin", "config.json", "shared_vocabulary.json", "a.py"], "x") == [
        "config.json",
        "shared_vocabulary.json",
        "model.bin",
    ]
    assert required_files(["opus.npz", "decoder.yml", "source.spm", "a.sh"], "x")[-1] == "opus.npz"
    with pytest.raises(ImportedModelError, match=r"Received: config.json, model.gguf"):
        required_files(["config.json", "model.gguf"], "x")


def test_an_archive_is_downloaded_once_and_imported(hub, tmp_path, archive):
    digest = hashlib.sha256(archive).hexdigest()
    workdir = import_model(hub.url + ZIP, tmp_path / "run", sha256=digest)
    facts = json.loads((workdir.path / "import.json").read_text())
    assert (facts["from"], facts["sha256"]) == (hub.url + ZIP, digest)
    assert {file["name"] for file in facts["files"]} >= {"model.npz", "vocab.yml", "source.spm", "LICENSE"}
    assert facts["licence"] == "Attribution 4.0 International"
    again = download_model(hub.url + ZIP)
    assert len(hub.downloads("opus-2020-02-26.zip")) == 1
    host = hub.url.removeprefix("http://")
    assert again.path == tmp_path / "cache" / "downloads" / host / ZIP.removeprefix("/")
    assert [file.name for file in again.path.parent.iterdir()] == [again.path.name]


def test_an_archive_is_resumed_where_it_ended(hub, archive):
    hub.faults["opus-2020-02-26.zip"] = ["truncated", 503]
    assert download_model(hub.url + ZIP).path.read_bytes() == archive
    resumed = f"bytes={len(archive) // 2 // 65536 * 65536}-"
    assert hub.downloads("opus-2020-02-26.zip") == [None, resumed, resumed]


def test_another_version_of_an_archive_is_downloaded_from_its_start(hub, monkeypatch, archive):
    monkeypatch.setattr(_download, "ATTEMPTS", 1)
    hub.faults["opus-2020-02-26.zip"] = ["truncated"]
    rejected(hub.url + ZIP, "after 1 attempts", "put it at")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as opened:
        opened.writestr("model.npz", b"of another day")
    hub.files[ZIP] = buffer.getvalue()
    assert download_model(hub.url + ZIP).path.read_bytes() == buffer.getvalue()


def test_a_wrong_checksum_leaves_no_file(hub, tmp_path):
    message = rejected(hub.url + ZIP, "expected the SHA-256 " + "0" * 64, "The file was removed", sha256="0" * 64)
    assert hashlib.sha256(hub.files[ZIP]).hexdigest() in message
    assert not list((tmp_path / "cache").rglob("*.zip*"))
    download_model(hub.url + ZIP)
    rejected(hub.url + ZIP, "Remove the file to download it again, or correct --sha256", sha256="0" * 64)


def test_an_archive_put_there_by_hand_is_taken(hub, archive):
    place = _archive_file.cached_file(hub.url + ZIP)
    place.parent.mkdir(parents=True)
    place.write_bytes(archive)
    assert download_model(hub.url + ZIP).path == place
    assert not hub.requests


@pytest.mark.parametrize(
    ("content", "part"),
    [(b"<!DOCTYPE html><p>Log in</p>", "Received: an HTML page"), (b"PK not really", "Received: another file")],
)
def test_what_is_no_archive_is_rejected(hub, tmp_path, content, part):
    hub.files[ZIP] = content
    rejected(hub.url + ZIP, "expected a zip archive", part, "put it at")
    assert not list((tmp_path / "cache").rglob("*.zip*"))


def test_sizes_are_limited(hub, monkeypatch):
    monkeypatch.setattr(_archive_file, "MAX_BYTES", 1000)
    rejected(hub.url + ZIP, "expected at most 1,000")


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("http://example.com/a.zip", "Expected an https address"),
        ("ftp://example.com/a.zip", "Expected an https address"),
        ("https://example.com/a.tar.gz", "Expected an address that ends in .zip or .argosmodel"),
        ("https://example.com/%2e%2e/a.zip", "Expected an address that ends in"),
        ("https://example.com/a%2f..%2fb.zip", "Expected an address that ends in"),
        ("https://[::1/a.zip", "Expected an https address"),
    ],
)
def test_other_addresses_are_rejected(url, part):
    rejected(url, part)


def test_a_missing_archive_is_reported_with_its_place(hub):
    rejected(hub.url + "/no.zip", "Received: 404", "put it at", "no.zip")
    assert len(hub.requests) == 1


def test_checksums_are_for_single_files(hub, tmp_path):
    rejected(f"hf:{NAME}", "hf:OWNER/NAME@COMMIT", sha256="0" * 64)
    rejected(hub.url + ZIP, "Expected a SHA-256 of 64 hexadecimal digits", sha256="12")
    with pytest.raises(ImportedModelError, match="Expected one file with --sha256"):
        import_model(tmp_path, tmp_path / "run", sha256="0" * 64)
