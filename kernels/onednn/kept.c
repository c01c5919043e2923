/* Convolutions whose code the library never frees. Before version 3.4 oneDNN puts the brgemm
 * kernels of a convolution into a list of the process that is never shortened (its pull request
 * 1757), 7 to 20 KiB each time such a primitive is made, also for a description that came before.
 * So each is made once and kept, for at most MOST descriptions; further ones get the next
 * implementation that the library has, which frees what it made. */
#include "kernels/hash.h"
#include "kernels/onednn/prim.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MOST 1024
#define PLACES ((size_t)(2 * MOST))

struct kept {
    struct td_onednn_desc desc;
    dnnl_primitive_t main; /* NULL: not made yet */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept *kept[PLACES];
static int n_kept;

/* With the lock held: the description's place, or the free one for it. */
static struct kept **place_of(const struct td_onednn_desc *d)
{
    size_t at = (size_t)(td_hash_bytes(d, sizeof *d) >> 32) % PLACES;
    while (kept[at] && memcmp(&kept[at]->desc, d, sizeof *d) != 0)
        at = (at + 1) % PLACES;
    return &kept[at];
}

static bool may_keep(const struct td_onednn_desc *d)
{
    pthread_mutex_lock(&lock);
    struct kept **at = place_of(d);
    if (!*at && n_kept < MOST && (*at = calloc(1, sizeof **at))) {
        (*at)->desc = *d;
        n_kept++;
    }
    bool may = *at != NULL;
    pthread_mutex_unlock(&lock);
    return may;
}

static bool is_never_freed(const struct td_onednn_desc *d, const char *how)
{
    const dnnl_version_t *v = dnnl_version();
    return d->kind >= TD_ONEDNN_conv && !strncmp(how, "brg", 3) && v->major == 3 && v->minor < 4;
}

dnnl_status_t td_onednn_settle(dnnl_primitive_desc_t pd, const struct td_onednn_desc *d,
                               const char **how)
{
    dnnl_status_t status;
    TRY(dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, how));
    while (is_never_freed(d, *how) && !may_keep(d)) {
        TRY(dnnl_primitive_desc_next_impl(pd));
        TRY(dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, how));
    }
    if (strstr(*how, "ref")) /* the library's plain C: ours is no worse and is tested */
        status = dnnl_unimplemented;
out:
    return status == dnnl_last_impl_reached ? dnnl_unimplemented : status;
}

dnnl_status_t td_onednn_main(struct td_onednn_prim *p, const_dnnl_primitive_desc_t pd,
                             const struct td_onednn_desc *d)
{
    const char *how;
    dnnl_status_t status;
    TRY(dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &how));
    if (!is_never_freed(d, how))
        return dnnl_primitive_create(&p->main, pd);
    pthread_mutex_lock(&lock);
    struct kept *k = *place_of(d); /* there since td_onednn_settle */
    if (!k->main)
        status = dnnl_primitive_create(&k->main, pd);
    p->main = k->main;
    p->kept = true;
    pthread_mutex_unlock(&lock);
out:
    return status;
}
