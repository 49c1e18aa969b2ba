"""What is known about TensorFlow's operators by their type: class, whether they compute, and whether they reuse a buffer.

Which kernels write into the buffer of an input is in tensorflow/core/kernels (calls of `forward_input_or_allocate_output` in
cwise_ops_common.h, bias_op.cc, softmax_op_gpu.cu.cc, aggregate_ops.cc) and tensorflow/core/framework/numeric_op.h.
"""

from __future__ import annotations

from gpuproof.trace import document

_KINDS = {
    document.GEMM: "MatMul SparseMatMul _FusedMatMul",
    document.BMM: "BatchMatMul BatchMatMulV2 BatchMatMulV3 Einsum",
    document.ATTENTION: "_FusedMHA",
    document.CONV: """Conv1D Conv2D Conv2DBackpropInput Conv2DBackpropInputV2 Conv2DBackpropFilter Conv2DBackpropFilterV2 Conv3D
        Conv3DBackpropInputV2 Conv3DBackpropFilterV2 CudnnRNN CudnnRNNV2 CudnnRNNV3 CudnnRNNBackprop CudnnRNNBackpropV2
        CudnnRNNBackpropV3""",
    document.DEPTHWISE_CONV: """DepthwiseConv2dNative DepthwiseConv2dNativeBackpropInput
        DepthwiseConv2dNativeBackpropFilter""",
    document.NORM: """FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 FusedBatchNormGrad FusedBatchNormGradV2
        FusedBatchNormGradV3 _FusedBatchNormEx LRN LRNGrad""",
    document.SOFTMAX: "Softmax LogSoftmax SparseSoftmaxCrossEntropyWithLogits SoftmaxCrossEntropyWithLogits",
    document.REDUCTION: """Sum Mean Max Min Prod All Any ArgMax ArgMin BiasAddGrad L2Loss EuclideanNorm Cumsum Cumprod TopK
        TopKV2 InTopKV2 Bincount DenseBincount""",
    document.POOL: """MaxPool MaxPoolV2 MaxPoolGrad MaxPoolGradV2 MaxPoolGradGrad AvgPool AvgPoolGrad MaxPool3D MaxPool3DGrad
        AvgPool3D AvgPool3DGrad MaxPoolWithArgmax ResizeBilinear ResizeBilinearGrad ResizeNearestNeighbor
        ResizeNearestNeighborGrad ResizeBicubic ResizeBicubicGrad CropAndResize CropAndResizeGradImage
        CropAndResizeGradBoxes""",
    document.INDEX: """Gather GatherV2 GatherNd ResourceGather ResourceGatherNd ScatterNd TensorScatterAdd TensorScatterUpdate
        TensorScatterSub UnsortedSegmentSum UnsortedSegmentMean UnsortedSegmentMax SegmentSum SegmentSumV2 SegmentMean
        ResourceScatterAdd ResourceScatterSub ResourceScatterUpdate ResourceScatterNdAdd ResourceScatterNdUpdate OneHot Where
        Unique UniqueV2 UniqueWithCounts NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5
        CombinedNonMaxSuppression SparseSegmentSum SparseSegmentMean SparseSegmentSumGrad DynamicPartition DynamicStitch
        ParallelDynamicStitch SparseToDense""",
    document.COLLECTIVE: "CollectiveReduce CollectiveReduceV2 CollectiveReduceV3 CollectiveGather NcclAllReduce",
    document.OTHER: "Qr Svd Cholesky MatrixInverse MatrixSolve Eig FFT FFT2D RFFT RFFT2D IRFFT IRFFT2D CTCLoss CTCLossV2",
}
KINDS = {operator: kind for kind, operators in _KINDS.items() for operator in operators.split()}
"""Classes of `document.CLASSES`; operators that are not listed are elementwise."""

ALIASES = frozenset(
    """Reshape Identity Squeeze ExpandDims StopGradient PreventGradient Snapshot IdentityN CheckNumerics Bitcast EnsureShape
    PlaceholderWithDefault _Arg _Retval ReadVariableOp Copy Print PrintV2 ShardedFilename""".split()
)
"""Operators whose outputs are the buffers of their inputs, in the same order."""

NO_KERNEL = frozenset(
    """Shape ShapeN Size Rank Const NoOp Placeholder VarHandleOp VarIsInitializedOp VariableShape TensorListLength
    TensorListElementShape BroadcastGradientArgs BroadcastArgs Assert StringFormat ConcatOffset InvertPermutation
    TensorListReserve EmptyTensorList TensorListPushBack TensorListPopBack TensorListFromTensor TensorListSetItem
    TensorListGetItem IteratorGetNext OptionalGetValue OptionalFromValue While StatelessWhile""".split()
)
"""Operators that launch no kernel of their own: shapes, constants, lists and checks, which are in the memory of the host."""

FORWARDING = frozenset(
    """Abs Acos Acosh Add AddN AddV2 Asin Asinh Atan Atanh BiasAdd BroadcastTo Cast Ceil ClipByValue Conj Cos Cosh Digamma Div
    DivNoNan Elu EluGrad Erf Erfc Erfinv Exp Expm1 Floor FloorDiv FloorMod GeluGrad Gelu Inv InvGrad IsFinite LeakyRelu
    LeakyReluGrad Lgamma Log Log1p LogSoftmax LogicalAnd LogicalNot LogicalOr Maximum Minimum Mod Mul MulNoNan Neg Pow RealDiv
    Reciprocal ReciprocalGrad Relu Relu6 Relu6Grad ReluGrad Rint Round Rsqrt RsqrtGrad Select SelectV2 Selu SeluGrad Sigmoid
    SigmoidGrad Sign Sin Sinh Softmax Softplus SoftplusGrad Softsign SoftsignGrad Sqrt SqrtGrad Square SquaredDifference Sub Tan
    Tanh TanhGrad Xdivy Xlogy Xlog1py ZerosLike OnesLike""".split()
)
"""Operators that write into the buffer of an input with the same shape and type that nothing else needs."""


def kind_of(operator: str) -> str:
    """The class of an operator type."""
    if operator.startswith(("ResourceApply", "ResourceSparseApply")):
        return document.OPTIMIZER
    return KINDS.get(operator, document.ELEMENTWISE)
