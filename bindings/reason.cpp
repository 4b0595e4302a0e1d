#include "reason.hpp"

#include <cstdio>
#include <mutex>
#include <vector>

// oneDNN prints through C's stdout. glibc documents stdout as an assignable variable and lets a
// program make streams (fopencookie), so a failing call's lines can be caught on the calling
// thread without touching file descriptors. Elsewhere there are simply no reasons.
#if defined(__GLIBC__)
#define OGP_HAS_COOKIE_STREAMS 1
#else
#define OGP_HAS_COOKIE_STREAMS 0
#endif

namespace ogp {
namespace {

thread_local std::string *captured = nullptr;
std::string verbose_header;

std::mutex stream_mutex;
int stream_users = 0;
FILE *cookie_stream = nullptr;
FILE *real_stdout = nullptr;

#if OGP_HAS_COOKIE_STREAMS
ssize_t write_cookie(void *, const char *data, size_t size) {
    if (captured)
        captured->append(data, size);
    else
        std::fwrite(data, 1, size, real_stdout);
    return static_cast<ssize_t>(size);
}
#endif

std::vector<std::string> lines_of(const std::string &text) {
    std::vector<std::string> lines;
    for (size_t begin = 0; begin < text.size();) {
        size_t end = text.find('\n', begin);
        end = end == std::string::npos ? text.size() : end + 1;
        lines.push_back(text.substr(begin, end - begin));
        begin = end;
    }
    return lines;
}

bool starts_with(const std::string &s, const char *prefix) { return s.rfind(prefix, 0) == 0; }

bool reports_failure(const std::string &line) {
    return starts_with(line, "onednn_verbose")
            && (line.find(":check") != std::string::npos
                    || line.find(",error") != std::string::npos);
}

}  // namespace

reason_capture::reason_capture() : outer_(captured) {
#if OGP_HAS_COOKIE_STREAMS
    std::lock_guard<std::mutex> lock(stream_mutex);
    if (!cookie_stream) {
        // Made once and never closed: another thread may hold the pointer at any time.
        cookie_stream = fopencookie(nullptr, "w", {nullptr, write_cookie, nullptr, nullptr});
        if (cookie_stream) std::setvbuf(cookie_stream, nullptr, _IONBF, 0);
    }
    if (cookie_stream && stream_users++ == 0) {
        real_stdout = stdout;
        stdout = cookie_stream;
    }
#endif
    captured = &text_;
}

reason_capture::~reason_capture() {
    captured = outer_;
#if OGP_HAS_COOKIE_STREAMS
    std::lock_guard<std::mutex> lock(stream_mutex);
    if (!cookie_stream) return;
    FILE *out = real_stdout;
    if (--stream_users == 0 && stdout == cookie_stream) stdout = real_stdout;
    if (text_.empty()) return;
    if (discard_all_) return;
    for (const auto &line : lines_of(text_)) {
        if (discard_reports_ && reports_failure(line)) continue;
        if (discard_reports_ && starts_with(line, "onednn_verbose")
                && line.find(",info,") != std::string::npos)
            verbose_header += line;
        else
            std::fwrite(line.data(), 1, line.size(), out);
    }
    std::fflush(out);
#endif
}

std::string reason_capture::reason() const {
    std::string reason;
    for (const auto &line : lines_of(text_)) {
        if (!reports_failure(line)) continue;
        // onednn_verbose,v1,graph,create:check,add_op,<message>,<path of source>:<line>
        size_t begin = line.find(":check,");
        begin = begin != std::string::npos ? begin + 7 : line.find(",error,") + 7;
        const size_t end = line.find_last_not_of("\r\n");
        reason = line.substr(begin, end == std::string::npos ? end : end + 1 - begin);
        const size_t place = reason.rfind(',');
        if (place == std::string::npos || reason.find(':', place) == std::string::npos) continue;
        const size_t file = reason.find_last_of("/,");
        reason = reason.substr(0, place) + " [" + reason.substr(file + 1) + "]";
    }
    return reason;
}

std::string take_verbose_header() {
    std::string header;
    header.swap(verbose_header);
    return header;
}

}  // namespace ogp
