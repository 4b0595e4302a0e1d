// -- the memory of a tensor, between pages that can't be read

// What is read or written beside it ends the program. It ends where such a page begins, and the
// next one that is taken begins where such a page ends. It is never given back.
class memory_block {
public:
    bool empty() const { return !first_; }
    size_t size() const { return size_; }
    void *data() { return first_; }
    void take(size_t size, unsigned char filled_with) {
        const size_t page = 4096, guard = 1024 * page, span = (size + page - 1) / page * page;
        void *all = mmap(nullptr, span + 2 * guard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (all == MAP_FAILED) throw std::bad_alloc();
        auto *pages = static_cast<unsigned char *>(all) + guard;
        if (mprotect(pages, span, PROT_READ | PROT_WRITE)) throw std::bad_alloc();
        std::memset(pages, filled_with, span);
        first_ = times_++ % 2 ? pages : pages + span - size;
        size_ = size;
    }

private:
    size_t size_ = 0, times_ = 0;
    unsigned char *first_ = nullptr;
};
