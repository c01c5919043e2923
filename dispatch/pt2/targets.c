/* What the targets of nodes are: most are operators of the table, by ATen's names; the others stand
 * here, each a line. */
#include "dispatch/pt2/pt2.h"

#include <errno.h>
#include <string.h>

/* How they are read: 's' is its first argument, 'c' a copy of that, and 't' either of them where
 * the type stays; 'w' writes its first argument. To a function that serves several, how says which
 * it is. */
static const struct td_pt2_target targets[] = {
    {"_assert_async", td_pt2_assert},
    {"_assert_async.msg", td_pt2_assert},
    {"_assert_scalar", td_pt2_assert},
    {"_assert_tensor_metadata", td_pt2_assert_metadata},
    {"sym_constrain_range", td_pt2_assert_range},
    {"sym_constrain_range_for_size", td_pt2_assert_range, 's'},
    {"alias", .how = 's'},
    {"alpha_dropout", .how = 's'},
    {"alpha_dropout_", .how = 's'},
    {"clone", .how = 'c'},
    {"contiguous", .how = 't'},
    {"detach", .how = 's'},
    {"detach_", .how = 's'},
    {"dropout", .how = 's'},
    {"dropout_", .how = 's'},
    {"feature_alpha_dropout", .how = 's'},
    {"feature_dropout", .how = 's'},
    {"feature_dropout_", .how = 's'},
    {"lift_fresh", .how = 's'},
    {"lift_fresh_copy", .how = 'c'},
    {"positive", .how = 's'},
    {"requires_grad_", .how = 's'},
    {"resolve_conj", .how = 's'},
    {"resolve_neg", .how = 's'},
    {"_to_copy", .how = 't'},
    {"to.device", .how = 't'},
    {"to.dtype", .how = 't'},
    {"to.dtype_layout", .how = 't'},
    {"to.other", .how = 't'},
    {"type_as", .how = 't'},
    {"zero_", td_pt2_formula, 'w', "zeros_like(self)"},
    {"_scaled_dot_product_flash_attention_for_cpu", td_pt2_formula, 0,
     "y = scaled_dot_product_attention(query, key, value, attn_mask, 0.0, is_causal, scale=scale); "
     "z = y", /* z, which the gradient wants, nobody reads */
     "attn_mask is_causal=False scale"},
    {"_unsafe_index.Tensor", td_pt2_formula, 0, "index(self, indices)"},
    {"_unsafe_index_put", td_pt2_formula, 0, "index_put(self, indices, values, accumulate)",
     "accumulate=False"},
    {"_weight_norm", td_pt2_formula, 0,
     "v * (g / reshape_as(linalg_vector_norm(flatten(transpose(v, 0, dim), 1), 2, 1), g))",
     "dim=0"},
    {"adjoint", td_pt2_formula, 0, "transpose(self, -2, -1)"},
    {"cosine_similarity", td_pt2_formula, 0,
     "sum(x1 * x2, dim) / (clamp_min(linalg_vector_norm(x1, 2, dim), eps) * "
     "clamp_min(linalg_vector_norm(x2, 2, dim), eps))",
     "dim=1 eps=1e-8"},
    {"diff", td_pt2_diff},
    {"fliplr", td_pt2_formula, 0, "flip(self, 1)"},
    {"flipud", td_pt2_formula, 0, "flip(self, 0)"},
    {"gru_cell", td_pt2_formula, 0,
     "_a = chunk(linear(input, w_ih, b_ih), 3, -1); _b = chunk(linear(hx, w_hh, b_hh), 3, -1); "
     "_z = sigmoid(_a[1] + _b[1]); _n = tanh(_a[2] + sigmoid(_a[0] + _b[0]) * _b[2]); "
     "h = _n + _z * (hx - _n)",
     "b_ih b_hh"},
    {"hstack", td_pt2_formula, 0, "cat(tensors, 1)"},
    {"inner", td_pt2_formula, 0, "matmul(self, transpose(other, -2, -1))"},
    {"l1_loss", td_pt2_formula, 0, "mean(abs(self - target))"},
    {"linalg_cross", td_pt2_formula, 0,
     "roll(self, -1, dim) * roll(other, -2, dim) - roll(self, -2, dim) * roll(other, -1, dim)",
     "dim=-1"},
    {"lstm_cell", td_pt2_formula, 0,
     "_g = chunk(linear(input, w_ih, b_ih) + linear(hx_0, w_hh, b_hh), 4, -1); "
     "_c = sigmoid(_g[1]) * hx_1 + sigmoid(_g[0]) * tanh(_g[2]); "
     "h = sigmoid(_g[3]) * tanh(_c); c = _c + 0",
     "b_ih b_hh"},
    {"mH", td_pt2_formula, 0, "transpose(self, -2, -1)"},
    {"mT", td_pt2_formula, 0, "transpose(self, -2, -1)"},
    {"matrix_H", td_pt2_formula, 0, "transpose(self, -2, -1)"},
    {"median", td_pt2_formula, 0, "_m = median(reshape(self, [-1]), 0); y = _m[0]"},
    {"mse_loss", td_pt2_formula, 0, "mean((self - target) ** 2)"},
    {"numpy_T", td_pt2_formula, 0, "t(self)"},
    {"pairwise_distance", td_pt2_formula, 0, "linalg_vector_norm(x1 - x2 + eps, p, -1, keepdim)",
     "p=2 eps=1e-6 keepdim=False"},
    {"rnn_relu_cell", td_pt2_formula, 0, "relu(linear(input, w_ih, b_ih) + linear(hx, w_hh, b_hh))",
     "b_ih b_hh"},
    {"rnn_tanh_cell", td_pt2_formula, 0, "tanh(linear(input, w_ih, b_ih) + linear(hx, w_hh, b_hh))",
     "b_ih b_hh"},
    {"tril_indices", td_pt2_formula, 0,
     "_to_copy(t(nonzero(tril(ones([row, col]), offset))), dtype=dtype)", "offset=0 dtype"},
    {"triu_indices", td_pt2_formula, 0,
     "_to_copy(t(nonzero(triu(ones([row, col]), offset))), dtype=dtype)", "offset=0 dtype"},
    {"unsafe_chunk", td_pt2_formula, 0, "chunk(self, chunks, dim)", "dim=0"},
    {"unsafe_split.Tensor", td_pt2_formula, 0, "split(self, split_size, dim)", "dim=0"},
    {"prims.convert_element_type", td_pt2_formula, 0, "_to_copy(a, dtype=dtype)"},
    {"_fft_c2c", td_pt2_fourier},
    {"_fft_r2c", td_pt2_fourier},
    {"fft_fft", td_pt2_fourier},
    {"fft_fft2", td_pt2_fourier},
    {"fft_fftn", td_pt2_fourier},
    {"fft_ifft", td_pt2_fourier, 'i'},
    {"fft_ifft2", td_pt2_fourier, 'i'},
    {"fft_ifftn", td_pt2_fourier, 'i'},
    {"fft_rfft", td_pt2_fourier, 'h'},
    {"imag", td_pt2_part, 'i'},
    {"real", td_pt2_part, 'r'},
    {"view_as_real", td_pt2_part, 'v'},
    {"view_as_complex", td_pt2_part, 'c'},
    {"item", td_pt2_item},
    {"_local_scalar_dense", td_pt2_item},
    {"sym_size.int", td_pt2_size},
    {"sym_numel", td_pt2_size},
    {"higher_order.cond", td_pt2_cond},
    {"higher_order.while_loop", td_pt2_while},
    {"higher_order.map_impl", td_pt2_map},
    {"higher_order.wrap_with_autocast", td_pt2_inline, 'a'},
    {"higher_order.wrap_with_set_grad_enabled", td_pt2_inline},
    {"_operator.add", td_pt2_number, '+'},
    {"_operator.sub", td_pt2_number, '-'},
    {"_operator.mul", td_pt2_number, '*'},
    {"_operator.truediv", td_pt2_number, '/'},
    {"_operator.floordiv", td_pt2_number, 'F'},
    {"_operator.mod", td_pt2_number, '%'},
    {"_operator.pow", td_pt2_number, '^'},
    {"_operator.neg", td_pt2_number, 'n'},
    {"_operator.pos", td_pt2_number, 'p'},
    {"_operator.eq", td_pt2_number, '='},
    {"_operator.ne", td_pt2_number, '!'},
    {"_operator.lt", td_pt2_number, '<'},
    {"_operator.le", td_pt2_number, 'l'},
    {"_operator.gt", td_pt2_number, '>'},
    {"_operator.ge", td_pt2_number, 'g'},
    {"_operator.and_", td_pt2_number, '&'},
    {"_operator.or_", td_pt2_number, '|'},
    {"_operator.lshift", td_pt2_number, '('},
    {"_operator.rshift", td_pt2_number, ')'},
    {"math.trunc", td_pt2_number, 'i'},
    {"math.floor", td_pt2_number, 'v'},
    {"math.ceil", td_pt2_number, 'u'},
    {"torch.sym_float", td_pt2_number, 'f'},
    {"torch.sym_int", td_pt2_number, 'i'},
    {"torch.sym_ite", td_pt2_number, '?'},
    {"torch.sym_max", td_pt2_number, 'M'},
    {"torch.sym_min", td_pt2_number, 'm'},
    {"torch.sym_not", td_pt2_number, 'N'},
    {"torch.sym_sqrt", td_pt2_number, 'q'},
    {"torch._sym_sqrt", td_pt2_number, 'q'},
};

const struct td_pt2_target *td_pt2_target(const char *name)
{
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (!strcmp(targets[i].name, name))
            return &targets[i];
    return NULL;
}

const char *td_pt2_short(struct td_pt2_graph *graph, const cJSON *node)
{
    const char *target = td_pt2_text(node, "target");
    target = target ? target : "";
    target += !strncmp(target, "torch.ops.", 10) ? 10 : 0;
    target += !strncmp(target, "aten.", 5)                    ? 5
              : !strncmp(target, "torchvision.", 12)          ? 12
              : !strncmp(target, "quantized_decomposed.", 21) ? 21
                                                              : 0;
    size_t n = strlen(target);
    n -= n > 8 && !strcmp(target + n - 8, ".default") ? 8 : 0;
    return td_program_text(graph->pt2->model, target, n);
}

const char *td_pt2_name(const cJSON *node)
{
    const char *name = td_pt2_text(node, "name");
    return name ? name : "";
}

/* ---- results ---- */

struct results {
    struct td_pt2_graph *graph;
    int n;
    struct td_pt2_key *key[TD_MAX_OUTS]; /* NULL: it has no name */
};

static int add_result(struct results *r, const char *as, const cJSON *item)
{
    struct td_pt2_leaf leaf = td_pt2_leaf(as, item);
    if (r->n == TD_MAX_OUTS)
        return td_pt2_refuse(r->graph, "has more than %d results", TD_MAX_OUTS);
    r->key[r->n++] = leaf.name ? td_pt2_find(r->graph->key, r->graph->n_keys, leaf.name) : NULL;
    return 0;
}

static int read_results(struct results *r)
{
    const cJSON *outs = td_pt2_get(r->graph->reading, "outputs");
    int err = 0;
    for (const cJSON *o = outs ? outs->child : NULL; o && !err; o = o->next) {
        const cJSON *member = td_pt2_argument(o);
        if (!member || !cJSON_IsArray(member)) {
            err = add_result(r, "", member);
            continue;
        }
        for (const cJSON *i = member->child; i && !err; i = i->next)
            err = add_result(r, member->string, i);
    }
    return err;
}

/* The value that is a node's first argument; NULL when it is none. */
static struct td_pt2_value *first_argument(struct td_pt2_graph *graph)
{
    const cJSON *inputs = td_pt2_get(graph->reading, "inputs");
    const cJSON *member = td_pt2_argument(td_pt2_get(inputs ? inputs->child : NULL, "arg"));
    struct td_pt2_leaf leaf = {0};
    if (member && !cJSON_IsArray(member))
        leaf = td_pt2_leaf(member->string, member);
    return leaf.name ? td_pt2_value(graph, leaf.name) : NULL;
}

/* ---- nodes ---- */

/* Whether it asserts that a tensor is complex: such are not one tensor here. */
static bool asserts_complex(const cJSON *node)
{
    const cJSON *inputs = td_pt2_get(node, "inputs"), *i = inputs ? inputs->child : NULL;
    int64_t type = 0;
    for (; i; i = i->next)
        if (td_pt2_whole(td_pt2_get(td_pt2_get(i, "arg"), "as_scalar_type"), &type))
            break;
    return type >= TD_PT2_COMPLEX - 1 && type <= TD_PT2_COMPLEX + 1;
}

bool td_pt2_flag(const cJSON *node, const char *name)
{
    const cJSON *inputs = td_pt2_get(node, "inputs"), *i = inputs ? inputs->child : NULL;
    for (; i; i = i->next) {
        const char *is = td_pt2_text(i, "name");
        if (is && !strcmp(is, name))
            return cJSON_IsTrue(td_pt2_argument(td_pt2_get(i, "arg")));
    }
    return false;
}

/* What a result that is its first argument, or a copy of it, becomes: 's' or 'c'; 0 where it is
 * neither. */
static char kept_how(const struct results *r, const struct td_pt2_value *first, const char *name,
                     char how)
{
    const cJSON *node = r->graph->reading;
    if (how != 't')
        return how;
    if (!strcmp(name, "contiguous"))
        return td_pt2_is_dense(first->meta) ? 's' : 'c';
    const struct td_pt2_value *made = r->key[0] ? r->graph->value[r->key[0]->at] : NULL;
    enum td_dtype is = td_pt2_dtype(td_pt2_get(first->meta, "dtype"));
    int64_t type;
    if (made && td_pt2_whole(td_pt2_get(made->meta, "dtype"), &type) && type == TD_PT2_COMPLEX)
        return 'c'; /* a tensor of reals is a complex one as well */
    if (!made || !is || td_pt2_dtype(td_pt2_get(made->meta, "dtype")) != is)
        return 0;
    return *name == '_' || td_pt2_flag(node, "copy") ? 'c' : 's';
}

/* A result that is its first argument: 0, or 1 where it is not. */
static int keep(const struct results *r, const struct td_pt2_target *target)
{
    struct td_pt2_graph *graph = r->graph;
    struct td_pt2_value *first = first_argument(graph);
    if (!first)
        return td_pt2_refuse(graph, "has no first argument");
    if (td_pt2_flag(graph->reading, "train"))
        return td_pt2_refuse(graph, "was exported while training; call model.eval() before "
                                    "torch.export.export");
    char how = kept_how(r, first, target->name, target->how);
    if (!how)
        return 1;
    if (!r->n || !r->key[0])
        return 0;
    if (how == 's') {
        graph->value[r->key[0]->at] = first;
        return 0;
    }
    return td_pt2_current(graph, first, &graph->value[r->key[0]->at]->number);
}

/* A node that computes: its results get numbers, and are the views they are. */
static int compute(struct results *r, const char *name)
{
    struct td_pt2_graph *graph = r->graph;
    int out[TD_MAX_OUTS];
    bool in_place;
    for (int i = 0; i < r->n; i++)
        out[i] = r->key[i] ? td_program_value(graph->pt2->model) : -1;
    int err = td_pt2_emit(graph, graph->reading, out, r->n, &in_place);
    if (err)
        return err;
    if (td_pt2_trains(graph->reading) && (err = td_pt2_lose_statistics(graph)))
        return err;
    struct td_pt2_value *first = first_argument(graph);
    if (in_place && r->n && r->key[0] && first) {
        graph->value[r->key[0]->at] = first;
        return td_pt2_write(graph, first, out[0]);
    }
    char view = first ? td_pt2_view(name, first->meta) : 0;
    for (int i = 0; i < r->n; i++) {
        if (!r->key[i])
            continue;
        struct td_pt2_value *value = graph->value[r->key[i]->at];
        value->number = out[i];
        if (view)
            td_pt2_make_view(value, first, graph->reading, i, view == 'u');
    }
    return 0;
}

static int read_node(struct td_pt2_graph *graph)
{
    struct results r = {.graph = graph};
    const char *name = td_pt2_short(graph, graph->reading);
    if (!name)
        return -ENOMEM;
    const struct td_pt2_target *target = td_pt2_target(name);
    if (target && target->lower == td_pt2_assert_metadata && asserts_complex(graph->reading))
        return 0;
    int err = read_results(&r);
    if (!err && target && target->how && strchr("sct", target->how) && !target->lower) {
        err = keep(&r, target);
        if (err < 1)
            return err;
        err = 0;
    }
    return err ? err : compute(&r, name);
}

int td_pt2_nodes(struct td_pt2_graph *graph)
{
    const cJSON *nodes = td_pt2_get(graph->json, "nodes");
    int err = 0;
    for (const cJSON *node = nodes->child; node && !err; node = node->next) {
        graph->reading = node;
        err = read_node(graph);
    }
    return err;
}
