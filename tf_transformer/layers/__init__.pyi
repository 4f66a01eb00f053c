from ._attention import combine_masks as combine_masks
from ._attention import padding_mask as padding_mask
from ._attention import scaled_dot_product_attention as scaled_dot_product_attention
from ._attention import segment_mask as segment_mask
from ._block import BLOCK_ARGUMENTS as BLOCK_ARGUMENTS
from ._blockwise_attention import blockwise_attention as blockwise_attention
from ._decoder import Decoder as Decoder
from ._decoder import DecoderLayer as DecoderLayer
from ._dropout import Dropout as Dropout
from ._embedding import SharedEmbedding as SharedEmbedding
from ._encoder import Encoder as Encoder
from ._encoder import EncoderLayer as EncoderLayer
from ._feed_forward import FeedForward as FeedForward
from ._multi_head_attention import MultiHeadAttention as MultiHeadAttention
from ._position import POSITIONAL_ENCODINGS as POSITIONAL_ENCODINGS
from ._position import PositionalEncoding as PositionalEncoding
from ._position import sinusoidal_encoding as sinusoidal_encoding
from ._projection import Projection as Projection
from ._projection import inference_layout as inference_layout
from ._ssru import SSRU as SSRU

__all__ = [
    "BLOCK_ARGUMENTS",
    "POSITIONAL_ENCODINGS",
    "SSRU",
    "Decoder",
    "DecoderLayer",
    "Dropout",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "MultiHeadAttention",
    "PositionalEncoding",
    "Projection",
    "SharedEmbedding",
    "blockwise_attention",
    "combine_masks",
    "inference_layout",
    "padding_mask",
    "scaled_dot_product_attention",
    "segment_mask",
    "sinusoidal_encoding",
]
