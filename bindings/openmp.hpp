// The number of threads that oneDNN uses: the one place that knows its threading runtime.
#pragma once

namespace ogp {

// Whether the number can be set; only OpenMP's can.
bool threads_can_be_set();

// How many threads the next parallel region of the calling thread has; 0 where nobody can tell.
int max_threads() noexcept;

// Runs what follows, on this thread, with a number of threads. oneDNN prepares its kernels for the
// number at compile time, and with another one may use memory that it did not plan.
class threads_scope {
public:
    explicit threads_scope(int count) noexcept;
    ~threads_scope();
    threads_scope(const threads_scope &) = delete;
    threads_scope &operator=(const threads_scope &) = delete;

private:
    int before_ = 0;
};

}  // namespace ogp
