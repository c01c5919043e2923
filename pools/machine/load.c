/* How long each CPU of the machine has worked, for anyone: what Linux counts in /proc/stat. */
#include "pools/pools.h"

#include <stdio.h>
#include <unistd.h>

void td_cpus_busy(double *seconds, int n)
{
    for (int i = 0; i < n; i++)
        seconds[i] = -1;
    FILE *file = fopen("/proc/stat", "re");
    char line[512];
    while (file && fgets(line, sizeof line, file)) {
        unsigned cpu;
        unsigned long long user, nice, system, idle, wait, irq, softirq;
        if (sscanf(line, "cpu%u %llu %llu %llu %llu %llu %llu %llu", &cpu, &user, &nice, &system,
                   &idle, &wait, &irq, &softirq) == 8 &&
            cpu < (unsigned)n)
            seconds[cpu] =
                (double)(user + nice + system + irq + softirq) / (double)sysconf(_SC_CLK_TCK);
    }
    if (file)
        fclose(file);
}
