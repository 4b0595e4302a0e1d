// What the operating system knows about an address range.
#pragma once

#include <cstddef>

namespace ogp {

struct address_range {
    bool readable;
    bool writable;
};

// Whether all of [begin, begin + size) is mapped. Where the system can't tell, both are true.
address_range address_range_of(const void *begin, size_t size);

}  // namespace ogp
