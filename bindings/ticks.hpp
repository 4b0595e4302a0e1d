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
        const moment end = now();
        const double counted = static_cast<double>(end.ticks - begin_.ticks);
        if (counted <= 0) return 0;
        const double took = static_cast<double>(end.nanoseconds - begin_.nanoseconds) * 1e-9;
        return static_cast<double>(count) * took / counted;
    }

private:
    struct moment {
        uint64_t ticks, nanoseconds;
    };

    // Both clocks at once: a thread may be interrupted between reading one and the other, so the
    // closest of a few readings is taken.
    static moment now() {
        moment closest{};
        uint64_t apart = UINT64_MAX;
        for (int i = 0; i < 5; ++i) {
            const uint64_t before = ogp::ticks();
            const uint64_t nanoseconds = steady_nanoseconds();
            const uint64_t between = ogp::ticks() - before;
            if (between < apart) closest = {before + between / 2, nanoseconds};
            apart = between < apart ? between : apart;
        }
        return closest;
    }

    moment begin_ = now();
};

}  // namespace ogp
