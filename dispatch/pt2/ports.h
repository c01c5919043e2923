/* A .pt2's ports on their way into a program: import.c makes them of the signature, keep.c adds
 * those of states. Internal to this folder. */
#ifndef TD_DISPATCH_PT2_PORTS_H
#define TD_DISPATCH_PT2_PORTS_H

#include "dispatch/pt2/pt2.h"

struct td_pt2_ports {
    struct td_pt2_graph *graph;
    int n_in, n_out;
    int *input, *output;            /* values' numbers */
    struct td_model_port *in, *out; /* as many */
    struct td_pt2_name *name;       /* of inputs, */
    int *given;                     /* and the numbers of what they give */
    const char **called;            /* the user's outputs by the module, or NULL; of each NULL */
    int n_read;                     /* of the user's outputs, also those that are None */
};

/* A name for each output, also where one tensor is two of them. NULL: no memory. */
char *td_pt2_output_name(struct td_pt2_ports *p, const char *name);
/* Sets called for the n outputs of the user's, where the archive tells. A name that it has not, or
 * for which there is no memory, is the graph's. */
void td_pt2_called(struct td_pt2_ports *p, const cJSON *module, int n);
/* Behind the ports that there are, those of what is state; all of the graph has been read. -EINVAL,
 * -ENOMEM. */
int td_pt2_add_states(struct td_pt2_ports *p);

#endif
