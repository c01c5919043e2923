/* What is behind kernels.h for everybody: element types, level names, and the few helpers that
 * every descriptor uses. All of it is const, so any thread may enter. */
#include "kernels/kernels.h"
#include "kernels/sizes.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *aten;
    size_t size;
    char kind;
} dtypes[TD_DTYPES] = {
#define TD_DTYPE(id, name, aten, bytes, kind) {name, aten, bytes, kind},
#include "kernels/dtype.def"
#undef TD_DTYPE
};

const char td_dtype_names[] =
#define TD_DTYPE(id, name, aten, bytes, kind) " " name
#include "kernels/dtype.def"
#undef TD_DTYPE
    ;

static int index_of(enum td_dtype dtype)
{
    assert(dtype && !(dtype & (dtype - 1)) && dtype < 1 << TD_DTYPES);
    return __builtin_ctz(dtype);
}

const char *td_dtype_name(enum td_dtype dtype)
{
    return dtypes[index_of(dtype)].name;
}

size_t td_dtype_size(enum td_dtype dtype)
{
    return dtypes[index_of(dtype)].size;
}

char td_dtype_kind(enum td_dtype dtype)
{
    return dtypes[index_of(dtype)].kind;
}

int td_dtype_category(enum td_dtype dtype)
{
    char kind = td_dtype_kind(dtype);
    return kind == 'b' ? 0 : kind == 'f' ? 2 : 1;
}

enum td_dtype td_dtype_signed(enum td_dtype dtype)
{
    return dtype == TD_u16 ? TD_i16 : dtype == TD_u32 ? TD_i32 : dtype == TD_u64 ? TD_i64 : dtype;
}

/* The smallest type that holds both; none is neutral. */
static enum td_dtype join(enum td_dtype a, enum td_dtype b)
{
    if (!a || !b || a == b)
        return a | b;
    if ((a | b) & TD_UINTS && !((a | b) & TD_FLOATS))
        return TD_DTYPE_none;
    int category = td_dtype_category(a);
    if (category != td_dtype_category(b))
        return category > td_dtype_category(b) ? a : b;
    if (category == 2) /* FP16 and BF16 hold each other only in FP32 */
        return td_dtype_size(a) == td_dtype_size(b) ? TD_f32 : a > b ? a : b;
    enum td_dtype low = a < b ? a : b, high = a < b ? b : a;
    return low == TD_u8 && high == TD_i8 ? TD_i16 : high;
}

enum td_dtype td_dtype_join(unsigned set)
{
    enum td_dtype all = TD_DTYPE_none;
    for (unsigned rest = set & TD_FLOATS ? set & TD_FLOATS : set; rest; rest &= rest - 1) {
        enum td_dtype one = (enum td_dtype)(rest & -rest), both = join(all, one);
        if (!both)
            return TD_DTYPE_none;
        all = both;
    }
    return all;
}

enum td_dtype td_dtype_find(const char *name)
{
    for (int i = 0; i < TD_DTYPES; i++) {
        /* few of them begin alike */
        if (*name == *dtypes[i].name && !strcmp(name, dtypes[i].name))
            return 1 << i;
        if (*name == *dtypes[i].aten && !strcmp(name, dtypes[i].aten))
            return 1 << i;
    }
    return TD_DTYPE_none;
}

const char *td_isa_name(enum td_isa isa)
{
    static const char *const names[] = {
#define TD_ISA(id, name, base) #name,
#include "kernels/isa.def"
#undef TD_ISA
        "OutOfBoundaryLevel",
    };
    return (unsigned)isa <= TD_ISAS ? names[isa] : "WrongLevel";
}

int64_t td_numel(const struct td_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->shape[i];
    return n;
}

size_t td_nbytes(const struct td_tensor *t)
{
    return t->dtype ? (size_t)td_numel(t) * td_dtype_size(t->dtype) : 0;
}

bool td_fits(const struct td_tensor *t)
{
    int64_t n = (int64_t)td_dtype_size(t->dtype);
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] && !td_size_times(n, t->shape[i], &n))
            return false;
    return true;
}

double td_scalar(const struct td_value *v)
{
    assert(v->kind == TD_KIND_int || v->kind == TD_KIND_float || v->kind == TD_KIND_bool);
    return v->kind == TD_KIND_float ? v->f : v->wide ? (double)(uint64_t)v->i : (double)v->i;
}

int64_t td_scalar_int(const struct td_value *v)
{
    if (v->kind != TD_KIND_float)
        return v->i;
    if (v->f >= 0x1p63)
        return INT64_MAX;
    return v->f >= -0x1p63 ? (int64_t)v->f : INT64_MIN; /* NaN too: converting it is undefined */
}

int td_problem_set(struct td_problem *problem, int error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (problem)
        vsnprintf(problem->text, sizeof problem->text, format, args);
    va_end(args);
    return -error;
}

void td_impl_absent(const struct td_call *call)
{
    (void)call;
    assert(!"a row that is registered as absent is never chosen");
}
