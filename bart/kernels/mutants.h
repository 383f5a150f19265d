/* Known errors put back for the tests. The normal build has no switch: MUTANT(id) is the constant 0. */
#ifndef BART_MUTANTS_H
#define BART_MUTANTS_H
#ifdef BART_MUTANTS
#include <stdlib.h>
static int bart_mutant_id(void) {
    static int id = -1;
    if (id < 0) {
        const char *name = getenv("BART_MUTANT");
        id = name ? atoi(name) : 0;
    }
    return id;
}
#define MUTANT(id) (bart_mutant_id() == (id))
#else
#define MUTANT(id) 0
#endif
#endif
