/* What the files of a call's way share, from its arguments to the kernel chosen. Internal to
 * dispatch/. */
#ifndef TD_DISPATCH_CALL_H
#define TD_DISPATCH_CALL_H

#include "dispatch/choice/tune.h"
#include "dispatch/dispatch.h"

/* Sends a bound run (handle, call's arguments, keys of the tensors, options) through its table.
 * What td_run_bind gives back. */
int td_dispatch(struct td_run *run);
/* The same with these keys and nothing of the thread's scope. */
int td_dispatch_keys(struct td_run *run, td_keyset keys);

/* Makes it one that nothing is known of yet. */
void td_run_clear(struct td_run *run, const struct td_options *options);
/* Binds it to the first overload from handle on that fits, or to that one alone: what td_run_bind
 * does before dispatch. */
int td_run_choose(struct td_run *run, const struct td_handle *handle, bool one,
                  const struct td_named *args, int n_args);

/* Parts of a run. td_run_new_part returns a new part, not yet bound, in the run's memory (NULL:
 * *err is -ENOMEM). td_run_append adds a bound part behind the others and returns its new address,
 * since it may move. td_run_add_part does both, and binds it with values in the schema's order
 * (NULL: the reason is in run->problem and in *err). */
struct td_run *td_run_new_part(struct td_run *run, int *err);
struct td_run *td_run_append(struct td_run *run, struct td_run *part);
struct td_run *td_run_add_part(struct td_run *run, const char *op, const struct td_value *values,
                               td_keyset keys, int *err);
/* Adds a part that converts the tensor. */
struct td_run *td_run_add_cast(struct td_run *run, const struct td_tensor *from, enum td_dtype to,
                               td_keyset keys, int *err);
/* Argument arg of the part, or that element of it (-1: all), is a result of another part, or where
 * of is NULL the argument of the whole that result numbers. -EINVAL: the part has too many. */
int td_run_feed(struct td_run *run, struct td_run *part, int arg, int element, struct td_run *of,
                int result);

/* Binds one overload by arguments in the schema's order, all given; run zeroed, options set. */
int td_run_bind_values(struct td_run *run, const struct td_handle *handle,
                       const struct td_value *values, td_keyset keys);
/* The rows that the operator's table has for the keys; or NULL, where a boxed kernel stands there,
 * which *boxed then is. */
const struct td_impl *td_rows_at(const struct td_handle *handle, td_keyset keys, td_boxed **boxed);
/* Runs a call by the rows that its table has for the keys: what td_impl_run says. Where a boxed
 * kernel stands there, gives it in *boxed and does nothing; *boxed is NULL else. */
int td_call_rows(const struct td_handle *handle, struct td_call *call, td_keyset keys,
                 void *scratch, td_boxed **boxed);
/* The value as the parameter wants it. -EINVAL: it is of another kind, which problem says. */
int td_value_convert(const struct td_param *param, const struct td_value *in, struct td_value *out,
                     struct td_problem *problem);

/* ---- numbers.c ---- */

/* Makes tensors of the arguments in run->numbers, beside the other arguments of a bound call. */
int td_run_make_numbers(struct td_run *run);

/* What a parameter is when it is not given. */
void td_param_default(const struct td_param *param, struct td_value *value);

/* Settles a call: types promoted, the first tensor's type checked, the operator's rule asked. */
int td_run_settle(struct td_run *run);

/* The type that argument dtype names; TD_DTYPE_none: it is not given. */
enum td_dtype td_call_dtype(const struct td_call *call);

/* Notes that argument i is to be converted before the kernel runs. */
int td_run_cast(struct td_run *run, int i, enum td_dtype to);

/* Whether the call reads the elements of argument arg. A call of nothing runs the operator's check
 * alone, which reads what the operator follows. */
bool td_run_reads(const struct td_run *run, int arg);

/* Converts the argument of cast i: into room, to where its data then is; or a stored tensor, once
 * for all calls. What td_impl_run says, or -ENOMEM. */
int td_run_convert_input(struct td_run *run, int i, void *room);
int td_run_convert_stored(const struct td_run *run, int i);

/* The type of a settled call by which a row is chosen. */
enum td_dtype td_row_dtype(const struct td_call *call);
/* The level that the row runs a call at, by what it has prepared for it. */
enum td_isa td_row_level(const struct td_call *call, const struct td_impl *row,
                         const struct td_prepared *prepared);
/* Why the row does not serve a call, a constant; NULL when it does, and prepared, which was
 * released or zeroed, is its answer. */
const char *td_row_objection(const struct td_call *call, const struct td_impl *row,
                             struct td_prepared *prepared);
/* The row that runs the call, there always is one: by measurement where td_measure says, else the
 * first that takes it; the last of rows is the reference. */
const struct td_impl *td_rows_choose(const struct td_impl *rows, const struct td_call *call,
                                     struct td_prepared *prepared);
/* How many of its tensors have strides; and of a run that is selected, whether the row takes them,
 * else dense copies are made before it. */
int td_call_count_strides(const struct td_call *call);
bool td_run_takes_strides(const struct td_run *run);

/* The row that measuring calls of that kind has chosen; NULL where the order of rows decides. open:
 * it would be measured now. */
const struct td_impl *td_measured_row(const struct td_impl *rows, const struct td_call *call,
                                      bool *open);
/* What was measured. False: nothing is kept of the kind. */
bool td_measured_of(const struct td_impl *rows, const struct td_call *call, struct td_measured *m);
/* The time of a row in the measurement, in microseconds; 0: it was not timed, or has trapped. */
double td_measured_us(const struct td_measured *m, const struct td_impl *row);
/* The row again, and measures where that is still to be done: on the calling thread and its team,
 * for some 30 ms, or once each row. Whom the thread obeys may stop it; then nothing is kept. */
const struct td_impl *td_measure(const struct td_impl *rows, const struct td_call *call);
/* Between these two, measurements keep the memory of their copies of calls for the next one, of any
 * thread. They may nest. */
void td_trials_begin(void);
void td_trials_end(void);

/* The row that will be chosen, told without having a library make anything: where that would be
 * needed, its row, and ready is false. */
const struct td_impl *td_row_likely(const struct td_run *run, bool *ready);

/* The composite kernel: expands run->call.op->composite. */
td_boxed td_kernel_composite;
/* Whether a formula, an expression, has only arguments of the operator, or more (NULL-ended), and
 * operators there are. With more words, as derivatives have them, its result is one. -EINVAL. */
int td_formula_check(const struct td_handle *handle, const char *formula, const char *const *more,
                     struct td_problem *problem);

/* Registers the kernels of AutocastCPU. */
int td_autocast_register(struct td_problem *problem);

/* The autograd kernel: records in run->derivative what a backward needs, and redispatches below. */
td_boxed td_kernel_autograd;

/* "CPU, Meta": the backends that have a kernel; returns how many. */
int td_backends_of(const struct td_handle *handle, char *list, size_t size);

/* Bytes of memory for so many: in 64-byte steps, with 64 behind that may be read. */
static inline size_t td_room_of(size_t bytes)
{
    return (bytes + 127) & ~(size_t)63;
}

#define TD_SCRATCH_MOST ((size_t)1 << 47) /* bytes; arguments with theirs are below it too */

/* Notes what the executed kernel took, for td_run_cost. */
void td_run_learn(struct td_run *run, int64_t ns, int threads);

#endif
