/* Words, numbers and tables of a report's page, and what it reads of the JSON. */
#include "server/report/page.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- text ---- */

void td_page_text(struct td_page *page, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '&')
            fputs("&amp;", page->to);
        else if (c == '<')
            fputs("&lt;", page->to);
        else if (c == '>')
            fputs("&gt;", page->to);
        else
            putc(c < ' ' ? ' ' : c, page->to); /* which XML does not take at all */
    }
}

void td_page_say(struct td_page *page, const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    if (n < 0)
        return;
    td_page_text(page, text);
    free(text);
}

const char *td_page_digits(double value, char text[24])
{
    double size = fabs(value);
    if (!isfinite(value))
        return strcpy(text, "-");
    if (size < 1000 || size >= 1e15) {
        snprintf(text, 24, "%.*f",
                 size >= 100 || size == floor(size) ? 0
                 : size >= 10                       ? 1
                                                    : 2,
                 value);
        return text;
    }
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%.0f", size), to = 0;
    if (value < 0)
        text[to++] = '-';
    for (int i = 0; i < n && to < 22; i++) {
        if (i && (n - i) % 3 == 0)
            text[to++] = ',';
        text[to++] = digits[i];
    }
    text[to] = 0;
    return text;
}

const char *td_page_time(double us, char text[24])
{
    char digits[24];
    double scaled = us >= 1e6 ? us * 1e-6 : us >= 1000 ? us * 1e-3 : us;
    snprintf(text, 24, "%.15s %s", td_page_digits(scaled, digits),
             us >= 1e6    ? "s"
             : us >= 1000 ? "ms"
                          : "us");
    return text;
}

/* ---- JSON ---- */

const cJSON *td_page_data(const struct td_page *page, const char *key)
{
    return td_json_member(td_json_member(page->row, "data"), key);
}

const cJSON *td_page_row(const struct td_page *page, const char *name)
{
    const cJSON *row;
    cJSON_ArrayForEach(row, td_json_member(page->root, "rows"))
    {
        if (!strcmp(td_report_word(row, "row"), name))
            return row;
    }
    return NULL;
}

/* ---- tables ---- */

void td_page_open_table(struct td_page *page, const char *what, const char *const *heads)
{
    fputs("<details><summary>", page->to);
    td_page_text(page, what);
    fputs("</summary><div class='wide'><table><thead><tr>", page->to);
    for (; *heads; heads++) {
        fputs("<th scope='col'>", page->to);
        td_page_text(page, *heads);
        fputs("</th>", page->to);
    }
    fputs("</tr></thead><tbody>", page->to);
}

void td_page_cell(struct td_page *page, const char *text)
{
    fputs("<td>", page->to);
    td_page_text(page, text);
    fputs("</td>", page->to);
}

void td_page_line(struct td_page *page, const char *first)
{
    fputs(page->in_line ? "</tr><tr>" : "<tr>", page->to);
    page->in_line = true;
    td_page_cell(page, first);
}

void td_page_close_table(struct td_page *page)
{
    fputs(page->in_line ? "</tr>" : "", page->to);
    page->in_line = false;
    fputs("</tbody></table></div></details>\n", page->to);
}
