#pragma once

#include <cstddef>
#include <functional>

namespace meshwright {

// Does the tasks 0 to `count` - 1 on all cores, or on at most `most_threads` if that is not 0, and
// returns when all are done. The tasks may run in any order and at the same time.
void ParallelFor(std::size_t count, const std::function<void(std::size_t)>& task,
                 std::size_t most_threads = 0);

}  // namespace meshwright
