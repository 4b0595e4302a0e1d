// Time that costs next to nothing to read: a call may take less than a microsecond.
#pragma once

#include <chrono>
#include <cstdint>

namespace ogp {

inline uint64_t steady_nanoseconds() {
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
            std::chrono::steady_clock::now().time_since_epoch())
                    .count());
}

// The processor's own counter where there is one, at an unknown but constant rate.
inline uint64_t ticks() {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return steady_nanoseconds();
#endif
}

// Turns ticks into seconds by what both clocks counted since this was made.
class tick_rate {
public:
    double seconds(uint64_t count) const {
        const double counted = static_cast<double>(ticks() - ticks_);
        if (counted <= 0) return 0;
        const double took = static_cast<double>(steady_nanoseconds() - nanoseconds_) * 1e-9;
        return static_cast<double>(count) * took / counted;
    }

private:
    uint64_t ticks_ = ticks();
    uint64_t nanoseconds_ = steady_nanoseconds();
};

}  // namespace ogp
