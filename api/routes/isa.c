/* What the machine can do: ISA levels, CPU features, topology, and which of it this process gets.
 */
#include "api/routes/routes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static void write_missing(struct td_writer *w, enum td_isa level)
{
    char text[400], *word, *rest = text;
    td_cpu_missing(td_cpu(), level, text, sizeof text);
    td_write_open(w, "missing", '[');
    while ((word = strsep(&rest, ",")))
        if (*word)
            td_write_str(w, NULL, word + strspn(word, " "));
    td_write_close(w, ']');
}

static void write_features(struct td_writer *w, const char *key)
{
    td_write_open(w, key, '{');
    for (int i = 0; i < TD_FEATURES; i++)
        td_write_bool(w, td_feature_name(i), td_cpu_has(td_cpu(), i));
    td_write_close(w, '}');
}

static void write_os(struct td_writer *w)
{
    const struct td_cpu *cpu = td_cpu();
    char xcr0[24];
    snprintf(xcr0, sizeof xcr0, "0x%llx", (unsigned long long)cpu->xcr0);
    td_write_open(w, "os", '{');
    td_write_bool(w, "avx", cpu->os_avx);
    td_write_bool(w, "avx2", cpu->os_avx2);
    td_write_bool(w, "avx512", cpu->os_avx512);
    td_write_bool(w, "amx", cpu->os_amx);
    td_write_str(w, "xcr0", xcr0);
    td_write_str(w, "amx_permission", cpu->amx_permission);
    td_write_close(w, '}');
}

/* What came of the cap: it takes levels away, and the highest one left is in use. */
static void write_override(struct td_writer *w)
{
    const struct td_cpu *cpu = td_cpu();
    int asked = 0;
    char reason[300], missing[200];
    if (!cpu->requested)
        return;
    while (strcasecmp(td_isa_name(asked), cpu->requested))
        asked++;
    td_cpu_missing(cpu, asked, missing, sizeof missing);
    bool applied = cpu->levels >> asked & 1;
    snprintf(reason, sizeof reason, "%s%s",
             applied                           ? "levels above it are not used"
             : cpu->binary_levels >> asked & 1 ? "the next lower one that runs is used; missing: "
                                               : "it was not built; the next lower one is used",
             applied ? "" : missing);
    td_write_open(w, "override", '{');
    td_write_str(w, "value", cpu->requested);
    td_write_str(w, "source", cpu->source);
    td_write_bool(w, "applied", applied);
    td_write_str(w, "reason", reason);
    td_write_close(w, '}');
}

void td_write_isa(struct td_writer *w)
{
    const struct td_cpu *cpu = td_cpu();
    td_write_open(w, NULL, '{');
    td_write_str(w, "current", td_cpu_level(cpu)->name());
    td_write_str(w, "highest_cpu", td_isa_name(cpu->highest_cpu));
    td_write_str(w, "highest_binary", td_isa_name(cpu->highest_binary));
    td_write_str(w, "requested", cpu->requested);
    write_override(w);
    td_write_open(w, "levels", '[');
    for (int level = 0; level < TD_ISAS; level++) {
        td_write_open(w, NULL, '{');
        td_write_str(w, "name", td_isa_name(level));
        td_write_bool(w, "cpu", cpu->cpu_levels >> level & 1);
        td_write_bool(w, "binary", cpu->binary_levels >> level & 1);
        td_write_bool(w, "runnable", cpu->cpu_levels & cpu->binary_levels & 1u << level);
        td_write_bool(w, "in_use", cpu->levels >> level & 1);
        write_missing(w, level);
        td_write_close(w, '}');
    }
    td_write_close(w, ']');
    write_features(w, "features");
    write_os(w);
    td_write_open(w, "cpu", '{');
    td_write_str(w, "vendor", cpu->vendor);
    td_write_str(w, "model", cpu->model);
    td_write_str(w, "uarch", cpu->uarch);
    td_write_int(w, "cores", cpu->cores);
    td_write_int(w, "threads", cpu->threads);
    td_write_close(w, '}');
    td_write_open(w, "onednn", '{');
    td_write_str(w, "version", td_onednn_version());
    td_write_str(w, "isa", td_onednn_isa_name());
    td_write_str(w, "level", td_isa_name(td_onednn_isa()));
    td_write_bool(w, "synced", td_onednn_isa() == cpu->current);
    td_write_close(w, '}');
    td_write_close(w, '}');
}

/* GET /v1/isa/veclen?dtype=float: by the current level's own kernel. */
int td_api_isa_veclen(struct td_request *req, struct td_response *res)
{
    static const struct {
        const char *names[4]; /* the protocol's, PyTorch's for dtype, and ATen's ScalarType */
        int size;
    } types[] = {{{"FP64", "float64", "double", "Double"}, 8},
                 {{"FP32", "float32", "float", "Float"}, 4},
                 {{"BF16", "bfloat16", "BFloat16"}, 2},
                 {{"FP16", "float16", "half", "Half"}, 2},
                 {{"complex128", "cdouble", "ComplexDouble"}, 16},
                 {{"complex64", "cfloat", "ComplexFloat"}, 8}};
    const char *name;
    int err = td_api_query(req, "dtype", &name), size = 0;
    if (err)
        return err;
    if (!name)
        return td_api_problem(req, -EINVAL, "dtype: missing; /v1/isa/veclen?dtype=FP32 is right");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (int k = 0; k < 4 && types[i].names[k]; k++)
            if (!strcmp(types[i].names[k], name))
                size = types[i].size;
    if (!size)
        return td_api_problem(req, -EINVAL,
                              "dtype: '%.40s': only floating and complex ScalarType are supported",
                              name);
    const struct td_level *level = td_cpu_level(td_cpu());
    struct td_writer w;
    td_write_init(&w, req->arena, 256);
    td_write_open(&w, NULL, '{');
    td_write_str(&w, "dtype", name);
    td_write_str(&w, "isa", level->name());
    td_write_int(&w, "bytes", size);
    td_write_int(&w, "lanes", level->lanes((size_t)size));
    td_write_close(&w, '}');
    return td_write_response(&w, res, 200);
}

/* As cpu_features of Intel's extension for PyTorch prints it: the 39 features that it knows. */
static int features_text(struct td_request *req, struct td_response *res)
{
    static const char *const words[] = {"false", "true"};
    const struct td_cpu *cpu = td_cpu();
    size_t room = 4096, n = 0;
    char *text = td_arena_alloc(req->arena, room);
    if (!text)
        return td_api_problem(req, -ENOMEM, "no memory for the reply");
    n += (size_t)snprintf(text, room,
                          "XCR0: %016llx\nos --> avx: %s\nos --> avx2: %s\nos --> avx512: %s\n"
                          "os --> amx: %s\n",
                          (unsigned long long)cpu->xcr0, words[cpu->os_avx], words[cpu->os_avx2],
                          words[cpu->os_avx512], words[cpu->os_amx]);
    for (int i = 0; i < TD_FEATURES_LISTED; i++)
        n += (size_t)snprintf(text + n, room - n, "%s:\t\t\t%s\n", td_feature_name(i),
                              words[td_cpu_has(cpu, i)]);
    return td_api_text(res, 200, "text/plain; charset=utf-8", text);
}

int td_api_isa_features(struct td_request *req, struct td_response *res)
{
    const char *accept = req->header ? req->header(req, "Accept") : NULL;
    if (accept && strstr(accept, "text/plain") && !strstr(accept, "json"))
        return features_text(req, res);
    struct td_writer w;
    td_write_init(&w, req->arena, 2048);
    td_write_open(&w, NULL, '{');
    write_os(&w);
    write_features(&w, "features");
    td_write_close(&w, '}');
    return td_write_response(&w, res, 200);
}

static void write_pus(struct td_writer *w, const struct td_machine_facts *facts)
{
    double busy[1024];
    int n_busy = (int)(sizeof busy / sizeof *busy);
    td_cpus_busy(busy, n_busy);
    td_write_open(w, "pus", '[');
    for (int i = 0; i < facts->n_pus; i++) {
        td_write_open(w, NULL, '{');
        td_write_int(w, "cpu", facts->pus[i].cpu);
        td_write_int(w, "core", facts->pus[i].core);
        td_write_int(w, "package", facts->pus[i].package);
        td_write_int(w, "numa_node", facts->pus[i].numa_node);
        td_write_bool(w, "allowed", facts->pus[i].allowed);
        if (facts->pus[i].cpu < n_busy && busy[facts->pus[i].cpu] >= 0)
            td_write_num(w, "busy_s", busy[facts->pus[i].cpu]);
        td_write_close(w, '}');
    }
    td_write_close(w, ']');
    td_write_open(w, "caches", '[');
    for (int i = 0; i < facts->n_caches; i++) {
        char type[2] = {facts->caches[i].type, 0};
        td_write_open(w, NULL, '{');
        td_write_int(w, "level", facts->caches[i].level);
        td_write_str(w, "type", *type == 'd' ? "data" : *type == 'i' ? "instruction" : "unified");
        td_write_int(w, "size", (int64_t)facts->caches[i].size);
        td_write_int(w, "line", facts->caches[i].line);
        td_write_str(w, "cpus", facts->caches[i].cpus);
        td_write_close(w, '}');
    }
    td_write_close(w, ']');
}

int td_api_topology_get(struct td_request *req, struct td_response *res)
{
    struct td_machine_facts facts;
    struct td_writer w;
    td_topology_facts(req->service->topology, &facts);
    td_write_init(&w, req->arena, 4096);
    td_write_open(&w, NULL, '{');
    td_write_int(&w, "packages", facts.n_packages);
    td_write_int(&w, "numa_nodes", facts.n_numa_nodes);
    td_write_int(&w, "cores", facts.n_cores);
    td_write_int(&w, "memory", (int64_t)facts.memory);
    td_write_int(&w, "system_memory", (int64_t)facts.system_memory);
    write_pus(&w, &facts);
    td_write_open(&w, "allowed", '{');
    td_write_str(&w, "cpus", facts.allowed);
    td_write_int(&w, "count", facts.n_allowed);
    td_write_close(&w, '}');
    td_write_open(&w, "cgroup", '{');
    td_write_str(&w, "path", facts.cgroup);
    if (facts.quota > 0)
        td_write_num(&w, "quota_cpus", facts.quota);
    else
        td_write_str(&w, "quota_cpus", NULL);
    if (facts.nr_throttled >= 0)
        td_write_int(&w, "nr_throttled", facts.nr_throttled);
    else
        td_write_str(&w, "nr_throttled", NULL);
    if (facts.memory_limit)
        td_write_int(&w, "memory_limit", (int64_t)facts.memory_limit);
    else
        td_write_str(&w, "memory_limit", NULL);
    td_write_close(&w, '}');
    td_write_int(&w, "default_threads", facts.default_threads);
    td_write_bool(&w, "pin_by_default", facts.pin_by_default);
    td_write_str(&w, "decision", facts.decision);
    td_write_close(&w, '}');
    return td_write_response(&w, res, 200);
}
