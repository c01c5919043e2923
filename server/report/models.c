/* What the suites consist of: the networks that the program composes. */
#include "server/report/suites.h"

#include <stdio.h>
#include <string.h>

#define QUICK_EVERY 4 /* with --quick: one network of so many */

const char *const td_suites[] = {"vision", "transformer", "sequence", NULL};

static void add_own(struct td_suites *s, const struct td_network *network)
{
    struct td_tried *t = &s->tried[s->n];
    if (s->n == TD_REPORT_NETWORKS)
        return;
    s->n++;
    *t = (struct td_tried){.own = network};
    snprintf(t->suite, sizeof t->suite, "%s", network->suite);
    snprintf(t->name, sizeof t->name, "%s", network->name);
}

void td_suites_gather(struct td_suites *s)
{
    int at = 0;
    for (const struct td_network *network = td_networks; network->name; network++, at++)
        if (!s->r->o.quick || at % QUICK_EVERY == 0)
            add_own(s, network);
}
