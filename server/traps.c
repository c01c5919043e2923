/* Kernels that trap, in the log: what happened to whom, and whether the row runs again. */
#include "server/log/log.h"

#include "kernels/trap.h"

#include <stdio.h>
#include <string.h>

static struct td_log *log_of_traps;

struct sentence {
    char text[400];
    size_t n;
};

/* What fits of it; by hand, as a signal's handler may. */
static void say(struct sentence *s, const char *text)
{
    for (; *text && *text != '(' && s->n + 1 < sizeof s->text; text++)
        s->text[s->n++] = *text;
    s->text[s->n] = 0;
}

static void say_who(struct sentence *s, const struct td_trapped *trapped)
{
    say(s, trapped->op->schema);
    if (trapped->impl) {
        say(s, ": the kernel ");
        say(s, trapped->impl->name);
        say(s, "@");
        say(s, td_isa_name(trapped->impl->isa));
    } else {
        say(s, ": its look at the data");
    }
    say(s, " has trapped, ");
    say(s, trapped->signal);
}

static void say_tensor(struct sentence *s, const struct td_tensor *t)
{
    char text[32];
    if (!t->dtype)
        return;
    say(s, ", ");
    say(s, td_dtype_name(t->dtype));
    say(s, " [");
    for (int d = 0; d < t->rank; d++) {
        snprintf(text, sizeof text, "%s%lld", d ? "," : "", (long long)t->shape[d]);
        say(s, text);
    }
    say(s, "]");
}

/* By the thread that had called, once the kernel is left. */
static void note(const struct td_trapped *trapped)
{
    struct sentence s = {.n = 0};
    char at[40];
    snprintf(at, sizeof at, " at 0x%zx", (size_t)trapped->address);
    say_who(&s, trapped);
    say(&s, at);
    for (int i = 0; i < trapped->call->n_args; i++) {
        const struct td_value *v = &trapped->call->arg[i];
        if (v->kind == TD_KIND_tensor)
            say_tensor(&s, &v->tensor);
        for (int k = 0; v->kind == TD_KIND_tensors && k < v->tensors.n; k++)
            say_tensor(&s, &v->tensors.v[k]);
    }
    td_log_event(log_of_traps, "trap", "%s; %s", s.text,
                 trapped->barred ? "it is not used again"
                                 : "it stays in use, as the last there is");
}

/* In the signal's handler. */
static void say_last(const struct td_trapped *trapped)
{
    struct sentence s = {.n = 0};
    say_who(&s, trapped);
    say(&s, ", and ends the process");
    td_log_last_words(log_of_traps, "trap", s.text);
}

void td_traps_log(struct td_log *log, bool leave)
{
    log_of_traps = log;
    td_trap_catch(leave, note, say_last);
}
