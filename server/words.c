/* The commands and options once more, for shells that complete them and for man: written from
 * commands.def and options.def, so that no list is kept by hand. `meson install` puts them where
 * they are looked for. */
#include "server/commands.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *word, *options, *help;
} commands[] = {
#define TD_COMMAND(id, word, options, help) {word, options, help},
#include "server/commands.def"
#undef TD_COMMAND
};
#define COMMANDS (sizeof commands / sizeof *commands)

enum type { TYPE_text, TYPE_list, TYPE_number, TYPE_bytes, TYPE_choice };

static const struct {
    const char *name, *value, *def, *help;
    enum type type;
} options[] = {
#define TD_OPTION(type, name, value, def, lowest, highest, help)                                   \
    {#name, value, def, help, TYPE_##type},
#include "server/options.def"
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
    return !strcmp(options[option].value, "FILE");
}

/* ---- shells ---- */

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
    printf("    */tensord) words='");
    for (size_t i = 0; i < COMMANDS; i++)
        printf("%s ", commands[i].word);
    printf("--help --version' ;;\n    serve/*) words='");
    for (size_t i = 0; i < OPTIONS; i++) {
        printf("--");
        put_flag(i, "");
        putchar(' ');
    }
    printf("--help' ;;\n");
    for (size_t i = 1; i < COMMANDS; i++)
        printf("    %s/*) words='%s --help' ;;\n", commands[i].word, commands[i].options);
    printf("    esac\n    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n}\n"
           "complete -o default -F _tensord tensord\n");
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
        put(options[i].help, "\n", 0, 0, "[]:");
        printf("]:");
        put(options[i].value, "", 0, 0, ":");
        printf(is_file(i) ? ":_files' \\\n" : options[i].type == TYPE_choice ? ":(" : ":' \\\n");
        if (options[i].type == TYPE_choice) {
            put(options[i].value, "", '|', ' ', "");
            printf(")' \\\n");
        }
    }
    printf("    '--help[these options]' ;;\n");
    for (size_t i = 1; i < COMMANDS; i++)
        printf("%s) compadd -- %s --help ;;\n", commands[i].word, commands[i].options);
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
        printf(is_file(i) ? " -rF -d '" : " -x -d '");
        put(options[i].help, "\n", 0, 0, "'\\");
        putchar('\'');
        if (options[i].type == TYPE_choice) {
            printf(" -a '");
            put(options[i].value, "", '|', ' ', "");
            putchar('\'');
        }
        putchar('\n');
    }
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
    } else {
        bool help = argc == 1 && (!strcmp(argv[0], "--help") || !strcmp(argv[0], "-h"));
        fprintf(help ? stdout : stderr, "usage: tensord completion bash|zsh|fish%s",
                help ? "\n\n  source <(tensord completion bash)\n" : "; no other shell\n");
        return help ? 0 : 2;
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

int td_command_man(int argc, char **argv)
{
    if (argc) {
        bool help = !strcmp(argv[0], "--help") || !strcmp(argv[0], "-h");
        fprintf(help ? stdout : stderr,
                help ? "usage: tensord man\n\nWrites the manual page.\n"
                     : "tensord: man takes no '%s'\n",
                argv[0]);
        return help ? 0 : 2;
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
           "\\-\\-config file.\n");
    for (size_t i = 0; i < OPTIONS; i++) {
        printf(".TP\n.BI \\-\\-");
        put(options[i].name, "", '_', '-', "_");
        printf(" \" ");
        put(options[i].value, "", 0, 0, "");
        printf("\"\n");
        put_prose(options[i].help);
        if (*options[i].def)
            printf("Default: %s.\n", options[i].def);
    }
    printf(".SH EXAMPLES\n.nf\ntensord serve \\-\\-pool main=0\\-3 \\-\\-pool jobs=4\\-7\n"
           "curl \\-s localhost:8080/v1/ops/add \\-d '{\"self\":[1,2],\"other\":10}'\n"
           "tensord bench \\-\\-op matmul\n.fi\n");
    return 0;
}
