#include "constant_cache_hold.hpp"

#include <condition_variable>
#include <mutex>
#include <set>

#include "errors.hpp"

namespace ogp {
namespace {

// The mutex is not held while oneDNN empties the cache, because that may call a Python allocator.
struct cache_state {
    std::mutex mutex;
    std::condition_variable emptied;
    std::multiset<std::string> holders;
    size_t emptying = 0;
};

cache_state &state() {
    static auto *made = new cache_state;  // models may end after static objects
    return *made;
}

}  // namespace

constant_cache_hold::constant_cache_hold(std::string model) : model_(std::move(model)) {
    const py::gil_scoped_release release;
    std::unique_lock<std::mutex> lock(state().mutex);
    state().emptied.wait(lock, [] { return state().emptying == 0; });
    state().holders.insert(model_);
}

constant_cache_hold::~constant_cache_hold() {
    const std::lock_guard<std::mutex> lock(state().mutex);
    state().holders.erase(state().holders.find(model_));
}

constant_cache_emptying::constant_cache_emptying() {
    const std::lock_guard<std::mutex> lock(state().mutex);
    if (state().holders.empty())
        ++state().emptying;
    else
        held_by_ = "model '" + *state().holders.begin() + "'";
}

constant_cache_emptying::~constant_cache_emptying() {
    if (!held_by_.empty()) return;
    const std::lock_guard<std::mutex> lock(state().mutex);
    --state().emptying;
    state().emptied.notify_all();
}

void constant_cache_emptying::require(const char *what) const {
    if (held_by_.empty()) return;
    raise_invalid_arguments(std::string(what) + ": the cache can't be emptied, which setting a "
            "capacity does: " + held_by_ + " gave back its constants' memory (release_constants), "
            "and only the cache has them; drop the model first");
}

void init_constant_cache_hold(py::module_ &m) {
    py::class_<constant_cache_hold, constant_cache_hold_ptr>(m, "_constant_cache_hold",
            "While it lives, the cache of constants on CPUs can't be emptied.")
            .def(py::init<std::string>(), py::arg("model"));
}

}  // namespace ogp
