// How a oneDNN call is made: GIL released, failure turned into an exception with its context.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "common.hpp"
#include "errors.hpp"
#include "forked.hpp"

namespace ogp {

// What the error of a failed call tells.
struct failure {
    std::string context;  // names the call, and the op or partition
    std::string why;      // as far as that is known here
    py::object call;      // as plain values (refused_call.hpp), for OneDNNError.reason

    failure(std::string named, std::string known = "", py::object refused = {})
        : context(std::move(named)), why(std::move(known)), call(std::move(refused)) {}
};

// Raises for a status: "<context> failed: <why> (<status>)".
[[noreturn]] inline void raise_failure(dnnl_status_t status, const failure &f) {
    const char *without = f.call ? "oneDNN refused it" : "oneDNN returned only its status";
    raise_status(status,
            f.context + " failed: " + (f.why.empty() ? without : f.why) + " (" + status_name(status)
                    + ")",
            f.call);
}

inline bool is_finalizing() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing() != 0;
#else
    return _Py_IsFinalizing() != 0;
#endif
}

// Whether this is the thread on which Python handles signals and ends, as far as the system tells.
inline bool on_main_thread() {
#if defined(__linux__)
    return syscall(SYS_gettid) == getpid();
#else
    return true;
#endif
}

// Takes the GIL again. When the interpreter ends under a daemon thread, Python up to 3.13 would
// unwind that thread, through destructors that touch Python objects; it waits here instead, as
// Python 3.14 has it wait. Nothing else comes out of Python's function.
inline void take_gil_again(PyThreadState *thread) {
    try {
        PyEval_RestoreThread(thread);
    } catch (...) {
        for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
    }
}

// Runs `body` (which returns a dnnl_status_t or throws) without the GIL. On failure only, `told`
// is asked for the failure, or for its context alone. `threads` is what the call needs of the
// runtime.
template <typename Body, typename Told>
void call_onednn(Body &&body, Told &&told, int threads = no_threads) {
    const inside_onednn call(threads, [&] { return failure(told()).context; });
    dnnl_status_t status = dnnl_success;
    std::string message;
    PyThreadState *thread = PyEval_SaveThread();
    try {
        status = body();
    } catch (const dnnl::error &e) {
        status = e.status;
        message = e.message;
    } catch (const std::bad_alloc &) {
        status = dnnl_out_of_memory;
    } catch (const std::exception &e) {
        // Standard containers inside oneDNN, sized by unchecked values.
        status = dnnl_invalid_arguments;
        message = e.what();
    }
    take_gil_again(thread);
    if (status == dnnl_success) return;
    failure f = told();
    // oneDNN's advice to run it again with ONEDNN_VERBOSE is what OneDNNError.reason does.
    if (f.why.empty()) f.why = message.substr(0, message.find(". Run workload with environment"));
    raise_failure(status, f);
}

}  // namespace ogp
