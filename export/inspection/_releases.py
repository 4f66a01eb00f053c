"""First release of TensorFlow Serving per op: the tables that `inspect` compares a SavedModel with.

A server carries the ops of the TensorFlow of its own number. Which TensorFlow brought an op was found by
comparing the registries of the wheels of 2.12.1 to 2.21.0. Of the ops that TensorFlow marks with an underscore as its
own, only the two that exports have are listed: oneDNN's for int8 and for packed weights. tensorflow-text is linked into
the server: in the form of 2.12.1 up to server 2.19.1, in the form of 2.20.0 since then.

A NodeDef attribute that a server does not know is logged and ignored (seen with the C++ loader of 2.12.1), so
only attributes whose value changes the answer are listed.
"""

# The releases that were checked. Older servers may load an export too.
RELEASES = (
    *("2.12.1", "2.12.2", "2.13.0", "2.13.1", "2.14.0", "2.14.1", "2.15.1", "2.16.1"),
    *("2.17.0", "2.17.1", "2.18.0", "2.18.1", "2.19.0", "2.19.1", "2.20.0"),
)

# The GraphDef version of each TensorFlow: a graph whose `min_consumer` is above it is rejected.
GRAPH_VERSIONS = {
    "2.12": 1395,
    "2.13": 1482,
    "2.14": 1575,
    "2.15": 1645,
    "2.16": 1766,
    "2.17": 1882,
    "2.18": 1994,
    "2.19": 2129,
    "2.20": 2288,
}

_TEXT_OPS = {
    "2.12.1": """
        CaseFoldUTF8 ConstrainedSequence FastBertNormalize FastWordpieceTokenizeWithOffsets FindSourceOffsets
        MaxSpanningTree NormalizeUTF8 NormalizeUTF8WithOffsetsMap PhraseTokenize RegexSplitWithOffsets RougeL
        SentenceFragments SentenceFragmentsV2 SentencepieceDetokenizeOp SentencepieceIdToStringOp SentencepieceOp
        SentencepieceStringToIdOp SentencepieceTokenizeOp SentencepieceTokenizeWithOffsetsOp
        SentencepieceVocabSizeOp SplitMergeTokenizeWithOffsets TFText>BoiseTagsToOffsets
        TFText>ByteSplitByOffsets TFText>ByteSplitWithOffsets TFText>FastSentencepieceDetokenize
        TFText>FastSentencepieceTokenize TFText>FastWordpieceDetokenize TFText>NgramsStringJoin
        TFText>OffsetsToBoiseTags TFText>PhraseDetokenize TFText>WhitespaceTokenizeWithOffsetsV2
        TokenizerFromLogits UnicodeScriptTokenizeWithOffsets WhitespaceTokenizeWithOffsets
        WordpieceTokenizeWithOffsets""",
    "2.20.0": "TFText>RoundRobinGenerateMasks TFText>RoundRobinTrim TFText>Utf8Binarize",
}

_NEW_CORE_OPS = {
    "2.13.0": """
        CollectiveAllToAllV2 DTensorAllToAll DebugIdentityV3 RaggedFillEmptyRows RaggedFillEmptyRowsGrad
        RelayoutGrad SegmentMaxV2 SegmentMinV2 SnapshotChunkDataset StochasticCastToInt XlaLaunchV2""",
    "2.14.0": """
        Conv RelayoutLike SparseSegmentMeanGradV2 SparseSegmentSqrtNGradV2 SparseSegmentSumGradV2
        TFRecordDatasetV2""",
    "2.15.1": "DumpTensor DynamicEnqueueTPUEmbeddingRaggedTensorBatch FFTND IFFTND IRFFTND RFFTND",
    "2.16.1": """
        ComputeDedupDataSize ConvertToCooTensor DatasetFingerprint GetMinibatchSplitsWithPhysicalReplica
        GetMinibatchesInCsrWithPhysicalReplica GlobalIterId ListSnapshotChunksDataset
        StoreMinibatchStatisticsInFdo TPUAnnotateTensorsWithDynamicShape TPUCopyWithDynamicShape""",
    "2.17.0": """
        CalibrationStatisticsSaver ComputeDedupDataSizeV2 ComputeDedupDataTupleMaskV2
        ConvertToListOfSparseCoreCooTensors ConvertToSparseCoreCsrWrappedCooTensor FinalizeTPUEmbeddingV2
        GetStatsFromListOfSparseCoreCooTensors GetTpuTaskId GlobalShuffleDataset IndexFlatMapDataset
        IteratorGetModelProto SortListOfSparseCoreCooTensors UpdateTaskIdAndGlobalCoreArray
        WeightedFlatMapDataset""",
    "2.18.0": "CheckPinned",
    "2.20.0": "DecodeWebP TPUDummyInput",
    "2.21.0": "DecodeJxl",
}

# For packed and int8 weights. The wheels of 2.12.1, 2.13.1, … 2.19.1, 2.20.0 and 2.21.0 for Linux on x86-64 register
# the first one with the same attributes and a float32 kernel labelled MklNameChangeOp (TF_GetRegisteredKernelsForOp).
_ONEDNN_OPS = {"2.12.1": "_MklNativeFusedMatMul", "2.17.0": "_QuantizedMatMul"}

_MEANINGFUL_ATTRIBUTES = {
    "2.13.0": "TopKV2.index_type TensorListSetItem.resize_if_index_out_of_bounds",
    "2.14.0": "ConcatOffset.shape_type",
    "2.17.0": "GatherNd.bad_indices_policy",
    "2.18.0": """
        ScatterNd.bad_indices_policy TensorScatterUpdate.bad_indices_policy TensorScatterAdd.bad_indices_policy
        TensorScatterSub.bad_indices_policy TensorScatterMax.bad_indices_policy
        TensorScatterMin.bad_indices_policy""",
    "2.21.0": "TensorListGetItem.Tshape",
}


def _by_name(table: dict[str, str]) -> dict[str, str]:
    return {name: release for release, names in table.items() for name in names.split()}


TEXT_OPS = _by_name(_TEXT_OPS)
FIRST_RELEASE = {**TEXT_OPS, **_by_name(_NEW_CORE_OPS), **_by_name(_ONEDNN_OPS)}
FIRST_RELEASE_OF_ATTRIBUTE = _by_name(_MEANINGFUL_ATTRIBUTES)


def releases_from(first: str) -> list[str]:
    """The known releases that are `first` or later."""
    return [release for release in RELEASES if _number(release) >= _number(first)]


def later(one: str, other: str) -> str:
    """The later of two releases."""
    return max(one, other, key=_number)


def reads_graph_version(release: str, min_consumer: int) -> bool:
    """Return whether a server reads graphs that ask for readers of version `min_consumer`."""
    return GRAPH_VERSIONS[release.rpartition(".")[0]] >= min_consumer


def _number(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))
