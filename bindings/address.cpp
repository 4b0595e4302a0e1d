#include "address.hpp"

#include <cinttypes>
#include <cstdint>
#include <cstdio>

namespace ogp {

address_range address_range_of(const void *begin, size_t size) {
    const auto first = reinterpret_cast<uintptr_t>(begin);
    const uintptr_t end = first + (size ? size : 1);
    if (end < first) return {false, false};
    std::FILE *maps = std::fopen("/proc/self/maps", "r");
    if (!maps) return {true, true};
    // The lines are sorted by address: walk them while they cover the range without a gap.
    uintptr_t covered = first;
    address_range range{true, true};
    char line[512];
    bool line_begin = true;
    while (covered < end && std::fgets(line, sizeof line, maps)) {
        uintptr_t low = 0, high = 0;
        char permissions[5] = {};
        const bool whole = line_begin;
        line_begin = false;
        for (const char *c = line; *c; ++c) line_begin = *c == '\n';
        if (!whole
                || std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &low, &high, permissions)
                        != 3)
            continue;
        if (high <= covered) continue;
        if (low > covered) break;
        range.readable = range.readable && permissions[0] == 'r';
        range.writable = range.writable && permissions[1] == 'w';
        covered = high;
    }
    std::fclose(maps);
    if (covered < end) return {false, false};
    return range;
}

}  // namespace ogp
