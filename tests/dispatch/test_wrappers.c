/* Kernels that pass a call on: redispatch, scopes, falling through, Autocast, Tracer,
 * BackendSelect. */
#include "tests/dispatch/dispatch_test.h"

static float x[4] = {-1, 0, 1, 2}, y[4] = {4, 5, 6, 7}, out[4];

static int wrapped;

static int wrapper(struct td_run *run, td_keyset keys)
{
    wrapped++;
    return td_redispatch(run, keys & td_keyset_below(TD_KEY_TESTING_ONLY_GenericWrapper));
}

/* DSP-28, DSP-39: a wrapper passes the call on below itself, and results are as without it. */
START_TEST(test_redispatch)
{
    struct td_run run;
    struct td_named args[] = {tensor_arg("self", x, 4), tensor_arg("other", y, 4)};
    start();
    ck_assert_int_eq(register_key("", TD_KEY_TESTING_ONLY_GenericWrapper, wrapper), 0);
    args[0].keys = td_keyset_of(TD_KEY_CPU) | td_keyset_of(TD_KEY_TESTING_ONLY_GenericWrapper);
    ck_assert_int_eq(bind(&run, "mul", args, 2, NULL), 0);
    ck_assert_int_eq(wrapped, 1);
    ck_assert_int_eq(run.key, TD_KEY_CPU);
    execute(&run, out);
    ck_assert_float_eq(out[3], 14);
}
END_TEST

/* DSP-27: what the thread adds and takes away; scopes nest, and exclusion wins. */
START_TEST(test_scopes)
{
    struct td_run run;
    struct td_named args[] = {tensor_arg("self", x, 4)};
    td_keyset key = td_keyset_of(TD_KEY_TESTING_ONLY_GenericWrapper);
    start();
    ck_assert_int_eq(register_key("", TD_KEY_TESTING_ONLY_GenericWrapper, wrapper), 0);
    struct td_key_scope outer = td_keys_enter(key, 0);
    ck_assert_int_eq(bind(&run, "relu", args, 1, NULL), 0);
    ck_assert_int_eq(wrapped, 1);
    struct td_key_scope inner = td_keys_enter(key, key);
    ck_assert_int_eq(bind(&run, "relu", args, 1, NULL), 0);
    ck_assert_int_eq(wrapped, 1);
    td_keys_leave(inner);
    ck_assert_int_eq(bind(&run, "relu", args, 1, NULL), 0);
    ck_assert_int_eq(wrapped, 2);
    td_keys_leave(outer);
    ck_assert_int_eq(bind(&run, "relu", args, 1, NULL), 0);
    ck_assert_int_eq(wrapped, 2);
    /* Excluding takes a functionality away and leaves the backend, which others stand on. */
    outer = td_keys_enter(0, td_keyset_of(TD_KEY_AutogradCPU) | td_keyset_of(TD_KEY_SparseCPU));
    ck_assert_int_eq(bind(&run, "relu", args, 1, NULL), 0);
    ck_assert_int_eq(run.key, TD_KEY_CPU);
    td_keys_leave(outer);
}
END_TEST

/* DSP-20: falling through is no call, not even a line of the trace. */
START_TEST(test_fallthrough)
{
    struct td_run run;
    struct td_trace trace = {0};
    struct td_named args[] = {tensor_arg("self", x, 4)};
    start();
    args[0].keys = td_keyset_of(TD_KEY_CPU) | td_keyset_of(TD_KEY_AutogradCPU) |
                   td_keyset_of(TD_KEY_AutocastCPU) | td_keyset_of(TD_KEY_ADInplaceOrView);
    ck_assert_int_eq(bind(&run, "isnan", args, 1, &trace), 0);
    ck_assert_int_eq(trace.n, 1);
    ck_assert_int_eq(trace.line[0].key, TD_KEY_CPU);
    ck_assert_ptr_null(run.derivative);
}
END_TEST

/* DSP-12, DSP-28, DSP-36: what requires a gradient reaches the autograd kernel first; it records
 * what a backward needs and redispatches to the backend, from any of them. */
START_TEST(test_autograd)
{
    static const enum td_key backends[] = {TD_KEY_CPU, TD_KEY_PrivateUse1, TD_KEY_Meta};
    struct td_named args[] = {tensor_arg("self", x, 4), tensor_arg("other", y, 4)};
    start();
    for (int i = 0; i < 3; i++) {
        struct td_run run;
        struct td_trace trace = {0};
        enum td_key key = td_key_runtime(TD_KEY_AutogradFunctionality, td_key_backend(backends[i]));
        args[0].keys = args[1].keys = td_keyset_of(backends[i]);
        ck_assert_int_eq(bind(&run, "mul", args, 2, NULL), 0);
        ck_assert_ptr_null(run.derivative);
        args[1].keys |= td_keyset_of(key); /* one of the arguments is enough */
        ck_assert_int_eq(bind(&run, "mul", args, 2, &trace), 0);
        ck_assert_int_eq(trace.n, 2);
        ck_assert(trace.line[0].key == key && !trace.line[0].redispatch);
        ck_assert(trace.line[1].key == backends[i] && trace.line[1].redispatch);
        ck_assert_int_eq(run.key, backends[i]);
        const struct td_derivative *d = run.derivative;
        ck_assert_str_eq(d->arg, "self");
        ck_assert_str_eq(td_derivative_next(d)->arg, "other");
        ck_assert_ptr_null(td_derivative_next(td_derivative_next(d)));
        ck_assert(td_derivative_needs(d, "self") && td_derivative_needs(d, "other"));
        ck_assert(!td_derivative_needs(d, "result") && !td_derivative_needs(d, "mul"));
        struct td_key_scope before = td_keys_enter(0, td_keyset_of(key));
        ck_assert_int_eq(bind(&run, "mul", args, 2, NULL), 0);
        td_keys_leave(before);
        ck_assert_ptr_null(run.derivative);
        ck_assert_int_eq(run.key, backends[i]);
    }
}
END_TEST

/* DSP-28: Autocast runs its list in the short type, and nothing else. */
START_TEST(test_autocast)
{
    struct td_run run;
    float m[4] = {1, 2, 3, 4};
    uint16_t result[4];
    struct td_named args[] = {tensor_arg("self", m, 4), tensor_arg("other", m, 4)};
    struct td_options options = {.autocast = TD_bf16, .alloc = heap};
    start();
    for (int i = 0; i < 2; i++) {
        args[i].value.tensor.rank = 2;
        args[i].value.tensor.shape[0] = args[i].value.tensor.shape[1] = 2;
    }
    struct td_key_scope before = td_keys_enter(td_keyset_of(TD_KEY_AutocastCPU), 0);
    ck_assert_int_eq(td_run_bind(&run, "matmul", args, 2, &options), 0);
    ck_assert_int_eq(run.call.out[0].dtype, TD_bf16);
    ck_assert_int_eq(run.n_casts, 2);
    execute(&run, result);
    ck_assert_uint_eq(result[0], 0x40e0); /* 7 */
    ck_assert_int_eq(td_run_bind(&run, "add", args, 2, &options), 0);
    ck_assert_int_eq(run.call.out[0].dtype, TD_f32);
    args[0].value.tensor.dtype = args[1].value.tensor.dtype = TD_f64; /* stays */
    double wide[4] = {1, 2, 3, 4};
    args[0].value.tensor.data = args[1].value.tensor.data = wide;
    ck_assert_int_eq(td_run_bind(&run, "matmul", args, 2, &options), 0);
    ck_assert_int_eq(run.call.out[0].dtype, TD_f64);
    td_keys_leave(before);
    ck_assert_int_eq(td_run_bind(&run, "matmul", args, 2, &options), 0);
    ck_assert_int_eq(run.n_casts, 0);
}
END_TEST

/* What autocast does with each operator: PyTorch's lists for CPUs (AutocastCPU in its
 * autocast_mode.cpp, 2.x), of which the table has some, and ours, which PyTorch takes apart into
 * those: an operator on no list takes what it is given. */
static const char lower[] =
    " conv1d conv1d.padding conv2d conv2d.padding conv3d conv3d.padding bmm mm linalg_vecdot"
    " baddbmm addmm _addmm_activation addbmm linear _convolution.deprecated matmul conv_tbc"
    " mkldnn_rnn_layer conv_transpose1d conv_transpose2d.input conv_transpose3d.input prelu"
    " scaled_dot_product_attention _native_multi_head_attention"
    " einsum convolution linear_pointwise dense conv2d_channels_last ";
static const char fp32[] =
    " avg_pool3d binary_cross_entropy grid_sampler polar prod prod.dim_int quantile quantile.scalar"
    " nanquantile nanquantile.scalar stft stft.center cdist grid_sampler_2d"
    " _grid_sampler_2d_cpu_fallback grid_sampler_3d trace view_as_complex cholesky cholesky_inverse"
    " cholesky_solve inverse lu_solve orgqr ormqr pinverse max_pool3d max_unpool2d max_unpool3d"
    " adaptive_avg_pool3d reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d"
    " replication_pad3d mse_loss cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss"
    " poisson_nll_loss smooth_l1_loss cross_entropy_loss l1_loss huber_loss margin_ranking_loss"
    " soft_margin_loss triplet_margin_loss multi_margin_loss ctc_loss.IntList ctc_loss.Tensor "
    "kl_div"
    " multilabel_margin_loss binary_cross_entropy_with_logits fft_fft fft_ifft fft_fft2 fft_ifft2"
    " fft_fftn fft_ifftn fft_rfft fft_irfft fft_rfft2 fft_irfft2 fft_rfftn fft_irfftn fft_hfft"
    " fft_ihfft linalg_cond linalg_cond.p_str linalg_matrix_rank linalg_matrix_rank.tol_tensor"
    " linalg_matrix_rank.atol_rtol_tensor linalg_matrix_rank.atol_rtol_float linalg_solve"
    " linalg_cholesky linalg_svdvals linalg_eigvals linalg_eigvalsh linalg_inv"
    " linalg_householder_product linalg_tensorinv linalg_tensorsolve"
    " fake_quantize_per_tensor_affine geqrf _lu_with_info qr svd triangular_solve"
    " fractional_max_pool2d fractional_max_pool3d adaptive_max_pool3d"
    " multilabel_margin_loss_forward linalg_qr linalg_cholesky_ex linalg_svd linalg_eig linalg_eigh"
    " linalg_lstsq linalg_inv_ex"
    " linear_scaled dense_scaled "; /* which PyTorch has not */
static const char widest[] = " stack cat index_copy ";

static bool lists(const char *names, const char *op)
{
    char word[128];
    snprintf(word, sizeof word, " %s ", op);
    return strstr(names, word);
}

/* DSP-28: each overload of the table is on the list that PyTorch has it on, or on none. */
START_TEST(test_autocast_lists)
{
    start();
    int listed = 0;
    for (int i = 0; i < td_registry_count(); i++) {
        const struct td_handle *h = td_registry_at(i);
        const char *want = lists(lower, h->full)    ? "lower"
                           : lists(fp32, h->full)   ? "fp32"
                           : lists(widest, h->full) ? "widest"
                                                    : "none";
        const char *policy = td_autocast_policy(h);
        ck_assert_msg(!strcmp(policy ? policy : "none", want), "%s: %s, not %s", h->full,
                      policy ? policy : "none", want);
        const struct td_entry *entry = &td_handle_table(h)->entry[td_key_index(TD_KEY_AutocastCPU)];
        ck_assert_msg(entry->fallthrough == !policy, "%s", h->full);
        listed += policy != NULL;
    }
    ck_assert_int_gt(listed, 30); /* as many as the table has */
}
END_TEST

/* DSP-32: the lines. */
START_TEST(test_trace)
{
    struct td_run run;
    struct td_trace trace = {0};
    char line[256];
    struct td_named args[] = {tensor_arg("self", x, 4)};
    start();
    struct td_key_scope before = td_keys_enter(td_keyset_of(TD_KEY_Tracer), 0);
    ck_assert_int_eq(bind(&run, "relu", args, 1, &trace), 0);
    td_keys_leave(before);
    ck_assert_int_eq(trace.n, 2);
    td_trace_format(&trace.line[0], line, sizeof line);
    ck_assert_str_eq(line, "[call] op=[aten::relu], key=[Tracer]");
    td_trace_format(&trace.line[1], line, sizeof line);
    ck_assert_str_eq(line, "  [redispatch] op=[aten::relu], key=[CPU]");
    execute(&run, out);
    td_trace_format(&trace.line[1], line, sizeof line);
    ck_assert_ptr_nonnull(strstr(line, "kernel=["));
    size_t length = strlen(line);
    ck_assert_uint_eq(td_trace_format(&trace.line[1], line, 10), length);
    ck_assert_uint_eq(strlen(line), 9);
}
END_TEST

/* DSP-30: BackendSelect of the operators that make tensors: device and layout choose the key. */
START_TEST(test_backend_select)
{
    static const struct {
        const char *name, *value;
        int err;
        enum td_key key;
        const char *problem;
    } cases[] = {
        {"device", "cpu", 0, TD_KEY_CPU, ""},
        {"device", "refcpu", 0, TD_KEY_PrivateUse1, ""},
        {"device", "meta", 0, TD_KEY_Meta, ""},
        {"layout", "strided", 0, TD_KEY_CPU, ""},
        {"layout", "sparse_coo", -ENOSYS, TD_KEY_SparseCPU, "'SparseCPU'"},
        {"device", "cuda", -ENOSYS, TD_KEY_CUDA, "has kernels for: CPU, RefCPU, Meta"},
        {"device", "Vulkan", -ENOSYS, TD_KEY_BackendSelect, "nothing here computes on Vulkan"},
        {"device", "tpu", -EINVAL, TD_KEY_BackendSelect, "right are cpu, meta, RefCPU"},
    };
    struct td_named args[] = {
        {.name = "size", .value = {.kind = TD_KIND_ints, .ints = {.v = {2, 3}, .n = 2}}}, {0}};
    start();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct td_trace trace = {0};
        struct td_run run;
        args[1] = (struct td_named){.name = cases[i].name,
                                    .value = {.kind = TD_KIND_str, .str = cases[i].value}};
        ck_assert_int_eq(bind(&run, "zeros", args, 2, &trace), cases[i].err);
        ck_assert_int_eq(run.key, cases[i].key);
        ck_assert_ptr_nonnull(strstr(run.problem.text, cases[i].problem));
        ck_assert_int_eq(trace.line[0].key, TD_KEY_BackendSelect);
        ck_assert(!trace.line[0].redispatch);
        if (cases[i].err)
            continue;
        ck_assert_int_eq(trace.n, 2);
        ck_assert(trace.line[1].redispatch);
        ck_assert_int_eq(trace.line[1].key, cases[i].key);
        ck_assert_int_eq(run.call.out[0].shape[1], 3);
        ck_assert_int_eq(td_run_is_meta(&run), cases[i].key == TD_KEY_Meta);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_backend_select, test_redispatch, test_scopes,
                                  test_fallthrough,    test_autograd,   test_autocast,
                                  test_autocast_lists, test_trace};
    return td_run_tests("wrappers", tests, sizeof tests / sizeof *tests);
}
