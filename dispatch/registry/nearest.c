/* The name that was most likely meant: by the fewest letters to change, add, leave out or swap
 * (optimal string alignment). */
#include "dispatch/dispatch.h"

#include <string.h>

#define LONGEST 48

static int least(int a, int b)
{
    return a < b ? a : b;
}

static int distance(const char *a, const char *b)
{
    int n = (int)strlen(a), m = (int)strlen(b), row[3][LONGEST + 1];
    if (n > LONGEST || m > LONGEST)
        return LONGEST;
    for (int j = 0; j <= m; j++)
        row[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= m; j++) {
            now[j] = least(least(last[j], now[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least(now[j], before[j - 2] + 1);
        }
    }
    return row[n % 3][m];
}

const char *td_nearest(const char *name, const char *const *names, int n)
{
    const char *near = NULL;
    int best = (int)strlen(name) / 3 + 1; /* more would be another word */
    for (int i = 0; i < n; i++) {
        int d = distance(name, names[i]);
        if (d <= best && d < (int)strlen(names[i])) {
            best = d - 1;
            near = names[i];
        }
    }
    return near;
}
