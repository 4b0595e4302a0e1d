// Forks. A child has only the thread that forked: none of those that oneDNN ran on, and none that
// would give back a lock. So a fork waits until no other thread is inside oneDNN, and what needs
// the parent's threads raises in the child.
#pragma once

#include <atomic>
#include <string>
#include <utility>

#include "errors.hpp"

namespace ogp {

// What a call needs of oneDNN's runtime: nothing, or that many threads.
constexpr int no_threads = 0;

namespace forks {

// Written with the GIL held only.
extern std::atomic<int> inside;  // calls that are inside oneDNN
// Whether a thread is about to fork, or this process is a child that can't do everything.
extern std::atomic<bool> attention;

// Waits while a thread is about to fork. Returns why this process can't make a call, or nothing.
std::string refusal(int threads);

// Whether a call that needs one thread can be made at once.
bool is_free() noexcept;

// Whether the end of the calling thread is going to be noticed.
inline thread_local bool is_known_thread = false;

// Has the end of the calling thread noticed: oneDNN takes locks in it, after all of Python's.
void note_thread();

}  // namespace forks

// Notes, before a fork, what oneDNN is going to run on: that many threads, and whether its runtime
// works with one thread in a child.
void note_threads(int count, bool survives);

// Whether oneDNN has one thread here, because it had more before the fork.
bool has_one_thread() noexcept;

// Whether oneDNN's objects can't be destroyed here, because that may wait for the parent's threads.
bool must_not_destroy() noexcept;

// Gives up a handle of oneDNN's without destroying what it stands for, where that is needed.
template <typename Handle>
void leak_in_child(Handle &handle) noexcept {
    if (handle && must_not_destroy()) static_cast<void>(new Handle(std::move(handle)));
}

// Something that may destroy kernels, for its lifetime; it begins and ends with the GIL held. When
// a thread ends, oneDNN looks for what it keeps for it and each kernel, and writes out of bounds if
// another thread destroys the kernel just then. So either waits for the other.
class kernel_destruction {
public:
    kernel_destruction();
    ~kernel_destruction();
    kernel_destruction(const kernel_destruction &) = delete;
    kernel_destruction &operator=(const kernel_destruction &) = delete;
};

// How many times this process and those before it were forked.
int fork_generation() noexcept;

[[noreturn]] void raise_refusal(const std::string &context, const std::string &why);

// A call that is inside oneDNN, for its lifetime; it begins and ends with the GIL held, which may
// be released in between. Raises `ExecutionError` where this process can't make the call.
class inside_onednn {
public:
    // `context()` names the call in the message.
    template <typename Context>
    inside_onednn(int threads, Context &&context) {
        enter(threads, std::forward<Context>(context));
    }
    ~inside_onednn() {
        if (in_) leave();
    }
    inside_onednn(const inside_onednn &) = delete;
    inside_onednn &operator=(const inside_onednn &) = delete;

    // Python code that runs in between may fork.
    void leave() {
        in_ = false;
        add(-1);
    }
    template <typename Context>
    void enter(int threads, Context &&context) {
        if (forks::attention.load(std::memory_order_relaxed)) require(threads, context);
        if (!forks::is_known_thread) forks::note_thread();
        add(1);
        in_ = true;
    }

private:
    // Apart, so that callers stay small.
    template <typename Context>
    [[gnu::cold, gnu::noinline]] static void require(int threads, const Context &context) {
        const std::string why = forks::refusal(threads);
        if (!why.empty()) raise_refusal(context(), why);
    }

    // Not one atomic operation: the GIL keeps others from it.
    static void add(int by) {
        forks::inside.store(
                forks::inside.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
    }
    bool in_ = false;
};

}  // namespace ogp
