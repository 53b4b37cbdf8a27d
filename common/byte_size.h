#ifndef PHALANX_COMMON_BYTE_SIZE_H_
#define PHALANX_COMMON_BYTE_SIZE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace phalanx {

// Larger than any memory; sums and small multiples of it fit in an int64_t.
inline constexpr int64_t kMaxByteSize = int64_t{1} << 60;

// Reads a number of bytes as a person types it: digits, perhaps a decimal part,
// and one of B, KB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (powers of
// 1024), or nothing for bytes: "94.4GiB", "80GB", "1048576". Part of a byte is
// dropped. INVALID_ARGUMENT, naming `field` and the text, for anything else and
// for what is below 1 byte or above kMaxByteSize.
absl::StatusOr<int64_t> ParseByteSize(absl::string_view field,
                                      absl::string_view text);

// As a person reads it, in the largest binary unit that leaves at least 1:
// "66.06 GiB", "512.00 MiB", "17 B".
std::string FormatByteSize(int64_t bytes);

}  // namespace phalanx

#endif  // PHALANX_COMMON_BYTE_SIZE_H_
