/* `tensord bench`: which of its kinds is asked for, and with what. */
#include "server/bench/bench.h"
#include "server/bench/model.h"
#include "server/commands/commands.h"

#include "kernels/trap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: tensord bench [OPTIONS]\n"
    "       tensord bench MODEL [--input NAME=FILE.npy] [--shape NAME=1,3,224,224]\n"
    "                           [--threads N] [--seconds N] [--json]\n\n"
    "Times every kernel that can run here, in turns, on a pinned pool; `best` is the\n"
    "kernel that selection takes. With MODEL, an ONNX file or a PyTorch archive\n"
    "(.pt2), it shows how long loading, the first answer and later answers take, with\n"
    "1, 2, 4 and so on threads and with several workers at once, the memory in use,\n"
    "and which operators take the time, by which kernels.\n\n"
    "  --input NAME=FILE.npy      with MODEL: an input's elements; repeatable; others\n"
    "                   get small numbers\n"
    "  --shape NAME=1,3,224,224   with MODEL: an input's shape, where sizes may be\n"
    "                   any; repeatable\n"
    "  --cases FILE     a JSON file of cases, operators or expressions; without it, a\n"
    "                   short list of its own\n"
    "  --op NAME        only cases of this operator, or the case of this id\n"
    "  --kernel NAME    only this kernel (ref, simd, simd@AVX2, onednn, best)\n"
    "  --threads N      OpenMP threads [1]; with MODEL those of each worker\n"
    "  --all-candidates shows instead whether selection takes the fastest kernel, for\n"
    "                   samples of all operators, types and sizes from 1 to 1M\n"
    "                   elements: a line for each, in CPU time of one thread. The\n"
    "                   exit status is 1 if a default takes 1.05 times the best\n"
    "                   or more\n"
    "  --seconds N      with --all-candidates: how long it may take; it leaves cases\n"
    "                   out to keep to that; 0 measures all [60]. With MODEL: how\n"
    "                   long each line takes [2]\n"
    "  --dispatch       shows instead how many ns dispatch itself takes (selection,\n"
    "                   redispatch, boxing)\n"
    "  --item NAME      with --dispatch: runs only this item, without timing it\n"
    "  --repeat N       with --item: how often [1000]\n"
    "  --json           prints one JSON object a line\n";

/* An option of a model. 0: it is none, 1: taken, with its value, -1: said what is wrong. */
static int read_model_option(struct td_once *once, const char *option, const char *value)
{
    bool input = !strcmp(option, "--input"), shape = !strcmp(option, "--shape");
    if (!input && !shape)
        return 0;
    if (!value || !strchr(value, '='))
        td_command_wrong("bench",
                         input ? "--input takes NAME=FILE.npy and not"
                               : "--shape takes NAME=1,3,224,224 and not",
                         value ? value : "");
    else if ((input ? once->n_inputs : once->n_shapes) == TD_ONCE_INPUTS)
        td_command_wrong("bench", "too many inputs from", value);
    else if (input)
        once->input[once->n_inputs++] = value;
    else
        once->shape[once->n_shapes++] = value;
    return value && strchr(value, '=') ? 1 : -1;
}

/* 0, the exit status, or -1: help was asked for. */
static int read_args(struct td_bench_options *bench, struct td_once *once, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        const char **text = !strcmp(argv[i], "--cases")    ? &bench->cases
                            : !strcmp(argv[i], "--op")     ? &bench->op
                            : !strcmp(argv[i], "--kernel") ? &bench->kernel
                            : !strcmp(argv[i], "--item")   ? &bench->item
                                                           : NULL;
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        int taken = read_model_option(once, argv[i], value);
        if (taken < 0)
            return 2;
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return -1;
        if (taken) {
            i++;
        } else if (!strcmp(argv[i], "--json")) {
            bench->json = true;
        } else if (!strcmp(argv[i], "--dispatch")) {
            bench->dispatch = true;
        } else if (!strcmp(argv[i], "--all-candidates")) {
            bench->all = true;
        } else if (!strcmp(argv[i], "--seconds") && value && atof(value) >= 0) {
            bench->seconds = atof(argv[++i]);
        } else if (!strcmp(argv[i], "--repeat") && value && atol(value) >= 0) {
            bench->repeat = atol(argv[++i]);
        } else if (text && value) {
            *text = argv[++i];
        } else if (!strcmp(argv[i], "--threads") && value && atoi(value) > 0) {
            bench->threads = atoi(argv[++i]);
        } else if (*argv[i] != '-' && !once->model) {
            once->model = argv[i];
        } else {
            return td_command_no_option("bench", argv[i]);
        }
    }
    if (!once->model && (once->n_inputs || once->n_shapes))
        return td_command_wrong("bench", "MODEL is missing:", "a file");
    if (once->model && (bench->cases || bench->op || bench->kernel || bench->item ||
                        bench->dispatch || bench->all))
        return td_command_wrong("bench",
                                "cases, operators and kernels are not of a model:", once->model);
    return 0;
}

/* The numbers that were not given, and what they are of. */
static int run(struct td_bench_options *bench, struct td_model_bench *model)
{
    bool timed = bench->seconds >= 0;
    int status = td_command_begin(NULL);
    if (status)
        return status;
    td_trap_catch(false, NULL, NULL); /* what a server pays for it is measured along */
    if (model->once.model) {
        model->seconds = timed ? bench->seconds : 2;
        model->once.json = bench->json;
        return td_bench_model(model, bench->threads);
    }
    bench->threads = bench->threads ? bench->threads : 1;
    if (bench->all)
        return td_bench_all(bench->op, timed ? bench->seconds : 60, bench->json);
    return bench->dispatch ? td_bench_dispatch(bench->json, bench->item, bench->repeat)
                           : td_bench_cases(bench);
}

int td_command_bench(int argc, char **argv)
{
    struct td_bench_options bench = {.repeat = 1000, .seconds = -1};
    struct td_model_bench *model = calloc(1, sizeof *model);
    if (!model)
        return 1;
    model->once.word = "bench";
    model->once.fill = td_bench_fill;
    int status = read_args(&bench, &model->once, argc, argv);
    status = status < 0 ? td_command_help("bench", help) : status ? status : run(&bench, model);
    free(model);
    return status;
}
