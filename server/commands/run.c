/* `tensord run`: a model once, without a server. All of it happens on one worker of a pool on all
 * CPUs. */
#include "server/commands/run.h"
#include "server/commands/commands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int repeat(struct td_once *once, const struct td_writer *call)
{
    struct td_times times = {0};
    int failed = 0;
    for (long i = 0; i < once->repeat && !failed; i++)
        failed = td_once_time(once, once->worker, call, &times);
    td_times_sort(&times);
    if (!failed)
        printf(once->json ? "{\"repeat\":%ld,\"us_min\":%.3f,\"us_median\":%.3f,\"us_p99\":%.3f}\n"
                          : "%ld times more: least %.3f us, median %.3f, 99 %% within %.3f\n",
               once->repeat, td_times_within(&times, 0), td_times_within(&times, 0.5),
               td_times_within(&times, 0.99));
    td_times_free(&times);
    return failed;
}

static int run(struct td_once *once)
{
    struct td_answer model = {NULL}, answer = {NULL};
    struct td_json json = {0};
    struct td_writer list, call;
    int failed = td_once_put(once, "/v1/models/model", once->model, NULL) ||
                 td_once_describe(once, "/v1/models/model", &model, &json);
    if (!failed) {
        answer.arena = td_arena_create();
        td_write_init(&list, answer.arena, 4096);
        td_write_init(&call, answer.arena, 4096);
        failed = !answer.arena ? td_once_fail(once, "out of memory")
                               : td_once_store(once, &list, td_json_member(json.root, "inputs")) ||
                                     td_once_write_call(once, &call, &list, NULL);
    }
    if (!failed)
        failed = td_once_infer(once, once->worker, &answer, call.text, call.length);
    if (!failed)
        failed = td_once_show(once, json.root, &answer.req->response);
    if (!failed && once->repeat)
        failed = repeat(once, &call);
    td_json_free(&json);
    td_once_forget(&answer);
    td_once_forget(&model);
    return failed;
}

static int on_machine(struct td_once *once)
{
    return td_once_on_pool(once, NULL, run);
}

/* ---- the command ---- */

static const char help[] =
    "usage: tensord run MODEL [OPTIONS]\n\n"
    "Runs a model once, an ONNX file or a PyTorch archive (.pt2), without a server.\n\n"
    "  --input NAME=FILE.npy   an input's elements; repeatable, one for each input\n"
    "  --output-dir DIR        writes each output there, as NAME.npy\n"
    "  --repeat N              again so often: the least time, the median, 99 %\n"
    "  --eager                 call by call as the file has them, nothing fused\n"
    "  --explain               says what the run consisted of\n"
    "  --json                  the outputs with all their elements as JSON\n";

/* 0, or the exit status; -1: help was asked for. */
static int read_args(struct td_once *once, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        bool input = !strcmp(argv[i], "--input"), directory = !strcmp(argv[i], "--output-dir");
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return -1;
        bool repeat = !strcmp(argv[i], "--repeat");
        if ((input || directory || repeat) && i + 1 == argc)
            return td_command_wrong("run", "no value for", argv[i]);
        if (input && once->n_inputs == TD_ONCE_INPUTS)
            return td_command_wrong("run", "too many inputs from", argv[i + 1]);
        if (input && !strchr(argv[i + 1], '='))
            return td_command_wrong("run", "--input takes NAME=FILE.npy and not", argv[i + 1]);
        if (input)
            once->input[once->n_inputs++] = argv[++i];
        else if (directory)
            once->directory = argv[++i];
        else if (repeat && atol(argv[i + 1]) < 1)
            return td_command_wrong("run", "--repeat takes a number from 1 on and not",
                                    argv[i + 1]);
        else if (repeat)
            once->repeat = atol(argv[++i]);
        else if (!strcmp(argv[i], "--eager"))
            once->eager = true;
        else if (!strcmp(argv[i], "--explain"))
            once->explain = true;
        else if (!strcmp(argv[i], "--json"))
            once->json = true;
        else if (*argv[i] == '-')
            return td_command_no_option("run", argv[i]);
        else if (once->model)
            return td_command_wrong("run", "one model is run, and not also", argv[i]);
        else
            once->model = argv[i];
    }
    return once->model ? 0 : td_command_wrong("run", "MODEL is missing:", "a file");
}

int td_command_run(int argc, char **argv)
{
    struct td_pool_config config = td_pool_config_default("run");
    struct td_once *once = calloc(1, sizeof *once);
    if (!once)
        return 1;
    once->word = "run";
    int status = read_args(once, argc, argv);
    once->explains = once->explain || !once->json;
    if (status < 0)
        status = td_command_help("run", help);
    else if (!status && !(status = td_command_begin(NULL)))
        status = td_once_on_machine(once, &config, 1, on_machine);
    free(once);
    return status;
}
