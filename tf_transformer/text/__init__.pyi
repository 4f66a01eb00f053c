from ._language_tokens import LanguageTokens as LanguageTokens
from ._languages import LanguageError as LanguageError
from ._languages import Languages as Languages
from ._languages import tag_of as tag_of
from ._languages import two_letters as two_letters
from ._lines import MAX_LINE_BYTES as MAX_LINE_BYTES
from ._lines import LineTooLongError as LineTooLongError
from ._lines import as_cell as as_cell
from ._lines import as_line as as_line
from ._lines import chunks as chunks
from ._lines import read_lines as read_lines
from ._long_sentences import BYTES_PER_TOKEN as BYTES_PER_TOKEN
from ._long_sentences import split_long_sentences as split_long_sentences
from ._model_file import TokenizerError as TokenizerError
from ._model_file import check_model as check_model
from ._model_file import read_model_file as read_model_file
from ._piece_splits import piece_splits as piece_splits
from ._segmentation import Segmenter as Segmenter
from ._segmentation import Segments as Segments
from ._segmentation import join_segments as join_segments
from ._segmentation import normalize_text as normalize_text
from ._subtitles import Subtitles as Subtitles
from ._subwords import BOS_ID as BOS_ID
from ._subwords import EOS_ID as EOS_ID
from ._subwords import PAD_ID as PAD_ID
from ._subwords import UNK_ID as UNK_ID
from ._subwords import IdMap as IdMap
from ._subwords import Subwords as Subwords
from ._tokenizer import Tokenizer as Tokenizer
from ._tokenizer import TokenizerPair as TokenizerPair
from ._tokenizer import load_tokenizers as load_tokenizers
from ._tokenizer import save_tokenizers as save_tokenizers
from ._tokenizer import train_tokenizer as train_tokenizer
from ._vocabulary import Subsample as Subsample
from ._vocabulary import default_vocab_size as default_vocab_size
from ._vocabulary import limit_bytes as limit_bytes
from ._vocabulary import train_model as train_model
from ._words import Word as Word
from ._words import Words as Words
from ._words import split_words as split_words
from ._words import words_of as words_of

__all__ = [
    "BOS_ID",
    "BYTES_PER_TOKEN",
    "EOS_ID",
    "MAX_LINE_BYTES",
    "PAD_ID",
    "UNK_ID",
    "IdMap",
    "LanguageError",
    "LanguageTokens",
    "Languages",
    "LineTooLongError",
    "Segmenter",
    "Segments",
    "Subsample",
    "Subtitles",
    "Subwords",
    "Tokenizer",
    "TokenizerError",
    "TokenizerPair",
    "Word",
    "Words",
    "as_cell",
    "as_line",
    "check_model",
    "chunks",
    "default_vocab_size",
    "join_segments",
    "limit_bytes",
    "load_tokenizers",
    "normalize_text",
    "piece_splits",
    "read_lines",
    "read_model_file",
    "save_tokenizers",
    "split_long_sentences",
    "split_words",
    "tag_of",
    "train_model",
    "train_tokenizer",
    "two_letters",
    "words_of",
]
