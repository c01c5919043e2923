/* Steps: bound and selected calls that are kept, to be run again and again on other data. What a
 * call looks up, judges and chooses is done once, when its step is made; a run of it goes to the
 * kernels at once. A step knows its arguments by their places in the schema, and is as large as
 * they are: some hundred bytes a tensor. */
#ifndef TD_DISPATCH_STEP_H
#define TD_DISPATCH_STEP_H

#include "dispatch/choice/peaks.h"
#include "dispatch/dispatch.h"

struct td_step;

/* Makes a step of a run that td_run_select has been called for, with its kernels (a composite's and
 * an expression's are several), threads, stored tensors and their replicas. Data are the run's at
 * first, which may be set, or not yet; the tensors of lists and texts are copied, stored tensors
 * are borrowed. Stored tensors that are to be converted are so now.
 *
 * Memory is alloc's, 16-byte aligned, and lives as long as the step, which the caller releases. The
 * run may be released or bound anew, and stays as it was.
 * -ENOMEM. */
int td_step_make(struct td_step **step, const struct td_run *run,
                 void *(*alloc)(void *arg, size_t bytes), void *alloc_arg);
void td_step_release(struct td_step **step); /* nulls the pointer; NULL is fine */

/* Bytes that td_step_execute needs besides inputs and results. */
size_t td_step_scratch(const struct td_step *step);

/* Where argument arg, a tensor, or that element of it, a list of tensors, lies in the next runs: of
 * the type and shape it had in the run, converted or not. */
void td_step_set_input(struct td_step *step, int arg, int element, const void *data);
/* And where a result goes: as many bytes as td_step_result says before the step has run. */
void td_step_set_result(struct td_step *step, int i, void *data);

/* A result: its type, shape and data. A size that the operator counts is right once the step has
 * run. NULL: there are not so many. */
const struct td_tensor *td_step_result(const struct td_step *step, int i);

/* The greatest td_impl.rounding of its rows; 0: none has one. */
double td_step_rounding(const struct td_step *step);

/* What its kernels do in a run. */
struct td_work td_step_work(const struct td_step *step);

/* Runs it on the calling thread, by one thread at a time. scratch: borrowed, 64-byte aligned. Whom
 * the thread obeys (td_stop_obey) may stop it. 0; -EINVAL: the data are refused, problem, where it
 * is given, says why, and the results are of no use. */
int td_step_execute(struct td_step *step, void *scratch, struct td_problem *problem);

#endif
