"""Language tokens in the graph: what the encoder reads besides a text, and what a translation begins with.

Tokenized text is a named tuple of `ids` (N, S), `lengths`, `truncated` and `empty` (N,): `Ids` of `decoding`.
"""

from typing import Any, Literal

import tensorflow as tf

from tf_transformer.text._languages import LanguageError, Languages


class LanguageTokens:
    """The language tokens of a translator. Without languages, texts have none.

    Args:
        languages: of the model; None: it has one source and one target language.
        source, target: codes of the languages that are translated from, and to unless rows have their own; None: not
            chosen yet. Codes that the model does not have raise LanguageError.
        pad_id: of the source.
    """

    def __init__(
        self, languages: Languages | None, source: str | None = None, target: str | None = None, pad_id: int = 0
    ):
        self.languages, self.source, self.target, self._pad_id = languages, source, target, pad_id
        if languages is not None and source is not None:
            languages.check("source", source)
        if languages is not None and target is not None:
            languages.check("target", target)

    @property
    def source_tokens(self) -> int:
        """Ids that a source has besides its text and EOS."""
        return int(self.languages is not None)

    @property
    def around_source(self) -> tuple[int, int]:
        """Ids that a source has before its text, and behind EOS."""
        if self.languages is None:
            return 0, 0
        return (1, 0) if self.languages.place == "start" else (0, 1)

    @property
    def target_tokens(self) -> int:
        """Ids that a target begins with."""
        return int(self.languages is not None and self.languages.target_token)

    def check_target(self, code: str) -> None:
        """Reject a target language that the model does not have."""
        if self.languages is None:
            raise LanguageError(
                f"Expected no target language: the model has one. Received: {code!r}. Leave it out, or use a "
                "multilingual model."
            )
        self.languages.check("target", code)

    def known(self, target: tf.Tensor) -> tf.Tensor:
        """Whether the model has the target language of each row: [N] string -> [N] bool.

        If it has none of them, InvalidArgumentError lists the codes. Other rows must not fail because of an unknown
        code: a server may have merged the requests of several clients.
        """
        assert self.languages is not None
        codes = self.languages.targets
        known = tf.reduce_any(target[:, None] == tf.constant(codes), axis=1)
        message = f"Expected target languages among {', '.join(codes)}. Received: "
        check = tf.debugging.Assert(tf.reduce_any(known) | (tf.size(known) == 0), [message, target], summarize=8)
        with tf.control_dependencies([check]):
            return tf.identity(known)

    def read(self, source: Any, target: tf.Tensor | None = None) -> Any:
        """Tokenized sources with their language token.

        Args:
            target: [N] string, the target language of each row; None: that of the translator.
        """
        if self.languages is None:
            return source
        if self.languages.source_token == "target":
            tokens = self._ids(target, source.lengths)
        else:
            tokens = tf.fill(tf.shape(source.lengths), self.languages.source_ids(self.source, None)[0])
        if self.languages.place == "start":
            ids = tf.concat([tokens[:, None], source.ids], axis=1)
        else:
            ids = tf.pad(source.ids, [[0, 0], [0, 1]], constant_values=self._pad_id)
            ids = tf.where(tf.range(tf.shape(ids)[1]) == source.lengths[:, None], tokens[:, None], ids)
        return source._replace(ids=ids, lengths=source.lengths + 1)

    def begin(self, prefix: Any | None, source: Any, target: tf.Tensor | None = None) -> Any | None:
        """The ids that outputs begin with: the token of the target language, then the prefix.

        The length counts EOS of the prefix, which is not part of it.
        """
        if not self.target_tokens:
            return prefix
        tokens = self._ids(target, source.lengths)[:, None]
        if prefix is None:
            never = tf.zeros_like(source.empty)
            lengths = tf.fill(tf.shape(source.lengths), 2)
            return source._replace(ids=tokens, lengths=lengths, truncated=never, empty=never)
        return prefix._replace(ids=tf.concat([tokens, prefix.ids], axis=1), lengths=prefix.lengths + 1)

    def aligned(self, side: Any, ids: Any, which: Literal["source", "target"]) -> Any:
        """A side of an alignment with the ids that language tokens were added to; these belong to no word."""
        more = self.source_tokens if which == "source" else self.target_tokens
        behind = which == "source" and self.languages is not None and self.languages.place == "end"
        widths = [[0, 0], [0, more] if behind else [more, 0]]
        starts, ends = (tf.pad(column, widths, constant_values=-1) for column in (side.starts, side.ends))
        return side._replace(ids=ids.ids, lengths=ids.lengths, starts=starts, ends=ends)

    def _ids(self, target: tf.Tensor | None, rows: tf.Tensor) -> tf.Tensor:
        """The token of the target language of each row, [N] int32; that of any language for unknown codes."""
        assert self.languages is not None
        if target is None:
            return tf.fill(tf.shape(rows), self.languages.tokens[self.languages.check("target", self.target)])
        codes = self.languages.targets
        places = tf.argmax(tf.cast(target[:, None] == tf.constant(codes), tf.int32), axis=1)
        return tf.gather(tf.constant([self.languages.tokens[code] for code in codes]), places)
