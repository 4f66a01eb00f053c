import json

import pytest

from tf_transformer.decoding import PairScore, Translation
from tf_transformer.evaluation._evaluation import evaluate
from tf_transformer.evaluation._record import check_replaceable, record_name, write_record

SOURCES = ["one two three four five", "six\u2028seven eight", ""]
REFERENCES = ["one two three four", "six seven eight nine", ""]


class Echo:
    """A model whose translation is its source; sources with "six" count as truncated."""

    def translate_sentences(self, texts):
        return [Translation([text.decode()], [], b"six" in text) for text in texts]

    def score(self, sources, targets):
        counts = [len(target.split()) for target in targets]
        return [PairScore(-0.5 * count, count + 1, b"nine" in target) for count, target in zip(counts, targets)]


def test_the_figures_of_an_evaluation():
    counted = []
    evaluation = evaluate(Echo(), SOURCES, REFERENCES, "de", bootstrap=10, done=counted.append)
    assert evaluation.hypotheses == ["one two three four five", "six seven eight", ""]
    assert (evaluation.truncated, evaluation.tokens, evaluation.log_prob) == (1, 11, -4.0)
    figures = evaluation.to_dict()
    assert figures["perplexity"] == pytest.approx(2.718281828 ** (4 / 11))
    assert figures["sacrebleu"]["score"] == evaluation.scores[0].value
    assert figures["tokenized_compound_split_bleu"]["name"] == "tokenized compound-split BLEU"
    assert figures["sentences"] == sum(counted) == 3
    assert "truncated inputs 1 of 3" in evaluation.report()
    assert figures["truncated_pairs"] == 1
    assert "(11 tokens; 1 pairs truncated)" in evaluation.report()


def test_a_model_that_does_not_flag_truncated_pairs_has_no_count_of_them():
    class Silent(Echo):
        def score(self, sources, targets):
            return [pair._replace(truncated=None) for pair in super().score(sources, targets)]

    evaluation = evaluate(Silent(), SOURCES, REFERENCES, bootstrap=0)
    assert evaluation.to_dict()["truncated_pairs"] is None
    assert "(11 tokens)" in evaluation.report()


def test_counts_that_differ_and_empty_test_sets_are_rejected():
    with pytest.raises(ValueError, match="3 sources and 2 references"):
        evaluate(Echo(), SOURCES, REFERENCES[:2])
    with pytest.raises(ValueError, match="no sentences"):
        evaluate(Echo(), [], [])


def test_options_of_the_scores_are_checked_before_translating():
    for option, value in {"bootstrap": -1, "tokenizer": "13b"}.items():
        with pytest.raises(ValueError, match=str(value)):
            evaluate(None, SOURCES, REFERENCES, **{option: value})


def test_a_record_holds_what_repeats_the_score(tmp_path):
    evaluation = evaluate(Echo(), SOURCES, REFERENCES, bootstrap=0)
    for step in (1, 2):
        commands = [["tf-transformer", "evaluate", "--workdir", "my run"]]
        path = write_record(tmp_path / "e" / "test", evaluation, SOURCES, REFERENCES, {"step": step}, commands)
    assert json.loads((path / "config.json").read_text()) == {"step": 2}
    assert (path / "source.txt").read_text() == "one two three four five\nsix seven eight\n\n"
    for name in ("hypotheses.txt", "reference.txt"):
        assert (path / name).read_text(encoding="utf-8").count("\n") == 3
    assert json.loads((path / "scores.json").read_text()) == evaluation.to_dict()
    first, second = (path / "commands.txt").read_text().splitlines()
    assert first == "tf-transformer evaluate --workdir 'my run'"
    assert second.startswith("sacrebleu reference.txt -i hypotheses.txt -m bleu chrf -tok 13a")
    assert [each.name for each in path.parent.iterdir()] == ["test"]


def test_nothing_but_an_older_record_is_replaced(tmp_path):
    evaluation = evaluate(Echo(), SOURCES, REFERENCES, bootstrap=0)
    path = write_record(tmp_path / "mine", evaluation, SOURCES, REFERENCES, {}, [])
    check_replaceable(path)
    (path / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match=r"has other files, such as 'thesis\.tex'"):
        write_record(path, evaluation, SOURCES, REFERENCES, {}, [])
    assert (path / "thesis.tex").read_text() == "years of work"
    with pytest.raises(ValueError, match=r"commands\.txt is a file"):
        write_record(path / "commands.txt", evaluation, SOURCES, REFERENCES, {}, [])
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]


def test_an_older_record_stays_when_the_new_one_cannot_come(tmp_path, monkeypatch):
    evaluation = evaluate(Echo(), SOURCES, REFERENCES, bootstrap=0)
    path = write_record(tmp_path / "test", evaluation, SOURCES, REFERENCES, {"step": 1}, [])

    def fail(*_):
        raise OSError("no")

    monkeypatch.setattr("tf_transformer._files._put_in_place", fail)
    with pytest.raises(OSError, match="no"):
        write_record(path, evaluation, SOURCES, REFERENCES, {"step": 2}, [])
    [left] = tmp_path.iterdir()
    assert json.loads((left / "config.json").read_text()) == {"step": 1}


def test_names_are_names_of_directories():
    assert record_name("test", "average", "beam4", "alpha0.6") == "test-average-beam4-alpha0.6"
    assert record_name("../a b/ü") == "_a_b_ü"
