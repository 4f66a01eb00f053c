"""Numbers, clock times and dates in words, in English and in German."""

from __future__ import annotations

from tf_transformer.data.corpora.phrasebook.marks import phrase

_TO_NINETEEN = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
nineteen
"""
_BIS_NEUNZEHN = """
null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn
achtzehn neunzehn
"""
_ONES = _TO_NINETEEN.split()
_EINER = _BIS_NEUNZEHN.split()
_TENS = (None, None, "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_ZEHNER = (None, None, "zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig")

_ORDINALS = {1: "first", 2: "second", 3: "third", 5: "fifth", 8: "eighth", 9: "ninth", 12: "twelfth"}
_ORDNUNGSZAHLEN = {1: "erst", 3: "dritt", 7: "siebt", 8: "acht"}

MONTHS = (
    ("January", "Januar", 31),
    ("February", "Februar", 29),
    ("March", "März", 31),
    ("April", "April", 30),
    ("May", "Mai", 31),
    ("June", "Juni", 30),
    ("July", "Juli", 31),
    ("August", "August", 31),
    ("September", "September", 30),
    ("October", "Oktober", 31),
    ("November", "November", 30),
    ("December", "Dezember", 31),
)

WEEKDAYS = (
    ("Monday", "Montag"),
    ("Tuesday", "Dienstag"),
    ("Wednesday", "Mittwoch"),
    ("Thursday", "Donnerstag"),
    ("Friday", "Freitag"),
    ("Saturday", "Samstag"),
    ("Sunday", "Sonntag"),
)

# Minutes in steps of five. German counts twenty-five past and to from the half hour, which belongs to the next hour.
# The links are those of `marks.phrase`.
_PAST_AND_TO = (
    ("{this} o'clock", "{this} Uhr"),
    ("five past {this}", "fünf nach {this}"),
    ("ten past {this}", "zehn nach {this}"),
    ("a quarter past {this}", "Viertel nach {this}", "0-0? 1-0 2-1 3-2"),
    ("twenty past {this}", "zwanzig nach {this}"),
    ("twenty-five past {this}", "fünf vor halb {next}", "0-0? 0-1? 0-2? 1-1? 1-2? 2-2? 2-3?"),
    ("half past {this}", "halb {next}", "0-0 1-0? 2-1?"),
    ("twenty-five to {next}", "fünf nach halb {next}", "0-0? 0-1? 0-2? 1-1? 1-2? 2-2? 2-3"),
    ("twenty to {next}", "zwanzig vor {next}"),
    ("a quarter to {next}", "Viertel vor {next}", "0-0? 1-0 2-1 3-2"),
    ("ten to {next}", "zehn vor {next}"),
    ("five to {next}", "fünf vor {next}"),
)


def english_number(number: int) -> str:
    """A number from 0 to 999: "three hundred and forty-two"."""
    if number >= 100:
        hundreds, rest = divmod(number, 100)
        return f"{_ONES[hundreds]} hundred" + (f" and {english_number(rest)}" if rest else "")
    if number < 20:
        return _ONES[number]
    tens, ones = divmod(number, 10)
    return _TENS[tens] + (f"-{_ONES[ones]}" if ones else "")


def german_number(number: int) -> str:
    """A number from 0 to 999: "dreihundertzweiundvierzig"; one hundred is plain "hundert"."""
    if number >= 100:
        hundreds, rest = divmod(number, 100)
        return (_EINER[hundreds] if hundreds > 1 else "") + "hundert" + (german_number(rest) if rest else "")
    if number < 20:
        return _EINER[number]
    tens, ones = divmod(number, 10)
    if not ones:
        return _ZEHNER[tens]
    return ("ein" if ones == 1 else _EINER[ones]) + "und" + _ZEHNER[tens]


def english_ordinal(number: int) -> str:
    """An ordinal from 1 to 31: "twenty-first"."""
    if number in _ORDINALS:
        return _ORDINALS[number]
    if number > 20 and number % 10:
        return f"{_TENS[number // 10]}-{english_ordinal(number % 10)}"
    word = english_number(number)
    return word.removesuffix("y") + "ieth" if word.endswith("y") else word + "th"


def german_ordinal(number: int) -> str:
    """An ordinal from 1 to 31 without its ending: "einundzwanzigst", as in "am einundzwanzigsten"."""
    if number in _ORDNUNGSZAHLEN:
        return _ORDNUNGSZAHLEN[number]
    return german_number(number) + ("t" if number < 20 else "st")


def clock_time(hour: int, twelfth: int) -> tuple[str, str]:
    """A time of day in words, in both languages: hour from 1 to 12, twelfth of it from 0 to 11 (five minutes each)."""
    english, german, *links = _PAST_AND_TO[twelfth]
    following = hour % 12 + 1
    this = "ein" if hour == 1 and twelfth == 0 else german_number(hour)  # ein Uhr, but zehn nach eins
    return phrase(
        english.format(this=english_number(hour), next=english_number(following)),
        german.format(this=this, next=german_number(following)),
        *links,
    )
