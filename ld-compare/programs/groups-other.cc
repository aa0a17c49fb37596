#include "groups.h"
#include <stdexcept>
int other(const Base &base) {
    Ring<5> ring{{5, 4, 3, 2, 1}};
    try {
        if (base.area() == 9) throw std::runtime_error("nine");
    } catch (const std::exception &) {
        return ring.sum() + scaled(1) + Ring<3>{{1, 1, 1}}.sum();
    }
    return 0;
}
