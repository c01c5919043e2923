/* Functions of the running program: the code of compiled kernels. Where one begins and ends is in
 * the symbol table of the program's file, which is no part of its memory and is read when somebody
 * asks. A program that was stripped has no such table. */
#ifndef TD_KERNELS_JIT_FUNCTIONS_H
#define TD_KERNELS_JIT_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct td_symbol;
struct td_functions {
    const void *file; /* mapped */
    size_t bytes;
    struct td_symbol *symbol; /* functions and tables of constants, by address */
    size_t n;
    uintptr_t base; /* what the program's addresses count from */
};

struct td_function {
    const char *name;          /* stays until the table is closed */
    const unsigned char *code; /* in memory, */
    size_t bytes;              /* so many; stays as long as the process */
    uint64_t address;          /* in the program's file, as objdump shows it */
    bool is_static;            /* of one source; another may have one of the same name */
};

/* -ENODATA: the program was stripped; other -errno: its file cannot be read. */
int td_functions_open(struct td_functions *all);
void td_functions_close(struct td_functions *all);

/* The function that has the byte at the address of the program's file. */
bool td_function_at(const struct td_functions *all, uint64_t address, struct td_function *found);
/* The function that begins there, as a pointer to it has it. */
bool td_function_of(const struct td_functions *all, const void *code, struct td_function *found);

typedef void td_function_tell(void *arg, const struct td_function *function);
/* Tells functions whose addresses are in the table of constants that has this byte. */
void td_functions_in_table(const struct td_functions *all, uint64_t address, td_function_tell *tell,
                           void *arg);
/* Tells other functions that the code of one refers to: it calls them, jumps to them, or takes the
 * address of one or of a table of them. A function may be told more than once; without a
 * disassembler none is. */
void td_function_refers(const struct td_functions *all, const struct td_function *from,
                        td_function_tell *tell, void *arg);
/* The function of that name that another reaches: itself, what it refers to, and what static
 * functions among these refer to. It marks symbols: one thread at a time may ask of a table. */
bool td_function_reaches(const struct td_functions *all, const struct td_function *from,
                         const char *name, struct td_function *found);
/* As text: where it lies, to what it refers, and its instructions; without a disassembler bytes. */
void td_function_print(const struct td_functions *all, const struct td_function *f, FILE *to);

#endif
