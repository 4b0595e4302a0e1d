// -- the memory of a tensor

class memory_block {
public:
    bool empty() const { return bytes_.empty(); }
    size_t size() const { return size_; }
    void *data() {
        const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
        return reinterpret_cast<void *>((address + 63) / 64 * 64);
    }
    void take(size_t size, unsigned char filled_with) {
        size_ = size;
        bytes_ = std::vector<unsigned char>(size + 64, filled_with);
    }

private:
    size_t size_ = 0;
    std::vector<unsigned char> bytes_;
};
