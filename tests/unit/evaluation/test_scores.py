import math

import pytest
import sacremoses

from tf_transformer.evaluation import _scores as evaluation
from tf_transformer.evaluation._scores import Score, compound_split, corpus_scores, perplexity

HYPOTHESES = ["Der E-Mail-Dienst ist z.B. neu.", "Das Haus ist alt, sagt er.", "Ein Hund."]
REFERENCES = ["Der E-Mail-Dienst ist z.B. alt.", "Das alte Haus ist alt, sagte er.", "Ein Hund läuft."]


def by_name(scores: list[Score]) -> dict[str, Score]:
    return {score.name: score for score in scores}


def test_no_score_is_called_bleu_alone_and_each_has_its_signature():
    scores = by_name(corpus_scores(HYPOTHESES, REFERENCES, "de", bootstrap=20))
    assert list(scores) == ["sacreBLEU", "chrF", "tokenized compound-split BLEU"]
    assert "|tok:13a|smooth:exp|version:" in scores["sacreBLEU"].signature
    assert "case:mixed" in scores["sacreBLEU"].signature
    assert "|nc:6|nw:0|" in scores["chrF"].signature
    assert "|tok:moses-de+compound-split|smooth:none|" in scores["tokenized compound-split BLEU"].signature


def test_perfect_translations_score_100_on_every_measure():
    for score in corpus_scores(REFERENCES, REFERENCES, "de", bootstrap=0):
        assert score.value == pytest.approx(100), score.name


def test_the_measures_differ_where_compounds_count():
    scores = by_name(corpus_scores(HYPOTHESES, REFERENCES, "de", bootstrap=0))
    # Three words joined by hyphens are one right word for 13a and five for the paper's measure.
    assert scores["tokenized compound-split BLEU"].value > scores["sacreBLEU"].value + 2


def test_compounds_are_split_at_hyphens_inside_words_only():
    moses = sacremoses.MosesTokenizer(lang="de")
    assert compound_split("Der E-Mail-Test - z.B. hier.", moses) == (
        "Der E ##AT##-##AT## Mail ##AT##-##AT## Test - z.B. hier ."
    )


def test_the_paper_measure_is_bleu_without_smoothing():
    # No 4-gram in common: multi-bleu.perl says 0, sacreBLEU smooths.
    scores = by_name(corpus_scores(["a b c d e"], ["a b c f g"], bootstrap=0))
    assert scores["tokenized compound-split BLEU"].value == 0
    assert scores["sacreBLEU"].value > 0


def test_a_value_by_hand():
    # 4 of 5 words are right, 3 of 4 pairs, 2 of 3 triples, 1 of 2 quadruples; the lengths are the same.
    expected = 100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25
    assert evaluation.sacrebleu_score(["a b c d x"], ["a b c d e"]).value == pytest.approx(expected)
    assert evaluation.compound_split_score(["a b c d x"], ["a b c d e"]).value == pytest.approx(expected)


def test_bootstrap_gives_an_interval_around_the_score_and_is_repeatable():
    first, second = (evaluation.sacrebleu_score(HYPOTHESES, REFERENCES, bootstrap=200) for _ in range(2))
    assert first == second
    assert first.half_width > 0
    assert abs(first.mean - first.value) < first.half_width
    assert "bs:200" in first.signature
    assert "±" in str(first)


def test_one_sentence_has_no_interval():
    score = evaluation.sacrebleu_score(HYPOTHESES[:1], REFERENCES[:1], bootstrap=200)
    assert score.half_width is None
    assert "bs:" not in score.signature


@pytest.mark.parametrize("bootstrap", [0, 1])
def test_fewer_than_two_resamplings_have_no_interval(bootstrap):
    score = evaluation.sacrebleu_score(HYPOTHESES, REFERENCES, bootstrap=bootstrap)
    assert (score.mean, score.half_width) == (None, None)


def test_fewer_resamplings_than_none_are_rejected():
    with pytest.raises(ValueError, match=r"at least 0\. Received: -3"):
        corpus_scores(HYPOTHESES, REFERENCES, bootstrap=-3)


def test_chinese_is_not_split_at_spaces():
    assert "tok:zh" in evaluation.sacrebleu_score(["我们 好"], ["我们好"], "zh").signature


def test_counts_that_differ_are_rejected_with_both():
    with pytest.raises(ValueError, match="Received: 2 and 3"):
        corpus_scores(HYPOTHESES[:2], REFERENCES)
    with pytest.raises(ValueError, match="at least one translation"):
        corpus_scores([], [])


def test_perplexity():
    assert perplexity(-10.0, 5) == pytest.approx(math.exp(2))
    assert perplexity(-1e6, 5) == math.inf
    assert math.isnan(perplexity(math.nan, 5))
    with pytest.raises(ValueError, match="at least one token"):
        perplexity(0.0, 0)


def test_an_unknown_tokenizer_is_rejected_with_the_known_ones():
    with pytest.raises(ValueError, match=r"Received: '13b'\. Choose one of .*13a"):
        corpus_scores(HYPOTHESES, REFERENCES, tokenizer="13b")


def test_a_tokenizer_that_cannot_be_had_here_is_rejected_with_the_reason(monkeypatch):
    def unavailable(*args, **options):
        raise RuntimeError("Please install the dictionary.")

    monkeypatch.setattr("sacrebleu.metrics.BLEU.__init__", unavailable)
    with pytest.raises(ValueError, match="'ja-mecab', which fails: Please install the dictionary"):
        evaluation.check_tokenizer("ja-mecab")


@pytest.mark.parametrize(("tokenizer", "name"), [("13a", "13a"), ("ja-mecab-0.996-IPA", "ja-mecab"), ("zh", "zh")])
def test_the_tokenizer_is_named_as_the_command_of_sacrebleu_takes_it(tokenizer, name):
    assert evaluation.tokenizer_name(Score("sacreBLEU", 1.0, f"nrefs:1|eff:no|tok:{tokenizer}|smooth:exp")) == name


def test_figures_that_are_not_finite_are_left_out_of_json():
    assert [evaluation.finite(value) for value in (1.5, math.inf, -math.inf, math.nan)] == [1.5, None, None, None]
