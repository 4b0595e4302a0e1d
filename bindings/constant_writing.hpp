// Who writes constants into oneDNN's cache while others read them, where oneDNN is not done on
// return.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <shared_mutex>

#include "cached_constants.hpp"

namespace ogp {

// The first execution with some constants writes them into oneDNN's cache, as other kernels need
// them. Where oneDNN is not done on return, it lets other executions have them before they are
// written (SYCL, up to 3.13.2: a copy of a scale), and these compute with whatever is there. So an
// execution that may write has the cache for itself until its stream is done.
class constant_writing {
public:
    // Runs `execute`, without the GIL, on a stream; `constants` tells some constants from others.
    template <typename Execute>
    dnnl_status_t around(dnnl::engine::kind kind, dnnl_stream_t stream, size_t constants,
            const Execute &execute) {
        if (has_cache_) return execute();  // an allocator of the user's, in another execution
        const auto now = [&] { return cached_constants::times_emptied(kind) * 31 + constants; };
        {
            const auto reading = lock_cache<std::shared_lock<std::shared_mutex>>();
            const scope has_cache;
            if (written_ == now()) return execute();
        }
        const auto writing = lock_cache<std::unique_lock<std::shared_mutex>>();
        const scope has_cache;
        dnnl_status_t status = execute();
        if (status == dnnl_success) status = dnnl_stream_wait(stream);
        if (status == dnnl_success) written_ = now();
        return status;
    }

    // Whether the calling thread executes, and so must not empty the cache.
    static bool has_cache() noexcept { return has_cache_; }

    // Held while the cache is emptied, without the GIL.
    static std::unique_lock<std::shared_mutex> emptying() {
        return has_cache_ ? std::unique_lock<std::shared_mutex>()
                          : lock_cache<std::unique_lock<std::shared_mutex>>();
    }

private:
    struct scope {
        scope() noexcept { has_cache_ = true; }
        ~scope() { has_cache_ = false; }
        scope(const scope &) = delete;
        scope &operator=(const scope &) = delete;
    };

    // In turns: threads that read without a pause would never let one write.
    template <typename Lock>
    static Lock lock_cache() {
        const std::lock_guard<std::mutex> my_turn(turn_);
        return Lock(cache_);
    }

    static inline std::mutex turn_;
    static inline std::shared_mutex cache_;
    static inline thread_local bool has_cache_ = false;

    // What `now()` was when the constants were written; 0 before.
    std::atomic<uint64_t> written_{0};
};

}  // namespace ogp
