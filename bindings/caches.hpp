// What other files do to oneDNN's caches.
#pragma once

namespace ogp {

// Drops every compiled partition that oneDNN keeps; those in use live on with their owners.
void empty_compiled_partition_cache() noexcept;

}  // namespace ogp
