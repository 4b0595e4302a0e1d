
// -- comparison with expected numbers

// Prints the worst element, and returns whether all of them are within what is allowed. There is
// one allowance for each element, or one for all.
bool check(const char *name, tensor_data &t, const double *expected, const double *allowed,
        bool one_for_all) {
    const size_t n = t.count();
    size_t wrong = 0, worst = 0;
    double largest = -1;
    for (size_t i = 0; i < n; ++i) {
        const double is = t.get(i), should = expected[i];
        const bool same = is == should || (std::isnan(is) && std::isnan(should));
        const double off = same ? 0 : std::fabs(is - should);
        const double within = allowed[one_for_all ? 0 : i];
        if (off <= within) continue;  // never for NaN
        const double share = std::isnan(off) || within == 0 ? INFINITY : off / within;
        ++wrong;
        if (share > largest) {
            largest = share;
            worst = i;
        }
    }
    if (!wrong) {
        std::printf("%s: right\n", name);
        return true;
    }
    std::printf(
            "%s: %zu of %zu elements are wrong; the worst, at %zu, is %.9g and should be %.9g "
            "within %.3g\n",
            name, wrong, n, worst, t.get(worst), expected[worst], allowed[one_for_all ? 0 : worst]);
    return false;
}
