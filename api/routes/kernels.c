/* The routes of kernels: the rows of each operator, which row a call would run by, and what is kept
 * of measurements and generated loops. */
#include "api/routes/routes.h"
#include "dispatch/choice/tune.h"
#include "kernels/jit/code.h"
#include "kernels/loops/fused.h"
#include "kernels/trap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void td_write_dtypes(struct td_writer *w, unsigned set)
{
    td_write_open(w, "dtypes", '[');
    for (int i = 0; i < TD_DTYPES; i++)
        if (set >> i & 1)
            td_write_str(w, NULL, td_dtype_name(1 << i));
    td_write_close(w, ']');
}

void td_write_levels(struct td_writer *w, const struct td_op *op, const struct td_impl *row)
{
    if (!row->library)
        return;
    td_write_open(w, "levels", '{');
    for (int i = 0; i < TD_DTYPES; i++)
        if (row->dtypes & op->dtypes & 1u << i)
            td_write_str(w, td_dtype_name(1 << i), td_isa_name(td_impl_isa(row, 1 << i)));
    td_write_close(w, '}');
}

void td_write_bar(struct td_writer *w, const struct td_op *op, const struct td_impl *row)
{
    const char *bar = td_trap_bars(op, row);
    if (bar)
        td_write_str(w, "barred", bar);
}

/* One row of an operator: the level that it is registered for, and the one that it would run at
 * here. A library's row is registered for any and runs at the library's. */
static void write_row(struct td_writer *w, const struct td_op *op, const struct td_impl *row)
{
    td_write_open(w, NULL, '{');
    td_write_str(w, "name", row->name);
    td_write_str(w, "level", td_isa_name(row->isa));
    td_write_str(w, "resolved",
                 td_impl_is_usable(row) ? td_isa_name(td_impl_isa(row, TD_DTYPE_none)) : NULL);
    td_write_bool(w, "absent", row->run == td_impl_absent);
    td_write_dtypes(w, row->dtypes & op->dtypes);
    td_write_levels(w, op, row);
    td_write_open(w, "layouts", '[');
    if (row->run != td_impl_absent)
        td_write_str(w, NULL, "strided");
    td_write_close(w, ']');
    td_write_bar(w, op, row);
    td_write_close(w, '}');
}

/* GET /v1/kernels. What a level asks for and lacks is answered by the first row below it. */
int td_api_kernels_list(struct td_request *req, struct td_response *res)
{
    struct td_writer w;
    td_write_init(&w, req->arena, 16384);
    td_write_open(&w, NULL, '{');
    td_write_open(&w, "kernels", '[');
    for (int i = 0; i < td_registry_count(); i++) {
        const struct td_handle *handle = td_registry_at(i);
        td_write_open(&w, NULL, '{');
        td_write_str(&w, "op", handle->full);
        td_write_str(&w, "requested_level", td_isa_name(td_cpu()->current));
        td_write_str(&w, "resolved_level",
                     td_isa_name(td_impl_isa(td_op_best(handle->op), TD_DTYPE_none)));
        td_write_open(&w, "implementations", '[');
        for (const struct td_impl *row = handle->op->impls; row->run; row++)
            write_row(&w, handle->op, row);
        td_write_close(&w, ']');
        td_write_close(&w, '}');
    }
    td_write_close(&w, ']');
    td_write_close(&w, '}');
    return td_write_response(&w, res, 200);
}

/* ---- one operator ---- */

/* Why this process cannot run the row, or NULL. */
static const char *hindrance(const struct td_op *op, const struct td_impl *row)
{
    if (row->run == td_impl_absent)
        return "registered as absent at this level: the next row serves";
    const char *barred = td_impl_barred(row);
    return barred ? barred : td_trap_bars(op, row);
}

static void write_candidate(struct td_writer *w, const struct td_op *op, const struct td_impl *row)
{
    char missing[400] = "";
    const char *no = hindrance(op, row);
    if (row->run != td_impl_absent && !(td_cpu()->cpu_levels >> row->isa & 1))
        td_cpu_missing(td_cpu(), row->isa, missing, sizeof missing);
    td_write_open(w, NULL, '{');
    td_write_str(w, "kernel", row->name);
    td_write_str(w, "level", td_isa_name(row->isa));
    td_write_dtypes(w, row->dtypes & op->dtypes);
    td_write_levels(w, op, row);
    td_write_bool(w, "runnable", !no);
    td_write_str(w, "why", no);
    if (*missing)
        td_write_str(w, "missing", missing);
    td_write_bool(w, "asks", row->prepare != NULL);
    td_write_close(w, '}');
}

/* The number of rows of each name; rows that are registered as absent are counted as "absent". */
static void write_counts(struct td_writer *w, const struct td_impl *rows)
{
    td_write_open(w, "registered", '{');
    for (const struct td_impl *row = rows; row->run; row++) {
        const char *name = row->run == td_impl_absent ? "absent" : row->name;
        int n = 0;
        bool first = true;
        for (const struct td_impl *r = rows; r->run; r++) {
            bool same = !strcmp(r->run == td_impl_absent ? "absent" : r->name, name);
            first = first && !(same && r < row);
            n += same;
        }
        if (first)
            td_write_int(w, name, n);
    }
    td_write_close(w, '}');
}

static bool has_library(const struct td_op *op)
{
    const struct td_impl *row = op->impls;
    while (row->run && !row->library)
        row++;
    return row->run;
}

/* Of each type, the first that takes it and runs here: what a call gets whose shape no row refuses,
 * and of whose kind nothing was measured. */
static void write_best(struct td_writer *w, const struct td_op *op)
{
    const char *why = has_library(op)
                          ? "the first of the order that runs here; calls of a kind that was "
                            "measured take the fastest (choices)"
                          : "the first of the order that runs here";
    td_write_open(w, "best", '[');
    for (int i = 0; i < TD_DTYPES; i++) {
        const struct td_impl *row = op->impls;
        while (row[1].run && (!(row->dtypes & 1u << i) || hindrance(op, row)))
            row++;
        if (!(op->dtypes & 1u << i))
            continue;
        td_write_open(w, NULL, '{');
        td_write_str(w, "datatype", td_dtype_name(1 << i));
        td_write_str(w, "kernel", row->name);
        td_write_str(w, "isa", td_isa_name(td_impl_isa(row, 1 << i)));
        td_write_str(w, "why", row[1].run ? why : "the reference, which takes what no other does");
        td_write_close(w, '}');
    }
    td_write_close(w, ']');
}

struct kinds {
    struct td_writer *w;
    const struct td_op *op;
};

static void write_kind(void *arg, const struct td_measured *m, long long hits)
{
    struct kinds *k = arg;
    if (m->op != k->op)
        return;
    td_write_open(k->w, NULL, '{');
    td_write_measured(k->w, m);
    td_write_int(k->w, "hits", hits);
    td_write_close(k->w, '}');
}

static void write_choices(struct td_writer *w, const struct td_op *op)
{
    struct td_choices all = td_choices_of(op);
    struct kinds kinds = {w, op};
    td_write_open(w, "choices", '{');
    td_write_int(w, "kept", all.kept);
    td_write_int(w, "hits", all.hits);
    td_write_int(w, "misses", all.misses);
    td_write_open(w, "kinds", '[');
    td_choices_visit(write_kind, &kinds);
    td_write_close(w, ']');
    td_write_close(w, '}');
}

static void write_formulas(struct td_writer *w, const char *names)
{
    td_write_open(w, "formulas", '[');
    for (size_t n; *names; names += n + (names[n] == ' ')) {
        n = strcspn(names, " ");
        td_write_str(w, NULL, td_arena_strdup(w->arena, names, n));
    }
    td_write_close(w, ']');
}

/* Each loop that has the operator in it was a miss when it was made, or was found that it cannot
 * be. */
static void write_loops(struct td_writer *w, const struct td_op *op)
{
    struct td_loop_view v;
    long long kept = 0, hits = 0;
    td_write_open(w, "loops", '{');
    td_write_bool(w, "disassembled", td_loop_disassembles());
    td_write_open(w, "loops", '[');
    for (int i = 0; td_loop_at(i, &v); i++) {
        if (!td_fused_has(v.name, op))
            continue;
        kept++;
        hits += v.asked;
        td_write_open(w, NULL, '{');
        td_write_int(w, "loop", i);
        write_formulas(w, v.name);
        td_write_str(w, "isa", td_isa_name(v.wide ? TD_ISA_avx512 : TD_ISA_avx2));
        td_write_int(w, "bytes", (int64_t)v.bytes);
        td_write_int(w, "hits", v.asked);
        td_write_str(w, "why", v.why);
        td_write_close(w, '}');
    }
    td_write_close(w, ']');
    td_write_int(w, "kept", kept);
    td_write_int(w, "hits", hits);
    td_write_int(w, "misses", kept);
    td_write_close(w, '}');
}

int td_api_kernels_get(struct td_request *req, struct td_response *res)
{
    const struct td_handle *handle = td_api_find_op(req);
    if (!handle)
        return -ENOENT;
    bool one = strcmp(req->var[0], handle->schema.name) != 0;
    struct td_writer w;
    td_write_init(&w, req->arena, 8192);
    td_write_open(&w, NULL, '{');
    td_write_str(&w, "name", req->var[0]);
    td_write_open(&w, "overloads", '[');
    for (; handle; handle = one ? NULL : handle->next) {
        td_write_open(&w, NULL, '{');
        td_write_str(&w, "op", handle->full);
        td_write_str(&w, "requested_level", td_isa_name(td_cpu()->current));
        write_counts(&w, handle->op->impls);
        td_write_open(&w, "candidates", '[');
        for (const struct td_impl *row = handle->op->impls; row->run; row++)
            write_candidate(&w, handle->op, row);
        td_write_close(&w, ']');
        write_best(&w, handle->op);
        write_choices(&w, handle->op);
        write_loops(&w, handle->op);
        td_write_close(&w, '}');
    }
    td_write_close(&w, ']');
    td_write_close(&w, '}');
    return td_write_response(&w, res, 200);
}
