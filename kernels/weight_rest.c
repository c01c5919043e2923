/* Weights of which packed forms alone are read. Their plain elements' pages go back to the system,
 * and their addresses stay, so that whoever knows them finds the elements there once they are
 * written again. */
#include "kernels/weight_own.h"

#include <sys/mman.h>

static _Thread_local struct td_weight *taken;

void td_weight_note(struct td_weight *w)
{
    taken = w;
}

struct td_weight *td_weight_taken(void)
{
    return taken;
}

void td_weight_forget(void)
{
    taken = NULL;
}

/* With the lock held. */
static const struct form *way_back(const struct td_weight *w)
{
    const struct td_weight_form *form = atomic_load_explicit(&w->forms, memory_order_relaxed);
    while (form && !((const struct form *)form)->undo)
        form = form->next;
    return (const struct form *)form;
}

void td_weight_wake(struct td_weight *w)
{
    const struct form *form = w->rests ? way_back(w) : NULL;
    if (form)
        form->undo(&w->tensor, form->see.data, form->key);
    w->rests = false;
}

void td_weight_pin(struct td_weight *weight)
{
    pthread_mutex_lock(&weight->lock);
    weight->pins++;
    td_weight_wake(weight);
    pthread_mutex_unlock(&weight->lock);
}

void td_weight_unpin(struct td_weight *weight)
{
    pthread_mutex_lock(&weight->lock);
    weight->pins--;
    pthread_mutex_unlock(&weight->lock);
}

/* The whole pages: they stay mapped, and are zero when they are touched again. */
void td_weight_rest(struct td_weight *weight)
{
    const uintptr_t page = 4096, begin = (uintptr_t)weight->tensor.data;
    uintptr_t from = (begin + page - 1) & ~(page - 1),
              to = (begin + td_nbytes(&weight->tensor)) & ~(page - 1);
    pthread_mutex_lock(&weight->lock);
    if (!weight->pins && !weight->rests && from < to && way_back(weight))
        weight->rests = !madvise((void *)from, to - from, MADV_DONTNEED);
    pthread_mutex_unlock(&weight->lock);
}
