#ifndef PHALANX_COMMON_AVAILABLE_MEMORY_H_
#define PHALANX_COMMON_AVAILABLE_MEMORY_H_

#include <cstdint>

namespace phalanx {

// Memory that is free for new use on this host: MemAvailable, cut to what the
// control group leaves.
int64_t AvailableMemoryBytes();

// What each of `ranks` processes of one host may hold where nobody says: an
// equal part of nine tenths of what is free now. Whoever starts the ranks asks
// once and tells all of them: between two that load, the answers differ.
int64_t DefaultMemoryBudgetBytes(int ranks);

}  // namespace phalanx

#endif  // PHALANX_COMMON_AVAILABLE_MEMORY_H_
