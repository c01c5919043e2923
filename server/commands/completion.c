/* The commands and options once more, for shells that complete them and for man: written from
 * commands.def and options.def, so that no list is kept by hand. `meson install` puts them where
 * they are looked for. */
#include "server/commands/commands.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *word, *options, *examples, *help;
} commands[] = {
#define TD_COMMAND(id, word, options, examples, help) {word, options, examples, help},
#include "server/commands/commands.def"
#undef TD_COMMAND
};
#define COMMANDS (sizeof commands / sizeof *commands)

enum type { TYPE_text, TYPE_written, TYPE_list, TYPE_number, TYPE_bytes, TYPE_choice, TYPE_flag };

static const struct {
    const char *name, *value, *def, *help;
    enum type type;
} options[] = {
#define TD_OPTION(type, name, value, def, lowest, highest, help)                                   \
    {#name, value, def, help, TYPE_##type},
#include "server/config/options.def"
#undef TD_OPTION
};
#define OPTIONS (sizeof options / sizeof *options)

/* Puts text up to the first byte of end, with instead of from, and a backslash before those of
 * quoted. */
static void put(const char *text, const char *end, char from, char instead, const char *quoted)
{
    for (; *text && !strchr(end, *text); text++) {
        if (strchr(quoted, *text))
            putchar('\\');
        putchar(*text == from ? instead : *text);
    }
}

static void put_flag(size_t option, const char *quoted)
{
    put(options[option].name, "", '_', '-', quoted);
}

static bool is_file(size_t option)
{
    return !strcmp(options[option].value, "FILE") || !strcmp(options[option].value, "DIR");
}

/* ---- help ---- */

/* The most examples of a command, or one of each, side by side with what they are for. */
struct examples {
    const char *line[16];
    size_t n;
    int width;
};

/* Takes the next example at text. What follows it, or NULL. */
static const char *take_example(struct examples *e, const char *text)
{
    int width = (int)strcspn(text, "\t");
    e->line[e->n++] = text;
    e->width = width > e->width ? width : e->width;
    const char *end = strchr(text, '\n');
    return end ? end + 1 : NULL;
}

static void print_examples(const struct examples *e)
{
    puts("\nExamples:");
    for (size_t i = 0; i < e->n; i++) {
        int width = (int)strcspn(e->line[i], "\t");
        const char *what = e->line[i] + width + 1;
        printf("  %-*.*s   %.*s\n", e->width, width, e->line[i], (int)strcspn(what, "\n"), what);
    }
}

int td_command_help(const char *word, const char *text)
{
    struct examples e = {.n = 0};
    for (size_t i = 0; i < COMMANDS; i++)
        for (const char *at = strcmp(commands[i].word, word) ? NULL : commands[i].examples; at;)
            at = take_example(&e, at);
    fputs(text, stdout);
    print_examples(&e);
    return 0;
}

void td_command_examples(void)
{
    struct examples e = {.n = 0};
    for (size_t i = 0; i < COMMANDS; i++)
        take_example(&e, commands[i].examples);
    print_examples(&e);
}

int td_command_wrong(const char *word, const char *what, const char *given)
{
    fprintf(stderr, "tensord: %s: %s '%s'; see tensord %s --help\n", word, what, given, word);
    return 2;
}

int td_command_no_option(const char *word, const char *given)
{
    char taken[200] = "";
    const char *names[24] = {"--help"};
    int n = 1;
    for (size_t i = 0; i < COMMANDS; i++)
        if (!strcmp(commands[i].word, word))
            snprintf(taken, sizeof taken, "%s", commands[i].options);
    for (char *rest = taken, *one; n < 24 && (one = strsep(&rest, " "));)
        names[n++] = one;
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], given)) {
            fprintf(stderr,
                    "tensord: %s: no value of '%s', or a wrong one; see tensord %s --help\n", word,
                    given, word);
            return 2;
        }
    const char *near = td_nearest(given, names, n);
    fprintf(stderr, "tensord: %s: unknown option '%s'%s%s%s; see tensord %s --help\n", word, given,
            near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "", word);
    return 2;
}

static bool asks_help(int argc, char **argv)
{
    return argc == 1 && (!strcmp(argv[0], "--help") || !strcmp(argv[0], "-h"));
}

/* ---- shells ---- */

static bool takes_files(size_t command)
{
    const char *word = commands[command].word;
    return !strcmp(word, "run") || !strcmp(word, "bench") || !strcmp(word, "report");
}

/* As --cpu-capability takes them. */
static void put_levels(void)
{
    for (int i = 0; i < TD_ISAS; i++) {
        char name[32] = "";
        snprintf(name, sizeof name, "%s%s", i ? " " : "", td_isa_name(i));
        for (const char *c = name; *c; c++)
            putchar(tolower((unsigned char)*c));
    }
}

static void write_bash(void)
{
    printf("_tensord() {\n    local word=${COMP_WORDS[COMP_CWORD]} words=\n"
           "    case ${COMP_WORDS[1]}/${COMP_WORDS[COMP_CWORD-1]} in\n");
    for (size_t i = 0; i < OPTIONS; i++) {
        if (options[i].type != TYPE_choice && !is_file(i))
            continue;
        printf("    serve/--");
        put_flag(i, "");
        printf(is_file(i) ? ") return" : ") words='");
        put(is_file(i) ? "" : options[i].value, "", '|', ' ', "");
        printf(is_file(i) ? " ;;\n" : "' ;;\n");
    }
    printf("    serve/--cpu-capability) words='");
    put_levels();
    printf("' ;;\n    */tensord) words='");
    for (size_t i = 0; i < COMMANDS; i++)
        printf("%s ", commands[i].word);
    printf("--help --version' ;;\n    serve/*) words='");
    for (size_t i = 0; i < OPTIONS; i++) {
        printf("--");
        put_flag(i, "");
        putchar(' ');
    }
    printf("--help' ;;\n");
    printf("    */--op|ops/ops) words=\"--json --help $(tensord ops 2>/dev/null | cut -d' ' -f1 | "
           "cut -d. -f1 | sort -u)\" ;;\n"
           "    */--input|*/--output-dir|*/--cases|*/--models|*/--inputs|*/--python|*/--from) "
           "return ;;\n");
    for (size_t i = 1; i < COMMANDS; i++)
        printf("    %s/*) %swords='%s --help' ;;\n", commands[i].word,
               !takes_files(i) ? "" : "[[ $word != -* ]] || ", commands[i].options);
    printf("    esac\n    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n}\n"
           "complete -o default -F _tensord tensord\n");
}

/* Between the single quotes of a word of _arguments: zsh has no escape there, so they end for an
 * apostrophe. */
static void put_zsh(const char *text)
{
    put(text, ";'", '\n', ' ', "[]:");
    text += strcspn(text, ";'");
    if (*text == '\'') {
        fputs("'\\''", stdout);
        put_zsh(text + 1);
    }
}

static void write_zsh(void)
{
    printf("#compdef tensord\nlocal -a commands=(\n");
    for (size_t i = 0; i < COMMANDS; i++)
        printf("    '%s:%s'\n", commands[i].word, commands[i].help);
    printf(")\nif (( CURRENT == 2 )); then\n    _describe command commands\n    return\nfi\n"
           "case $words[2] in\nserve) shift words; (( CURRENT-- )); _arguments \\\n");
    for (size_t i = 0; i < OPTIONS; i++) {
        printf(options[i].type == TYPE_list ? "    '*--" : "    '--");
        put_flag(i, "");
        putchar('[');
        put_zsh(options[i].help);
        if (options[i].type == TYPE_flag) {
            printf("]' \\\n");
            continue;
        }
        printf("]:");
        put(options[i].value, "", 0, 0, ":");
        bool levels = !strcmp(options[i].name, "cpu_capability");
        printf(is_file(i)                                 ? ":_files' \\\n"
               : options[i].type == TYPE_choice || levels ? ":("
                                                          : ":' \\\n");
        if (levels) {
            put_levels();
            printf(")' \\\n");
        }
        if (options[i].type == TYPE_choice) {
            put(options[i].value, "", '|', ' ', "");
            printf(")' \\\n");
        }
    }
    printf("    '--help[these options]' ;;\n"
           "ops) compadd -- --json --help ${(f)\"$(tensord ops 2>/dev/null | cut -d' ' -f1 | cut "
           "-d. -f1 | sort -u)\"} ;;\n");
    for (size_t i = 1; i < COMMANDS; i++)
        if (strcmp(commands[i].word, "ops") != 0)
            printf("%s) compadd -- %s --help%s ;;\n", commands[i].word, commands[i].options,
                   !takes_files(i) ? "" : "; _files");
    printf("esac\n");
}

static void write_fish(void)
{
    for (size_t i = 0; i < COMMANDS; i++)
        printf("complete -c tensord -f -n __fish_use_subcommand -a %s -d '%s'\n", commands[i].word,
               commands[i].help);
    for (size_t i = 0; i < OPTIONS; i++) {
        printf("complete -c tensord -n '__fish_seen_subcommand_from serve' -l ");
        put_flag(i, "");
        printf(is_file(i) ? " -rF -d '" : options[i].type == TYPE_flag ? " -f -d '" : " -x -d '");
        put(options[i].help, ";", '\n', ' ', "'\\");
        putchar('\'');
        if (options[i].type == TYPE_choice) {
            printf(" -a '");
            put(options[i].value, "", '|', ' ', "");
            putchar('\'');
        }
        if (!strcmp(options[i].name, "cpu_capability")) {
            printf(" -a '");
            put_levels();
            putchar('\'');
        }
        putchar('\n');
    }
    printf(
        "complete -c tensord -f -n '__fish_seen_subcommand_from ops' -a '(tensord ops 2>/dev/null "
        "| string replace -r \"[. ].*\" \"\" | sort -u)'\n");
    for (size_t i = 1; i < COMMANDS; i++)
        printf("complete -c tensord -n '__fish_seen_subcommand_from %s' -a '%s --help'\n",
               commands[i].word, commands[i].options);
}

int td_command_completion(int argc, char **argv)
{
    if (argc == 1 && !strcmp(argv[0], "bash")) {
        write_bash();
    } else if (argc == 1 && !strcmp(argv[0], "zsh")) {
        write_zsh();
    } else if (argc == 1 && !strcmp(argv[0], "fish")) {
        write_fish();
    } else if (asks_help(argc, argv)) {
        return td_command_help("completion",
                               "usage: tensord completion bash|zsh|fish\n\nWrites what makes that "
                               "shell complete commands and options.\n");
    } else {
        fprintf(stderr, "usage: tensord completion bash|zsh|fish; no other shell\n");
        return 2;
    }
    return 0;
}

/* ---- man ---- */

/* A sentence for troff: backslashes, and minus signs that are no hyphens. */
static void put_prose(const char *text)
{
    for (; *text; text++) {
        if (*text == '\\' || *text == '-')
            putchar('\\');
        putchar(*text == '\n' ? ' ' : *text);
    }
    putchar('\n');
}

/* Examples, each with what it is for below it. */
static void put_examples(const char *text)
{
    for (const char *end; text; text = end ? end + 1 : NULL) {
        char line[200];
        int width = (int)strcspn(text, "\t");
        printf(".TP\n.B ");
        snprintf(line, sizeof line, "%.*s", width, text);
        put_prose(line);
        end = strchr(text, '\n');
        snprintf(line, sizeof line, "%.*s", (int)strcspn(text + width + 1, "\n"), text + width + 1);
        put_prose(line);
    }
}

int td_command_man(int argc, char **argv)
{
    if (asks_help(argc, argv))
        return td_command_help("man", "usage: tensord man\n\nWrites the manual page.\n");
    if (argc) {
        fprintf(stderr, "tensord: man takes no '%s'\n", argv[0]);
        return 2;
    }
    printf(".TH TENSORD 1 \"\" \"tensord " TD_VERSION "\"\n.SH NAME\n"
           "tensord \\- a CPU's vector and matrix units behind plain HTTP\n.SH SYNOPSIS\n"
           ".B tensord\n.I COMMAND\n.RI [ OPTIONS ]\n.SH COMMANDS\n");
    for (size_t i = 0; i < COMMANDS; i++) {
        printf(".TP\n.B ");
        put_prose(commands[i].word);
        put_prose(commands[i].help);
    }
    printf(".SH OPTIONS OF SERVE\nEach is also TENSORD_NAME in the environment and a key of the\n"
           "\\-\\-config file; what it is otherwise stands in brackets.\n");
    for (size_t i = 0; i < OPTIONS; i++) {
        printf(".TP\n.BI \\-\\-");
        put(options[i].name, "", '_', '-', "_");
        printf(*options[i].value ? " \" " : " \"");
        put(options[i].value, "", 0, 0, "");
        printf("\"\n");
        put_prose(options[i].help);
        if (*options[i].def) {
            printf("[");
            put(options[i].def, "", 0, 0, "-");
            printf("]\n");
        }
    }
    printf(".SH EXAMPLES\n");
    for (size_t i = 0; i < COMMANDS; i++)
        put_examples(commands[i].examples);
    return 0;
}
