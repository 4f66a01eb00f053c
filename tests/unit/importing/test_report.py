import types

import pytest

from tf_transformer.importing._report import _language_flags
from tf_transformer.text import Languages


@pytest.mark.parametrize(
    ("languages", "flags"),
    [(("en", "de"), ""), (("en", None), " --target-language CODE"),
     ((None, None), " --source-language CODE --target-language CODE")],
)  # fmt: skip
def test_next_commands_name_the_languages_that_are_not_fixed(languages, flags):
    several = types.SimpleNamespace(tokenizers=types.SimpleNamespace(languages=Languages({"en": 5, "de": 6})))
    assert _language_flags(several, languages) == flags
    one_pair = types.SimpleNamespace(tokenizers=types.SimpleNamespace(languages=None))
    assert _language_flags(one_pair, languages) == ""
