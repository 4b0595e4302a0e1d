#include "forked.hpp"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "call.hpp"
#include "cpu_runtime.hpp"

namespace ogp {

namespace forks {
std::atomic<int> inside{0};
std::atomic<bool> attention{false};
}  // namespace forks

namespace {

using forks::attention;
using forks::inside;

// How long a fork waits for calls, and a call for forks. A lock of somebody else's may be between
// them; what went wrong then is that the child can't use oneDNN, and not that both wait for ever.
constexpr std::chrono::seconds patience{10};
constexpr std::chrono::microseconds fork_pause{50};

// What a process can do with oneDNN, each less than the one before.
enum class ability { everything, one_thread, no_runtime, nothing };

// Written with the GIL held, or where there is one thread.
std::atomic<ability> here{ability::everything};
std::atomic<ability> in_children{ability::everything};
std::atomic<int> about_to_fork{0}, generation{0};

// A thread between the end of its Python part and its own end, when oneDNN gives up what it keeps
// for each thread. A thread that is not Python's own may go on after its Python part has ended, so
// it is waited for only so long.
constexpr std::chrono::seconds patience_with_ends{1};
std::atomic<int> ending{0};
int only_without_python = 0;  // of `ending`; with the GIL held
int destroying = 0;           // what may destroy kernels; with the GIL held

// Made before what oneDNN keeps for the thread, so it ends after that.
struct own_thread {
    bool is_ending = false;
    bool outlives_python = false;  // a thread of somebody else's, for which nobody waits then
    void begin_end() {
        if (outlives_python) return;
        is_ending = true;
        ++ending;
    }
    void go_on() {
        if (!is_ending) return;
        --ending;
        is_ending = false;
        outlives_python = true;
    }
    ~own_thread() { go_on(); }
};
thread_local own_thread this_thread;

// Whether other threads end.
bool threads_end() {
    only_without_python = std::min(only_without_python, ending.load());
    return ending - this_thread.is_ending > only_without_python;
}

void set_attention() { attention = about_to_fork > 0 || here != ability::everything; }

template <typename Condition>
void wait_while(Condition &&condition, std::chrono::seconds longest = patience) {
    if (!condition()) return;
    const auto end = std::chrono::steady_clock::now() + longest;
    while (condition() && std::chrono::steady_clock::now() < end) {
        PyThreadState *thread = PyEval_SaveThread();
        std::this_thread::sleep_for(fork_pause);
        take_gil_again(thread);
    }
}

void wait_for_ends() {
    wait_while(threads_end, patience_with_ends);
    only_without_python = ending - this_thread.is_ending;
}

// Runs with the GIL held, in a child or at Python's end also for other threads.
void end_python_part(PyObject *capsule) {
    if (PyCapsule_GetPointer(capsule, nullptr) != &this_thread) return;
    wait_while([] { return destroying > 0; }, patience_with_ends);
    this_thread.begin_end();
    forks::is_known_thread = false;
}

void before_fork() {
    ++about_to_fork;
    set_attention();
    wait_while([] { return inside > 0; });
    wait_for_ends();
    if (in_children == ability::one_thread) end_idle_threads();
}

void in_parent() {
    --about_to_fork;
    set_attention();
}

// Runs in all children, also in those that some library forks without Python's knowledge.
void in_child() {
    const ability left = inside > 0 ? ability::nothing : in_children.load();
    here = std::max(here.load(), left);
    inside = 0;
    ending = only_without_python = destroying = 0;
    about_to_fork = 0;
    ++generation;
    set_attention();
}

}  // namespace

kernel_destruction::kernel_destruction() {
    wait_for_ends();
    ++destroying;
}

// A child that was forked in between has begun to count anew.
kernel_destruction::~kernel_destruction() { destroying = std::max(0, destroying - 1); }

void forks::note_thread() {
    this_thread.go_on();
    PyObject *kept = PyThreadState_GetDict();
    const auto capsule = py::reinterpret_steal<py::object>(
            PyCapsule_New(&this_thread, nullptr, &end_python_part));
    if (!kept || !capsule || PyDict_SetItemString(kept, "onednn_graph_py", capsule.ptr()) != 0)
        throw py::error_already_set();
    is_known_thread = true;
}

std::string forks::refusal(int threads) {
    wait_while([] { return about_to_fork > 0; });
    const std::string start = "start processes by the method spawn or forkserver instead";
    switch (here) {
        case ability::everything:
            return "";
        case ability::one_thread:
            if (threads <= 1) return "";
            return "it was compiled for " + std::to_string(threads)
                    + " threads in the parent process, before the fork, and a forked process has one "
                      "thread; compile or bind it again";
        case ability::no_runtime:
            if (threads == no_threads) return "";
            return "the runtime of this oneDNN does not survive a fork, and it was used in the parent "
                   "process before; "
                    + start;
        case ability::nothing:
            return "another thread of the parent process was inside oneDNN during the fork, and may "
                   "hold its locks; "
                    + start;
    }
    return "";
}

bool forks::is_free() noexcept {
    return about_to_fork == 0 && (here == ability::everything || here == ability::one_thread);
}

void note_threads(int count, bool survives) {
    if (!survives)
        in_children = ability::no_runtime;
    else if (count > 1 && in_children == ability::everything)
        in_children = ability::one_thread;
}

bool has_one_thread() noexcept { return here == ability::one_thread; }

bool must_not_destroy() noexcept { return here > ability::one_thread; }

int fork_generation() noexcept { return generation.load(std::memory_order_relaxed); }

void raise_refusal(const std::string &context, const std::string &why) {
    raise_failure(dnnl_runtime_error, {context, why});
}

void init_forked(py::module_ &m) {
    m.def("_has_one_thread", &has_one_thread,
            "Whether models have one thread here, because this process is a fork of one in which they\n"
            "had more.");
    pthread_atfork(nullptr, nullptr, &in_child);
    // Unlike pthread_atfork's, these don't delay a fork that starts a program.
    py::module_::import("os").attr("register_at_fork")(
            py::arg("before") = py::cpp_function(&before_fork),
            py::arg("after_in_parent") = py::cpp_function(&in_parent));
}

}  // namespace ogp
