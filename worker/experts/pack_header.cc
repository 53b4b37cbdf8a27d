#include "worker/experts/pack_header.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/check.h"
#include "common/units.h"
#include "kernels/quantise.h"

namespace phalanx {
namespace {

// Other contents under the same key, another order or other padding: another
// number.
constexpr absl::string_view kFormat = "phalanx packed experts 1\n";

// Enough of a digest for names of files; the header has all of it.
constexpr size_t kDigestDigitsInName = 16;

std::string SizeLine(absl::string_view name, const PackedSize& size) {
  return absl::StrCat(name, " ", size.rows, " x ", size.cols, ", ",
                      size.matrix_bytes, " bytes\n");
}

}  // namespace

int64_t PackKey::part_bytes() const {
  return RoundUp(gate_up.matrix_bytes, kPackAlignment) +
         RoundUp(down.matrix_bytes, kPackAlignment);
}

int64_t PackKey::file_bytes() const { return offset(layers, 0); }

int64_t PackKey::offset(int64_t layer, int64_t expert) const {
  return kPackHeaderBytes + (layer * experts + expert) * expert_bytes();
}

std::string PackKey::file_name() const {
  return absl::StrCat(model_digest.substr(0, kDigestDigitsInName), "-",
                      packed_layout, "-", VersionedFormatName(format), "-parts",
                      parts, ".experts");
}

std::string PackHeader(const PackKey& key) {
  std::string header = absl::StrCat(
      kFormat, "model ", key.model_digest, "\nlayout ", key.packed_layout,
      "\nweights ", VersionedFormatName(key.format), "\nlayers ", key.layers,
      "\nexperts ", key.experts, "\nparts ", key.parts, "\n",
      SizeLine("gate_up", key.gate_up), SizeLine("down", key.down), "file ",
      key.file_bytes(), " bytes\n");
  CHECK(header.size() < static_cast<size_t>(kPackHeaderBytes));
  header.resize(static_cast<size_t>(kPackHeaderBytes));
  return header;
}

absl::Status CheckPack(std::span<const std::byte> file, const PackKey& key) {
  const std::string header = PackHeader(key);
  if (file.size() < kFormat.size() ||
      std::memcmp(file.data(), kFormat.data(), kFormat.size()) != 0)
    return absl::DataLossError("is no file of packed experts, version 1");
  const size_t compared = std::min(file.size(), header.size());
  if (std::memcmp(file.data(), header.data(), compared) != 0)
    return absl::DataLossError(
        "holds experts of another model or layout, or its header is damaged");
  if (file.size() != static_cast<size_t>(key.file_bytes()))
    return absl::DataLossError(absl::StrCat(
        "has ", file.size(), " bytes; must be ", key.file_bytes()));
  return absl::OkStatus();
}

}  // namespace phalanx
