"""The translation page as files: what `serve` answers, what is written for other web servers, and what they contain."""

import http.client
import json
import pathlib
import re

import pytest
from running_server import running_server, serve_process
from toy_saved_model import write_toy

from tf_transformer.export.serving import page
from tf_transformer.pipelines import cli

STATIC = pathlib.Path(page.__file__).with_name("static")
FILES = sorted(path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.is_file())
TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml; charset=utf-8",
}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    base = tmp_path_factory.mktemp("models") / "toy"
    write_toy(base / "1")
    return base


@pytest.fixture(scope="module")
def server(base):
    with running_server(base) as running:
        yield running


def ask(running, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=600)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, dict(response.headers), body


@pytest.mark.parametrize("name", ["", *FILES])
def test_files_with_types_and_headers(server, name):
    status, headers, body = ask(server, f"/{name}")
    assert status == 200 and body == (STATIC / (name or "index.html")).read_bytes()
    assert headers["Content-Type"] == TYPES[(name or "index.html").rpartition(".")[2]]
    assert headers["Content-Security-Policy"].startswith("default-src 'self';")
    assert (headers["X-Content-Type-Options"], headers["Cache-Control"]) == ("nosniff", "no-cache")


def test_the_configuration_names_the_models(server):
    status, headers, body = ask(server, "/config.json")
    assert (status, json.loads(body)) == (200, {"server": "", "models": ["toy"]})
    assert headers["Content-Type"].startswith("application/json")


def test_unchanged_files_are_not_sent_again(server):
    _, headers, _ = ask(server, "/style.css")
    for known in (headers["ETag"], f'W/{headers["ETag"]}, "other"', "*"):
        status, again, body = ask(server, "/style.css", If_None_Match=known)
        assert (status, body, again["ETag"]) == (304, b"", headers["ETag"])
    assert ask(server, "/style.css", If_None_Match='"other"')[0] == 200


def test_a_query_and_the_head_of_a_page(server):
    assert ask(server, "/?model=toy")[2] == (STATIC / "index.html").read_bytes()
    status, headers, body = ask(server, "/", "HEAD")
    assert (status, body) == (200, b"") and int(headers["Content-Length"]) > 1000


@pytest.mark.parametrize(
    "path",
    ["/../_page.py", "/js/../../_page.py", "/%2e%2e/_page.py", "//etc/passwd", "/js/", "/js", "/js/main.js/",
     "/_page.py", "/static/index.html", "/js/..%2findex.html", "/js\\main.js", "/js/main.js%00", "/INDEX.HTML"],
)  # fmt: skip
def test_there_is_nothing_else(server, path):
    status, headers, body = ask(server, path)
    assert status in (400, 404) and "error" in json.loads(body)
    assert headers["Content-Type"].startswith("application/json")


def test_the_page_is_only_read(server):
    assert ask(server, "/", "POST")[0] == 404


def test_access_log_and_metrics(base):
    with serve_process(base, "--access-log") as served:
        assert ask(served, "/")[0] == ask(served, "/js/main.js")[0] == 200
        assert ask(served, "/js/missing.js")[0] == 404
        metrics = ask(served, "/monitoring/prometheus/metrics")[2].decode()
    log = "".join(served.lines)
    assert f"translation page: http://127.0.0.1:{served.port}/" in log
    assert '"GET / HTTP/1.1" 200' in log and '"GET /js/missing.js HTTP/1.1" 404' in log
    assert ":tensorflow:serving:request_count{" not in metrics, "files are no requests for a model"


def test_the_page_is_written_for_other_servers(base, tmp_path, capsys):
    assert cli.main(["serve", str(base), "--name", "en-de", "--write-page", str(tmp_path / "page")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "page")
    written = sorted(each.relative_to(tmp_path / "page").as_posix() for each in (tmp_path / "page").rglob("*.*"))
    assert written == sorted([*FILES, "config.json"])
    config = tmp_path / "page" / "config.json"
    assert json.loads(config.read_text()) == {"server": "", "models": ["en-de"]}
    config.write_text('{"server": "https://models.example", "models": []}')
    (tmp_path / "page" / "style.css").write_text("old")
    assert cli.main(["serve", "--write-page", str(tmp_path / "page")]) == 0
    assert "models.example" in config.read_text(), "the configuration of a user was replaced"
    assert (tmp_path / "page" / "style.css").read_bytes() == (STATIC / "style.css").read_bytes()


def test_files_refer_to_nothing_elsewhere():
    for name in FILES:
        text = (STATIC / name).read_text(encoding="utf-8").replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert not re.search(r"(https?:)?//[a-z0-9-]+\.|@import|url\(|data:", text), name


def test_files_refer_to_each_other():
    html = (STATIC / "index.html").read_text(encoding="utf-8")
    for target in re.findall(r'(?:href|src)="([^"#]+)"', html):
        assert target in FILES
    ids = set(re.findall(r'\bid="([\w-]+)"', html))
    for name in FILES:
        if name.endswith(".js"):
            text = (STATIC / name).read_text(encoding="utf-8")
            assert {f"js/{target}" for target in re.findall(r'from "\./(.+?)"', text)} <= set(FILES), name
            assert set(re.findall(r'(?:find|on)\("([\w-]+)"', text)) <= ids, name


def test_text_cannot_become_markup_or_code():
    for name in FILES:
        text = (STATIC / name).read_text(encoding="utf-8")
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|<style", text
        ), name
        if name.endswith(".html"):
            assert not re.search(r'\bon\w+="|\bstyle="|<script(?![^>]*\bsrc=)', text), "rejected by the policy"
