/* dispatch/registry/keys.c: the enum's order, sets and their algebra, priorities, keys of tensors.
 */
#include "tests/dispatch/dispatch_test.h"

/* DSP-2, DSP-9: functionalities, then per backend the runtime keys, then aliases; and there and
 * back between runtime keys and their two parts. */
START_TEST(test_order)
{
    ck_assert_int_eq(TD_KEY_Undefined, 0);
    ck_assert_int_eq(TD_KEY_CatchAll, TD_KEY_Undefined);
    ck_assert_int_eq(td_key_find("CatchAll"), TD_KEY_Undefined);
    ck_assert_int_eq(TD_KEY_DenseCPU, TD_KEY_CPU);
    ck_assert_int_eq(td_key_find("DenseCPU"), TD_KEY_CPU);
    ck_assert_int_eq(td_key_find("DenseCUDA"), TD_KEY_CUDA);
    ck_assert_int_eq(td_key_find("DenseX"), TD_KEYS);
    ck_assert_int_lt(TD_KEY_TESTING_ONLY_GenericMode, TD_KEY_EndOfFunctionalityKeys);
    ck_assert_int_lt(TD_KEY_EndOfFunctionalityKeys, TD_KEY_CPU);
    ck_assert_int_lt(TD_KEY_AutogradMeta, TD_KEY_EndOfRuntimeBackendKeys);
    ck_assert_int_lt(TD_KEY_EndOfRuntimeBackendKeys, TD_KEY_CompositeImplicitAutograd);
    for (int f = 1; f < TD_KEY_EndOfFunctionalityKeys; f++)
        for (int b = 1; b < TD_BACKENDS_END; b++) {
            enum td_key key = td_key_runtime((enum td_key)f, (enum td_backend)b);
            ck_assert_int_eq(td_key_functionality(key), f);
            ck_assert_int_eq(td_key_backend(key), td_key_per_backend((enum td_key)f) ? b : 0);
        }
    ck_assert_int_eq(td_key_runtime(TD_KEY_Sparse, TD_BACKEND_XLA), TD_KEY_SparseXLA);
    ck_assert_int_eq(td_key_runtime(TD_KEY_Dense, TD_BACKEND_none), TD_KEY_Undefined);
}
END_TEST

/* DSP-3: the order is meaning: each functionality goes before those listed before it. */
START_TEST(test_priority_of_functionalities)
{
    for (int a = 1; a < TD_KEY_EndOfFunctionalityKeys; a++)
        for (int b = 1; b < a; b++) {
            td_keyset keys = td_keyset_of((enum td_key)a) | td_keyset_of((enum td_key)b) |
                             td_keyset_of(TD_KEY_CPU);
            ck_assert_int_eq(td_key_functionality(td_keyset_highest(keys)), a);
        }
    ck_assert_int_lt(TD_KEY_Dense, TD_KEY_BackendSelect);
    ck_assert_int_lt(TD_KEY_AutogradFunctionality, TD_KEY_Tracer);
    ck_assert_int_lt(TD_KEY_Tracer, TD_KEY_AutocastCPU);
}
END_TEST

/* DSP-5, DSP-6: the bits, and the four ways to make a set of one key. */
START_TEST(test_one_key)
{
    ck_assert_uint_eq(td_keyset_of(TD_KEY_Undefined), 0);
    ck_assert_uint_eq(td_keyset_of(TD_KEY_CompositeImplicitAutograd), 0);
    ck_assert_uint_eq(td_keyset_of(TD_KEY_Tracer), UINT64_C(1)
                                                       << (TD_BACKENDS + TD_KEY_Tracer - 1));
    ck_assert_uint_eq(td_keyset_of(TD_KEY_Dense), UINT64_C(1) << TD_BACKENDS);
    ck_assert_uint_eq(td_keyset_of(TD_KEY_CPU), UINT64_C(1) << TD_BACKENDS | 1);
    ck_assert_uint_eq(td_keyset_of(TD_KEY_SparseCUDA),
                      UINT64_C(1) << (TD_BACKENDS + TD_KEY_Sparse - 1) | 2);
}
END_TEST

static td_keyset random_set(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005 + 1442695040888963407;
    return (*seed >> 20 ^ *seed << 17) & TD_KEYSET_FULL;
}

/* DSP-7: the algebra, on random sets. */
START_TEST(test_algebra)
{
    uint64_t seed = 7;
    for (int i = 0; i < 500; i++) {
        td_keyset a = random_set(&seed), b = random_set(&seed);
        td_keyset minus = td_keyset_minus(a, b);
        ck_assert_uint_eq(minus & TD_KEYSET_BACKENDS, a & TD_KEYSET_BACKENDS);
        ck_assert_uint_eq((minus & b) & ~TD_KEYSET_BACKENDS, 0);
        ck_assert_uint_eq(minus | (a & b), a);
        for (int k = 1; k < TD_KEY_EndOfRuntimeBackendKeys; k += 1 + i % 5) {
            enum td_key key = (enum td_key)k;
            td_keyset one = td_keyset_of(key);
            if (!one)
                continue;
            ck_assert(td_keyset_has(a | one, key));
            ck_assert_int_eq(td_keyset_has(a, key), (a & one) == one);
            ck_assert(!td_keyset_has(td_keyset_minus(a, one), key));
            td_keyset below = td_keyset_below(key), bit = td_keyset_of(td_key_functionality(key));
            ck_assert_uint_eq(below & TD_KEYSET_BACKENDS, TD_KEYSET_BACKENDS);
            ck_assert_uint_eq(below & ~TD_KEYSET_BACKENDS, (bit - 1) & ~TD_KEYSET_BACKENDS);
        }
    }
    ck_assert(!td_keyset_has(TD_KEYSET_FULL, TD_KEY_Undefined));
}
END_TEST

/* DSP-7: iterating gives the cross product of backends and per-backend functionalities. */
START_TEST(test_iteration)
{
    td_keyset keys =
        td_keyset_of(TD_KEY_CPU) | td_keyset_of(TD_KEY_SparseCUDA) | td_keyset_of(TD_KEY_Tracer);
    const enum td_key want[] = {TD_KEY_CPU,        TD_KEY_CUDA,   TD_KEY_SparseCPU,
                                TD_KEY_SparseCUDA, TD_KEY_Tracer, TD_KEY_Undefined};
    enum td_key at = TD_KEY_Undefined;
    for (int i = 0; i < 6; i++) {
        at = td_keyset_next(keys, at);
        ck_assert_int_eq(at, want[i]);
    }
}
END_TEST

/* DSP-8: the highest functionality, then the highest backend; every key has its own place. */
START_TEST(test_highest)
{
    ck_assert_int_eq(td_keyset_highest(td_keyset_of(TD_KEY_CPU) | td_keyset_of(TD_KEY_CUDA)),
                     TD_KEY_CUDA);
    ck_assert_int_eq(td_keyset_highest(td_keyset_of(TD_KEY_CPU) | td_keyset_of(TD_KEY_AutogradCPU)),
                     TD_KEY_AutogradCPU);
    ck_assert_int_eq(td_keyset_highest(0), TD_KEY_Undefined);
    ck_assert_int_eq(td_keyset_index(0), 0);
    ck_assert_int_eq(td_keyset_index(td_keyset_of(TD_KEY_Sparse)), 0); /* on no backend */
    bool taken[TD_TABLE_SIZE] = {false};
    for (int i = 1; i < TD_TABLE_SIZE; i++) {
        enum td_key key = td_key_at(i);
        ck_assert_int_eq(td_key_index(key), i);
        ck_assert_int_eq(td_keyset_highest(td_keyset_of(key)), key);
        ck_assert(!taken[i]);
        taken[i] = true;
    }
    ck_assert_int_eq(TD_TABLE_SIZE, 1 + 8 + 5 * TD_BACKENDS);
}
END_TEST

/* DSP-4, DSP-38: few enough for a word; one backend has a name of its own. */
START_TEST(test_backends)
{
    start();
    ck_assert_int_le(TD_BACKENDS, 16);
    ck_assert_int_le(TD_BACKENDS + TD_FUNCTIONALITIES, 64);
    ck_assert_str_eq(td_key_name(TD_KEY_PrivateUse1), "RefCPU");
    ck_assert_str_eq(td_key_name(TD_KEY_AutogradPrivateUse1), "AutogradRefCPU");
    ck_assert_int_eq(td_key_find("AutogradRefCPU"), TD_KEY_AutogradPrivateUse1);
    ck_assert_int_eq(td_key_find("SparsePrivateUse1"), TD_KEY_SparsePrivateUse1);
    ck_assert_int_eq(td_backend_find("refcpu"), TD_BACKEND_PrivateUse1);
    ck_assert_int_eq(td_backend_rename(TD_BACKEND_CPU, "mine"), -EINVAL);
    ck_assert_int_eq(td_backend_rename(TD_BACKEND_PrivateUse2, ""), -EINVAL);
    ck_assert_int_eq(td_backend_rename(TD_BACKEND_PrivateUse2, "Mine"), 0);
    ck_assert_str_eq(td_key_name(TD_KEY_QuantizedPrivateUse2), "QuantizedMine");
    ck_assert_str_eq(td_key_name(TD_KEY_PrivateUse1), "RefCPU");
}
END_TEST

START_TEST(test_names)
{
    for (int k = 0; k < TD_KEYS; k++)
        if (k != TD_KEY_EndOfFunctionalityKeys && k != TD_KEY_EndOfRuntimeBackendKeys)
            ck_assert_int_eq(td_key_find(td_key_name((enum td_key)k)), k);
    ck_assert_int_eq(td_key_find("nosuch"), TD_KEYS);
    ck_assert_int_eq(td_key_find(""), TD_KEYS);
    ck_assert(td_key_is_alias(TD_KEY_Autograd) && !td_key_is_alias(TD_KEY_AutogradCPU));
}
END_TEST

/* DSP-10, DSP-11, DSP-41: from what a client says of a tensor to its key. */
START_TEST(test_compute_key)
{
    static const struct {
        const char *dtype, *layout, *device;
        int error;
        enum td_key key;
    } cases[] = {
        {NULL, NULL, NULL, 0, TD_KEY_CPU},
        {"FP16", "strided", "cpu", 0, TD_KEY_CPU},
        {"quint8", "strided", "cpu", 0, TD_KEY_QuantizedCPU},
        {"qint8", NULL, "cuda", 0, TD_KEY_QuantizedCUDA},
        {"float32", "sparse_coo", "cpu", 0, TD_KEY_SparseCPU},
        {"float32", "sparse_csr", "xpu", 0, TD_KEY_SparseCsrXPU},
        {"float32", "_mkldnn", "cpu", 0, TD_KEY_MkldnnCPU},
        {"float32", "_mkldnn", "cuda", -EINVAL, TD_KEY_Undefined},
        {"int64", NULL, "meta", 0, TD_KEY_Meta},
        {"int64", NULL, "mps", 0, TD_KEY_MPS},
        {"int64", NULL, "hip", 0, TD_KEY_HIP},
        {"int64", NULL, "RefCPU", 0, TD_KEY_PrivateUse1},
        {"int64", NULL, "REFCPU", 0, TD_KEY_PrivateUse1},
        {"int64", NULL, "Cuda", 0, TD_KEY_CUDA},
        {"int64", NULL, "XLA", 0, TD_KEY_XLA},
        {"int64", NULL, "cpu:0", 0, TD_KEY_CPU},
        {"int64", NULL, "cuda:12", 0, TD_KEY_CUDA},
        {"int64", NULL, "refcpu:0", 0, TD_KEY_PrivateUse1},
        {"int64", NULL, "vulkan", -ENOSYS, TD_KEY_Undefined},
        {"int64", NULL, "vulkan:0", -ENOSYS, TD_KEY_Undefined},
        {"int64", NULL, "cuda:", -EINVAL, TD_KEY_Undefined},
        {"int64", NULL, "cuda:-1", -EINVAL, TD_KEY_Undefined},
        {"int64", NULL, "cuda:1x", -EINVAL, TD_KEY_Undefined},
        {"int64", NULL, ":0", -EINVAL, TD_KEY_Undefined},
        {"int64", NULL, "Metal", -ENOSYS, TD_KEY_Undefined},
        {"int65", NULL, NULL, -EINVAL, TD_KEY_Undefined},
        {NULL, "jagged", NULL, -EINVAL, TD_KEY_Undefined},
        {NULL, NULL, "tpu", -EINVAL, TD_KEY_Undefined},
    };
    start();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct td_problem problem = {0};
        enum td_key key = TD_KEY_Undefined;
        int err = td_compute_key(&key, cases[i].dtype, cases[i].layout, cases[i].device, &problem);
        ck_assert_msg(err == cases[i].error && key == cases[i].key, "case %zu: %s", i,
                      problem.text);
        ck_assert_int_eq(err != 0, *problem.text != 0);
        ck_assert(td_key_functionality(key) != TD_KEY_AutogradFunctionality);
        if (cases[i].layout && cases[i].device && err) { /* the pair is named */
            ck_assert_ptr_nonnull(strstr(problem.text, cases[i].layout));
            ck_assert_ptr_nonnull(strstr(problem.text, cases[i].device));
        }
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_order,      test_priority_of_functionalities,
                                  test_one_key,    test_algebra,
                                  test_iteration,  test_highest,
                                  test_backends,   test_names,
                                  test_compute_key};
    return td_run_tests("keys", tests, sizeof tests / sizeof *tests);
}
