// Who may empty oneDNN's cache of constants on CPUs, and when. The GIL guards all of it.
#pragma once

#include <memory>
#include <string>

#include "common.hpp"

namespace ogp {

// While one lives, nobody empties the cache: a model gave back the memory of constants that the
// cache has in another layout.
class constant_cache_hold {
public:
    // Waits, without the GIL, while anybody empties the cache.
    explicit constant_cache_hold(std::string model);
    ~constant_cache_hold();
    constant_cache_hold(const constant_cache_hold &) = delete;
    constant_cache_hold &operator=(const constant_cache_hold &) = delete;

private:
    const std::string model_;
};

using constant_cache_hold_ptr = std::shared_ptr<constant_cache_hold>;

// Lives while somebody empties the cache, which setting any capacity does. Where `held_by` is not
// empty, it names a model that holds the cache, and nobody may empty it.
class constant_cache_emptying {
public:
    constant_cache_emptying();
    ~constant_cache_emptying();
    constant_cache_emptying(const constant_cache_emptying &) = delete;
    constant_cache_emptying &operator=(const constant_cache_emptying &) = delete;

    const std::string &held_by() const { return held_by_; }
    // Raises where the cache is held.
    void require(const char *what) const;

private:
    std::string held_by_;
};

}  // namespace ogp
