/* server/log*.c: whatever bytes come, a line is one line and its values are read back; and how many
 * lines a thread may write. */
#include "server/log/log.h"

#include "api/json/json.h"
#include "server/log/line.h"
#include "tests/run_tests.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static void check_line(const struct td_line *line)
{
    size_t i = 0;
    while (i < line->length && line->text[i] >= ' ' && line->text[i] <= '~')
        i++;
    ck_assert_msg(i + 1 == line->length && line->text[i] == '\n', "byte %d at %zu of %zu",
                  line->text[i], i, line->length);
}

/* The value as it is read from the line, which must be right JSON. */
static void check_value(const char *value)
{
    static struct td_line line;
    struct td_problem problem = {""};
    struct td_json json;
    td_line_begin(&line, true);
    td_line_text(&line, "op", value);
    td_line_sentence(&line, "message", value);
    td_line_int(&line, "n", -7);
    td_line_us(&line, "us", 1234567);
    td_line_end(&line);
    check_line(&line);
    ck_assert_msg(!td_json_parse(&json, line.text, line.length, 8, &problem), "%s", problem.text);
    bool is_utf8 = true;
    for (const char *c = value, *end = value + strlen(value); c < end && is_utf8;) {
        int n = td_utf8_length(c, end);
        is_utf8 = n;
        c += n;
    }
    if (is_utf8 && strlen(value) <= 200)
        ck_assert_str_eq(td_json_member(json.root, "op")->valuestring, value);
    ck_assert_int_eq(td_json_member(json.root, "n")->valueint, -7);
    ck_assert_double_eq(td_json_member(json.root, "us")->valuedouble, 1234.567);
    td_json_free(&json);
    td_line_begin(&line, false);
    td_line_text(&line, "op", value);
    td_line_end(&line);
    check_line(&line);
}

START_TEST(test_any_bytes)
{
    char value[700];
    for (int i = 0; i < 20000; i++) {
        int n = rand() % 300, from = i % 4 ? 1 : 0xc0; /* the latter are mostly UTF-8's */
        for (int k = 0; k < n; k++)
            value[k] = (char)(from + rand() % (256 - from));
        value[n] = 0;
        check_value(value);
    }
    for (unsigned code = 1; code < 0x110000; code += code < 0x3000 ? 1 : 97) {
        if (code >= 0xd800 && code < 0xe000)
            continue;
        int n = 0;
        if (code < 0x80) {
            value[n++] = (char)code;
        } else if (code < 0x800) {
            value[n++] = (char)(0xc0 | code >> 6);
        } else if (code < 0x10000) {
            value[n++] = (char)(0xe0 | code >> 12);
            value[n++] = (char)(0x80 | (code >> 6 & 0x3f));
        } else {
            value[n++] = (char)(0xf0 | code >> 18);
            value[n++] = (char)(0x80 | (code >> 12 & 0x3f));
            value[n++] = (char)(0x80 | (code >> 6 & 0x3f));
        }
        if (code >= 0x80)
            value[n++] = (char)(0x80 | (code & 0x3f));
        value[n] = 0;
        check_value(value);
    }
}
END_TEST

START_TEST(test_plain_or_quoted)
{
    static struct td_line line;
    td_line_begin(&line, false);
    size_t n = line.length;
    td_line_text(&line, "a", "/v1/ops/{op}");
    td_line_text(&line, "b", "x y=1");
    td_line_text(&line, "c", "");
    td_line_text(&line, "d", NULL);
    td_line_raw(&line, "e", "{\"f\":1}");
    td_line_raw(&line, "g", "{\"\x1b\":1}");
    td_line_end(&line);
    line.text[line.length] = 0;
    ck_assert_str_eq(line.text + n, " a=/v1/ops/{op} b=\"x y=1\" c=\"\" e={\"f\":1}\n");
}
END_TEST

/* Lines that n requests get, which end one after another. */
static int lines(struct td_log *log, struct td_log_turn *turn, int64_t *now, int n, int64_t apart,
                 int status)
{
    struct td_request req = {.response = {.status = status}};
    int wanted = 0;
    for (int i = 0; i < n; i++) {
        *now += apart;
        req.begin_ns = *now - 1000;
        wanted += td_log_wants(log, turn, &req, *now);
    }
    return wanted;
}

START_TEST(test_rate)
{
    struct td_front front = {0};
    struct td_log *log;
    struct td_log_turn turn = {0};
    int64_t now = INT64_C(1000000000000);
    ck_assert_int_eq(td_log_start(&log, TD_LOG_json, 0, &front), 0);
    int n = lines(log, &turn, &now, 1000000, 10000, 200); /* 10 s of 100,000 a second */
    ck_assert_int_ge(n, 10900);
    ck_assert_int_le(n, 11100);
    ck_assert_uint_eq(turn.skipped, (unsigned)(1000000 - n));
    n = lines(log, &turn, &now, 1000, 1000, 500); /* failures have lines of their own */
    ck_assert_int_ge(n, 199);
    ck_assert_int_le(n, 210);
    ck_assert_int_eq(lines(log, &turn, &now, 100, 1000, 200), 0);
    ck_assert_int_eq(lines(log, &turn, &now, 5000, 1000000, 200) > 4700, 1); /* 1,000 a second */
    td_log_stop(log);
    ck_assert_int_eq(td_log_start(&log, TD_LOG_off, 0, &front), 0);
    ck_assert_int_eq(lines(log, &turn, &now, 10, 1000000, 500), 0);
    td_log_stop(log);
    ck_assert_int_eq(td_log_wants(NULL, &turn, NULL, 0), 0);
}
END_TEST

int main(void)
{
    srand(1);
    const TTest *const tests[] = {test_any_bytes, test_plain_or_quoted, test_rate};
    return td_run_tests("server_log", tests, sizeof tests / sizeof *tests);
}
