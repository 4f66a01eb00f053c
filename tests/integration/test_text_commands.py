"""translate, evaluate and score through the command line, on a tiny model with random weights and on its export."""

import dataclasses
import json
import pathlib
import shutil
import subprocess
import sys

import pytest
import tensorflow as tf
from toy_workdir import TOY, toy_sentences, toy_workdir

from tf_transformer.decoding import PairScore, Translation, Translator
from tf_transformer.export._signatures import trace_signatures
from tf_transformer.pipelines import evaluate
from tf_transformer.pipelines.cli import main
from tf_transformer.workdir._workdir import Workdir
from tf_transformer.workdir.checkpoints import load_model_tensors, save_checkpoint

AWKWARD = [
    b"the dog sees the cat.\r",
    b"",
    b"   ",
    b"old \xff\xfe tree\x00",
    "a\rb\u2028c\x85d".encode(),
    b"\xed\xa0\x80 lone surrogate, cut \xe2\x82",
    b"</s> <s> <pad> \xe2\x96\x81",
    "\U0001f600 русский <b>html</b>".encode(),
    b"house " * 400,
    b"x" * 2_000,
    b"the end",
]


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    # One layer each: most of the time goes into tracing.
    model = dataclasses.replace(TOY, num_layers=1, num_decoder_layers=1)
    return toy_workdir(tmp_path_factory.mktemp("commands") / "run", model, max_extra_length=5, max_source_length=31)


@pytest.fixture(scope="module")
def translator(workdir):
    return Translator.from_workdir(workdir.path)


@pytest.fixture(scope="module")
def saved_model(workdir):
    path, translator = workdir.path.parent / "exported", Translator.from_workdir(workdir.path)
    tf.saved_model.save(translator, str(path / "1"), signatures=trace_signatures(translator))
    return path


@pytest.fixture(scope="module")
def files(workdir):
    paths = []
    for seed, name in ((3, "source"), (4, "target")):
        paths.append(workdir.path.parent / f"{name}.txt")
        paths[-1].write_text("".join(f"{line}\n" for line in toy_sentences(29, seed)))
    return [str(path) for path in paths]


def translated(tmp_path, data, *words):
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_bytes(data)
    assert main(["translate", "--input", str(source), "--output", str(target), *words]) == 0
    return target.read_bytes()


def test_as_many_lines_out_as_in_whatever_the_bytes(workdir, translator, tmp_path, caplog):
    output = translated(tmp_path, b"\n".join(AWKWARD), "--workdir", str(workdir.path))
    lines = output.decode().split("\n")
    assert lines.pop() == ""
    assert len(lines) == len(AWKWARD) == len(output.decode().splitlines())
    assert lines[1] == lines[2] == ""
    # A line is translated as it would be alone.
    for index in (0, 3, 10):
        assert lines[index] == translator([AWKWARD[index]])[0]
    assert "too long" not in caplog.text
    caplog.clear()
    translated(tmp_path, b"\n".join(AWKWARD), "--no-segmentation", "--workdir", str(workdir.path))
    assert "2 of 11 lines were too long and were truncated (line 9, 10)" in caplog.text


def test_several_sentences_on_a_line_are_all_translated(workdir, saved_model, translator, tmp_path, caplog):
    first, second = translator(["The dog sees.", "The cat is old."])
    data = b"The dog sees. The cat is old.\nThe dog sees.\tThe cat is old."
    for model in (["--workdir", str(workdir.path)], ["--saved-model", str(saved_model)]):
        assert translated(tmp_path, data, *model).decode() == f"{first} {second}\n{first}\t{second}\n"
    caplog.clear()
    translated(tmp_path, data, "--n-best", "2", *model)
    assert "2 of 2 lines have several sentences" in caplog.text


def test_documents_are_translated_with_their_layout(workdir, saved_model, translator, tmp_path, capsys):
    first, second = translator(["The dog sees.", "The cat is old."])
    text, film = tmp_path / "text.txt", tmp_path / "film.vtt"
    text.write_text("The dog sees. The cat is old.\n\n  - The dog sees.\n")
    film.write_text("WEBVTT\n\n00:01.000 --> 00:02.000\nThe dog sees.\n")
    for number, model in enumerate((["--workdir", str(workdir.path)], ["--saved-model", str(saved_model)])):
        output = tmp_path / f"out{number}"
        assert main(["translate", "--documents", str(text), str(film), "--output", str(output), *model]) == 0
        assert capsys.readouterr().out.splitlines() == [str(output / "text.txt"), str(output / "film.vtt")]
        assert (output / "text.txt").read_text() == f"{first} {second}\n\n  - {first}\n"
        assert (output / "film.vtt").read_text() == f"WEBVTT\n\n00:01.000 --> 00:02.000\n{first}\n"
    assert main(["translate", "--documents", str(text), "--workdir", str(workdir.path)]) == 1
    assert "Expected --output DIR with --documents" in " ".join(capsys.readouterr().err.split())


def test_an_empty_file_gives_an_empty_file(workdir, tmp_path):
    assert translated(tmp_path, b"", "--workdir", str(workdir.path)) == b""


def test_an_export_translates_as_its_checkpoint_does(workdir, saved_model, tmp_path):
    data = b"\n".join([*AWKWARD, *(line.encode() for line in toy_sentences(37))])
    ours = translated(tmp_path, data, "--workdir", str(workdir.path))
    assert translated(tmp_path, data, "--saved-model", str(saved_model)) == ours


def test_the_table_of_the_best(workdir, saved_model, translator, tmp_path):
    texts = ["the dog sees the cat.", "a river"]
    expected = []
    for number, found in enumerate(translator.nbest(texts), start=1):
        expected += [f"{number}\t{rank + 1}\t{found.log_probs[rank]:.3f}\t{found.texts[rank]}" for rank in range(3)]
    for model in (["--workdir", str(workdir.path)], ["--saved-model", str(saved_model / "1")]):
        output = translated(tmp_path, "\n".join(texts).encode(), "--nbest", "3", *model).decode()
        rows = [row.split("\t") for row in output.splitlines()]
        assert ["\t".join([*row[:2], f"{float(row[2]):.3f}", row[3]]) for row in rows] == expected


def test_alignment_of_a_checkpoint_and_of_its_export(workdir, saved_model, translator, tmp_path, caplog, capsys):
    texts = ["the dog sees the cat.", "", "  a river. The dog  is old."]
    expected = translator.align(texts)
    lines = translated(tmp_path, "\n".join(texts).encode(), "--alignment", "--workdir", str(workdir.path)).decode()
    assert [line.split(" ||| ")[2] for line in lines.splitlines()] == [each.pharaoh() for each in expected]
    assert lines.splitlines()[1] == " |||  ||| " and lines.startswith("the dog sees the cat . ||| ")
    for model in (["--workdir", str(workdir.path)], ["--saved-model", str(saved_model / "1")]):
        caplog.clear()
        output = translated(tmp_path, "\n".join(texts).encode(), "--alignment", "json", *model).decode()
        assert "1 of 3 lines have several sentences, and --alignment takes each line for one" in caplog.text
        for line, each in zip(output.splitlines(), expected, strict=True):
            found = json.loads(line)
            assert found["translation"] == each.translation and found["links"] == [list(link) for link in each.links]
            assert [word["confidence"] for word in found["target"]] == pytest.approx(each.confidences, rel=1e-3)
    words = ["translate", "--workdir", str(workdir.path), "--alignment", "--nbest", "2"]
    assert main(words) == 1
    assert "Expected --nbest or --alignment. Received: both." in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
def test_the_beam_is_as_wide_as_the_table_asks(workdir, saved_model, tmp_path, capsys):
    output = translated(tmp_path, b"the dog", "--workdir", str(workdir.path), "--nbest", "7")
    assert output.count(b"\n") == 7
    words = ["translate", "--input", str(tmp_path / "in.txt"), "--nbest", "7", "--saved-model", str(saved_model)]
    assert main(words) == 1
    assert "Expected from 1 to 4 translations per line" in capsys.readouterr().err


def test_sampling_flags_reach_the_sampling(workdir, translator, tmp_path):
    texts = toy_sentences(7)
    words = ["--sample", "--seed", "3", "--top-k", "11", "--workdir", str(workdir.path)]
    drawn = translated(tmp_path, "\n".join(texts).encode(), *words).decode().splitlines()
    assert drawn == Translator.from_workdir(workdir.path, sampling=True, seed=3, top_k=11)(texts)
    assert drawn != translator(texts)


def test_search_flags_reach_the_search(workdir, tmp_path):
    words = ["--beam-size", "1", "--set", "decoding.max_extra_length=1", "--workdir", str(workdir.path)]
    greedy = Translator.from_workdir(workdir.path, beam_size=1, max_extra_length=1)
    texts = toy_sentences(7)
    assert translated(tmp_path, "\n".join(texts).encode(), *words).decode().splitlines() == greedy(texts)


def test_chunks_of_no_lines_are_rejected(workdir, capsys):
    assert main(["translate", "--workdir", str(workdir.path), "--chunk-lines", "0"]) == 1
    assert "Expected --chunk-lines to be at least 1. Received: 0." in " ".join(capsys.readouterr().err.split())


def test_a_missing_input_is_an_error_and_the_output_stays(workdir, tmp_path, capsys):
    target = tmp_path / "out.txt"
    target.write_text("old")
    words = ["translate", "--workdir", str(workdir.path), "--input", str(tmp_path / "no"), "--output", str(target)]
    assert main(words) == 1
    assert "No such file" in capsys.readouterr().err
    assert target.read_text() == "old"


def test_standard_input_to_a_pipe_that_closes_early(workdir, translator, tmp_path):
    (tmp_path / "in.txt").write_text("the dog\n" * 300)
    words = f"{sys.executable} -m tf_transformer.pipelines.cli translate --workdir {workdir.path} --chunk-lines 1"
    command = f"set -o pipefail; {words} < in.txt 2> err | head -n 1; echo $?"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path, timeout=3600)
    assert done.stdout.splitlines() == [translator(["the dog"])[0], "0"]
    errors = (tmp_path / "err").read_text()
    assert "Traceback" not in errors
    assert "roken" not in errors


def test_the_score_is_the_same_from_checkpoint_and_export(workdir, saved_model, files, capsys):
    reports = []
    for model in (["--workdir", str(workdir.path)], ["--saved-model", str(saved_model)]):
        words = ["evaluate", "--source", files[0], "--reference", files[1], "--json", "--bootstrap", "50", *model]
        assert main(words) == 0
        reports.append(json.loads(capsys.readouterr().out))
    ours, exported = reports
    for name in ("sacrebleu", "chrf", "tokenized_compound_split_bleu", "sentences", "tokens", "truncated"):
        assert ours[name] == exported[name], name
    assert ours["perplexity"] == pytest.approx(exported["perplexity"], rel=1e-5)
    assert ours["checkpoint"]["step"] == 7
    assert exported["saved_model"] == str(saved_model / "1")
    assert exported["directory"] is None


def test_an_evaluation_is_kept_and_can_be_repeated(workdir, files, capsys, monkeypatch):
    words = ["evaluate", "--workdir", str(workdir.path), "--source", files[0], "--reference", files[1]]
    assert main([*words, "--beam-size", "2", "--alpha", "0", "--bootstrap", "0"]) == 0
    report = capsys.readouterr().out
    assert report.startswith("sacreBLEU ")
    assert "\ntokenized compound-split BLEU " in report
    record = workdir.evaluation / "source.txt-target.txt-step-00000007-beam2-alpha0"
    config = json.loads((record / "config.json").read_text())
    assert (config["decoding"]["beam_size"], config["decoding"]["alpha"]) == (2, 0.0)
    hypotheses = (record / "hypotheses.txt").read_text()
    repeat, rescore, _ = (line.split()[1:] for line in (record / "commands.txt").read_text().splitlines())
    for words, place in ((repeat, record), ([*repeat, "--name", "again"], workdir.evaluation / "again")):
        before = set(workdir.evaluation.iterdir()) | {place}
        assert main(words) == 0
        assert (place / "hypotheses.txt").read_text() == hypotheses
        assert set(workdir.evaluation.iterdir()) == before  # and no record of another name
        assert capsys.readouterr().out == report
    monkeypatch.chdir(record)
    assert main(rescore) == 0
    assert capsys.readouterr().out.splitlines() == report.splitlines()[:3]


def test_a_directory_with_other_files_is_rejected_before_translating(workdir, files, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Translator, "best", lambda *_, **__: pytest.fail("It was translated."))
    (tmp_path / "mine.txt").write_text("mine")
    words = ["evaluate", "--workdir", str(workdir.path), "--source", files[0], "--reference", files[1]]
    assert main([*words, "--output", str(tmp_path)]) == 1
    assert "has other files, such as 'mine.txt'" in " ".join(capsys.readouterr().err.split())
    assert (tmp_path / "mine.txt").read_text() == "mine"


def recorded(workdir, monkeypatch, *words, meanwhile=lambda: None):
    """The record of an evaluation whose translations are its sources; `meanwhile` happens while it translates."""

    def best(self, texts, as_sentences):
        assert as_sentences
        meanwhile()
        return [Translation([text.decode()], [], False) for text in texts]

    monkeypatch.setattr(Translator, "best", best)
    monkeypatch.setattr(Translator, "score", lambda self, *sides: [PairScore(-1.0, 1, False)] * len(sides[0]))
    before = set(workdir.evaluation.glob("*"))
    monkeypatch.setattr(evaluate, "lines_of_split", lambda args: (["the dog"], ["the cat"]))
    monkeypatch.setattr(evaluate, "_groups", lambda *_: None)
    assert main(["evaluate", "--bootstrap", "0", "--workdir", str(workdir.path), *words]) == 0
    [record] = set(workdir.evaluation.glob("*")) - before
    return record


def test_a_record_names_the_checkpoint_that_was_loaded(workdir, tmp_path, monkeypatch):
    shutil.copytree(workdir.path, tmp_path / "run")
    copy = Workdir(tmp_path / "run")
    tensors = load_model_tensors(copy.checkpoint())

    def train_on():
        save_checkpoint(copy.checkpoints / "step-00000011", tensors, step=11)

    record = recorded(copy, monkeypatch, "--checkpoint", "latest", meanwhile=train_on)
    assert record.name.startswith("test-step-00000007-")
    assert json.loads((record / "config.json").read_text())["checkpoint"]["step"] == 7
    assert "--checkpoint step-00000007" in (record / "commands.txt").read_text()


def test_records_of_other_settings_have_other_names(workdir, monkeypatch):
    for words, name in (
        (["--set", "decoding.no_repeat_ngram=3"], "test-step-00000007-beam4-alpha0.6-no_repeat_ngram3"),
        (["--set", "decoding.max_extra_length=5"], "test-step-00000007-beam4-alpha0.6"),  # the work directory's own
        (["--tokenize", "char"], "test-step-00000007-beam4-alpha0.6-tok-char"),
        (["--target-language", "fr"], "test-step-00000007-beam4-alpha0.6-lang-fr"),
        (["--data", "prepared/de"], "de-test-step-00000007-beam4-alpha0.6"),
    ):
        assert recorded(workdir, monkeypatch, *words).name == name


def test_hypotheses_are_scored_without_a_model_and_flags_that_would_do_nothing_are_rejected(files, tmp_path, capsys):
    words = ["evaluate", "--hypotheses", files[0], "--reference", files[1]]
    assert main([*words, "--bootstrap", "0"]) == 0
    assert capsys.readouterr().out.startswith("sacreBLEU ")
    for flag, value in (("--workdir", tmp_path), ("--output", tmp_path), ("--alpha", 1), ("--set", "decoding.alpha=1")):
        assert main([*words, flag, str(value)]) == 1
        assert f"Received: {flag}. Leave it out" in " ".join(capsys.readouterr().err.split())


def test_score_prints_the_log_probs_of_the_model_and_their_sum(workdir, saved_model, translator, files, capsys):
    expected = translator.score(*(pathlib.Path(file).read_text().splitlines() for file in files))
    for model in (["--workdir", str(workdir.path)], ["--saved-model", str(saved_model)]):
        assert main(["score", "--source", files[0], "--target", files[1], "--json", *model]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["scores"] == pytest.approx([pair.log_prob for pair in expected], abs=1e-3)
        assert found["tokens_per_pair"] == [pair.tokens for pair in expected]
        assert found["truncated"] == (0 if "--workdir" in model else None)
        assert found["total"] == pytest.approx(sum(found["scores"]), abs=1e-3)
        assert found["perplexity"] == pytest.approx(2.718281828 ** (-found["total"] / found["tokens"]), rel=1e-4)


def test_score_of_a_table(workdir, translator, tmp_path, capsys, caplog):
    table = tmp_path / "pairs.tsv"
    table.write_bytes(b"the dog\tthe cat\r\n\t\nthe dog\tthe\tcat\n")
    assert main(["score", "--workdir", str(workdir.path), "--input", str(table)]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    expected = translator.score(["the dog", "", "the dog"], ["the cat", "", "the\tcat"])
    assert [int(tokens) for _, tokens in rows] == [pair.tokens for pair in expected]
    assert [float(score) for score, _ in rows] == pytest.approx([pair.log_prob for pair in expected], abs=1e-3)
    assert "perplexity" in caplog.text
    assert "too long" not in caplog.text
    table.write_bytes(b"the dog\tthe cat\n" + b"house " * 50 + b"\tthe cat\nthe dog\t" + b"house " * 50)
    assert main(["score", "--workdir", str(workdir.path), "--input", str(table)]) == 0
    assert "2 of 3 pairs were too long and were truncated (pair 2, 3)" in caplog.text
    assert capsys.readouterr().out.splitlines()[2].endswith(f"\t{31 + 5}")
    table.write_bytes(b"x" * (1 << 20) + b"\tthe cat\nthe dog\tthe cat\n")
    assert main(["score", "--workdir", str(workdir.path), "--input", str(table)]) == 0
    assert "1 of 2 pairs were too long and were truncated (pair 1)" in caplog.text
    assert len(capsys.readouterr().out.splitlines()) == 2
    table.write_bytes(b"the dog\tthe cat\nthe dog\n")
    assert main(["score", "--workdir", str(workdir.path), "--input", str(table)]) == 1
    assert "Received: line 2 without a tab" in capsys.readouterr().err


def test_files_of_different_length_are_rejected_with_both_counts(workdir, files, tmp_path, capsys):
    short = tmp_path / "short.txt"
    short.write_text("one\n")
    for words in (["evaluate", "--reference"], ["score", "--target"]):
        command = [words[0], "--workdir", str(workdir.path), "--source", files[0], words[1], str(short)]
        assert main(command) == 1
        assert "Received: 29 and 1." in " ".join(capsys.readouterr().err.split())
