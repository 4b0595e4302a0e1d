// How a oneDNN call is made: GIL released, failure turned into an exception with its context.
#pragma once

#include <string>

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

// Runs `body` (which returns a dnnl_status_t or throws) without the GIL and with oneDNN's reason
// caught. On failure only, `context` is asked to name the op or partition, and `diagnose` for a
// reason where oneDNN printed none.
template <typename Body, typename Context, typename Diagnose>
void call_onednn(Body &&body, Context &&context, Diagnose &&diagnose) {
    dnnl_status_t status = dnnl_success;
    std::string reason, message;
    {
        py::gil_scoped_release release;
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
        if (status == dnnl_success) return;
        reason = capture.reason();
        capture.discard_reports();
    }
    if (reason.empty()) reason = diagnose();
    raise_with_reason(status, context(), reason.empty() ? message : reason);
}

template <typename Body, typename Context>
void call_onednn(Body &&body, Context &&context) {
    call_onednn(body, context, [] { return std::string(); });
}

}  // namespace ogp
