/* The symbol table of the running program, sorted by address. The file is /proc/self/exe, which is
 * the one that runs even where another has taken its place. It is read anew each time: it takes
 * some milliseconds, is asked for by people, and keeps no memory. */
#include "kernels/jit/functions.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct td_symbol {
    const char *name;
    uint64_t address, bytes;
    bool is_code, is_static;
    bool is_reached; /* td_function_reaches: */
    struct td_symbol *next;
};

static const Elf64_Shdr *section(const struct td_functions *all, size_t i)
{
    const Elf64_Ehdr *head = all->file;
    return (const Elf64_Shdr *)((const char *)all->file + head->e_shoff) + i;
}

static bool is_inside(const struct td_functions *all, const Elf64_Shdr *s)
{
    return s->sh_offset <= all->bytes && s->sh_size <= all->bytes - s->sh_offset;
}

/* Whether the symbol's section has constants that are set once, when the program is loaded. */
static bool is_constant(const struct td_functions *all, const Elf64_Sym *symbol)
{
    const Elf64_Ehdr *head = all->file;
    const Elf64_Shdr *names = section(all, head->e_shstrndx);
    const char *name = (const char *)all->file + names->sh_offset;
    return symbol->st_shndx < head->e_shnum && is_inside(all, names) &&
           !strncmp(name + section(all, symbol->st_shndx)->sh_name, ".data.rel.ro", 12);
}

static const Elf64_Shdr *find_table(const struct td_functions *all)
{
    const Elf64_Ehdr *head = all->file;
    if (all->bytes < sizeof *head || memcmp(head->e_ident, ELFMAG, SELFMAG) ||
        head->e_shoff > all->bytes ||
        head->e_shnum > (all->bytes - head->e_shoff) / sizeof(Elf64_Shdr) ||
        head->e_shstrndx >= head->e_shnum)
        return NULL;
    for (size_t i = 0; i < head->e_shnum; i++) {
        const Elf64_Shdr *s = section(all, i);
        if (s->sh_type == SHT_SYMTAB && s->sh_link < head->e_shnum && is_inside(all, s) &&
            is_inside(all, section(all, s->sh_link)))
            return s;
    }
    return NULL;
}

/* By address; of a function with several names the one that all sources know first. */
static int compare(const void *a, const void *b)
{
    const struct td_symbol *x = a, *y = b;
    return x->address != y->address ? x->address < y->address ? -1 : 1
                                    : x->is_static - y->is_static;
}

static int read_table(struct td_functions *all)
{
    const Elf64_Shdr *table = find_table(all);
    if (!table)
        return -ENODATA;
    const Elf64_Sym *symbol = (const Elf64_Sym *)((const char *)all->file + table->sh_offset);
    size_t n = table->sh_size / sizeof *symbol;
    const char *names = (const char *)all->file + section(all, table->sh_link)->sh_offset;
    all->symbol = malloc((n + 1) * sizeof *all->symbol);
    if (!all->symbol)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        bool is_code = ELF64_ST_TYPE(symbol[i].st_info) == STT_FUNC;
        if (symbol[i].st_shndx != SHN_UNDEF && symbol[i].st_size &&
            (is_code ||
             (ELF64_ST_TYPE(symbol[i].st_info) == STT_OBJECT && is_constant(all, &symbol[i]))))
            all->symbol[all->n++] =
                (struct td_symbol){.name = names + symbol[i].st_name,
                                   .address = symbol[i].st_value,
                                   .bytes = symbol[i].st_size,
                                   .is_code = is_code,
                                   .is_static = ELF64_ST_BIND(symbol[i].st_info) == STB_LOCAL};
    }
    qsort(all->symbol, all->n, sizeof *all->symbol, compare);
    return all->n ? 0 : -ENODATA;
}

static int note_base(struct dl_phdr_info *info, size_t size, void *base)
{
    (void)size;
    *(uintptr_t *)base = info->dlpi_addr;
    return 1; /* the first is the program */
}

int td_functions_open(struct td_functions *all)
{
    struct stat st;
    *all = (struct td_functions){0};
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int err = fstat(fd, &st) ? -errno : 0;
    void *file = err ? MAP_FAILED : mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (!err && file == MAP_FAILED)
        err = -errno;
    close(fd);
    if (err)
        return err;
    all->file = file;
    all->bytes = (size_t)st.st_size;
    dl_iterate_phdr(note_base, &all->base);
    err = read_table(all);
    if (err)
        td_functions_close(all);
    return err;
}

void td_functions_close(struct td_functions *all)
{
    free(all->symbol);
    if (all->file)
        munmap((void *)(uintptr_t)all->file, all->bytes);
    *all = (struct td_functions){0};
}

/* The symbol with the byte; NULL: there is none. */
static struct td_symbol *find(const struct td_functions *all, uint64_t address)
{
    size_t low = 0, high = all->n; /* the first that begins behind the byte is from low to high */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (all->symbol[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    while (low > 1 && all->symbol[low - 2].address == all->symbol[low - 1].address)
        low--;
    struct td_symbol *s = low ? &all->symbol[low - 1] : NULL;
    return s && address - s->address < s->bytes ? s : NULL;
}

bool td_function_at(const struct td_functions *all, uint64_t address, struct td_function *found)
{
    const struct td_symbol *s = find(all, address);
    if (!s || !s->is_code)
        return false;
    *found = (struct td_function){.name = s->name,
                                  .code = (const unsigned char *)(all->base + s->address),
                                  .bytes = s->bytes,
                                  .address = s->address,
                                  .is_static = s->is_static};
    return true;
}

bool td_function_of(const struct td_functions *all, const void *code, struct td_function *found)
{
    return td_function_at(all, (uintptr_t)code - all->base, found) && found->code == code;
}

/* A sanitizer's symbol of a table has the bytes behind it as well, which nobody else may read. */
__attribute__((no_sanitize("address"))) void td_functions_in_table(const struct td_functions *all,
                                                                   uint64_t address,
                                                                   td_function_tell *tell,
                                                                   void *arg)
{
    const struct td_symbol *s = find(all, address);
    struct td_function f;
    if (!s || s->is_code)
        return;
    const uintptr_t *word = (const uintptr_t *)((all->base + s->address + 7) & ~(uintptr_t)7);
    for (; (uintptr_t)(word + 1) <= all->base + s->address + s->bytes; word++)
        if (td_function_of(all, (const void *)*word, &f))
            tell(arg, &f);
}

/* ---- what one reaches ---- */

struct reached { /* functions, each once, linked by next */
    const struct td_functions *all;
    struct td_symbol *first, *last;
};

static void note(void *arg, const struct td_function *f)
{
    struct reached *r = arg;
    struct td_symbol *s = find(r->all, f->address);
    if (!s || s->is_reached)
        return;
    s->is_reached = true;
    s->next = NULL;
    if (r->last)
        r->last->next = s;
    else
        r->first = s;
    r->last = s;
}

bool td_function_reaches(const struct td_functions *all, const struct td_function *from,
                         const char *name, struct td_function *found)
{
    struct reached r = {.all = all};
    for (size_t i = 0; i < all->n; i++)
        all->symbol[i].is_reached = false;
    note(&r, from);
    for (struct td_symbol *s = r.first; s; s = s->next) {
        struct td_function f;
        if (!td_function_at(all, s->address, &f))
            continue;
        if (!strcmp(f.name, name)) {
            *found = f;
            return true;
        }
        if (s == r.first || f.is_static)
            td_function_refers(all, &f, note, &r);
    }
    return false;
}
