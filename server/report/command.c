/* `tensord report`: its options, and the parts in their order. */
#include "api/files/files.h"
#include "server/bench/bench.h"
#include "server/commands/commands.h"
#include "server/report/page.h"
#include "server/report/pools.h"

#include "kernels/trap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static const char help[] =
    "usage: tensord report DIR [OPTIONS]\n\n"
    "Measures this machine for rows NUM-1 to NUM-12 of the feature list, which\n"
    "docs/figures.md describes, and writes the result to DIR/DATE.json and, as a page\n"
    "with pictures, to DIR/DATE.html. It takes some minutes; nothing else should run\n"
    "on the machine meanwhile.\n\n"
    "  --quick          takes seconds: fewer repetitions, less certain figures\n"
    "  --rows 1,2,10    measures only these rows\n"
    "  --models DIR     also measures the ONNX files and PyTorch archives in DIR.\n"
    "                   DIR/SUITE/FILE belongs to the suite vision, transformer or\n"
    "                   sequence; the suite of DIR/FILE follows from its operators\n"
    "  --inputs FILE    what the inputs of these models are: their shapes, if the\n"
    "                   files leave sizes open, and their elements, random whole\n"
    "                   numbers or, by [\"const\",16000], one number everywhere;\n"
    "                   inputs that FILE does not name get likely sizes. Its form:\n"
    "                   {\"models\":[{\"file\":\"a.onnx\",\"inputs\":[{\"name\":\"x\",\n"
    "                   \"shape\":[1,128],\"rule\":[\"ids\",0,1000]}]}]}\n"
    "  --python PATH    a Python that has PyTorch, ONNX Runtime or OpenVINO, which\n"
    "                   run the same networks, for comparison\n"
    "  --from FILE.json measures nothing, and makes the page of an earlier report\n";

/* "1,2,10" as bits. 0: it is none such. */
static unsigned read_rows(const char *text)
{
    unsigned rows = 0;
    char *end = NULL;
    for (; *text; text = *end ? end + 1 : end) {
        long row = strtol(text, &end, 10);
        if (end == text || (*end && (*end != ',' || !end[1])) || row < 1 || row > TD_REPORT_ROWS)
            return 0;
        rows |= 1u << row;
    }
    return rows;
}

/* 0, the exit status, or -1: help was asked for. */
static int read_args(struct td_report_options *o, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return -1;
        if (!strcmp(argv[i], "--quick")) {
            o->quick = true;
        } else if (!strcmp(argv[i], "--rows") && value) {
            if (!(o->rows = read_rows(argv[++i])))
                return td_command_wrong(
                    "report", "--rows takes numbers from 1 to 12, as in 1,2,10, and not", value);
        } else if (!strcmp(argv[i], "--models") && value) {
            o->models = argv[++i];
        } else if (!strcmp(argv[i], "--inputs") && value) {
            o->inputs = argv[++i];
        } else if (!strcmp(argv[i], "--python") && value) {
            o->python = argv[++i];
        } else if (!strcmp(argv[i], "--from") && value) {
            o->from = argv[++i];
        } else if (*argv[i] == '-') {
            return td_command_no_option("report", argv[i]);
        } else if (o->directory) {
            return td_command_wrong("report", "one directory is written, and not also", argv[i]);
        } else {
            o->directory = argv[i];
        }
    }
    return o->directory ? 0 : td_command_wrong("report", "DIR is missing:", "a directory");
}

/* What the options name is there: 0, or the exit status. */
static int check_files(struct td_report *r)
{
    struct td_problem problem;
    struct td_json json = {0};
    struct stat st;
    size_t size;
    if (r->o.models && (stat(r->o.models, &st) || !S_ISDIR(st.st_mode)))
        return td_command_wrong("report", "--models takes a directory and not", r->o.models);
    if (!r->o.inputs)
        return 0;
    const char *text = td_read_file(r->arena, r->o.inputs, &size, &problem);
    bool right = text && !td_json_parse(&json, text, size, 16, &problem);
    if (right && !cJSON_IsArray(td_json_member(json.root, "models")))
        right = !td_problem_set(&problem, EINVAL, "it has no list \"models\"");
    td_json_free(&json);
    return right ? 0 : td_command_wrong("report", problem.text, r->o.inputs);
}

static const struct {
    unsigned rows;
    void (*run)(struct td_report *r);
} parts[] = {
    {1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5, td_report_suites},
    {1 << 10, td_report_dispatch},
    {1 << 9, td_report_pools},
    {1 << 11, td_report_service},
    {1 << 8, td_report_choices},
    {1 << 6 | 1 << 7 | 1 << 12, td_report_machine}, /* at the end: with the load that there was */
};

static int measure(struct td_once *once)
{
    struct td_report *r = (struct td_report *)once;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].rows & r->o.rows)
            parts[i].run(r);
    return 0;
}

static int write_files(struct td_report *r, const char *date, const char *json, size_t size)
{
    struct td_problem problem;
    size_t length;
    const char *page = td_report_page(r->arena, json, size, &length, &problem);
    const struct td_report_file files[] = {{"html", page, length}, {"json", json, size}};
    if (!page)
        return td_command_wrong("report", problem.text, r->o.from ? r->o.from : "");
    return td_report_write(r->o.directory, date, files, r->o.from ? 1 : 2);
}

static int write_out(struct td_report *r)
{
    char date[16];
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(date, sizeof date, "%Y-%m-%d", &utc);
    r->once.why = NULL;
    if (td_report_end(r))
        return td_once_fail(&r->once, "out of memory");
    return write_files(r, date, r->json.text, r->json.length);
}

/* The page of a file that was written before, under its name. */
static int show(struct td_report *r)
{
    struct td_problem problem;
    char name[256];
    size_t size;
    const char *slash = strrchr(r->o.from, '/');
    char *text = td_read_file(r->arena, r->o.from, &size, &problem);
    snprintf(name, sizeof name, "%s", slash ? slash + 1 : r->o.from);
    char *dot = strrchr(name, '.');
    if (dot)
        *dot = 0;
    if (!text)
        return td_command_wrong("report", problem.text, r->o.from);
    return write_files(r, name, text, size);
}

static int run(struct td_report *r)
{
    struct td_pool_config pools[TD_REPORT_POOLS];
    int status = td_report_prepare(r->o.directory);
    if (status || (status = td_command_begin(NULL)))
        return status;
    if (!(r->arena = td_arena_create()))
        return td_once_fail(&r->once, "out of memory");
    if (r->o.from) {
        status = show(r);
        td_arena_destroy(r->arena);
        return status;
    }
    if ((status = check_files(r))) {
        td_arena_destroy(r->arena);
        return status;
    }
    td_trap_catch(false, NULL, NULL); /* what a server pays for it is measured along */
    r->begin_ns = td_now_ns();
    r->cpus = td_bound_cpus();
    getloadavg(&r->load_before, 1);
    td_report_begin(r);
    r->once.why = r->why;
    r->once.why_size = sizeof r->why;
    r->once.fill = td_bench_fill;
    td_report_pool_configs(pools, r->cpus);
    status = td_once_on_machine(&r->once, pools, td_report_first_pools(r->cpus), measure);
    status = status ? status : write_out(r);
    td_arena_destroy(r->arena);
    return status;
}

int td_command_report(int argc, char **argv)
{
    struct td_report *r = calloc(1, sizeof *r);
    if (!r)
        return 1;
    r->once.word = "report";
    r->o.rows = ~0u;
    int status = read_args(&r->o, argc, argv);
    status = status < 0 ? td_command_help("report", help) : status ? status : run(r);
    free(r);
    return status;
}
