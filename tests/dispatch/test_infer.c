/* dispatch/graph/infer.c: results where sizes are unknown, by hand for some calls of every family,
 * and for all operators' samples by what their rules say of numbers. */
#include "dispatch/call/sample.h"
#include "tests/dispatch/dispatch_test.h"

static void *room; /* all of a call's, a list of blocks */

static void *take(void *arg, size_t bytes)
{
    void **block = malloc(bytes + 16);
    (void)arg;
    ck_assert_ptr_nonnull(block);
    *block = room;
    room = block;
    return (char *)block + 16;
}

static void give_back(void)
{
    for (void *next; room; room = next) {
        next = *(void **)room;
        free(room);
    }
}

static const struct td_options options = {.alloc = take};

/* ---- by hand ---- */

/* "x=[?,3]" as an argument: ? is any size, a letter the same one everywhere; ":i64" its type. */
static const char *read_argument(const char *p, struct td_named *arg, char *name)
{
    struct td_tensor *t = &arg->value.tensor;
    size_t n = strcspn(p, "=");
    memcpy(name, p, n);
    name[n] = 0;
    *arg = (struct td_named){name, {.kind = TD_KIND_tensor}, td_keyset_of(TD_KEY_Meta)};
    for (p += n + 2; *p != ']'; p += *p == ',') {
        char *end = (char *)p + 1;
        t->shape[t->rank++] = *p == '?'   ? TD_UNKNOWN
                              : *p >= 'A' ? TD_UNKNOWN - 1 - (*p - 'A')
                                          : strtoll(p, &end, 10);
        p = end;
    }
    p++;
    n = *p == ':' ? strcspn(p, " ") : 0;
    char type[16];
    snprintf(type, sizeof type, "%.*s", n ? (int)n - 1 : 4, n ? p + 1 : "FP32");
    t->dtype = td_dtype_find(type);
    ck_assert_msg(t->dtype, "%s", type);
    return p + n + (p[n] == ' ');
}

/* "[?,3] FP32; [N] INT64" */
static void write_results(const struct td_run *run, char *text)
{
    *text = 0;
    for (int i = 0; i < run->call.n_out; i++) {
        const struct td_tensor *t = &run->call.out[i];
        text += sprintf(text, "%s[", i ? "; " : "");
        for (int k = 0; k < t->rank; k++)
            if (t->shape[k] >= 0)
                text += sprintf(text, "%s%lld", k ? "," : "", (long long)t->shape[k]);
            else
                text += sprintf(text, "%s%c", k ? "," : "",
                                t->shape[k] == TD_UNKNOWN ? '?' : 'A' + (char)(-2 - t->shape[k]));
        text += sprintf(text, "] %s", td_dtype_name(t->dtype));
    }
}

static const struct {
    const char *expr, *args, *want; /* want: results, or words of the refusal */
} cases[] = {
    /* pointwise: broadcasting, promotion */
    {"relu(x)", "x=[?,3]", "[?,3] FP32"},
    {"relu(x)", "x=[N,3]", "[N,3] FP32"},
    {"x + y", "x=[?,3] y=[?,3]", "[?,3] FP32"},
    {"x + y", "x=[N,3] y=[N,3]", "[N,3] FP32"},
    {"x + y", "x=[N,3] y=[M,3]", "[?,3] FP32"},
    {"x + y", "x=[?] y=[5]", "[5] FP32"},
    {"x + y", "x=[?,?] y=[5]:INT64", "[?,5] FP32"},
    {"x + y", "x=[?]:INT8 y=[?]:INT32", "[?] INT32"},
    {"x + y", "x=[?]:INT8 y=[]:FP64", "[?] FP64"},
    {"x + y", "x=[?]:BF16 y=[?]:FP16", "[?] FP32"},
    {"x / 2", "x=[N]:INT64", "[N] FP32"},
    {"x == y", "x=[?,1] y=[1,?]", "[?,?] BOOL"},
    {"where(c, x, y)", "c=[N,1]:BOOL x=[1,M] y=[]", "[N,M] FP32"},
    {"x * (y + 1) - z", "x=[?,?,8] y=[?,1] z=[4,1,1]", "[4,?,8] FP32"},
    {"x + y", "x=[?,3] y=[?,4]", "y"},
    /* products */
    {"matmul(x, y)", "x=[?,?] y=[?,5]", "[?,5] FP32"},
    {"matmul(x, y)", "x=[N,K] y=[K,M]", "[N,M] FP32"},
    {"matmul(x, y)", "x=[B,1,N,64] y=[8,64,M]", "[B,8,N,M] FP32"},
    {"matmul(x, y)", "x=[?,4] y=[5,?]", "4"},
    {"bmm(x, y)", "x=[?,?,?] y=[?,?,7]", "[?,?,7] FP32"},
    {"linear(x, w, b)", "x=[B,S,?] w=[?,768] b=[3072]", "[B,S,3072] FP32"},
    {"addmm(b, x, w)", "b=[?] x=[?,?] w=[7,11]", "[?,11] FP32"},
    {"einsum('bij,bjk->bik', [x, y])", "x=[?,3,?] y=[6,?,9]", "[6,3,9] FP32"},
    {"scaled_dot_product_attention(q, k, v)", "q=[B,8,S,64] k=[B,8,T,64] v=[B,8,T,64]",
     "[B,8,S,64] FP32"},
    /* windows */
    {"conv2d(x, w, None, [2, 2], [1, 1])", "x=[?,?,?,224] w=[64,3,3,3]", "[?,64,?,112] FP32"},
    {"conv2d(x, w, b, [1, 1], [1, 1], [1, 1], 32)", "x=[N,?,H,W] w=[?,4,3,3] b=[?]",
     "[?,?,?,?] FP32"},
    {"relu(conv2d(x, w)) + y", "x=[?,?,8,8] w=[4,3,3,3] y=[?,4,6,6]", "[?,4,6,6] FP32"},
    {"max_pool2d(x, [3, 3], [2, 2])", "x=[N,64,?,113]", "[N,64,?,56] FP32"},
    {"adaptive_avg_pool2d(x, [7, 7])", "x=[N,C,?,?]", "[N,C,7,7] FP32"},
    {"upsample_nearest2d(x, [14, 14])", "x=[N,3,?,?]", "[N,3,14,14] FP32"},
    {"constant_pad_nd(x, [1, 2])", "x=[N,?]", "[N,?] FP32"},
    {"pixel_shuffle(x, 3)", "x=[N,?,H,5]", "[N,?,?,15] FP32"},
    {"unfold(x, 1, 3, 1)", "x=[N,10]", "[N,8,3] FP32"},
    {"max_pool1d(max_pool1d(max_pool1d(max_pool1d(max_pool1d(max_pool1d(x, 2), 3), 5), 7), 11), "
     "13)",
     "x=[1,1,?]", "[1,1,?] FP32"},
    /* views and moves */
    {"reshape(x, [-1, 12])", "x=[?,3,4]", "[?,12] FP32"},
    {"reshape(x, [-1, 12])", "x=[N,3,4]", "[N,12] FP32"},
    {"reshape(x, [3, 4])", "x=[?,6]", "[?,?] FP32"},
    {"reshape(x, [7, -1, 2])", "x=[?,?,6]", "[7,?,2] FP32"},
    {"view(x, [-1])", "x=[?,?,?]", "[?] FP32"},
    {"flatten(x, 1)", "x=[N,64,7,7]", "[N,3136] FP32"},
    {"flatten(x, 1)", "x=[N,64,?,7]", "[N,?] FP32"},
    {"permute(x, [2, 0, 1])", "x=[A,B,5]", "[5,A,B] FP32"},
    {"transpose(x, 0, 1)", "x=[?,3]", "[3,?] FP32"},
    {"expand(x, [4, -1, 7])", "x=[?,?]", "[?,?,?] FP32"},
    {"squeeze(x, 1)", "x=[N,1,4]", "[N,4] FP32"},
    {"squeeze(x)", "x=[?,4]", "how many dimensions the result has depends"},
    {"unsqueeze(x, 0)", "x=[N]", "[1,N] FP32"},
    {"slice(x, 0, 0, 5)", "x=[?,4]", "[?,4] FP32"},
    {"narrow(x, 0, 3, 2)", "x=[?,4]", "[2,4] FP32"},
    {"select(x, 0, 3)", "x=[?,N]", "[N] FP32"},
    {"cat([x, y], 0)", "x=[?,?] y=[5,8]", "[?,8] FP32"},
    {"cat([x, y], 1)", "x=[N,3] y=[N,5]", "[N,8] FP32"},
    {"stack([x, y], 0)", "x=[?] y=[6]", "[2,6] FP32"},
    {"split_with_sizes(x, [2, 3], 1)", "x=[N,?]", "[?,?] FP32; [?,?] FP32"},
    {"split(x, 2)", "x=[?]", "how many results there are depends"},
    {"chunk(x, 2, 1)", "x=[?,8]", "[?,4] FP32; [?,4] FP32"},
    {"diagonal(x)", "x=[?,5]", "[?] FP32"},
    {"repeat(x, [2, 3])", "x=[N,4]", "[?,12] FP32"},
    /* reductions and their kin */
    {"sum(x, [1])", "x=[N,?,5]", "[N,5] FP32"},
    {"mean(x, [1], keepdim=True)", "x=[N,?]", "[N,1] FP32"},
    {"sum(x)", "x=[?,?]:INT8", "[] INT64"},
    {"max(x, 1)", "x=[N,?]", "[N] FP32; [N] INT64"},
    {"argmax(x, 0)", "x=[?,N]", "[N] INT64"},
    {"softmax(x, -1)", "x=[N,S,S]", "[N,S,S] FP32"},
    {"layer_norm(x, [64], w, w)", "x=[B,?,?] w=[?]", "[?,?,?] FP32"},
    {"batch_norm(x, w, w, m, m, False, 0.1, 1e-5, False)", "x=[N,?,?,?] w=[32] m=[32]",
     "[N,32,?,?] FP32"},
    {"group_norm(x, 32)", "x=[N,C,4]", "[N,C,4] FP32"},
    {"topk(x, 5)", "x=[N,?]", "[N,5] FP32; [N,5] INT64"},
    /* indices */
    {"gather(x, 1, i)", "x=[?,7] i=[N,?]:INT64", "[N,?] FP32"},
    {"index_select(x, 0, i)", "x=[?,7] i=[N]:INT64", "[N,7] FP32"},
    {"embedding(w, i)", "w=[V,768] i=[B,S]:INT64", "[B,S,768] FP32"},
    {"nonzero(x)", "x=[?,?]", "[?,2] INT64"},
    {"nonzero(x)", "x=[3,4]", "[?,2] INT64"},
    {"nonzero(x)", "x=[0,?]", "[0,2] INT64"},
    {"masked_select(x, m)", "x=[N] m=[N]:BOOL", "[?] FP32"},
    {"scatter(x, 0, i, y)", "x=[N,7] i=[?,?]:INT64 y=[?,?]", "[N,7] FP32"},
    /* of numbers, and by chance */
    {"arange(7) + x", "x=[?]", "[?] FP32"},
    {"zeros_like(x)", "x=[N,2]:INT8", "[N,2] INT8"},
    {"one_hot(i, 10)", "i=[N]:INT64", "[N,10] INT64"},
    /* whole formulas */
    {"_h = relu(linear(x, a)); y = softmax(linear(_h, b), -1); n = sum(_h)",
     "x=[N,?] a=[128,784] b=[10,?]", "[N,10] FP32; [] FP32"},
    {"lstm(x, [h, c], [wi, wh], False, 1, 0.0, False, False, True)",
     "x=[B,T,?] h=[1,?,32] c=[1,B,?] wi=[128,16] wh=[128,32]",
     "[B,T,32] FP32; [1,B,32] FP32; [1,B,32] FP32"},
    /* refused whatever sizes are */
    {"relu(x, x)", "x=[?]", "expr: column 1: args: relu takes 1"},
    {"linear(x, w)", "x=[?,7] w=[5,8]", "8"},
    {"reshape(x, [3, 4])", "x=[?,5]", "no sizes in place of those that are unknown are right"},
};

START_TEST(test_by_hand)
{
    struct td_run run;
    struct td_named args[8];
    char name[8][16], got[600];
    int n = 0;
    start();
    for (const char *p = cases[_i].args; *p; n++)
        p = read_argument(p, &args[n], name[n]);
    struct td_key_scope before = td_keys_enter(td_keyset_of(TD_KEY_Meta), 0);
    int err = td_run_infer(&run, NULL, cases[_i].expr, args, n, &options);
    td_keys_leave(before);
    if (err)
        snprintf(got, sizeof got, "%s", run.problem.text);
    else
        write_results(&run, got);
    if (*cases[_i].want == '[')
        ck_assert_msg(!err && !strcmp(got, cases[_i].want), "%s of %s: %s, not %s", cases[_i].expr,
                      cases[_i].args, got, cases[_i].want);
    else
        ck_assert_msg(err == -EINVAL && strstr(got, cases[_i].want), "%s of %s: %s, not %s",
                      cases[_i].expr, cases[_i].args, got, cases[_i].want);
    give_back();
}
END_TEST

/* ---- all operators' samples ---- */

static uint64_t seed;

static uint32_t draw(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((seed >> 32) * n >> 32);
}

struct hidden { /* some sizes of a sample's tensors */
    int n;
    struct {
        int64_t *at, was, name, now;
    } size[TD_MAX_UNKNOWNS];
};

/* Each size with a chance of one in that many; named: equal ones have a name in common. */
static void hide(struct hidden *h, const struct td_sample *s, uint32_t of, bool named)
{
    h->n = 0;
    for (int i = 0; i < s->n_tensors; i++)
        for (int k = 0; k < s->tensor[i].tensor->rank; k++) {
            int64_t *size = &s->tensor[i].tensor->shape[k], was = *size;
            if (draw(of) || h->n == TD_MAX_UNKNOWNS)
                continue;
            *size = named ? TD_UNKNOWN - 1 - was : TD_UNKNOWN;
            h->size[h->n].at = size;
            h->size[h->n].was = h->size[h->n].now = was;
            h->size[h->n++].name = *size;
        }
}

/* Numbers in their places: those that were there, or often others. */
static void reveal(struct hidden *h, bool others)
{
    for (int i = 0; i < h->n; i++) {
        int64_t size = h->size[i].was;
        if (others && draw(2))
            size = draw(2) ? (int64_t)draw(10) : h->size[draw((uint32_t)h->n)].was * (1 + draw(2));
        for (int k = 0; k < i; k++)
            if (h->size[i].name != TD_UNKNOWN && h->size[k].name == h->size[i].name)
                size = h->size[k].now;
        *h->size[i].at = h->size[i].now = size;
    }
}

static int64_t meant(const struct hidden *h, int64_t said)
{
    for (int i = 0; i < h->n && said < TD_UNKNOWN; i++)
        if (h->size[i].name == said)
            return h->size[i].now;
    return said;
}

static const char *show(const struct td_sample *s, char *text)
{
    char *p = text;
    for (int i = 0; i < s->n_tensors; i++) {
        p += sprintf(p, "%s[", i ? " " : "");
        for (int k = 0; k < s->tensor[i].tensor->rank; k++)
            p += sprintf(p, "%s%lld", k ? "," : "", (long long)s->tensor[i].tensor->shape[k]);
        p += sprintf(p, "]");
    }
    return text;
}

/* Whether what is said of the results is right for the call with these numbers. */
static bool is_true(const struct td_run *said, const struct td_run *run, const struct hidden *h)
{
    bool right = said->call.n_out == run->call.n_out;
    for (int i = 0; i < run->call.n_out && right; i++) {
        const struct td_tensor *a = &said->call.out[i], *b = &run->call.out[i];
        right = a->dtype == b->dtype && a->rank == b->rank;
        for (int k = 0; k < a->rank && right; k++)
            right = a->shape[k] == TD_UNKNOWN || meant(h, a->shape[k]) == b->shape[k];
    }
    return right;
}

static struct {
    int calls, refused, wrong, depend, known, unknown, others;
} total;

/* Whether the number of the operator's results, or of their dimensions, follows from sizes. */
static bool may_depend(const struct td_handle *op)
{
    return op->schema.ret[0].type.list || !strncmp(op->full, "squeeze", 7);
}

static void count_sizes(const struct td_run *said)
{
    for (int i = 0; i < said->call.n_out; i++)
        for (int k = 0; k < said->call.out[i].rank; k++)
            (*(said->call.out[i].shape[k] == TD_UNKNOWN ? &total.unknown : &total.known))++;
}

/* By the numbers that were there, which are right, and by others, where these are. */
static bool hold_against(const struct td_handle *op, struct td_sample *s, struct hidden *h,
                         const struct td_run *said)
{
    static struct td_run run;
    bool right = true;
    for (int i = 0; i < 60 && right; i++) {
        reveal(h, i);
        if (td_run_bind(&run, op->full, s->arg, s->n_args, &options))
            continue;
        td_run_hide_counted(&run);
        right = is_true(said, &run, h);
        total.others += i > 0;
    }
    return right;
}

static void try_sample(const struct td_handle *op, struct td_sample *s, uint32_t of, bool named)
{
    static struct td_run said;
    struct hidden h;
    char unknown[2000], known[2000];
    hide(&h, s, of, named);
    show(s, unknown);
    int err = td_run_infer(&said, op->full, NULL, s->arg, s->n_args, &options);
    total.calls++;
    if (err && strstr(said.problem.text, "depends on sizes that are unknown")) {
        ck_assert_msg(may_depend(op), "%s of %s: %s", op->full, unknown, said.problem.text);
        total.depend++;
    } else if (err) {
        ck_assert_int_eq(err, -EINVAL);
        printf("# %s of %s: %s\n", op->full, unknown, said.problem.text);
        total.refused++;
    } else if (!hold_against(op, s, &h, &said)) {
        printf("# %s of %s is said to be of other sizes than with %s\n", op->full, unknown,
               show(s, known));
        total.wrong++;
    } else {
        count_sizes(&said);
    }
}

static bool make(struct td_sample *s, const struct td_handle *op, const char *pattern,
                 enum td_dtype type)
{
    static struct td_run run;
    static const struct td_sizes sizes = {6, 5, 7};
    td_sample_read(s, &op->schema, pattern, &sizes, type);
    return !td_run_bind(&run, op->full, s->arg, s->n_args, &options);
}

static void try_pattern(const struct td_handle *op, const char *pattern)
{
    static const enum td_dtype types[] = {TD_f32, TD_i64, TD_u8, TD_bool, TD_i8, TD_bf16};
    static struct td_sample s;
    size_t n = sizeof types / sizeof *types, t = 0;
    while (t < n && !make(&s, op, pattern, types[t]))
        t++;
    for (int round = 0; t < n && round < 4; round++) {
        make(&s, op, pattern, types[t]);
        try_sample(op, &s, round & 1 ? 3 : 1, round & 2);
    }
    give_back();
}

/* Every operator's samples, with some of their sizes unknown, and with all: what is said must be
 * true of the sample itself, and of other calls that the rule accepts. Less than 1 % are refused.
 */
START_TEST(test_samples)
{
    const char *given = getenv("TENSORD_SEED");
    seed = given ? strtoull(given, NULL, 0) : 1;
    printf("# TENSORD_SEED=%llu\n", (unsigned long long)seed);
    start();
    struct td_key_scope before = td_keys_enter(td_keyset_of(TD_KEY_Meta), 0);
    for (int i = 0; i < td_registry_count(); i++) {
        const struct td_handle *op = td_registry_at(i);
        for (const char *const *p = op->op->samples; p && *p; p++)
            try_pattern(op, *p);
    }
    td_keys_leave(before);
    printf("# %d calls, of which %d are refused, %d wrong and %d depend on sizes; of the results' "
           "sizes %d are known and %d not, by %d other calls\n",
           total.calls, total.refused, total.wrong, total.depend, total.known, total.unknown,
           total.others);
    ck_assert_int_gt(total.calls, 8 * td_registry_count());
    ck_assert(!total.wrong && 100 * total.refused < total.calls);
    ck_assert_int_gt(total.depend, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("infer");
    TCase *tcase = tcase_create("infer");
    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, test_by_hand, 0, (int)(sizeof cases / sizeof *cases));
    tcase_add_test(tcase, test_samples);
    return td_run_suite(suite);
}
