"""The teacher's translations: parts, what is resumed, and what is rejected."""

import pytest
from toy_data import toy_data

from tf_transformer.data import PreparedDataset, prepare
from tf_transformer.decoding import Translation
from tf_transformer.distillation import TeacherTranslations
from tf_transformer.distillation._translation import distilled_options

ORIGIN = {"teacher": {"model.safetensors": {"sha256": "a"}}, "decoding": {"beam_size": 4}}


class StubTeacher:
    """Stands for a LoadedModel: writes sentences backwards, truncates long ones, and may fail."""

    def __init__(self, fail_after=None, longest=1000):
        self.seen, self._fail_after, self._longest = [], fail_after, longest

    def translate_sentences(self, texts):
        self.seen += [text.decode() for text in texts]
        if self._fail_after is not None and len(self.seen) > self._fail_after:
            raise KeyboardInterrupt
        return [Translation([text.decode()[::-1]], [], len(text) > self._longest) for text in texts]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return PreparedDataset(toy_data(tmp_path_factory.mktemp("distillation")))


def translations(prepared, folder, **origin):
    return TeacherTranslations(folder / "translations", prepared, ORIGIN | origin, part_pairs=64)


def pairs_of(parts):
    return [line.split("\t") for part in parts.parts for line in parts.path(part).read_text().splitlines()]


def test_every_training_source_is_translated_in_the_order_of_the_records(prepared, tmp_path):
    found, counts = translations(prepared, tmp_path), []
    found.open()
    found.translate(StubTeacher(), counts.append)
    total = prepared.info["splits"]["train"]["pairs"]
    assert [part.pairs for part in found.parts] == [64] * (total // 64) + [total % 64]
    pairs = pairs_of(found)
    assert len(pairs) == sum(counts) == found.pairs == total
    assert all(target == source[::-1] for source, target in pairs)
    lines = (prepared.path.parent / "train.txt").read_text().splitlines()
    assert sorted(source for source, _ in pairs) == sorted(set(lines))  # `prepare` drops repeated pairs
    assert found.missing == []


def test_finished_parts_are_not_translated_again(prepared, tmp_path):
    found = translations(prepared, tmp_path)
    found.open()
    with pytest.raises(KeyboardInterrupt):
        found.translate(StubTeacher(fail_after=130), lambda count: None)
    finished = [path.name for path in sorted(found.directory.iterdir())]
    assert finished == ["part-00000.tsv", "part-00001.tsv", "translations.json"]
    marker = "mark\tkram\n"
    found.path(found.parts[1]).write_text(marker)
    again, teacher = translations(prepared, tmp_path), StubTeacher()
    again.open()
    assert [part.number for part in again.missing] == [part.number for part in again.parts[2:]]
    again.translate(teacher, lambda count: None)
    assert again.path(again.parts[1]).read_text() == marker
    first = {line.split("\t")[0] for line in again.path(again.parts[0]).read_text().splitlines()}
    assert not first & set(teacher.seen) and again.missing == []


def test_a_repeated_source_is_translated_once_and_a_truncated_one_is_left_out(prepared, tmp_path, monkeypatch):
    found, teacher = translations(prepared, tmp_path), StubTeacher(longest=10)
    found.open()
    sources = ["a cat.", "a very long sentence.", "a cat."]
    monkeypatch.setattr(found, "sources", lambda parts: [(parts[0], sources)])
    counts = []
    found.translate(teacher, counts.append)
    assert sorted(teacher.seen) == ["a cat.", "a very long sentence."] and sum(counts) == 3
    assert found.path(found.parts[0]).read_text() == "a cat.\t.tac a\na cat.\t.tac a\n"


@pytest.mark.parametrize("change", [{"teacher": {}}, {"decoding": {"beam_size": 1}}])
def test_translations_of_another_teacher_are_rejected(prepared, tmp_path, change):
    translations(prepared, tmp_path).open()
    with pytest.raises(ValueError, match=f"Received: other {next(iter(change))}"):
        translations(prepared, tmp_path, **change).open()


def test_the_student_is_prepared_with_the_teachers_targets(prepared, tmp_path):
    found = translations(prepared, tmp_path)
    found.open()
    found.translate(StubTeacher(), lambda count: None)
    options = distilled_options(prepared)
    assert options.max_length == 256 and not options.drop_duplicates
    made = prepare(found.corpus(), tmp_path / "data", options, tokenizers=prepared.tokenizers, workers=1)
    assert made.tokenizers.sha256 == prepared.tokenizers.sha256
    assert made.lines("validation") == prepared.lines("validation")
    assert made.info["splits"]["train"]["pairs"] == found.pairs
    assert made.info["corpus"]["identity"]["teacher"] == ORIGIN["teacher"]
    assert made.info["fingerprint"] != prepared.info["fingerprint"]


def test_parts_need_pairs(prepared, tmp_path):
    with pytest.raises(ValueError, match="at least 1 pair per part"):
        TeacherTranslations(tmp_path, prepared, ORIGIN, part_pairs=0)
