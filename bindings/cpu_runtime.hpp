// What depends on the runtime that oneDNN's CPU kernels run on (OpenMP, SYCL).
#pragma once

#include "common.hpp"
#include "forked.hpp"

namespace ogp {

// What may help where there is no CPU engine; empty where nothing is known.
std::string no_engine_hint();

// Whether the number of threads can be set; only OpenMP's can.
bool threads_can_be_set();

// Whether oneDNN is done when `execute` returns, so that nobody has to wait.
bool runs_synchronously(dnnl::engine::kind kind);

// Whether a forked process can use oneDNN, with one thread, after its parent did.
bool survives_fork(dnnl::engine::kind kind);

// Ends the threads that OpenMP keeps for the calling thread, which makes new ones when it needs
// them. GNU's OpenMP waits for them where a thread ends, also in a forked process, which lacks
// them.
void end_idle_threads() noexcept;

// How many threads the next parallel region of the calling thread has; 0 where nobody can tell.
int max_threads() noexcept;

// For threads_scope: this number, if the next parallel region would have more threads; else 0.
int at_most(int count) noexcept;

// Runs what follows, on this thread, with a number of threads. oneDNN prepares its kernels for the
// number at compile time, and with another one may use memory that it did not plan. 0 leaves it as
// it is. Where there is one thread because of a fork, it is 1 in any case.
class threads_scope {
public:
    explicit threads_scope(int count) noexcept {
        if (count > 0 || forks::attention.load(std::memory_order_relaxed)) set(count);
    }
    ~threads_scope() {
        if (before_) set_back();
    }
    threads_scope(const threads_scope &) = delete;
    threads_scope &operator=(const threads_scope &) = delete;

private:
    void set(int count) noexcept;
    void set_back() noexcept;

    int before_ = 0;
};

}  // namespace ogp
