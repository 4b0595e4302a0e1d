// The pages of one constant: whether anything reads them, and giving them back to the system
// or to a file.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "constant_cache_hold.hpp"

namespace ogp {

class constant_pages {
public:
    // Zeroed pages, near the address `hint` if there is room; throws std::bad_alloc.
    constant_pages(void *hint, size_t bytes);
    ~constant_pages();
    constant_pages(const constant_pages &) = delete;
    constant_pages &operator=(const constant_pages &) = delete;

    char *begin() const { return base_; }
    size_t bytes() const { return bytes_; }

    // Puts the same bytes there anew, where the system notices the first access to each page. All
    // who read at the same time find equal bytes. Without the GIL; throws std::runtime_error.
    void watch();
    // Whether anybody accessed a page since `watch`.
    bool were_read() const;
    // Ends `watch` and leaves everything as it was before.
    void keep();
    // Ends `watch`, and gives the memory back; the addresses stay taken. Nobody may read them from
    // now on, and oneDNN's cache, which has all that is left, must not be emptied.
    void give_back(constant_cache_hold_ptr hold);
    bool given_back() const { return hold_ != nullptr; }
    // Moves the bytes into a nameless file of a folder, from which the system reads them when
    // somebody does; a second time, only drops the pages that were read. False where files lie in
    // memory. Without the GIL; throws std::runtime_error.
    bool rest(const std::string &folder);
    bool rests() const { return rests_; }

    // How many Python objects hold the memory for arrays.
    std::atomic<size_t> owners{0};

private:
    char *base_ = nullptr;
    size_t bytes_ = 0;
    bool watched_ = false;
    bool rests_ = false;
    constant_cache_hold_ptr hold_;
};

using constant_pages_ptr = std::shared_ptr<constant_pages>;

// Where a constant lies in its pages. It keeps the addresses taken, but no array alive.
struct constant_place {
    constant_pages_ptr pages;
    void *data = nullptr;
    size_t bytes = 0;
};

}  // namespace ogp
