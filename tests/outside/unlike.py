"""Where PyTorch's answers are not the service's, and why: by_torch.py fails on everything else."""
# What is to differ: overload and sentence, a pattern each, and why.
LISTED = [
    # refused here
    (".*", "beside .* an INT64 is right", "PyTorch lets a number beyond INT64 wrap round"),
    (".*\\.Scalar", "which no .* is", "PyTorch compares with what the number wraps round to: -3 is 253 to UINT8"),
    (".*_backward.*", "has shape|of one type|must have the dimensions|does not take|gradient for floating|sizes of input's"
     "|divisor|transposed|one for each|an output channel|as in the result", "a gradient has the shape and the real type of what it belongs to"),
    ("square|pow.*|nextafter|outer|ger|rand_like|randn_like|b?mm|mv|matmul|.*bmm|add.*|col2im|rnn.*|lstm.*|gru.*|_?[cp]dist.*|.*norm|scaled_dot.*"
     "|.*upsample.*|searchsorted.*|bucketize.*|grid_sampler.*|lu_unpack", "does not take",
     "types that PyTorch has for some shapes alone, as of a product of nothing, or without telling why"),
    (".*mm|mv|matmul|linear|einsum|conv.*|.*norm.*|baddbmm|index_put|scaled_dot.*|cat",
     "both must be of one type|, the first is|is right$|the same is right",
     "types are converted where PyTorch's documentation says so; it does by the way, as where nothing is multiplied"),
    (".*norm.*", "one number a channel", "PyTorch counts the weights of some types, and of others not"),
    ("rrelu|native_dropout|scaled_dot.*", "training|from 0 to 1|nothing is trained", "nothing is trained here"),
    ("linear", "one number for each row", "PyTorch lets a bias broadcast in some types"),
    ("scaled_dot.*", "rows, key has|broadcast|no multiple", "PyTorch takes values that are missing for 0"),
    ("linspace|logspace|rand.*", "not made by", "one number of a type of which there are no more"),
    ("adaptive.*", "only the batch may be|dimensions", "PyTorch looks at the shape after it has found no elements"),
    (".*embedding_bag.*", "include_last_offset|dimensions|INT32 or INT64|element",
     "PyTorch does not look at the last offset, nor at what is outside of all bags"),
    ("where.*", "BOOL is right", "PyTorch warns that this is not to stay"),
    ("index_fill.*", "without dimensions one is right", "PyTorch takes none as well"),
    ("grid_sampler.*", "_mode: is", "PyTorch takes any other number for the last mode"),
    (".*upsample.*", "does not make", "PyTorch follows a scale that contradicts the sizes"),
    ("pad", "come around", "PyTorch copies what it has not written yet"),
    ("lstm.*|gru.*|rnn.*", "(are|is) right", "PyTorch lets sizes broadcast that say how many layers there are"),
    ("_?pdist.*|native_group_norm", "two are right|0 and up|sizes of input's", "PyTorch judges this before, in pdist and group_norm"),
    ("histogram.*", "does not take", "PyTorch has other types where there is nothing to count"),
    ("topk", "of a single number 1 is right", "PyTorch gives one number for k of 0"),
    ("one_hot", "how many classes", "-1: the result's shape would follow from numbers"),
    ("index.*", "with a dimension is right", "a mask of no dimension adds one to the result in PyTorch"),
    ("view.dtype", "have another size than self's", "PyTorch shares the last dimension out among bytes"),
    (".*", "at most 8 are taken", "tensors have up to 8 dimensions here"),
    (".*", "at most 32 are given at once", "a call has up to 32 results here"),
    # other results
    ("gcd|lcm", "\\(lowest\\).*result 0:", "the lowest number of a type has no size in it"),
    (".*\\.Scalar", "\\(beyond\\).*result 0:", "a number beyond FP16 is an infinity, of the same sign, or not, by the machine"),
    ("sinc", "result 0:", "PyTorch rounds pi before it multiplies: sin(pi * 5) is not 0"),
    ("linalg_lu_factor_ex", "result 2:", "in FP64 the last pivot is 0 where rounding to FP32 leaves something"),
    (".*linalg.*", "check_errors", "kernels do not fail: info says what is wrong"),
    ("linalg_cholesky_ex", "result [01]: ", "where there is no such factor, or by a rounding, NaN says from where on; PyTorch leaves what it had got"),
    ("_linalg_(svd|eigh)", "result [012]: ", "a vector and its opposite are as good"),
    ("(special_)?polygamma", "result 0:", "PyTorch's trigamma has seven digits, and at whole numbers below 0 what rounding pi leaves"),
    ("special_zeta.*", "result 0: (0.0|nan|inf|-inf) at", "PyTorch multiplies 0 by an infinite self, and passes over a NaN where other is whole and not above 0"),
    ("(special_)?(modified_bessel_)?i[01]", "result 0: -?inf at", "PyTorch multiplies exp of an infinity by 0"),
    ("special_bessel_.*", "result 0:", "PyTorch's have nine digits in FP64, and it makes NaN of an infinity"),
    ("c?elu|index_add|logspace", "nan|True|result 0: 0", "0 times an infinite alpha, or one that is NaN"),
    ("threshold.*", "\\(UINT8\\).*result 0:", "the threshold wraps round: to UINT8 -1 is 255"),
    ("baddbmm|addm.*", "result 0:|result 0 is", "PyTorch leaves out a NaN alpha of no products, and the shape of no rows"),
    ("upsample_nearest2d", "result 0:", "PyTorch passes over a scale in planes, where sizes are equal or doubled, but not in lines"),
    ("_?upsample.*2d.*", "\\(UINT8\\).*result 0:", "PyTorch rounds the weights of UINT8 to 16 bits"),
    ("_upsample.*_aa.*", "\\(one wide\\).*result 0:", "PyTorch takes images of one column for such with the channels last"),
    ("(searchsorted|bucketize)\\.Scalar", "result 0:", "PyTorch lets the number wrap round, and makes 0 of NaN"),
    ("linspace|logspace", "result 0: .*", "whole numbers are cut from FP32 ones there"),
    ("einsum", "PyTorch's INT64", "it adds up one whole tensor by sum, which gives INT64, and several by a product, which does not"),
    (".*embedding_bag.*", "result [12] is \\[", "what ATen calls unused besides has another size by what code runs"),
    (".*norm.*", "inf|nan", "a variance that eps does not bring above 0"),
]
# Here PyTorch reads or writes beyond its tensors: it is not asked.
UNCHECKED = {"embedding_dense_backward", "take_along_dim"}
# Whole numbers made of real ones that none is like differ from one machine to the other.
CONVERTED = r"(nan)?sum.*|prod.*|cum(sum|prod)|to\..*|_to_copy|type_as|copy|.*_scatter|full.*|scalar_tensor|fill.*|arange.*"

# What one infinity or NaN among many numbers does depends on how they are added up and weighed: in what
# order, with weights of 0 or without, by Welford's or by Kahan's way. These are given finite numbers.
SUMS = r"var_mean|std_mean|.*norm|upsample|_upsample|grid_sampler|conv|scaled_dot|.*_backward|lstm|gru|rnn|col2im|_?[cp]dist.*|einsum|.*linalg.*|cholesky_solve"
SUMS += r"|mode$" # which sorts, and puts NaN anywhere
# Where numbers are equal PyTorch gives the place of any of them, in this result.
UNSTABLE = {"topk": 1, "kthvalue": 1, "median": 1, "nanmedian": 1, "mode": 1, "sort": 1, "argsort": 0}
# Of these only shape and type are told.
DRAWN = {"rand", "randn", "randint", "randperm", "rand_like", "randn_like", "empty", "empty_like", "empty_strided", "new_empty"}
