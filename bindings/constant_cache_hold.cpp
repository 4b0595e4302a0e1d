#include "constant_cache_hold.hpp"

#include <pthread.h>

#include <chrono>
#include <set>
#include <thread>

#include "call.hpp"

namespace ogp {
namespace {

constexpr std::chrono::microseconds pause{50};

struct cache_state {
    std::multiset<std::string> holders;
    size_t emptying = 0;
};

cache_state &state() {
    static auto *made = new cache_state;  // models may end after static objects
    return *made;
}

}  // namespace

constant_cache_hold::constant_cache_hold(std::string model) : model_(std::move(model)) {
    while (state().emptying) {
        PyThreadState *thread = PyEval_SaveThread();
        std::this_thread::sleep_for(pause);
        take_gil_again(thread);
    }
    state().holders.insert(model_);
}

constant_cache_hold::~constant_cache_hold() { state().holders.erase(state().holders.find(model_)); }

constant_cache_emptying::constant_cache_emptying() {
    if (state().holders.empty())
        ++state().emptying;
    else
        held_by_ = "model '" + *state().holders.begin() + "'";
}

constant_cache_emptying::~constant_cache_emptying() {
    if (held_by_.empty()) --state().emptying;
}

void constant_cache_emptying::require(const char *what) const {
    if (held_by_.empty()) return;
    raise_invalid_arguments(std::string(what) + ": the cache can't be emptied, which setting a "
            "capacity does: " + held_by_ + " gave back its constants' memory (release_constants), "
            "and only the cache has them; drop the model first");
}

void init_constant_cache_hold(py::module_ &m) {
    // The parent's threads that empty the cache are not here.
    pthread_atfork(nullptr, nullptr, [] { state().emptying = 0; });
    py::class_<constant_cache_hold, constant_cache_hold_ptr>(m, "_constant_cache_hold",
            "While it lives, the cache of constants on CPUs can't be emptied.")
            .def(py::init<std::string>(), py::arg("model"));
}

}  // namespace ogp
