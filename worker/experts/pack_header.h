#ifndef PHALANX_WORKER_EXPERTS_PACK_HEADER_H_
#define PHALANX_WORKER_EXPERTS_PACK_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "kernels/weight_format.h"

namespace phalanx {

// A packed matrix of one expert's part, as one backend lays it out.
struct PackedSize {
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t matrix_bytes = 0;
};

// What a file of packed experts holds, and for whom: files of one key are of
// equal bytes.
//
// The file: a header of kPackHeaderBytes, then for each layer, each expert and
// each part gate_up and down, each padded with zeros to kPackAlignment. Parts
// of an expert are neighbours, so that ranks which fetch it at the same time
// read one run of the disk.
struct PackKey {
  std::string model_digest;   // ModelDigest.
  std::string packed_layout;  // Backend::packed_layout().
  // With the version of what quantises, which codes made as they are packed
  // depend on (VersionedFormatName, kernels/quantise.h).
  WeightFormat format = WeightFormat::kBf16;
  int64_t parts = 1;  // LocalShape::moe_parts.
  int64_t layers = 0;
  int64_t experts = 0;
  PackedSize gate_up;
  PackedSize down;

  int64_t part_bytes() const;
  int64_t expert_bytes() const { return parts * part_bytes(); }
  int64_t file_bytes() const;
  // Where in the file an expert's parts begin.
  int64_t offset(int64_t layer, int64_t expert) const;
  // The file's name in its folder.
  std::string file_name() const;
};

inline constexpr int64_t kPackHeaderBytes = 4096;
inline constexpr int64_t kPackAlignment = 64;

// The header of a file of `key`: lines of text, for who looks into the file,
// filled up with zeros. Its first line names the format and its version.
std::string PackHeader(const PackKey& key);

// OK if `file` is, by its header and size, a file of `key`. DATA_LOSS says what
// else it is.
absl::Status CheckPack(std::span<const std::byte> file, const PackKey& key);

}  // namespace phalanx

#endif  // PHALANX_WORKER_EXPERTS_PACK_HEADER_H_
