/* SPDX-License-Identifier: BSD-3-Clause
 * Reader of x86-64 ELF files for `tileblas info` and `tileblas run`. The file is mapped, never
 * loaded and never executed. Addresses are turned into offsets through the PT_LOAD headers; every
 * access goes through a bounds check, so that a damaged file ends as BINARY_BROKEN or as fewer
 * symbols, not as a crash. */
#include "binary.h"

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct table {
    const unsigned char *at;
    size_t bytes;
};

struct binary_private {
    struct table dynsym, symtab; /* of Elf64_Sym */
    struct table dynstr, strtab;
    struct table rela, jmprel; /* of Elf64_Rela */
    unsigned char *by_name;    /* per dynamic symbol: a relocation asks for it by name */
};

/* `bytes` at `offset` of the file, or NULL. */
static const void *span(const struct binary *file, uint64_t offset, uint64_t bytes)
{
    if (offset > file->size || bytes > file->size - offset)
        return NULL;
    return file->bytes + offset;
}

static const char *text_at(struct table strings, uint64_t offset)
{
    if (offset >= strings.bytes ||
        memchr(strings.at + offset, 0, strings.bytes - (size_t)offset) == NULL)
        return NULL;
    return (const char *)strings.at + offset;
}

static bool header_read(const struct binary *file, Elf64_Ehdr *out)
{
    const void *at = span(file, 0, sizeof *out);
    if (at == NULL)
        return false;
    memcpy(out, at, sizeof *out);
    return true;
}

static bool segment_read(const struct binary *file, const Elf64_Ehdr *head, unsigned i,
                         Elf64_Phdr *out)
{
    if (head->e_phentsize != sizeof *out)
        return false;
    const void *at = span(file, head->e_phoff, (uint64_t)head->e_phnum * sizeof *out);
    if (at == NULL)
        return false;
    memcpy(out, (const unsigned char *)at + (size_t)i * sizeof *out, sizeof *out);
    return true;
}

/* The file's bytes behind a virtual address; `bytes` 0 takes all that is left of the segment. */
static struct table table_at(const struct binary *file, const Elf64_Ehdr *head, uint64_t address,
                             uint64_t bytes)
{
    for (unsigned i = 0; i < head->e_phnum; i++) {
        Elf64_Phdr segment;
        if (!segment_read(file, head, i, &segment))
            break;
        if (segment.p_type != PT_LOAD || address < segment.p_vaddr ||
            address - segment.p_vaddr >= segment.p_filesz)
            continue;
        uint64_t inside = address - segment.p_vaddr;
        uint64_t take = bytes != 0 ? bytes : segment.p_filesz - inside;
        if (take > segment.p_filesz - inside || segment.p_offset > file->size)
            break;
        const void *at = span(file, segment.p_offset + inside, take);
        if (at != NULL)
            return (struct table){.at = at, .bytes = (size_t)take};
    }
    return (struct table){0};
}

/* Number of dynamic symbols, which no entry of the dynamic section states. The section table has
 * it; without one DT_HASH does; else the string table is taken to follow the symbols, as linkers
 * lay it out. */
static size_t dynsym_count(const struct binary *file, const Elf64_Ehdr *head, uint64_t symtab,
                           uint64_t strtab, uint64_t hash)
{
    const void *sections =
        head->e_shentsize == sizeof(Elf64_Shdr)
            ? span(file, head->e_shoff, (uint64_t)head->e_shnum * sizeof(Elf64_Shdr))
            : NULL;
    for (unsigned i = 0; sections != NULL && i < head->e_shnum; i++) {
        Elf64_Shdr section;
        memcpy(&section, (const unsigned char *)sections + (size_t)i * sizeof section,
               sizeof section);
        if (section.sh_type == SHT_DYNSYM && section.sh_addr == symtab)
            return (size_t)(section.sh_size / sizeof(Elf64_Sym));
    }
    struct table chains = hash != 0 ? table_at(file, head, hash, 8) : (struct table){0};
    if (chains.at != NULL) {
        uint32_t count;
        memcpy(&count, chains.at + 4, sizeof count);
        return count;
    }
    return strtab > symtab ? (size_t)((strtab - symtab) / sizeof(Elf64_Sym)) : 0;
}

static void symtab_find(struct binary *file, const Elf64_Ehdr *head)
{
    const unsigned char *sections =
        head->e_shentsize == sizeof(Elf64_Shdr)
            ? span(file, head->e_shoff, (uint64_t)head->e_shnum * sizeof(Elf64_Shdr))
            : NULL;
    for (unsigned i = 0; sections != NULL && i < head->e_shnum; i++) {
        Elf64_Shdr symbols, strings;
        memcpy(&symbols, sections + (size_t)i * sizeof symbols, sizeof symbols);
        if (symbols.sh_type != SHT_SYMTAB || symbols.sh_link >= head->e_shnum)
            continue;
        memcpy(&strings, sections + (size_t)symbols.sh_link * sizeof strings, sizeof strings);
        const void *at = span(file, symbols.sh_offset, symbols.sh_size);
        const void *text = span(file, strings.sh_offset, strings.sh_size);
        if (at == NULL || text == NULL)
            return;
        file->tables->symtab = (struct table){.at = at, .bytes = (size_t)symbols.sh_size};
        file->tables->strtab = (struct table){.at = text, .bytes = (size_t)strings.sh_size};
    }
}

static void relocations_mark(struct binary_private *tables, struct table relocations)
{
    size_t symbols = tables->dynsym.bytes / sizeof(Elf64_Sym);
    for (size_t at = 0; relocations.bytes - at >= sizeof(Elf64_Rela); at += sizeof(Elf64_Rela)) {
        Elf64_Rela entry;
        memcpy(&entry, relocations.at + at, sizeof entry);
        if (ELF64_R_SYM(entry.r_info) < symbols)
            tables->by_name[ELF64_R_SYM(entry.r_info)] = 1;
    }
}

/* The numbers of the dynamic section that are used here, then the names it holds. */
struct dynamic_facts {
    uint64_t strtab, strsz, symtab, hash, rela, relasz, jmprel, pltrelsz;
};

static bool dynamic_names(struct binary *file, struct table dynamic)
{
    size_t count = dynamic.bytes / sizeof(Elf64_Dyn);
    file->needed = calloc(count + 1, sizeof *file->needed);
    if (file->needed == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        Elf64_Dyn entry;
        memcpy(&entry, dynamic.at + i * sizeof entry, sizeof entry);
        if (entry.d_tag == DT_NULL)
            break;
        const char *text = text_at(file->tables->dynstr, entry.d_un.d_val);
        if (entry.d_tag == DT_NEEDED && text != NULL)
            file->needed[file->needed_count++] = text;
        else if (entry.d_tag == DT_SONAME)
            file->soname = text;
        else if (entry.d_tag == DT_RPATH)
            file->rpath = text;
        else if (entry.d_tag == DT_RUNPATH)
            file->runpath = text;
    }
    return true;
}

static struct dynamic_facts dynamic_numbers(struct binary *file, struct table dynamic)
{
    struct dynamic_facts facts = {0};
    for (size_t at = 0; dynamic.bytes - at >= sizeof(Elf64_Dyn); at += sizeof(Elf64_Dyn)) {
        Elf64_Dyn entry;
        memcpy(&entry, dynamic.at + at, sizeof entry);
        uint64_t value = entry.d_un.d_val;
        switch (entry.d_tag) {
        case DT_STRTAB:
            facts.strtab = value;
            break;
        case DT_STRSZ:
            facts.strsz = value;
            break;
        case DT_SYMTAB:
            facts.symtab = value;
            break;
        case DT_HASH:
            facts.hash = value;
            break;
        case DT_RELA:
            facts.rela = value;
            break;
        case DT_RELASZ:
            facts.relasz = value;
            break;
        case DT_JMPREL:
            facts.jmprel = value;
            break;
        case DT_PLTRELSZ:
            facts.pltrelsz = value;
            break;
        case DT_SYMBOLIC:
            file->symbolic = true;
            break;
        case DT_FLAGS:
            file->symbolic = file->symbolic || (value & DF_SYMBOLIC) != 0;
            break;
        case DT_FLAGS_1:
            file->pie = (value & DF_1_PIE) != 0;
            break;
        case DT_NULL:
            return facts;
        default:
            break;
        }
    }
    return facts;
}

static bool dynamic_read(struct binary *file, const Elf64_Ehdr *head, struct table dynamic)
{
    struct binary_private *tables = file->tables;
    struct dynamic_facts facts = dynamic_numbers(file, dynamic);
    tables->dynstr = table_at(file, head, facts.strtab, facts.strsz);
    if (tables->dynstr.at == NULL || !dynamic_names(file, dynamic))
        return false;
    size_t count = dynsym_count(file, head, facts.symtab, facts.strtab, facts.hash);
    if (count == 0 || count > file->size / sizeof(Elf64_Sym))
        return count == 0;
    tables->dynsym = table_at(file, head, facts.symtab, count * sizeof(Elf64_Sym));
    tables->by_name = calloc(count, 1);
    if (tables->dynsym.at == NULL || tables->by_name == NULL)
        return false;
    if (facts.relasz != 0)
        tables->rela = table_at(file, head, facts.rela, facts.relasz);
    if (facts.pltrelsz != 0)
        tables->jmprel = table_at(file, head, facts.jmprel, facts.pltrelsz);
    relocations_mark(tables, tables->rela);
    relocations_mark(tables, tables->jmprel);
    return true;
}

static enum binary_kind object_read(struct binary *file, const Elf64_Ehdr *head)
{
    struct table dynamic = {0};
    file->tables = calloc(1, sizeof *file->tables);
    if (file->tables == NULL)
        return BINARY_BROKEN;
    file->library_type = head->e_type == ET_DYN;
    for (unsigned i = 0; i < head->e_phnum; i++) {
        Elf64_Phdr segment;
        if (!segment_read(file, head, i, &segment))
            return BINARY_BROKEN;
        const void *at = span(file, segment.p_offset, segment.p_filesz);
        struct table bytes = {.at = at, .bytes = at != NULL ? (size_t)segment.p_filesz : 0};
        if (segment.p_type == PT_INTERP)
            file->interp = text_at(bytes, 0);
        if (segment.p_type == PT_DYNAMIC)
            dynamic = bytes;
    }
    file->dynamic = dynamic.at != NULL && dynamic.bytes != 0;
    symtab_find(file, head);
    return !file->dynamic || dynamic_read(file, head, dynamic) ? BINARY_OBJECT : BINARY_BROKEN;
}

static enum binary_kind script_read(struct binary *file)
{
    const char *line = (const char *)file->bytes + 2;
    size_t left = file->size - 2, skip = 0, length = 0;
    while (skip < left && (line[skip] == ' ' || line[skip] == '\t'))
        skip++;
    while (skip + length < left && length < sizeof file->script - 1 &&
           line[skip + length] != '\n' && line[skip + length] != '\r')
        length++;
    memcpy(file->script, line + skip, length);
    file->script[length] = '\0';
    return BINARY_SCRIPT;
}

static enum binary_kind classify(struct binary *file)
{
    Elf64_Ehdr head;
    if (file->size >= 2 && memcmp(file->bytes, "#!", 2) == 0)
        return script_read(file);
    if (file->size < EI_NIDENT || memcmp(file->bytes, ELFMAG, SELFMAG) != 0)
        return BINARY_OTHER;
    if (file->bytes[EI_CLASS] != ELFCLASS64 || file->bytes[EI_DATA] != ELFDATA2LSB)
        return BINARY_FOREIGN;
    if (!header_read(file, &head))
        return BINARY_BROKEN;
    if (head.e_machine != EM_X86_64)
        return BINARY_FOREIGN;
    if (head.e_type != ET_EXEC && head.e_type != ET_DYN)
        return BINARY_OTHER;
    return object_read(file, &head);
}

void binary_open(struct binary *file, const char *path)
{
    struct stat status;
    *file = (struct binary){.kind = BINARY_UNREADABLE};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
        file->kind = BINARY_OTHER;
        file->size = (size_t)status.st_size;
        if (file->size != 0) {
            void *at = mmap(NULL, file->size, PROT_READ, MAP_PRIVATE, fd, 0);
            file->bytes = at != MAP_FAILED ? at : NULL;
            file->kind = file->bytes != NULL ? classify(file) : BINARY_UNREADABLE;
        }
    } else {
        file->kind = BINARY_OTHER;
    }
    close(fd);
}

void binary_close(struct binary *file)
{
    if (file->bytes != NULL)
        munmap((void *)(uintptr_t)file->bytes, file->size);
    if (file->tables != NULL)
        free(file->tables->by_name);
    free(file->tables);
    free(file->needed);
    *file = (struct binary){.kind = BINARY_UNREADABLE};
}

/* What dynamic symbol i is for; 0 for data, sections and the like. */
static unsigned symbol_use(const Elf64_Sym *symbol, bool by_name)
{
    unsigned type = ELF64_ST_TYPE(symbol->st_info);
    unsigned bind = ELF64_ST_BIND(symbol->st_info);
    unsigned visibility = ELF64_ST_VISIBILITY(symbol->st_other);
    if (symbol->st_shndx == SHN_UNDEF)
        return type == STT_FUNC || type == STT_NOTYPE ? BINARY_IMPORTED : 0;
    if (type != STT_FUNC && type != STT_GNU_IFUNC)
        return 0;
    if (bind == STB_LOCAL || visibility == STV_HIDDEN || visibility == STV_INTERNAL)
        return BINARY_PRIVATE;
    return BINARY_EXPORTED | (by_name && visibility != STV_PROTECTED ? BINARY_BY_NAME : 0);
}

static void visit_dynamic(const struct binary_private *tables, binary_visit visit, void *context)
{
    for (size_t i = 0; i < tables->dynsym.bytes / sizeof(Elf64_Sym); i++) {
        Elf64_Sym symbol;
        memcpy(&symbol, tables->dynsym.at + i * sizeof symbol, sizeof symbol);
        const char *name = text_at(tables->dynstr, symbol.st_name);
        unsigned use = symbol_use(&symbol, tables->by_name[i] != 0);
        if (name != NULL && name[0] != '\0' && use != 0)
            visit(context, name, use);
    }
}

void binary_symbols(const struct binary *file, binary_visit visit, void *context)
{
    const struct binary_private *tables = file->tables;
    if (file->kind != BINARY_OBJECT)
        return;
    visit_dynamic(tables, visit, context);
    /* The full table matters only for definitions that the dynamic one does not show. */
    for (size_t i = 0; i < tables->symtab.bytes / sizeof(Elf64_Sym); i++) {
        Elf64_Sym symbol;
        memcpy(&symbol, tables->symtab.at + i * sizeof symbol, sizeof symbol);
        const char *name = text_at(tables->strtab, symbol.st_name);
        unsigned type = ELF64_ST_TYPE(symbol.st_info);
        if (symbol.st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_GNU_IFUNC))
            continue;
        if (name != NULL && name[0] != '\0')
            visit(context, name, BINARY_PRIVATE);
    }
}

struct wanted {
    const char *name;
    bool found;
};

static void match_exported(void *context, const char *name, unsigned use)
{
    struct wanted *wanted = context;
    if ((use & BINARY_EXPORTED) != 0 && strcmp(name, wanted->name) == 0)
        wanted->found = true;
}

bool binary_exports(const struct binary *file, const char *name)
{
    struct wanted wanted = {.name = name};
    if (file->kind == BINARY_OBJECT && file->tables->dynsym.at != NULL)
        visit_dynamic(file->tables, match_exported, &wanted);
    return wanted.found;
}
