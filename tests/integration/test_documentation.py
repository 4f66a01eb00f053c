"""The documents: every command in them exists, every link leads somewhere, the README's examples run."""

import contextlib
import io
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import urllib.request

import pytest

from tf_transformer._version import __version__
from tf_transformer.export.serving._server import server_in_thread
from tf_transformer.pipelines import cli
from tf_transformer.presets import get_preset

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(path, *languages):
    return [text for language, text in BLOCK.findall(path.read_text(encoding="utf-8")) if language in languages]


def commands(path):
    """The lines of all shell blocks as lists of words, continued lines joined, comments and pipes cut off."""
    for block in blocks(path, "bash", "sh", "console"):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line.strip().removeprefix("$ "), comments=True)
            while words and re.fullmatch(r"\w+=.*", words[0], re.DOTALL):
                words = words[1:]
            yield from _split(words)


def _split(words):
    """The commands of a line with |, && and redirections."""
    part = []
    for word in [*words, "|"]:
        if word in ("|", "&&", ";", "&"):
            if part:
                yield part
            part = []
        elif re.fullmatch(r"[<>]+|2>&1|\d?>+", word):
            yield part
            part = ["(redirected)"]
        else:
            part.append(word)


def verb_of(words):
    """The arguments of our command line in `words`, or None for another program's."""
    if words[0] in ("tf-transformer", ".venv/bin/tf-transformer"):
        return words[1:]
    if words[:2] == ["python", "-m"] and words[2].startswith("pipelines."):
        verb = words[2].removeprefix("pipelines.")
        return [{"import_weights": "import"}.get(verb, verb), *words[3:]]
    return None


def all_commands():
    return [(str(path.relative_to(ROOT)), words) for path in DOCUMENTS for words in commands(path)]


OURS = [(name, verb_of(words)) for name, words in all_commands() if verb_of(words) is not None]


def test_the_documents_have_commands():
    assert len(OURS) > 30


@pytest.mark.parametrize(("document", "words"), OURS, ids=[f"{d}: {shlex.join(w)[:60]}" for d, w in OURS])
def test_commands_exist_with_their_flags(document, words):
    words = [word.replace("…", "x") for word in words if word not in ("…", "...")]
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint), contextlib.redirect_stdout(io.StringIO()):
            args = cli._parse(words)
    except SystemExit as stop:
        assert stop.code == 0, complaint.getvalue()
        return
    config = get_preset(getattr(args, "preset", None) or "base")
    config.override(getattr(args, "settings", []))
    rows = getattr(args, "rows", None)
    for row in rows.split(",") if rows and rows not in ("all", "recipe") else []:
        get_preset(row)


def test_make_targets_and_scripts_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for document, words in all_commands():
        if words[0] == "make":
            for target in (word for word in words[1:] if "=" not in word):
                assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{document}: make {target}"
        if words[:2] == ["python", "-m"] and words[2].startswith("benchmarks."):
            assert (ROOT / (words[2].replace(".", "/") + ".py")).is_file(), f"{document}: {words[2]}"


def test_links_lead_somewhere():
    for path in [*DOCUMENTS, *(ROOT / "docs" / "tutorials").glob("*.py")]:
        for target, heading in re.findall(
            r"\]\((?!https?:|mailto:)([^)#]*)(?:#([^)]+))?\)", path.read_text(encoding="utf-8")
        ):
            page = path.parent / target if target else path
            assert page.exists(), f"{path.name} links to {target}"
            if heading and page.suffix == ".md":
                assert heading in headings(page), f"{path.name} links to {target}#{heading}"


def headings(page):
    """The anchors of a page's headings, as the site makes them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}


def test_modules_in_the_contributors_table_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.split("## Where to find …")[1].split("\n## ")[0]
    modules = re.findall(r"`([\w/]+(?:\.py|/))`", table)
    assert len(modules) > 25
    for module in modules:
        assert (ROOT / module).exists(), f"CONTRIBUTING.md: {module}"


def test_the_changelog_has_this_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (\S+) \((?:unreleased|\d{4}-\d\d-\d\d)\)$", text, re.MULTILINE)
    assert versions[0] == __version__ and versions == sorted(versions, reverse=True)
    assert set(re.findall(r"^### (.*)$", text, re.MULTILINE)) <= {"Added", "Changed", "Fixed", "Removed"}


def section(title):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return text.split(f"\n## {title}\n")[1].split("\n## ")[0]


def shell_lines(title, index):
    block = [text for language, text in BLOCK.findall(section(title)) if language == "bash"][index]
    return [shlex.split(line, comments=True) for line in block.replace("\\\n", " ").splitlines()]


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    """A folder in which the README's commands have run, with a training of a few steps."""
    folder = tmp_path_factory.mktemp("readme")
    before = pathlib.Path.cwd()
    os.chdir(folder)
    quick = ["--set", "training.max_steps=30", "--set", "training.checkpoint_steps=10"]
    try:
        for words in [*shell_lines("Train", 0), *shell_lines("Serve", 0)[:2]]:
            assert words[0] == "tf-transformer"
            # As typed, in a process of its own: training and exporting would leave half a gigabyte in this one.
            command = [sys.executable, "-m", "tf_transformer.pipelines.cli", *words[1:]]
            done = subprocess.run([*command, *(quick if words[1] == "train" else [])], capture_output=True, text=True)
            assert done.returncode == 0, f"{words}: {done.stderr[-3000:]}"
        yield folder
    finally:
        os.chdir(before)


def test_the_example_of_those_who_train(walk):
    assert {"config.json", "tokenizer.model", "checkpoints", "evaluation"} <= {p.name for p in (walk / "run").iterdir()}
    assert (walk / "run" / "checkpoints" / "average").is_dir()


def test_the_example_of_those_who_serve(walk):
    (request,) = [words for words in shell_lines("Serve", 1) if words]
    body, url = request[2], request[3]
    assert shell_lines("Serve", 0)[2][:3] == ["tf-transformer", "serve", "models/phrasebook"]
    with server_in_thread(walk / "models" / "phrasebook") as server:
        url = url.replace("localhost:8501", f"127.0.0.1:{server.port}")
        with urllib.request.urlopen(url, body.encode(), timeout=1200) as answer:
            predictions = json.loads(answer.read())["predictions"]
    assert len(predictions) == 1 and isinstance(predictions[0], str)


PYTHON = [text for language, text in BLOCK.findall(section("Import")) if language == "python"]


@pytest.mark.parametrize("example", PYTHON, ids=[text.splitlines()[-1][:40] for text in PYTHON])
def test_the_examples_of_those_who_import(walk, example, capsys):
    exec(compile(example, "README.md", "exec"), {})
    if "(2, 3, 1000)" in example:
        assert "(2, 3, 1000) (2, 4, 3, 4)" in capsys.readouterr().out


PAGES = [path for path in DOCUMENTS if path.parent != ROOT and blocks(path, "python")]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=[str(path.relative_to(ROOT)) for path in PAGES])
def test_the_python_of_the_pages_runs(walk, page):
    """All blocks of a page, one after another, in the folder of the README's commands."""
    code = blocks(page, "python")
    with contextlib.ExitStack() as resources:
        if any('"ct2' in block for block in code) and not (walk / "ct2").exists():
            assert cli.main(["export", "--format", "ctranslate2", "--workdir", "run", "--output", "ct2"]) == 0
        if any("localhost:8501" in block for block in code):
            server = resources.enter_context(server_in_thread(walk / "models" / "phrasebook"))
            code = [block.replace("localhost:8501", f"127.0.0.1:{server.port}") for block in code]
        namespace = {}
        for block in code:
            exec(compile(block, page.name, "exec"), namespace)


def test_a_how_to_begins_with_its_command():
    for path in (ROOT / "docs" / "how-to").glob("*.md"):
        title, _, begin = path.read_text(encoding="utf-8").partition("\n\n")
        assert title.startswith("# ") and begin.startswith("```"), path.name


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    index += "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "benchmarks").glob("README.md"))
    for path in [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs" / "tutorials").glob("*.py")]:
        if path.parent.name != "api" and path.name != "README.md":
            assert f"{path.name})" in index, f"{path.name} is missing in docs/README.md"


def test_every_package_has_an_api_page():
    pages = {path: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "reference" / "api").glob("*.md")}
    documented = set(re.findall(r"^::: ([\w.]+)$", "\n".join(pages.values()), re.MULTILINE))
    for folder in ("tf_transformer", "export"):
        for stub in (ROOT / folder).rglob("__init__.pyi"):
            parts = stub.parent.relative_to(ROOT).parts
            name = ".".join(parts if folder == "tf_transformer" else ("tf_transformer", *parts))
            assert name in documented, f"{name} has no `::: {name}` in docs/reference/api"


def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs", reason="the extra docs is not installed")
    pytest.importorskip("mkdocstrings", reason="the extra docs is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    )
    assert done.returncode == 0, done.stderr
    layers = (tmp_path / "site" / "reference" / "api" / "layers.html").read_text(encoding="utf-8")
    assert 'id="tf_transformer.layers.MultiHeadAttention.call"' in layers


MESSAGES = re.findall(
    r"^\|([^|]*)\|", (ROOT / "docs" / "how-to" / "troubleshooting.md").read_text(encoding="utf-8"), re.MULTILINE
)
OF_OTHERS = (
    "No matching distribution",
    "oneDNN custom operations",
    "Op type not registered",
    "ensurepip",
    "tf-transformer: command",
)


def test_messages_that_the_page_on_trouble_quotes_are_in_the_code():
    """Each quoted message, in parts where it has `…`, is in the source, whose strings may be broken over lines."""
    folders = ("tf_transformer", "export", "pipelines")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    source = "\n".join(path.read_text(encoding="utf-8") for path in [*files, ROOT / "Makefile"])
    source = re.sub(r"\"\s*\n\s*f?\"", "", source)
    quoted = [text for cell in MESSAGES for text in re.findall(r"`([^`]+)`", cell) if " " in text]
    assert len(quoted) > 15
    for text in quoted:
        for part in [] if text.startswith(OF_OTHERS) else text.split("…"):
            assert part.strip(" :") in source, f"{text!r} is not in the code"


def test_no_path_or_host_of_one_machine_is_in_the_tree():
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split()
    if not tracked:
        pytest.skip("not a git checkout")
    pattern = re.compile("/" + "work/|/" + "root/|pypi" + r"\.org|files\.python" + "hosted")
    for name in tracked:
        path = ROOT / name
        if path.suffix in (".py", ".md", ".cfg", ".toml", ".yml", "") and path.is_file():
            found = pattern.search(path.read_text(encoding="utf-8", errors="replace"))
            assert not found, f"{name}: {found.group()}"
