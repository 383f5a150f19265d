/* What a team of threads needs of the machine: atomic words, a pause, and one variable a thread. */
#ifndef BART_TEAM_H
#define BART_TEAM_H

#include <stdint.h>

#if defined(__GNUC__) || defined(__clang__)
#include <sched.h>
#define BART_HAS_TEAMS 1
#define BART_THREAD_LOCAL __thread
static inline uint64_t word_read(uint64_t *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
static inline void word_write(uint64_t *word, uint64_t value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }
static inline uint64_t word_add(uint64_t *word, uint64_t by) { return __atomic_fetch_add(word, by, __ATOMIC_ACQ_REL); }
static inline int word_swap(uint64_t *word, uint64_t expected, uint64_t value) {
    return __atomic_compare_exchange_n(word, &expected, value, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}
static inline void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}
static inline void let_others_run(void) { sched_yield(); }
#else /* one thread only: nothing below is ever contended */
#define BART_HAS_TEAMS 0
#define BART_THREAD_LOCAL
static inline uint64_t word_read(uint64_t *word) { return *word; }
static inline void word_write(uint64_t *word, uint64_t value) { *word = value; }
static inline uint64_t word_add(uint64_t *word, uint64_t by) { *word += by; return *word - by; }
static inline int word_swap(uint64_t *word, uint64_t expected, uint64_t value) {
    *word = value;
    (void)expected;
    return 1;
}
static inline void pause_briefly(void) {}
static inline void let_others_run(void) {}
#endif

static BART_THREAD_LOCAL void *bart_team;
static inline void *team_of_thread(void) { return bart_team; }
static inline void set_team_of_thread(void *team) { bart_team = team; }
#endif
