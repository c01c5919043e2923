/* The pictures of a report's page, as SVG without a view box: percents across and pixels down. */
#include "server/report/page.h"

#include <math.h>
#include <string.h>

#define LETTERS 38 /* of a label's line, on the narrowest screen */
#define LINE 17    /* pixels: of a line of letters, */
#define BAR 9      /* of a bar, */
#define GAP 9      /* and between what is one below the other */
#define DOTS 26
#define AXIS 22
#define MOST_TICKS 12

/* ---- scales ---- */

static double at(const struct td_chart *c, double value)
{
    double part = c->log ? log(value / c->from) / log(c->to / c->from)
                         : (value - c->from) / (c->to - c->from);
    return 100 * (isnan(part) || part < 0 ? 0 : part > 1 ? 1 : part);
}

/* Numbers that people count by. */
static int make_ticks(const struct td_chart *c, double *tick)
{
    static const double steps[] = {1, 2, 5};
    int n = 0;
    double decades = c->log ? log10(c->to / c->from) : 0;
    if (c->log) {
        for (double d = pow(10, floor(log10(c->from))); d <= c->to * 1.001; d *= 10)
            for (int i = 0; i < 3; i++)
                if (d * steps[i] >= c->from * 0.999 && d * steps[i] <= c->to * 1.001 &&
                    (i == 0 || decades < 2.2) && n < MOST_TICKS)
                    tick[n++] = d * steps[i];
        return n;
    }
    double step = pow(10, floor(log10(c->to - c->from)));
    for (int i = 2; i >= 0 && (c->to - c->from) / step < 3.9; i--)
        step = pow(10, floor(log10(c->to - c->from)) - 1) * steps[i];
    for (double v = c->from; v <= c->to * 1.001 && n < MOST_TICKS; v += step)
        tick[n++] = v;
    return n;
}

/* Short, as there is little room: 10k, 1M. */
static const char *tick_text(double value, char text[24])
{
    char digits[24];
    bool millions = value >= 1e6, thousands = value >= 1e4;
    td_page_digits(millions ? value * 1e-6 : thousands ? value * 1e-3 : value, digits);
    snprintf(text, 24, "%.20s%s", digits, millions ? "M" : thousands ? "k" : "");
    return text;
}

static void draw_axis(struct td_page *p, const struct td_chart *c, int height)
{
    double tick[MOST_TICKS], last = -100;
    char text[24];
    int n = make_ticks(c, tick);
    for (int i = 0; i < n; i++) {
        double x = at(c, tick[i]);
        fprintf(p->to, "<line class='grid' x1='%.2f%%' x2='%.2f%%' y1='0' y2='%d'/>", x, x,
                height - AXIS + 4);
        if (x - last < (i + 1 == n && x > 92 ? 20 : 12))
            continue;
        last = x;
        fprintf(p->to, "<text class='tick' x='%.2f%%' y='%d' text-anchor='%s'>%s%s</text>", x,
                height - 4,
                x < 5    ? "start"
                : x > 92 ? "end"
                         : "middle",
                tick_text(tick[i], text), i + 1 == n || x < 5 ? c->unit : "");
    }
    if (!isnan(c->mark)) {
        double x = at(c, c->mark);
        fprintf(p->to, "<line class='mark' x1='%.2f%%' x2='%.2f%%' y1='0' y2='%d'/>", x, x,
                height - AXIS + 4);
    }
}

/* ---- frames ---- */

static void open_picture(struct td_page *p, const struct td_chart *c, int height)
{
    int id = p->pictures++;
    fputs("<figure>", p->to);
    if (c->series[0]) {
        fputs("<p class='legend'>", p->to);
        for (int i = 0; i < 2 && c->series[i]; i++) {
            fprintf(p->to, "<span><i class='s%d'></i>", i);
            td_page_text(p, c->series[i]);
            fputs("</span>", p->to);
        }
        fputs("</p>", p->to);
    }
    fprintf(p->to,
            "<svg xmlns='http://www.w3.org/2000/svg' width='100%%' height='%d' role='img' "
            "aria-labelledby='t%d d%d'><title id='t%d'>",
            height, id, id, id);
    td_page_text(p, c->title);
    fprintf(p->to, "</title><desc id='d%d'>", id);
    td_page_text(p, c->means);
    fputs("</desc>", p->to);
}

static void close_picture(struct td_page *p, const struct td_chart *c)
{
    fputs("</svg><figcaption><b>", p->to);
    td_page_say(p, "%s.", c->title);
    fputs("</b> ", p->to);
    td_page_text(p, c->means);
    fputs("</figcaption></figure>\n", p->to);
}

/* Bytes of the label's next line: whole words, if that can be. */
static size_t line_of(const char *text)
{
    size_t n = strlen(text), cut = LETTERS;
    if (n <= LETTERS)
        return n;
    while (cut > LETTERS / 2 && text[cut] != ' ')
        cut--;
    if (text[cut] == ' ')
        return cut;
    for (cut = LETTERS; ((unsigned char)text[cut] & 0xc0) == 0x80;)
        cut--; /* no letter is cut in two */
    return cut;
}

static int count_lines(const char *label)
{
    int n = 0;
    do {
        label += line_of(label);
        label += *label == ' ';
        n++;
    } while (*label);
    return n;
}

/* Label and text; the y below them. */
static int draw_label(struct td_page *p, int y, const char *label, const char *text)
{
    char line[LETTERS + 1];
    fprintf(p->to, "<text class='value' x='100%%' y='%d' text-anchor='end'>", y + LINE - 4);
    td_page_text(p, text);
    fputs("</text>", p->to);
    do {
        size_t n = line_of(label);
        snprintf(line, sizeof line, "%.*s", (int)n, label);
        label += n;
        label += *label == ' ';
        fprintf(p->to, "<text x='0' y='%d'>", y + LINE - 4);
        td_page_text(p, line);
        fputs("</text>", p->to);
        y += LINE;
    } while (*label);
    return y;
}

/* ---- bars ---- */

static void fit(struct td_chart *c, const struct td_bar *bars, int n)
{
    double least = INFINITY, most = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < bars[i].n; k++) {
            most = fmax(most, fmax(bars[i].value[k], bars[i].most[k]));
            least = bars[i].value[k] > 0 ? fmin(least, bars[i].value[k]) : least;
        }
    c->to = c->to > 0 ? c->to : most > 0 ? most * 1.02 : 1;
    if (c->log && c->from <= 0)
        c->from = fmin(pow(10, floor(log10(least / 1.5))), c->to / 10);
}

static void draw_bar(struct td_page *p, const struct td_chart *c, const struct td_bar *bar, int k,
                     int y)
{
    double x = at(c, bar->value[k]);
    fprintf(p->to, "<rect class='s%d' x='0' y='%d' width='%.2f%%' height='%d' rx='2'/>", k, y,
            x > 0.4 ? x : 0.4, BAR);
    if (!isnan(bar->least[k]) && !isnan(bar->most[k]))
        fprintf(p->to, "<line class='range' x1='%.2f%%' x2='%.2f%%' y1='%d' y2='%d'/>",
                at(c, bar->least[k]), at(c, bar->most[k]), y + BAR / 2, y + BAR / 2);
}

void td_chart_bars(struct td_page *page, const struct td_chart *chart, const struct td_bar *bars,
                   int n)
{
    struct td_chart c = *chart;
    int height = AXIS, y = 0;
    if (!n)
        return;
    fit(&c, bars, n);
    for (int i = 0; i < n; i++)
        height += count_lines(bars[i].label) * LINE + bars[i].n * (BAR + 2) + GAP;
    open_picture(page, &c, height);
    draw_axis(page, &c, height);
    for (int i = 0; i < n; i++) {
        y = draw_label(page, y, bars[i].label, bars[i].text);
        for (int k = 0; k < bars[i].n; k++, y += BAR + 2)
            draw_bar(page, &c, &bars[i], k, y);
        y += GAP;
    }
    close_picture(page, &c);
}

/* ---- dots ---- */

void td_chart_dots(struct td_page *page, const struct td_chart *chart, const struct td_dots *lines,
                   int n)
{
    int height = n * (LINE + DOTS + GAP) + AXIS, y = 0;
    if (!n)
        return;
    open_picture(page, chart, height);
    draw_axis(page, chart, height);
    for (int i = 0; i < n; i++) {
        const struct td_dots *d = &lines[i];
        double x = at(chart, d->mean);
        y = draw_label(page, y, d->label, d->text);
        fprintf(page->to, "<line class='mean' x1='%.2f%%' x2='%.2f%%' y1='%d' y2='%d'/>", x, x, y,
                y + DOTS);
        for (int k = 0; k < d->n; k++) {
            fprintf(page->to, "<circle cx='%.2f%%' cy='%d' r='4'><title>", at(chart, d->value[k]),
                    y + 6 + k % 3 * 7);
            td_page_text(page, d->name[k]);
            fputs("</title></circle>", page->to);
        }
        y += DOTS + GAP;
    }
    close_picture(page, chart);
}

/* ---- yes and no ---- */

/* Two a line, which fit on a narrow screen too. */
void td_chart_cells(struct td_page *page, const struct td_chart *chart, const struct td_cell *cells,
                    int n)
{
    int rows = (n + 1) / 2;
    if (!n)
        return;
    open_picture(page, chart, rows * 20 + 4);
    for (int i = 0; i < n; i++) {
        int left = i < rows ? 0 : 50, y = i % rows * 20;
        int marks = chart->series[1] ? 2 : 1;
        for (int k = 0; k < marks; k++)
            fprintf(page->to,
                    "<svg x='%d%%' y='%d' width='30' height='20'><rect class='%s%d' x='%d' y='4' "
                    "width='11' height='11' rx='2'/></svg>",
                    left, y, cells[i].yes[k] ? "s" : "no s", k, 1 + 14 * k);
        fprintf(page->to, "<svg x='%d%%' y='%d' width='50%%' height='20'><text x='%d' y='14'>",
                left, y, 6 + 14 * marks);
        td_page_text(page, cells[i].label);
        fprintf(page->to, "<title>%s</title></text></svg>", cells[i].yes[0] ? "yes" : "no");
    }
    close_picture(page, chart);
}
