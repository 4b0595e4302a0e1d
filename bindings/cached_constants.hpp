// What partitions have in oneDNN's cache of constants, and when the cache is emptied.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "common.hpp"

namespace ogp {

// The reordered constants of one partition, which everything compiled from it shares. oneDNN never
// drops an entry by itself, and can only empty its cache as a whole. So the last owner counts what
// it leaves there, and empties the cache when that is much.
class cached_constants {
public:
    cached_constants(dnnl::engine::kind kind, size_t bytes) noexcept;
    ~cached_constants();
    cached_constants(const cached_constants &) = delete;
    cached_constants &operator=(const cached_constants &) = delete;

    // The account of other constants than the first, where equal layers share what was compiled of
    // this partition; `addresses` are those of the constants. With the GIL.
    std::shared_ptr<cached_constants> of(const std::vector<const void *> &addresses, size_t bytes);

    // Before each execution, inside oneDNN and with the GIL.
    void use() {
        if (seen_ != times_emptied(kind_)) enter();
    }

    // How many bytes had to be reordered once more, because the cache had been emptied.
    size_t made_again() const noexcept { return made_again_; }

    // How often the cache has been emptied, counted from 1.
    static uint64_t times_emptied(dnnl::engine::kind kind) noexcept {
        return times_emptied_[index_of(kind)].load(std::memory_order_relaxed);
    }

    // Empties the cache: sets the capacity in MB, or the present one again where it is null. The
    // caller is inside oneDNN without the GIL, and has a `constant_cache_emptying`.
    static dnnl_status_t empty(dnnl::engine::kind kind, const size_t *capacity) noexcept;

private:
    static size_t index_of(dnnl::engine::kind kind) noexcept {
        return kind == dnnl::engine::kind::gpu ? 1 : 0;
    }
    static void empty_unless_held(dnnl::engine::kind kind) noexcept;
    void enter();

    static std::array<std::atomic<uint64_t>, 2> times_emptied_;

    const dnnl::engine::kind kind_;
    const size_t bytes_;
    // The value of `times_emptied` at the last use; 0 before the first.
    std::atomic<uint64_t> seen_{0};
    std::atomic<size_t> made_again_{0};
    std::map<std::vector<const void *>, std::weak_ptr<cached_constants>> others_;
};

}  // namespace ogp
