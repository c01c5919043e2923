/* Commands that ask without a server: isa, ops, cpu-features. The JSON forms are the routes' own
 * replies; the forms for people are made from the same structs. */
#include "server/commands/commands.h"

#include "dispatch/choice/peaks.h"
#include "kernels/jit/code.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int td_command_begin(const char *cap)
{
    struct td_problem problem;
    if (!cap)
        cap = getenv("TENSORD_CPU_CAPABILITY");
    if (td_cpu_init(cap, &problem) || td_registry_init(&problem)) {
        fprintf(stderr, "tensord: %s\n", problem.text);
        return 2;
    }
    const char *tune = getenv("TENSORD_TUNE");
    td_tune(!tune || strcmp(tune, "off") != 0);
    const char *jit = getenv("TENSORD_JIT");
    td_loops_allow(!jit || strcmp(jit, "off") != 0);
    return 0;
}

static const char *want_text(struct td_request *req, const char *name)
{
    (void)req;
    return strcmp(name, "Accept") ? NULL : "text/plain";
}

/* Prints what GET path answers to a request with these headers. */
static int print_route(const char *path, const char *(*header)(struct td_request *, const char *))
{
    struct td_service service = {.limits = {.body = 1 << 20, .headers = 32768, .json_depth = 32}};
    struct td_arena *arena = td_arena_create();
    struct td_request *req = arena ? td_arena_zalloc(arena, sizeof *req) : NULL;
    if (!req || td_service_init(&service)) {
        fprintf(stderr, "tensord: out of memory\n");
        return 1;
    }
    *req = (struct td_request){.service = &service,
                               .arena = arena,
                               .method = TD_GET,
                               .path = path,
                               .query = "",
                               .header = header};
    if (!td_api_begin(req))
        td_api_handle(req);
    fwrite(req->response.body, 1, req->response.size, stdout);
    if (!header)
        putchar('\n');
    int status = req->response.status == 200 ? 0 : 2;
    td_service_fini(&service);
    td_arena_destroy(arena);
    td_registry_fini();
    return status;
}

/* Reads [--json] and at most one name. 0, or 1 + the exit status. */
static int read_args(int argc, char **argv, bool *json, const char **name, const char *word,
                     const char *help)
{
    *json = false;
    *name = NULL;
    for (int i = 0; i < argc; i++) {
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            return 1 + td_command_help(word, help);
        }
        if (!strcmp(argv[i], "--json")) {
            *json = true;
        } else if (*argv[i] == '-' || *name) {
            return 1 + td_command_no_option(word, argv[i]);
        } else {
            *name = argv[i];
        }
    }
    return 0;
}

static void print_levels(void)
{
    const struct td_cpu *cpu = td_cpu();
    char missing[400];
    printf("CPU            %s %s, %s\n", cpu->vendor, cpu->model, cpu->uarch);
    printf("current level  %s", td_isa_name(cpu->current));
    if (cpu->requested)
        printf(", capped at %s by %s", cpu->requested, cpu->source);
    putchar('\n');
    printf("highest        %s by CPU and system, %s by compiler\n", td_isa_name(cpu->highest_cpu),
           td_isa_name(cpu->highest_binary));
    printf("oneDNN         %s, uses %s\n\n", td_onednn_version(), td_onednn_isa_name());
    for (int level = 0; level < TD_ISAS; level++) {
        td_cpu_missing(cpu, level, missing, sizeof missing);
        bool in_use = cpu->levels >> level & 1;
        printf("  %-12s ", td_isa_name(level));
        if (*missing)
            printf("missing: %s\n", missing);
        else if (!(cpu->binary_levels >> level & 1))
            printf("missing: a compiler that builds it\n");
        else
            printf("%s\n", in_use ? "usable" : "above the cap");
    }
}

/* By one thread and by as many as there are CPUs, as GET /v1/pools has a pool's. */
static void print_peaks(void)
{
    cpu_set_t cpus;
    int threads = sched_getaffinity(0, sizeof cpus, &cpus) ? 1 : CPU_COUNT(&cpus);
    struct td_peaks one, all;
    td_peaks_measure(1, &one);
    td_peaks_measure(threads, &all);
    printf("%-26s %10s %10s\n", "at best", "1 thread", "all CPUs");
    for (int p = 0; p < TD_PEAKS; p++) {
        bool computes = p < TD_PEAK_l1;
        printf("%-7s %-18s", td_peak_name((enum td_peak)p),
               computes ? "1e9 operations/s" : "1e9 bytes loaded/s");
        if (one.rate[p] > 0)
            printf(" %10.1f %10.1f\n", one.rate[p] * 1e-9, all.rate[p] * 1e-9);
        else
            printf(" %10s %10s\n", "-", "-");
    }
}

int td_command_isa(int argc, char **argv)
{
    bool json, measure = argc && !strcmp(argv[0], "--measure"); /* an option that stands alone */
    const char *name;
    int stop = read_args(argc - measure, argv + measure, &json, &name, "isa",
                         "usage: tensord isa [--json | --measure]\n\n"
                         "The ISA levels of this machine: which can be used, and what the others "
                         "lack.\n\n"
                         "  --json     what GET /v1/isa answers\n"
                         "  --measure  what the machine can do at best: operations and bytes a "
                         "second\n");
    if (stop)
        return stop - 1;
    if (name || (json && measure)) {
        fprintf(stderr, "tensord: isa takes no '%s'%s; see --help\n", name ? name : "--json",
                measure ? " with --measure" : "");
        return 2;
    }
    int status = td_command_begin(NULL);
    if (status)
        return status;
    if (json)
        return print_route("/v1/isa", NULL);
    if (measure)
        print_peaks();
    else
        print_levels();
    return 0;
}

/* One line: its name, its best kernel here, its formula. */
static void print_line(const struct td_handle *handle)
{
    const struct td_impl *best = td_op_best(handle->op);
    char kernel[64];
    snprintf(kernel, sizeof kernel, "%s@%s", best->name,
             td_isa_name(td_impl_isa(best, TD_DTYPE_none)));
    printf("%-27s %-18s %s\n", handle->full, kernel, handle->op->doc);
}

/* All of it, a line a kernel. */
static void print_op(const struct td_handle *handle)
{
    const struct td_cpu *cpu = td_cpu();
    printf("%s\n  %s\n", handle->op->schema, handle->op->doc);
    for (const struct td_impl *row = handle->op->impls; row->run; row++) {
        char missing[400];
        td_cpu_missing(cpu, row->isa, missing, sizeof missing);
        printf("    %-8s %-12s", row->name,
               td_isa_name(td_impl_is_usable(row) ? td_impl_isa(row, TD_DTYPE_none) : row->isa));
        for (int i = 0; td_impl_is_usable(row) && i < TD_DTYPES; i++)
            if (row->dtypes & handle->op->dtypes & 1u << i)
                printf(" %s", td_dtype_name(1 << i));
        if (!td_impl_is_usable(row))
            printf(" %s%s",
                   row->run == td_impl_absent ? "absent on purpose: the next one serves"
                   : *missing                 ? "cannot run here; missing: "
                                              : "above the cap",
                   row->run == td_impl_absent ? "" : missing);
        putchar('\n');
    }
}

int td_command_ops(int argc, char **argv)
{
    bool json;
    const char *name;
    char path[200];
    int stop = read_args(argc, argv, &json, &name, "ops",
                         "usage: tensord ops [NAME] [--json]\n\n"
                         "The operators, each with its best kernel here and its formula; of NAME, "
                         "its overloads\nwith their schemas and kernels, best first, and the types "
                         "that each takes.\n\n"
                         "  --json    what GET /v1/ops or /v1/ops/NAME answers\n");
    if (stop)
        return stop - 1;
    int status = td_command_begin(NULL);
    if (status)
        return status;
    if (json) {
        snprintf(path, sizeof path, "/v1/ops%s%s", name ? "/" : "", name ? name : "");
        return print_route(path, NULL);
    }
    const struct td_handle *first = name ? td_registry_find(name) : td_registry_at(0);
    if (!first) {
        fprintf(stderr, "tensord: no operator '%s'; `tensord ops` lists them\n", name);
        return 2;
    }
    for (int i = 0; !name && i < td_registry_count(); i++)
        print_line(td_registry_at(i));
    bool one = name && strcmp(name, first->schema.name);
    for (; name && first; first = one ? NULL : first->next)
        print_op(first);
    return 0;
}

int td_command_cpu_features(int argc, char **argv)
{
    bool json;
    const char *name;
    int stop = read_args(argc, argv, &json, &name, "cpu-features",
                         "usage: tensord cpu-features [--json]\n\n"
                         "XCR0, what the operating system enables, and 39 CPUID features.\n\n"
                         "  --json    what GET /v1/isa/features answers\n");
    if (stop)
        return stop - 1;
    int status = td_command_begin(NULL);
    if (status)
        return status;
    return print_route("/v1/isa/features", json ? NULL : want_text);
}
