#include "cached_constants.hpp"

#include <algorithm>
#include <iterator>
#include <mutex>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "call.hpp"
#include "constant_cache_hold.hpp"
#include "constant_writing.hpp"

namespace ogp {
namespace {

// What partitions that are gone may leave in the cache: this, or the share of those that live.
// Emptying it costs the living ones a reordering each, which is at most `share` bytes a byte left.
constexpr size_t allowance = size_t{32} << 20, share = 8;

struct account {
    size_t living = 0;  // bytes of partitions that were used and live
    size_t gone = 0;    // bytes that others left in the cache
};

std::mutex accounts_mutex;
std::array<account, 2> accounts;

// oneDNN frees memory while it empties the cache, which may run an allocator of Python's, which may
// end other partitions.
thread_local bool is_emptying = false;

// A capacity that is read and set again must not replace one that another thread sets in between.
std::mutex constants_capacity_mutex;

}  // namespace

std::array<std::atomic<uint64_t>, 2> cached_constants::times_emptied_{{{1}, {1}}};

cached_constants::cached_constants(dnnl::engine::kind kind, size_t bytes) noexcept
    : kind_(kind), bytes_(bytes) {}

cached_constants::~cached_constants() {
    if (!seen_ || must_not_destroy()) return;
    bool much = false;
    {
        const std::lock_guard<std::mutex> lock(accounts_mutex);
        account &a = accounts[index_of(kind_)];
        a.living -= bytes_;
        if (seen_ == times_emptied(kind_)) a.gone += bytes_;
        much = a.gone > std::max(allowance, a.living / share);
    }
    // Where it can't be done now, the next partition that ends does it.
    if (!much || is_emptying || constant_writing::has_cache() || !Py_IsInitialized()
            || is_finalizing() || !PyGILState_Check() || !forks::is_free())
        return;
    const inside_onednn inside(1, [] { return std::string("emptying the cache of constants"); });
    empty_unless_held(kind_);
}

std::shared_ptr<cached_constants> cached_constants::of(
        const std::vector<const void *> &addresses, size_t bytes) {
    const auto known = others_.find(addresses);
    auto found = known == others_.end() ? nullptr : known->second.lock();
    if (found) return found;
    for (auto it = others_.begin(); it != others_.end();)
        it = it->second.expired() ? others_.erase(it) : std::next(it);
    found = std::make_shared<cached_constants>(kind_, bytes);
    others_[addresses] = found;
    return found;
}

void cached_constants::enter() {
    size_t capacity = 0;
    dnnl_graph_get_constant_tensor_cache_capacity(
            static_cast<dnnl_engine_kind_t>(kind_), &capacity);
    bool full = false;
    {
        const std::lock_guard<std::mutex> lock(accounts_mutex);
        const account &a = accounts[index_of(kind_)];
        const size_t needed = a.living + a.gone + (seen_ ? 0 : bytes_);
        // oneDNN caches nothing more once the cache is full.
        full = a.gone && needed >> 20 >= capacity;
    }
    if (full) empty_unless_held(kind_);
    const std::lock_guard<std::mutex> lock(accounts_mutex);
    const uint64_t now = times_emptied(kind_);
    if (seen_ == now) return;
    if (seen_)
        made_again_ += bytes_;
    else
        accounts[index_of(kind_)].living += bytes_;
    seen_ = now;
}

void cached_constants::empty_unless_held(dnnl::engine::kind kind) noexcept {
    const constant_cache_emptying emptying;
    if (!emptying.held_by().empty()) return;
    PyThreadState *thread = PyEval_SaveThread();
    empty(kind, nullptr);
    take_gil_again(thread);
}

dnnl_status_t cached_constants::empty(dnnl::engine::kind kind, const size_t *capacity) noexcept {
    const auto c_kind = static_cast<dnnl_engine_kind_t>(kind);
    const auto emptying = constant_writing::emptying();
    const std::lock_guard<std::mutex> capacity_lock(constants_capacity_mutex);
    size_t value = 0;
    if (capacity)
        value = *capacity;
    else if (dnnl_graph_get_constant_tensor_cache_capacity(c_kind, &value) != dnnl_success)
        return dnnl_runtime_error;
    {
        const std::lock_guard<std::mutex> lock(accounts_mutex);
        accounts[index_of(kind)].gone = 0;
        ++times_emptied_[index_of(kind)];
    }
    is_emptying = true;
    // Setting any capacity empties the cache; executions own what they read. 0 would make them
    // fail.
    const dnnl_status_t status = dnnl_graph_set_constant_tensor_cache_capacity(c_kind, value);
    is_emptying = false;
#ifdef __GLIBC__
    // It keeps memory that is freed between other blocks.
    malloc_trim(0);
#endif
    return status;
}

}  // namespace ogp
