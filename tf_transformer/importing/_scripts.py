"""Scripts of languages and of text, by the first words of Unicode's names of their letters."""

import re
import unicodedata

from tf_transformer.importing._external_model import ImportedModelError

_SPACE = "▁"
# Scripts by their codes, as the first words of Unicode's names of their characters.
_NAMES = {"Latn": "LATIN", "Cyrl": "CYRILLIC", "Grek": "GREEK", "Arab": "ARABIC", "Hebr": "HEBREW", "Armn": "ARMENIAN"}
_NAMES |= {"Geor": "GEORGIAN", "Deva": "DEVANAGARI", "Beng": "BENGALI", "Guru": "GURMUKHI", "Gujr": "GUJARATI"}
_NAMES |= {"Orya": "ORIYA", "Taml": "TAMIL", "Telu": "TELUGU", "Knda": "KANNADA", "Mlym": "MALAYALAM"}
_NAMES |= {"Thai": "THAI", "Laoo": "LAO", "Tibt": "TIBETAN", "Mymr": "MYANMAR", "Ethi": "ETHIOPIC", "Khmr": "KHMER"}
_NAMES |= {"Sinh": "SINHALA", "Mong": "MONGOLIAN", "Olck": "OL", "Tfng": "TIFINAGH"}
_SCRIPTS: dict[str, tuple[str, ...]] = {code: (name,) for code, name in _NAMES.items()}
_SCRIPTS |= {"Hans": ("CJK",), "Hant": ("CJK", "BOPOMOFO"), "Jpan": ("CJK", "HIRAGANA", "KATAKANA")}
_SCRIPTS |= {"Hang": ("HANGUL", "CJK")}
# First words of the names of letters that are in text of any script.
_COMMON = {"MODIFIER", "KATAKANA-HIRAGANA", "FULLWIDTH", "HALFWIDTH", "MICRO", "FEMININE", "MASCULINE", "MATHEMATICAL"}
# Scripts of languages whose codes do not state them.
_OF_SCRIPT = {
    "Latn": "af ast az br bs ca ceb cs cy da de en es et eu eo ff fi fr fy ga gd gl ha hr ht hu id ig ilo is it jv lb "
    "lg ln lt lv mg ms mt nb nl nn no ns oc pl pt ro sk sl so sq ss su sv sw tl tn tr uz vi wo xh yo zu",
    "Cyrl": "ba be bg kk ky mk mn ru tg tt uk",
    "Arab": "ar fa ps sd ug ur",
    "Hebr": "he yi",
    "Deva": "hi mr ne",
    "Beng": "as bn",
    "Grek": "el",
    "Armn": "hy",
    "Geor": "ka",
    "Gujr": "gu",
    "Guru": "pa",
    "Orya": "or",
    "Taml": "ta",
    "Telu": "te",
    "Knda": "kn",
    "Mlym": "ml",
    "Sinh": "si",
    "Thai": "th",
    "Laoo": "lo",
    "Mymr": "my",
    "Khmr": "km",
    "Ethi": "am ti",
    "Hans": "zh",
    "Jpan": "ja",
    "Hang": "ko",
}
_LANGUAGES: dict[str, tuple[str, ...]] = {
    language: (script,) for script, languages in _OF_SCRIPT.items() for language in languages.split()
}
_LANGUAGES |= {"sr": ("Cyrl", "Latn"), "zh": ("Hans", "Hant")}
_CODE = re.compile(r"([a-z]{2,3})(?:[_-]([A-Za-z]{2,4}))?")


def scripts_of(language: str) -> tuple[str, ...]:
    """The scripts of a language, as `scripts_in` names them. Codes are `de`, `deu_Latn` or `de_DE`."""
    match = _CODE.fullmatch(language)
    if match and match[2] and match[2].title() in _SCRIPTS:
        return _SCRIPTS[match[2].title()]
    if match and match[1] in _LANGUAGES:
        return tuple(name for script in _LANGUAGES[match[1]] for name in _SCRIPTS[script])
    raise ImportedModelError(
        "--keep-languages: expected codes of languages whose script is known, such as de, zh or deu_Latn. Received: "
        f"{language[:40]!r}. Give text in that language with --keep-pieces-of."
    )


def scripts_in(piece: str) -> set[str]:
    """The scripts of the letters in a piece, by the first word of their names; other characters belong to all."""
    return {
        unicodedata.name(character, "UNNAMED").partition(" ")[0]
        for character in piece
        if unicodedata.category(character)[0] == "L" and character != _SPACE
    } - _COMMON
