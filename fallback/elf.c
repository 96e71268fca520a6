/* SPDX-License-Identifier: BSD-3-Clause
 * Looks a name up in the hash table of one loaded object, as the dynamic linker does: the GNU table
 * if there is one, else the old one. Reads only what is mapped; takes no lock, opens nothing. */
#include "elf.h"

#include <elf.h>
#include <string.h>

struct tables {
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint32_t *gnu, *sysv;
};

/* glibc relocates the addresses in the dynamic section, but not where that section is read-only. */
static const void *address_of(uintptr_t base, const ElfW(Dyn) * entry)
{
    uintptr_t value = entry->d_un.d_ptr;
    return (const void *)(value < base ? base + value : value);
}

static struct tables read_tables(uintptr_t base, const ElfW(Dyn) * dyn)
{
    struct tables t = {0};
    for (; dyn && dyn->d_tag != DT_NULL; dyn++) {
        if (dyn->d_tag == DT_SYMTAB)
            t.symbols = address_of(base, dyn);
        else if (dyn->d_tag == DT_STRTAB)
            t.strings = address_of(base, dyn);
        else if (dyn->d_tag == DT_GNU_HASH)
            t.gnu = address_of(base, dyn);
        else if (dyn->d_tag == DT_HASH)
            t.sysv = address_of(base, dyn);
    }
    return t;
}

static bool is_definition(const struct tables *t, uint32_t index, const char *name)
{
    const ElfW(Sym) *symbol = &t->symbols[index];
    return symbol->st_shndx != SHN_UNDEF && symbol->st_value != 0 &&
           strcmp(t->strings + symbol->st_name, name) == 0;
}

static bool gnu_lookup(const struct tables *t, const char *name)
{
    uint32_t hash = 5381;
    for (const char *s = name; *s; s++)
        hash = hash * 33 + (unsigned char)*s;
    uint32_t buckets = t->gnu[0], first = t->gnu[1], words = t->gnu[2], shift = t->gnu[3];
    const uint64_t *bloom = (const uint64_t *)(t->gnu + 4);
    uint64_t mask = (uint64_t)1 << (hash % 64) | (uint64_t)1 << ((hash >> shift) % 64);
    if (buckets == 0 || words == 0 || (bloom[(hash / 64) % words] & mask) != mask)
        return false;
    const uint32_t *bucket = (const uint32_t *)(bloom + words), *chain = bucket + buckets;
    uint32_t index = bucket[hash % buckets];
    if (index < first)
        return false;
    for (;; index++) {
        uint32_t link = chain[index - first];
        if ((link | 1) == (hash | 1) && is_definition(t, index, name))
            return true;
        if (link & 1)
            return false;
    }
}

static bool sysv_lookup(const struct tables *t, const char *name)
{
    uint32_t hash = 0;
    for (const char *s = name; *s; s++) {
        hash = (hash << 4) + (unsigned char)*s;
        uint32_t high = hash & 0xf0000000U;
        hash = (hash ^ high >> 24) & ~high;
    }
    uint32_t buckets = t->sysv[0];
    const uint32_t *bucket = t->sysv + 2, *chain = bucket + buckets;
    for (uint32_t i = buckets ? bucket[hash % buckets] : 0; i != STN_UNDEF; i = chain[i])
        if (is_definition(t, i, name))
            return true;
    return false;
}

bool elf_defines(uintptr_t base, const ElfW(Dyn) * dyn, const char *name)
{
    struct tables t = read_tables(base, dyn);
    if (!t.symbols || !t.strings)
        return false;
    return t.gnu ? gnu_lookup(&t, name) : t.sysv && sysv_lookup(&t, name);
}
