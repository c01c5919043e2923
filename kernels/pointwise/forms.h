/* The usual forms of overloads, for readers of pointwise.def. A reader defines those of TD_POINT,
 * TD_VARIANT and TD_OVERLOAD that it wants; forms_end.h takes all of them away again. No include
 * guard: each reading brings its own. */
#ifndef TD_POINT
#define TD_POINT(...)
#endif
#ifndef TD_VARIANT
#define TD_VARIANT(...)
#endif
#ifndef TD_OVERLOAD
#define TD_OVERLOAD(...)
#endif

#define TD_SAMPLES_1 "self=[n]", "self=[2,n]"
#define TD_SAMPLES_2                                                                               \
    "self=[n] other=[n]", "self=[3,n] other=[n]", "self=[n,1] other=[1,n]", "self=[] other=[n]"
#define TD_SAMPLES_SCALAR "self=[n] other=2", "self=[2,n] other=-3", "self=[n] other=True"
#define TD_SAMPLES_ALPHA TD_SAMPLES_2, "self=[3,n] other=[n] alpha=2"
#define TD_SAMPLES_SCALAR_ALPHA                                                                    \
    "self=[n] other=2", "self=[2,n] other=3 alpha=2", "self=[n] other=True"

#define TD_UNARY_BY(id, doc, promote, types, ulp, cost, judge, whole, lanes, by)                   \
    TD_POINT(id, 1, same, cost, judge, whole, lanes)                                               \
    TD_OVERLOAD(id, id, #id "(Tensor self) -> Tensor", doc, broadcast, promote, types, ulp, own,   \
                "0", "", NULL, by, TD_SAMPLES_1)
#define TD_UNARY(id, doc, promote, types, ulp, cost, judge, whole, lanes)                          \
    TD_UNARY_BY(id, doc, promote, types, ulp, cost, judge, whole, lanes, NULL)
/* Another name of a formula. */
#define TD_ALSO(name, id, doc, promote, types, ulp)                                                \
    TD_OVERLOAD(name, id, #name "(Tensor self) -> Tensor", doc, broadcast, promote, types, ulp,    \
                own, "0", "", NULL, NULL, TD_SAMPLES_1)
#define TD_ASK(id, doc, judge, whole, lanes)                                                       \
    TD_POINT(id, 1, truth, 1, judge, whole, lanes)                                                 \
    TD_OVERLOAD(id, id, #id "(Tensor self) -> Tensor", doc, broadcast, none, TD_ALL, 0, own, "0",  \
                "", NULL, NULL, TD_SAMPLES_1)

#define TD_PAIR_(id, doc, promote, types, ulp)                                                     \
    TD_OVERLOAD(id, id, #id "(Tensor self, Tensor other) -> Tensor", doc, broadcast, promote,      \
                types, ulp, own, "01", "", NULL, NULL, TD_SAMPLES_2)
#define TD_PAIR(id, doc, promote, types, ulp, cost, judge, whole, lanes)                           \
    TD_POINT(id, 2, same, cost, judge, whole, lanes)                                               \
    TD_PAIR_(id, doc, promote, types, ulp)
#define TD_LOGIC(id, doc, how, lanes)                                                              \
    TD_POINT(id, 2, truth, 3, a != 0 how b != 0, (a != 0) how(b != 0),                             \
             lanes(L_ne(a, L_c(0)), L_ne(b, L_c(0))))                                              \
    TD_PAIR_(id, doc, arith, TD_ALL, 0)

#define TD_BOTH_(name, id, doc, promote, types, ulp)                                               \
    TD_OVERLOAD(name##_Tensor, id, #name ".Tensor(Tensor self, Tensor other) -> Tensor", doc,      \
                broadcast, promote, types, ulp, own, "01", "", NULL, NULL, TD_SAMPLES_2)           \
    TD_OVERLOAD(name##_Scalar, id, #name ".Scalar(Tensor self, Scalar other) -> Tensor", doc,      \
                broadcast, promote, types, ulp, own, "01", "", NULL, NULL, TD_SAMPLES_SCALAR)
#define TD_BINARY(id, doc, promote, types, ulp, cost, judge, whole, lanes)                         \
    TD_POINT(id, 2, same, cost, judge, whole, lanes)                                               \
    TD_BOTH_(id, id, doc, promote, types, ulp)
#define TD_COMPARE(id, doc, how, lanes)                                                            \
    TD_POINT(id, 2, truth, 1, a how b, a how b, lanes)                                             \
    TD_BOTH_(id, id, doc, arith, TD_ALL, 0)
/* With the Scalar in front. */
#define TD_FRONT_(name, id, doc, promote, types, ulp)                                              \
    TD_OVERLOAD(name##_Scalar_Tensor, id,                                                          \
                #name ".Scalar_Tensor(Scalar self, Tensor other) -> Tensor", doc, broadcast,       \
                promote, types, ulp, own, "01", "", NULL, NULL, "self=5 other=[n]",                \
                "self=2 other=[2,n]", "self=True other=[n]")
#define TD_BITS(id, dunder, doc, formula)                                                          \
    TD_POINT(id, 2, same, 1, NONE, formula, NONE)                                                  \
    TD_BOTH_(id, id, doc, whole, TD_INTS | TD_UINTS | TD_bool, 0)                                  \
    TD_FRONT_(id, id, doc, whole, TD_INTS | TD_UINTS | TD_bool, 0)                                 \
    TD_BOTH_(dunder, id, doc, whole, TD_INTS | TD_UINTS | TD_bool, 0)
#define TD_SHIFT(id, dunder, doc, formula)                                                         \
    TD_POINT(id, 2, same, 2, NONE, formula, NONE)                                                  \
    TD_OVERLOAD(id##_Tensor, id, #id ".Tensor(Tensor self, Tensor other) -> Tensor", doc,          \
                broadcast, whole, TD_INTS | TD_UINTS, 0, own, "01", "", NULL, NULL, TD_SAMPLES_2)  \
    TD_OVERLOAD(id##_Tensor_Scalar, id, #id ".Tensor_Scalar(Tensor self, Scalar other) -> Tensor", \
                doc, broadcast, whole, TD_INTS | TD_UINTS, 0, own, "01", "", NULL, NULL,           \
                TD_SAMPLES_SCALAR)                                                                 \
    TD_FRONT_(id, id, doc, whole, TD_INTS | TD_UINTS, 0)                                           \
    TD_BOTH_(dunder, id, doc, whole, TD_INTS | TD_UINTS, 0)

/* The overloads of a formula with a factor alpha, which has its own TD_POINT. */
#define TD_ALPHA(name, id, doc, types)                                                             \
    TD_OVERLOAD(name##_Tensor, id,                                                                 \
                #name ".Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", doc,      \
                broadcast, arith, types, 1, own, "01", "2", NULL, NULL, TD_SAMPLES_ALPHA)          \
    TD_OVERLOAD(name##_Scalar, id,                                                                 \
                #name ".Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", doc,         \
                broadcast, arith, types, 1, own, "01", "2", NULL, NULL, TD_SAMPLES_SCALAR_ALPHA)

/* A quotient by its names: as it is, and rounded as rounding_mode says. */
#define TD_QUOTIENT(name)                                                                          \
    TD_BOTH_(name, div, "self / other", float, TD_ALL, 0)                                          \
    TD_QUOTIENT_(name, Tensor, Tensor, TD_SAMPLES_2, "self=[n] other=[n] rounding_mode=floor",     \
                 "self=[2,n] other=[n] rounding_mode=trunc")                                       \
    TD_QUOTIENT_(name, Scalar, Scalar, "self=[n] other=2",                                         \
                 "self=[2,n] other=-3 rounding_mode=floor",                                        \
                 "self=[2,n] other=3 rounding_mode=trunc")
#define TD_QUOTIENT_(name, overload, type, ...)                                                    \
    TD_OVERLOAD(name##_##overload##_mode, div,                                                     \
                #name "." #overload "_mode(Tensor self, " #type                                    \
                      " other, *, str? rounding_mode) -> Tensor",                                  \
                "self / other, a whole number where rounding_mode is floor or trunc", broadcast,   \
                quotient, TD_ALL & ~TD_bool, 3, own, "01", "", "rounding_mode trunc floor", NULL,  \
                __VA_ARGS__)

#define TD_GRADIENT(id, name, doc, ulp, scale, cost, judge, lanes)                                 \
    TD_POINT(id, 2, same, cost, judge, NONE, lanes)                                                \
    TD_OVERLOAD(id, id, #id "(Tensor grad_output, Tensor " #name ") -> Tensor", doc, gradient,     \
                arith, TD_FLOATS, ulp, scale, "01", "", NULL, NULL,                                \
                "grad_output=[n] " #name "=[n]", "grad_output=[2,n] " #name "=[2,n]")
