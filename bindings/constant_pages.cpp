#include "constant_pages.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace ogp {
namespace {

size_t page_size() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

struct file {
    int number;
    explicit file(int opened) : number(opened) {}
    ~file() {
        if (number >= 0) close(number);
    }
    file(const file &) = delete;
    file &operator=(const file &) = delete;
};

[[noreturn]] void fail(const char *what) {
    throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

// Makes a file hold the bytes of some memory.
void fill(const file &copy, const char *from, size_t bytes) {
    if (ftruncate(copy.number, static_cast<off_t>(bytes)) != 0) fail("ftruncate");
    for (size_t done = 0; done < bytes;) {
        const ssize_t count = write(copy.number, from + done, bytes - done);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) fail("write");
        done += static_cast<size_t>(count);
    }
}

}  // namespace

constant_pages::constant_pages(void *hint, size_t bytes) : bytes_(bytes) {
    void *base = mmap(hint, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<char *>(base);
}

constant_pages::~constant_pages() { munmap(base_, bytes_); }

void constant_pages::watch() {
    const file copy(memfd_create("constant", MFD_CLOEXEC));
    if (copy.number < 0) fail("memfd_create");
    fill(copy, base_, bytes_);
    // A new mapping has no page until somebody accesses one. It replaces the old one at once.
    if (mmap(base_, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, copy.number, 0)
            == MAP_FAILED)
        fail("mmap");
    watched_ = true;
    rests_ = false;
}

bool constant_pages::were_read() const {
    const file map(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
    if (map.number < 0) fail("/proc/self/pagemap");
    constexpr uint64_t present_or_swapped = uint64_t{3} << 62;
    const size_t page = page_size();
    const auto first = static_cast<off_t>(reinterpret_cast<uintptr_t>(base_) / page);
    std::array<uint64_t, 512> entries;
    for (size_t i = 0; i < bytes_ / page;) {
        const size_t wanted = std::min(entries.size(), bytes_ / page - i);
        const ssize_t count = pread(map.number, entries.data(), wanted * sizeof(uint64_t),
                (first + static_cast<off_t>(i)) * static_cast<off_t>(sizeof(uint64_t)));
        if (count < static_cast<ssize_t>(sizeof(uint64_t))) fail("/proc/self/pagemap");
        const size_t read = static_cast<size_t>(count) / sizeof(uint64_t);
        for (size_t k = 0; k < read; ++k)
            if (entries[k] & present_or_swapped) return true;
        i += read;
    }
    return false;
}

void constant_pages::keep() {
    if (!watched_) return;
    // Pages of a file may be smaller and slower than those of the process.
    void *plain = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (plain == MAP_FAILED) return;  // what lies there now is right too
    std::memcpy(plain, base_, bytes_);
    if (mremap(plain, bytes_, bytes_, MREMAP_MAYMOVE | MREMAP_FIXED, base_) == MAP_FAILED)
        munmap(plain, bytes_);
    else
        watched_ = rests_ = false;
}

bool constant_pages::rest(const std::string &folder) {
    if (rests_) {
        if (madvise(base_, bytes_, MADV_DONTNEED) != 0) fail("madvise");
        return true;
    }
    std::string name = folder + "/constant-XXXXXX";
    const file copy(mkostemp(name.data(), O_CLOEXEC));
    if (copy.number < 0) fail("mkostemp");
    unlink(name.c_str());
    struct statfs about;
    if (fstatfs(copy.number, &about) != 0) fail("fstatfs");
    if (about.f_type == TMPFS_MAGIC || about.f_type == RAMFS_MAGIC) return false;
    fill(copy, base_, bytes_);
    if (mmap(base_, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, copy.number, 0)
            == MAP_FAILED)
        fail("mmap");
    return rests_ = true;
}

void constant_pages::give_back(constant_cache_hold_ptr hold) {
    if (mmap(base_, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
                0)
            == MAP_FAILED)
        fail("mmap");
    watched_ = rests_ = false;
    hold_ = std::move(hold);
}

}  // namespace ogp
