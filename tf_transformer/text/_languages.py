"""Languages of a multilingual model: the token of each, and where these tokens are put."""

import dataclasses
import difflib
import json
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

from tf_transformer.text._model_file import MAX_BYTES, TokenizerError

LANGUAGES_FILE = "languages.json"
_SHOWN = 12

# ISO 639-3 to 639-1, for the languages that have rules of their own: of segmentation or of sacreBLEU's tokenization.
_TWO_LETTERS = {
    **{"ces": "cs", "dan": "da", "deu": "de", "ell": "el", "eng": "en", "spa": "es", "fin": "fi", "fra": "fr"},
    **{"ita": "it", "nob": "nb", "nld": "nl", "pol": "pl", "por": "pt", "rus": "ru", "swe": "sv", "tur": "tr"},
    **{"ukr": "uk", "zho": "zh", "jpn": "ja", "kor": "ko", "tha": "th"},
}

Side = Literal["source", "target"]
Place = Literal["start", "end"]


class LanguageError(ValueError):
    """A language that a model does not have, with the most similar ones that it has."""


@dataclasses.dataclass(frozen=True)
class Languages:
    """The languages of a multilingual model.

    Attributes:
        tokens: the id of each language's token, by language code.
        source_token: whose token the encoder reads: that of the source language, or that of the target language.
        place: whether that token stands at the start of the source, or at its end, behind EOS.
        target_token: whether a translation begins with the token of the target language, which is forced.
        pairs: (source, target) codes that the model was trained on; empty: any two of `tokens`.
    """

    tokens: Mapping[str, int]
    source_token: Side = "source"
    place: Place = "start"
    target_token: bool = True
    pairs: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", dict(self.tokens))
        object.__setattr__(self, "pairs", tuple((str(one), str(other)) for one, other in self.pairs))
        if not self.tokens or not all(type(i) is int and i >= 0 and code for code, i in self.tokens.items()):
            raise TokenizerError(f"expected an id for each language. Received: {_some(self.tokens.items())}")
        if self.source_token not in get_args(Side) or self.place not in get_args(Place):
            raise TokenizerError(
                "expected a source_token of 'source' or 'target' and a place of 'start' or 'end'. Received: "
                f"{self.source_token!r} and {self.place!r}"
            )

    @property
    def sources(self) -> tuple[str, ...]:
        """The codes of the languages that texts may be in."""
        return tuple(dict.fromkeys(source for source, _ in self.pairs)) or tuple(self.tokens)

    @property
    def targets(self) -> tuple[str, ...]:
        """The codes of the languages that texts are translated to."""
        return tuple(dict.fromkeys(target for _, target in self.pairs)) or tuple(self.tokens)

    def check(self, side: Side, code: str | None) -> str:
        """The code, if the model has this language on this side; else LanguageError, with similar codes."""
        known = self.sources if side == "source" else self.targets
        if code in known:
            return str(code)
        if code is None:
            raise LanguageError(
                f"Expected a {side} language for a model of several. Received: none. Give --{side}-language, one of "
                f"{_some(known)}."
            )
        similar = difflib.get_close_matches(code, known, n=3, cutoff=0.4)
        similar = similar or [each for each in known if two_letters(each) == two_letters(code)][:3]
        meant = f"Did you mean {' or '.join(similar)}? " if similar else ""
        raise LanguageError(
            f"Expected a {side} language of the model. Received: {code!r}. {meant}The model has {_some(known)}."
        )

    def source_ids(self, source: str | None, target: str | None) -> list[int]:
        """The ids that a source has besides its text and EOS."""
        if self.source_token == "target":
            return [self.tokens[self.check("target", target)]]
        return [self.tokens[self.check("source", source)]]

    def target_ids(self, target: str | None) -> list[int]:
        """The ids that a target begins with."""
        return [self.tokens[self.check("target", target)]] if self.target_token else []

    def tagged(
        self, source: str, target: str, sources: list[list[int]], targets: list[list[int]]
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Pairs of ids, each ending in EOS, with the tokens of their languages."""
        own, first = self.source_ids(source, target), self.target_ids(target)
        before, after = (own, []) if self.place == "start" else ([], own)
        return [before + ids + after for ids in sources], [first + ids for ids in targets]

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False, indent=2) + "\n"

    @classmethod
    def from_file(cls, path: str | pathlib.Path, vocab_size: int) -> "Languages":
        """Read a file in the form of `to_json`; TokenizerError names a file that is not, or has ids of another model.

        Args:
            vocab_size: ids are below it.
        """
        path = pathlib.Path(path)
        try:
            if path.stat().st_size > MAX_BYTES:
                raise ValueError("a file that is too large")
            languages = cls(**_fields(json.loads(path.read_bytes())))
            if max(languages.tokens.values()) >= vocab_size:
                raise ValueError(f"ids that are not below {vocab_size:,}")
            return languages
        except TokenizerError as error:
            raise TokenizerError(f"{path}: {error}. Get or make it again.") from None
        except (ValueError, TypeError, RecursionError) as error:
            raise TokenizerError(
                f"{path}: expected a list of languages. Received: {error}. Get or make it again."
            ) from None


def two_letters(code: str | None) -> str | None:
    """The language of a code with its two letters: "de" of de_DE, de-AT and deu_Latn; others without their region."""
    if code is None:
        return None
    language = code.replace("-", "_").partition("_")[0].lower()
    return _TWO_LETTERS.get(language, language)


def tag_of(code: str) -> str:
    """The token of a target language in a vocabulary that `prepare` trains: `<2de>`."""
    return f"<2{code}>"


def _fields(values: Any) -> dict[str, Any]:
    names = {field.name for field in dataclasses.fields(Languages)}
    if not isinstance(values, dict) or not values.keys() <= names or not isinstance(values.get("tokens"), dict):
        raise ValueError(f"no object with {', '.join(sorted(names))}")
    if type(values.get("target_token", True)) is not bool:
        raise ValueError("another value than true or false for 'target_token'")
    return values


def _some(values: Iterable[Any]) -> str:
    shown = [str(value)[:80] for value in values]
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return ", ".join(shown[:_SHOWN]) + more
