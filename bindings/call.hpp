// How a oneDNN call is made: GIL released, failure turned into an exception with its context.
#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "common.hpp"
#include "errors.hpp"
#include "reason.hpp"

namespace ogp {

// Raises for a status: "<context>: <what oneDNN said>".
[[noreturn]] inline void raise_with_reason(
        dnnl_status_t status, const std::string &context, const std::string &reason) {
    raise_status(status,
            context + " failed: " + (reason.empty() ? "oneDNN gives no reason" : reason) + " ("
                    + status_name(status) + ")");
}

// Takes the GIL again. When the interpreter ends under a daemon thread, Python up to 3.13 would
// unwind that thread, through destructors that touch Python objects; it waits here instead, as
// Python 3.14 has it wait.
inline void take_gil_again(PyThreadState *thread) {
#if PY_VERSION_HEX >= 0x030D0000
    const bool ending = Py_IsFinalizing() != 0;
#else
    const bool ending = _Py_IsFinalizing() != 0;
#endif
    while (ending) std::this_thread::sleep_for(std::chrono::hours(1));
    PyEval_RestoreThread(thread);
}

// Runs `body` (which returns a dnnl_status_t or throws) without the GIL and with oneDNN's reason
// caught. On failure only, `context` is asked to name the op or partition, and `diagnose` for a
// reason where oneDNN printed none.
template <typename Body, typename Context, typename Diagnose>
void call_onednn(Body &&body, Context &&context, Diagnose &&diagnose) {
    dnnl_status_t status = dnnl_success;
    std::string reason, message;
    PyThreadState *thread = PyEval_SaveThread();
    {
        reason_capture capture;
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
        if (status != dnnl_success) {
            reason = capture.reason();
            capture.discard_reports();
        }
    }
    take_gil_again(thread);
    if (status == dnnl_success) return;
    if (reason.empty()) reason = diagnose();
    raise_with_reason(status, context(), reason.empty() ? message : reason);
}

template <typename Body, typename Context>
void call_onednn(Body &&body, Context &&context) {
    call_onednn(body, context, [] { return std::string(); });
}

}  // namespace ogp
