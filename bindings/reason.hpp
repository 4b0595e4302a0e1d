// What oneDNN prints about a failure, caught instead of printed.
#pragma once

#include <string>

namespace ogp {

// While one lives, what this thread's oneDNN calls print is caught; other threads' output goes on
// to stdout, and so does the caught text in the end, less the failure reports if it is discarded.
class reason_capture {
public:
    reason_capture();
    ~reason_capture();
    reason_capture(const reason_capture &) = delete;
    reason_capture &operator=(const reason_capture &) = delete;

    // The last failure reported so far, without oneDNN's prefix; empty when there is none.
    std::string reason() const;

    // The reports have become an exception's text: don't print them too.
    void discard_reports() { discard_reports_ = true; }
    // Print nothing of what was caught.
    void discard_all() { discard_all_ = true; }

private:
    std::string *outer_;
    std::string text_;
    bool discard_reports_ = false;
    bool discard_all_ = false;
};

// The header lines (version, CPU, ISA) that oneDNN prints once, before its first report; kept so
// that they can be printed when the user turns verbose on. Empty after the first call.
std::string take_verbose_header();

}  // namespace ogp
