/* NUM-6, NUM-7 and NUM-12: on what all was measured. */
#include "server/report/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void read_line(const char *path, char *line, size_t size)
{
    FILE *file = fopen(path, "re");
    *line = 0;
    if (file && fgets(line, (int)size, file))
        line[strcspn(line, "\n")] = 0;
    if (file)
        fclose(file);
}

static void write_levels(struct td_report *r)
{
    const struct td_cpu *cpu = td_cpu();
    struct td_writer *w = td_report_data(r, 6);
    int built = 0, runs = 0;
    char missing[400];
    td_write_str(w, "compiler", __VERSION__);
    td_write_open(w, "levels", '[');
    for (int level = 0; level < TD_ISAS; level++) {
        bool is_built = cpu->binary_levels >> level & 1;
        bool can = is_built && cpu->cpu_levels >> level & 1;
        td_cpu_missing(cpu, level, missing, sizeof missing);
        td_write_open(w, NULL, '{');
        td_write_str(w, "level", td_isa_name(level));
        td_write_bool(w, "built", is_built);
        td_write_bool(w, "runs", can);
        td_write_bool(w, "in_use", cpu->levels >> level & 1);
        td_write_str(w, "missing", *missing ? missing : NULL);
        td_write_close(w, '}');
        built += is_built;
        runs += can;
        if (!can)
            td_report_miss(r, 6, td_isa_name(level), "not run: %s%s",
                           is_built ? "the CPU or system lacks " : "the compiler does not build it",
                           is_built ? missing : "");
    }
    td_write_close(w, ']');
    td_report_say(r, 6, "levels built", "of 8", built);
    td_report_say(r, 6, "levels that run here", "of 8", runs);
}

static void write_features(struct td_report *r)
{
    const struct td_cpu *cpu = td_cpu();
    struct td_writer *w = td_report_data(r, 7);
    char xcr0[24];
    int has = 0;
    snprintf(xcr0, sizeof xcr0, "0x%llx", (unsigned long long)cpu->xcr0);
    td_write_str(w, "xcr0", xcr0);
    td_write_open(w, "features", '{');
    for (int i = 0; i < TD_FEATURES; i++) {
        td_write_bool(w, td_feature_name(i), td_cpu_has(cpu, i));
        has += td_cpu_has(cpu, i);
    }
    td_write_close(w, '}');
    td_report_say(r, 7, "features that the CPU has", "of those looked for", has);
    td_report_say(r, 7, "features looked for", "", TD_FEATURES);
}

static void write_caches(struct td_writer *w, const struct td_machine_facts *facts)
{
    char seen[16] = ""; /* one of each kind */
    td_write_open(w, "caches", '[');
    for (int i = 0; i < facts->n_caches; i++) {
        const struct td_cache *cache = &facts->caches[i];
        char key[3] = {(char)('0' + cache->level), cache->type, 0};
        if (strstr(seen, key) || strlen(seen) + 2 >= sizeof seen)
            continue;
        strcat(seen, key);
        td_write_open(w, NULL, '{');
        td_write_int(w, "level", cache->level);
        td_write_str(w, "type",
                     cache->type == 'd'   ? "data"
                     : cache->type == 'i' ? "instructions"
                                          : "unified");
        td_write_int(w, "bytes", (int64_t)cache->size);
        td_write_close(w, '}');
    }
    td_write_close(w, ']');
}

static void write_machine(struct td_report *r)
{
    static const char governor_file[] = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    const struct td_cpu *cpu = td_cpu();
    struct td_writer *w = td_report_data(r, 12);
    struct td_machine_facts facts;
    struct td_runtime_facts runtime;
    char kernel[128], governor[64];
    double after[1] = {-1};
    td_topology_facts(r->once.service.topology, &facts);
    td_runtime_facts(&runtime);
    read_line("/proc/sys/kernel/osrelease", kernel, sizeof kernel);
    read_line(governor_file, governor, sizeof governor);
    getloadavg(after, 1);
    td_write_str(w, "cpu", cpu->model);
    td_write_str(w, "vendor", cpu->vendor);
    td_write_str(w, "uarch", cpu->uarch);
    td_write_str(w, "level", td_isa_name(cpu->current));
    td_write_str(w, "highest_cpu", td_isa_name(cpu->highest_cpu));
    td_write_str(w, "onednn", td_onednn_version());
    td_write_str(w, "onednn_level", td_onednn_isa_name());
    td_write_int(w, "cores", facts.n_cores);
    td_write_int(w, "cpus", facts.n_pus);
    td_write_str(w, "allowed", facts.allowed);
    td_write_int(w, "threads_used", r->cpus);
    td_write_num(w, "quota", facts.quota);
    td_write_num(w, "memory_bytes", (double)facts.system_memory);
    td_write_str(w, "bound_by", runtime.enabled ? runtime.backend : NULL);
    td_write_str(w, "kernel", kernel);
    td_write_str(w, "governor", *governor ? governor : NULL);
    td_write_num(w, "load_before", td_report_digits(r->load_before));
    td_write_num(w, "load_after", td_report_digits(after[0]));
    td_write_int(w, "rounds", TD_REPORT_ROUNDS);
    write_caches(w, &facts);
    if (!*governor)
        td_report_miss(r, 12, "the frequency governor",
                       "%s is not there, as in most virtual machines", governor_file);
    td_report_say(r, 12, "CPUs that the process may use", "", facts.n_allowed);
    td_report_say(r, 12, "threads that \"all threads\" means here", "", r->cpus);
    td_report_say(r, 12, "load of others before (1 minute)", "", r->load_before);
}

void td_report_machine(struct td_report *r)
{
    write_levels(r);
    write_features(r);
    write_machine(r);
}
